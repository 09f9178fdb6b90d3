"""Connections to MCP servers: opened at once, each kept by a task of its own, and made anew where a server ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT, Implementation, Tool
from pydantic import ValidationError

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_core.version import __version__
from karenina_mcp.elicitation import answer_elicitation
from karenina_mcp.stdio import Output
from karenina_mcp.tool_result import result_text
from karenina_mcp.transports import transport
from karenina_toolkit.reply_bounds import ReplyTooLarge
from karenina_toolkit.tool_error import ToolError

if TYPE_CHECKING:
    from karenina_mcp.settings import Server
    from karenina_toolkit.reply_bounds import ReplyBounds

# The library logs what servers say wrongly, with tracebacks; where nobody set up logging, that would go to the screen.
logging.getLogger("mcp").addHandler(logging.NullHandler())

MOST_PAGES: Final = 100
"""Pages of tools that one server may list."""
MOST_TOOLS: Final = 1000
"""Tools that one server may list."""
_MOMENT: Final = 1.0


@asynccontextmanager
async def open_connections(
    servers: Sequence[Server], workspace: Path | None, bounds: ReplyBounds
) -> AsyncIterator[list[Connection]]:
    """Connections to all servers, as long as the block lasts; each has listed its tools.

    Raises `PortError` of category `connection` where one cannot be had; the others are closed then.
    """
    connections = [Connection(server, workspace, bounds) for server in servers]
    try:
        outcomes = await asyncio.gather(*(one.begin() for one in connections), return_exceptions=True)
        failures = [outcome for outcome in outcomes if outcome is not None]
        if failures:
            raise failures[0]
        yield connections
    finally:
        await asyncio.gather(*(one.aclose() for one in connections))


class Connection:
    """One server as long as somebody needs it. If it ends before, the next call connects anew.

    A server that ends takes all calls with it that are under way, also those of other items. Each of them is made once
    more, by the new server and one after the other, so that a call that ends every server takes no other with it.
    """

    def __init__(self, server: Server, workspace: Path | None, bounds: ReplyBounds) -> None:
        self.server = server
        self._bounds = bounds
        self.listing: list[Tool] = []
        self._workspace = workspace
        self._one_at_a_time = asyncio.Lock()
        self._repeating = asyncio.Lock()
        self._link: _Link | None = None

    async def begin(self) -> None:
        """Connect, and have the server list its tools. Raises `PortError`."""
        try:
            async with asyncio.timeout(self.server.options.start_timeout):
                self.listing = await self._all_tools(await self._client())
        except Exception as error:  # of the server, which may say anything
            raise PortError(self._why_not(error), category=ErrorCategory.CONNECTION) from None

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return what the server's tool says, as text.

        Raises `ToolError`, also for a result of a remote server that exceeds its bounds, and `PortError` if two servers
        ended.
        """
        try:
            return await self._call_once(tool, arguments)
        except _ServerGone:
            async with self._repeating:
                try:
                    return await self._call_once(tool, arguments)
                except _ServerGone as gone:
                    if gone.stopped and self.server.is_remote:  # the server itself goes on
                        raise ToolError(str(gone)) from None
                    said = f"the tool {tool!r} was called twice in vain: {gone}"
                    raise PortError(said, category=ErrorCategory.CONNECTION) from None

    async def _call_once(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call the tool. Raises `ToolError`, and `_ServerGone` if the server ended or cannot be started."""
        try:
            async with asyncio.timeout(self.server.options.start_timeout):
                client = await self._client()
        except (_CannotConnect, TimeoutError) as error:
            raise _ServerGone(self._why_not(error)) from None
        link = self._link
        seconds = self.server.options.call_timeout
        try:
            # The library's own time begins once the request is sent, which a server can keep from being done.
            async with asyncio.timeout(seconds + _MOMENT):
                result = await client.call_tool(tool, dict(arguments), seconds)
        except Exception as error:
            raise self._call_failed(error, link) from None
        said = result_text(result)
        if result.is_error:
            raise ToolError(said or f"{tool} failed, and {self.server} does not say why")
        return said

    async def aclose(self) -> None:
        """End the connection, and the server where a command started it."""
        if self._link is not None:
            await self._link.end()

    async def _client(self) -> Client:
        async with self._one_at_a_time:
            if self._link is None or self._link.over:
                if self._link is not None:
                    await self._link.end()
                self._link = _Link(self.server, self._workspace, self._bounds)
            return await self._link.client()

    async def _all_tools(self, client: Client) -> list[Tool]:
        """Return the tools that the server lists. Raises `ReplyTooLarge` if they are more than can be offered."""
        if client.server_capabilities.tools is None:
            return []
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            if len(found) > MOST_TOOLS:
                raise ReplyTooLarge(f"it lists more than {MOST_TOOLS} tools")
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    def _why_not(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            seconds = self.server.options.start_timeout
            why = f"it did not answer within {seconds:g} s; give it more time with start_timeout"
        else:
            why = (self._link and self._link.output.stopped) or _words(error)
        words = self._link.output.last_words() if self._link is not None else ""
        said = f"{self.server} cannot be used: {why}" + (f"; it wrote: {words}" if words else "")
        return self._without_secrets(said)

    def _call_failed(self, error: Exception, link: _Link | None) -> Exception:
        if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT):
            said = f"{self.server} did not answer within {self.server.options.call_timeout:g} s"
        elif link is not None and (link.over or _ends(error)):
            link.over = True
            words = link.output.last_words()
            went = f"was disconnected, because {link.output.stopped}" if link.output.stopped else "went away"
            said = f"{self.server} {went} before it answered" + (f"; it wrote: {words}" if words else "")
            return _ServerGone(self._without_secrets(said), stopped=link.output.stopped is not None)
        else:
            said = f"{self.server}: {_words(error)}"
        return ToolError(self._without_secrets(said))

    def _without_secrets(self, text: str) -> str:
        for secret in self.server.secrets():
            text = text.replace(secret, "***")
        return text


class _ServerGone(Exception):
    """A call that the server did not answer because it ended, or that no server could be started for.

    `stopped` says that it was disconnected because of what it sent.
    """

    def __init__(self, message: str, *, stopped: bool = False) -> None:
        super().__init__(message)
        self.stopped = stopped


class _CannotConnect(Exception):
    """Why there is no client."""


class _Link:
    """One client, in a task that opens and closes it: it has to be left in the task in which it was entered."""

    def __init__(self, server: Server, workspace: Path | None, bounds: ReplyBounds) -> None:
        self.over = False
        self._scope = anyio.CancelScope()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.output = Output()
        self._task = asyncio.create_task(self._hold(server, workspace, bounds), name=f"MCP server {server.name}")

    async def client(self) -> Client:
        """The client, once it is connected. Raises `_CannotConnect`."""
        return await asyncio.shield(self._ready)

    async def end(self) -> None:
        """Close it. Returns when nothing of it is left."""
        # The scope, not the task: the library shields what ends a server's process from the one and not from the other.
        self._scope.cancel()
        await asyncio.wait([self._task])

    async def _hold(self, server: Server, workspace: Path | None, bounds: ReplyBounds) -> None:
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(_client(server, workspace, self.output, bounds))
                    self._ready.set_result(client)
                    await anyio.sleep_forever()
        except Exception as error:  # of the library, its tasks and its transport alike
            self._fail(_first(error))
        finally:
            self.over = True
            self._fail(_CannotConnect(self.output.stopped or "it was given up"))

    def _fail(self, error: BaseException) -> None:
        if not self._ready.done():
            self._ready.set_exception(_CannotConnect(_words(error)))
            self._ready.exception()  # nobody may be there to fetch it


def _client(server: Server, workspace: Path | None, output: Output, bounds: ReplyBounds) -> Client:
    return Client(
        transport(server, workspace, output, bounds),
        client_info=Implementation(name="karenina", version=__version__),
        elicitation_callback=answer_elicitation if server.options.elicitation == "defaults" else None,
    )


def _words(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"it does not keep to the protocol: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error) or type(error).__name__


def _ends(error: Exception) -> bool:
    """Whether there is nobody any more at the other end; a session that a remote server forgot counts."""
    if not isinstance(error, MCPError):
        return isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError)
    return error.code == CONNECTION_CLOSED or (error.code == INVALID_REQUEST and error.message == "Session terminated")


def _first(error: BaseException) -> BaseException:
    """The first error inside of groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
