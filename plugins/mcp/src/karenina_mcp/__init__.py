"""MCP tools for the agents in a run. The entry point refers to `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_toolkit.lazy_names import lazy_names

if TYPE_CHECKING:
    from karenina_mcp.settings import ServerOptions
    from karenina_mcp.tool_list import MCPSource
    from karenina_toolkit.agents.tool_sources import ToolSource

__all__ = ["MCPSource", "ServerOptions", "plugin"]

__getattr__ = lazy_names(__name__, {"MCPSource": ".tool_list", "ServerOptions": ".settings"})


class plugin:  # noqa: N801 - the entry point's name
    """The hook implementations that this distribution provides."""

    @staticmethod
    @hookimpl
    def karenina_tool_sources() -> list[ToolSource]:
        """Return the tool source for a model's MCP servers."""
        from karenina_mcp.tool_list import MCPSource

        return [MCPSource()]
