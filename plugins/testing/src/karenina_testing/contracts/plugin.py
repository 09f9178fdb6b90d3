"""The contract of every plugin: its entry point is installed, and nothing that it offers is refused."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from typing import ClassVar

from karenina_core.plugins import Plugins


class PluginContract:
    """The part that the contracts of stages, primitives, traits and formats share.

    `entry_point` is the value of the plugin's entry point, such as `my_package:plugin`.
    """

    entry_point: ClassVar[str]

    def test_the_plugin_is_installed_and_loaded(self) -> None:
        found = [info for info in Plugins.discover().describe() if info.target == self.entry_point]
        assert found, f"no entry point is {self.entry_point!r}: install the package (pip install -e .)"
        assert {info.name: info.failure for info in found if info.state != "loaded"} == {}
        assert {info.name: info.ignored for info in found if info.ignored} == {}
