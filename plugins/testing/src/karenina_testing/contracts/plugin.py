"""The contract for every plugin: its entry point is installed, and nothing that the plugin offers is refused."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from typing import ClassVar

from karenina_core.plugins import PluginInfo, Plugins
from karenina_toolkit.package_check.check import check_package


class PluginContract:
    """The part that all plugin contracts share.

    `entry_point` is the value of the plugin's entry point, such as `my_package:plugin`.
    """

    entry_point: ClassVar[str]

    @property
    def distribution(self) -> str:
        """The plugin's distribution."""
        return self._found()[0].distribution

    def _found(self) -> list[PluginInfo]:
        found = [info for info in Plugins.discover().describe() if info.target == self.entry_point]
        assert found, f"no entry point is {self.entry_point!r}: install the package (pip install -e .)"
        return found

    def test_the_plugin_is_installed_and_loaded(self) -> None:
        found = self._found()
        assert {info.name: info.failure for info in found if info.state != "loaded"} == {}
        assert {info.name: info.ignored for info in found if info.ignored} == {}

    def test_the_installed_package_passes_its_check(self) -> None:
        assert problems_of_package(self.entry_point) == []


def problems_of_package(entry_point: str) -> list[str]:
    """Return the problems that `karenina plugins --check` finds in the installed package of an entry point."""
    _, findings = check_package(entry_point.partition(":")[0])
    return [f"{one.area}: {one.text}" for one in findings if one.state == "problem"]
