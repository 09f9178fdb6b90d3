"""Tools of MCP servers for the agents of a run. The entry point names `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_mcp.settings import ServerOptions
from karenina_mcp.source import MCPSource

if TYPE_CHECKING:
    from karenina_core.tool_sources import ToolSource

__all__ = ["MCPSource", "ServerOptions", "plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """What this distribution offers to Karenina."""

    @staticmethod
    @hookimpl
    def karenina_tool_sources() -> list[ToolSource]:
        """The servers that a model names in `mcp_urls_dict`."""
        return [MCPSource()]
