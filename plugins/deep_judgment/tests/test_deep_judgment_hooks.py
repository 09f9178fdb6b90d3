"""Plugins bring search tools, and the configuration chooses one by its name."""

from __future__ import annotations

from typing import ClassVar

from karenina_core import hookimpl
from karenina_core.plugins import Plugins
from karenina_deep_judgment.search_tools import search_tools
from karenina_toolkit.agents.tool_sources import SearchTool


class Library:
    """A search tool."""

    name: ClassVar[str] = "library"

    def unavailable(self) -> str | None:
        """Return None: it is available."""

    async def search(self, query: str) -> str:
        """Return the query."""
        return query


class Web(Library):
    """Another search tool."""

    name: ClassVar[str] = "web"


class Offers:
    """A plugin with two search tools."""

    @hookimpl
    def karenina_search_tools(self) -> list[SearchTool]:
        """Return the tools."""
        return [Web(), Library()]


def test_search_tools_are_sorted_by_name() -> None:
    plugins = Plugins()
    plugins.register(Offers())

    assert [tool.name for tool in search_tools(plugins)] == ["library", "web"]
