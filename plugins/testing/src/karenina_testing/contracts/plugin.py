"""The contract for every plugin: it is installed, everything it offers is accepted, and its settings are marked.

A mark states whether a benchmark may set a field (see `karenina_core.models.settings_models`).
"""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from pydantic import BaseModel

from karenina_core.models.settings_models import mark_of
from karenina_core.plugins import PluginInfo, Plugins
from karenina_toolkit.package_check.check import check_package


class PluginContract:
    """The contract for all plugins.

    `entry_point` is the value of the plugin's entry point, such as `my_package:plugin`.
    """

    entry_point: ClassVar[str]

    @property
    def distribution(self) -> str:
        """The name of the plugin's distribution."""
        return self._found()[0].distribution

    def _found(self) -> list[PluginInfo]:
        """Return the plugins with the given `entry_point`. Fails if there are none."""
        infos = [info for info in Plugins.discover().describe() if info.target == self.entry_point]
        assert infos, f"no entry point has the value {self.entry_point!r}; install the package (pip install -e .)"
        return infos

    def test_the_plugin_is_installed_and_loaded(self) -> None:
        infos = self._found()
        assert {info.name: info.failure for info in infos if info.state != "loaded"} == {}
        assert {info.name: info.ignored for info in infos if info.ignored} == {}

    def test_the_installed_package_passes_its_check(self) -> None:
        assert problems_of_package(self.entry_point) == []


@cache  # the contracts of all plugins of a package ask
def problems_of_package(entry_point: str) -> list[str]:
    """Return the problems that `karenina plugins --check` finds in the entry point's package."""
    gc.collect()  # Python 3.11.2 cannot parse a file while it logs the traceback of a future that is collected then
    _, findings = check_package(entry_point.partition(":")[0])
    return [f"{finding.area}: {finding.text}" for finding in findings if finding.state == "problem"]


class SettingsContract:
    """The contract for `allowed_in_files` marks. `models` lists settings models, trait kinds and primitives.

    A benchmark that sets a field without a mark needs the user's trust. This contract makes you decide for each field.
    See `karenina_core.models.settings_models`.
    """

    models: ClassVar[Sequence[type[BaseModel]]]

    def test_each_field_says_whether_a_benchmark_may_set_it(self) -> None:
        assert [name for model in self.models for name in find_unmarked_fields(model)] == []


def find_unmarked_fields(model: type[BaseModel]) -> list[str]:
    """Return the fields, as `Model.field`, that have no mark stating whether a benchmark may set them.

    A field that no benchmark may set is marked `never`.
    """
    return [f"{model.__name__}.{name}" for name in model.model_fields if mark_of(model, name) is None]
