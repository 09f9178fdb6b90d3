"""The tool source for a model's MCP servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from karenina_mcp.settings import has_servers, read_servers

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class MCPSource:
    """The tools of the servers in `mcp_urls_dict`: a URL is reached over streamable HTTP, a command line over stdio.

    A command is split like a shell command, and run without a shell, in the agents' workspace if they have one. It gets
    a small part of the environment and no secret of it, except what `mcp_server_options` names.
    """

    name = "mcp"

    def applies_to(self, model: ModelConfig) -> bool:
        """Return whether the model names servers."""
        return has_servers(model)

    def check(self, model: ModelConfig) -> None:
        """Raise `AdapterConfigError` for what would fail every item: a missing program, a bad URL, unknown settings,
        empty names.
        """
        read_servers(model)

    def open(self, model: ModelConfig, workspace: Path | None) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Start or reach all servers at once, and return a session with their tools."""
        return _open_session(model, workspace)


@asynccontextmanager
async def _open_session(model: ModelConfig, workspace: Path | None) -> AsyncIterator[Sequence[Tool]]:
    from karenina_mcp.connection import open_connections
    from karenina_mcp.tool_list import select_tools
    from karenina_toolkit.replies.reply_bounds import ReplyBounds

    async with open_connections(read_servers(model), workspace, ReplyBounds.of(model)) as connections:
        yield select_tools(connections, model)
