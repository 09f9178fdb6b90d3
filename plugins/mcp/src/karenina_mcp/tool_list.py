"""MCP servers' tools as agents see them: filtered, and with unique names."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_core.text import did_you_mean
from karenina_mcp.settings import has_servers, read_servers
from karenina_toolkit.agents.tools import measure_size

if TYPE_CHECKING:
    from pathlib import Path

    import mcp_types

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import ProgramSandbox, Tool
    from karenina_mcp.connection import Connection


MOST_OF_TOOLS: Final = 1_000_000
"""The maximum size of a server's tool list, in characters and values. Every request contains the list."""
LONGEST_NAME: Final = 200
_SHOWN: Final = 5
_MAY_BE_NULL: Final = frozenset(("const", "default"))
_VALUES: Final = _MAY_BE_NULL | {"enum", "examples"}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class MCPTool:
    """A server's tool. The model sees it as `name`, and the server knows it as `own_name`."""

    name: str
    description: str
    schema: Mapping[str, Any]
    own_name: str
    connection: Connection = field(repr=False)

    @property
    def origin(self) -> str:
        """The name of the server, in a phrase for error messages."""
        return f"the MCP server {self.connection.server.name!r}"

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Call the tool and return its result as text. Raises `ToolError` if the tool fails or does not respond in
        time, and `PortError` if the server exits twice. See `Connection.call`.
        """
        return await self.connection.call(self.own_name, arguments)


def select_tools(connections: Sequence[Connection], model: ModelConfig) -> tuple[MCPTool, ...]:
    """Return the tools that pass the model's filter, with the descriptions it overrides, in the order of the servers'
    lists. Raises a permanent `PortError` for an unknown name, for two tools with the same name, and for a list or name
    that is too long.

    `mcp_tool_filter` and `mcp_tool_description_overrides` accept the names that the model sees (with a prefix) and the
    names on the server. Characters that are not allowed in names are replaced with underscores.
    """
    every = [_tool(connection, tool) for connection in connections for tool in connection.listing]
    problems = [
        *(problem for connection in connections for problem in _listing_problems(connection)),
        *_unknown_names("mcp_tool_filter", model.mcp_tool_filter or (), every),
        *_unknown_names("mcp_tool_description_overrides", model.mcp_tool_description_overrides or (), every),
    ]
    chosen = None if model.mcp_tool_filter is None else set(model.mcp_tool_filter)
    selected = [tool for tool in every if chosen is None or {tool.name, tool.own_name} & chosen]
    first: dict[str, MCPTool] = {}
    for tool in selected:
        other = first.setdefault(tool.name, tool)
        if other is not tool:
            problems.append(_clash(other, tool))
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        shown = f"{'; '.join(problems[:_SHOWN])}{more}"
        raise PortError(f"model {model.id!r}: {shown}", category=ErrorCategory.PERMANENT)
    texts = model.mcp_tool_description_overrides or {}
    return tuple(_with_description(tool, texts.get(tool.name) or texts.get(tool.own_name)) for tool in selected)


def _listing_problems(connection: Connection) -> Iterator[str]:
    """Yield a message for each reason why a server's tool list is too large to be sent in requests, or a tool's name
    too long.
    """
    server = f"the MCP server {connection.server.name!r}"
    listing = connection.listing
    size = sum(measure_size([tool.name, tool.title, tool.description, tool.input_schema]) for tool in listing)
    if size > MOST_OF_TOOLS:
        yield f"{server} describes its tools in {size} characters; the limit is {MOST_OF_TOOLS}"
    for tool in listing:
        if len(tool.name) > LONGEST_NAME:
            yield f"{server} has a tool with a name of {len(tool.name)} characters: {tool.name[:60]!r}..."


def _tool(connection: Connection, tool: mcp_types.Tool) -> MCPTool:
    """Convert an entry in a server's list to a tool, adding the prefix to its name. The description comes from the
    list. If there is none, the title is used. If there is no title, it is empty.
    """
    name = _NOT_IN_NAMES.sub("_", connection.server.options.prefix + tool.name)
    described = tool.description or tool.title or ""
    schema = {"type": "object", **_without_nulls(tool.input_schema)}
    return MCPTool(name, described, schema, tool.name, connection)


def _without_nulls(schema: Any) -> Any:
    """Return a schema without keywords that are null, which servers write if they have no value. Providers refuse them.
    Values, such as defaults, are kept.
    """
    if isinstance(schema, list):
        return [_without_nulls(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in _VALUES else _without_nulls(value)
        for key, value in schema.items()
        if value is not None or key in _MAY_BE_NULL
    }


def _with_description(tool: MCPTool, text: str | None) -> MCPTool:
    """Return the tool with another description. If `text` is None, return it unchanged."""
    return tool if text is None else MCPTool(tool.name, text, tool.schema, tool.own_name, tool.connection)


def _unknown_names(setting: str, names: Sequence[str] | Mapping[str, str], tools: Sequence[MCPTool]) -> list[str]:
    """Return a message for each of `names`, which the setting `setting` contains, that no tool has, with or without its
    prefix.
    """
    offered = {name for tool in tools for name in (tool.name, tool.own_name)}
    return [
        f"{setting} names the tool {name!r}, which no server provides{did_you_mean(name, offered)}"
        for name in names
        if name not in offered
    ]


def _clash(one: MCPTool, other: MCPTool) -> str:
    """Return an error message for two tools with the same name, with a cure."""
    names = " and ".join(repr(tool.connection.server.name) for tool in (one, other))
    if one.connection is other.connection:
        server = f"the MCP server {one.connection.server.name!r}"
        if one.own_name == other.own_name:
            return f"{server} provides two tools named {one.name!r}; correct the server"
        return (
            f"{server} provides {one.own_name!r} and {other.own_name!r}, which are both {one.name!r} for models, whose "
            "tools have ASCII names; name only one of them in mcp_tool_filter, or rename one on the server"
        )
    return (
        f"the MCP servers {names} both provide a tool named {one.name!r}; set a prefix for one of the servers "
        f'(mcp_server_options = {{{other.connection.server.name} = {{prefix = "{other.connection.server.name}_"}}}}), '
        "or exclude one of the tools with mcp_tool_filter"
    )


class MCPSource:
    """Provides the tools of the servers in `mcp_urls_dict`.

    Servers with a URL are connected over streamable HTTP. Servers with a command line are run as a process and
    connected over stdio. The command line is split like a shell command, but it runs without a shell, in the agent's
    workspace if there is one, and in the sandbox if one is chosen. The process only gets a few common environment
    variables and those listed in `mcp_server_options`.
    """

    name = "mcp"

    def applies_to(self, model: ModelConfig) -> bool:
        """Return whether the model has MCP servers."""
        return has_servers(model)

    def check(self, model: ModelConfig) -> None:
        """Raise `AdapterConfigError` if a server's settings are invalid. No server is started or contacted."""
        read_servers(model)

    def programs(self, model: ModelConfig) -> Sequence[Sequence[str]]:
        """Return the commands of the servers that are started by a command."""
        return [server.command() for server in read_servers(model) if not server.is_remote]

    def open(
        self, model: ModelConfig, workspace: Path | None, sandbox: ProgramSandbox | None = None
    ) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Connect to all servers, and provide their tools in the `with` block. Entering it raises `AdapterConfigError`
        if the settings are invalid, and `PortError` if a server cannot be reached or its tools cannot be used.

        The servers are connected concurrently.
        """
        return _open_session(model, workspace, sandbox)


@asynccontextmanager
async def _open_session(
    model: ModelConfig, workspace: Path | None, sandbox: ProgramSandbox | None
) -> AsyncIterator[Sequence[Tool]]:
    """Connect to a model's servers, and yield their tools. Raises the same exceptions as `MCPSource.open`."""
    from karenina_mcp.connection import open_connections
    from karenina_mcp.transports import Place
    from karenina_toolkit.replies.reply_bounds import ReplyBounds

    place = Place(workspace, sandbox)
    async with open_connections(read_servers(model), place, ReplyBounds.of(model)) as connections:
        yield select_tools(connections, model)
