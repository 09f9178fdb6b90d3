"""Tools of MCP servers for the agents of a run. The entry point names `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_mcp.settings import ServerOptions
    from karenina_mcp.source import MCPSource
    from karenina_toolkit.tool_sources import ToolSource

__all__ = ["MCPSource", "ServerOptions", "plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """The plugin of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_tool_sources() -> list[ToolSource]:
        """Return the source of the tools of a model's MCP servers."""
        from karenina_mcp.source import MCPSource

        return [MCPSource()]


def __getattr__(name: str) -> object:
    if name == "ServerOptions":
        from karenina_mcp.settings import ServerOptions

        return ServerOptions
    if name == "MCPSource":
        from karenina_mcp.source import MCPSource

        return MCPSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
