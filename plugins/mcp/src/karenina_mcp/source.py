"""The source of tools that a model's MCP servers are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from karenina_mcp.settings import servers_of, wanted

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class MCPSource:
    """The tools of the servers in `mcp_urls_dict`: a URL is reached over streamable HTTP, a command line over stdio.

    A command is split as a shell does, and run without one, in the agents' workspace, where they have one. It gets a
    small part of the environment and no secret of it, save what `mcp_server_options` name.
    """

    name = "mcp"

    def wanted(self, model: ModelConfig) -> bool:
        """Whether the model names servers."""
        return wanted(model)

    def check(self, model: ModelConfig) -> None:
        """Refuse what would fail every item: a program that is missing, a bad URL, unknown settings, empty names."""
        servers_of(model)

    def open(self, model: ModelConfig, workspace: Path | None) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Start or reach all servers at once, and offer their tools."""
        return _opened(model, workspace)


@asynccontextmanager
async def _opened(model: ModelConfig, workspace: Path | None) -> AsyncIterator[Sequence[Tool]]:
    from karenina_mcp.connection import connected
    from karenina_mcp.tool_list import offered
    from karenina_toolkit.reply_bounds import ReplyBounds

    async with connected(servers_of(model), workspace, ReplyBounds.of(model)) as connections:
        yield offered(connections, model)
