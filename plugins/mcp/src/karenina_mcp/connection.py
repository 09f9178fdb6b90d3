"""Connections to MCP servers. They are opened concurrently, and reopened if a server exits."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    AudioContent,
    CallToolResult,
    ContentBlock,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    Implementation,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)
from pydantic import ValidationError

from karenina_core.catalog import __version__
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_mcp.stdio import Output
from karenina_mcp.transports import transport
from karenina_toolkit.agents.tool_sources import ToolError
from karenina_toolkit.agents.tools import ToolResult
from karenina_toolkit.attachments.files import store_contents
from karenina_toolkit.http.urls import mask_secrets
from karenina_toolkit.replies.reply_bounds import ReplyTooLarge

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext

    from karenina_core.models.attachments import Attachment
    from karenina_mcp.settings import Server
    from karenina_mcp.transports import Place
    from karenina_toolkit.replies.reply_bounds import ReplyBounds


def result_text(result: CallToolResult) -> str:
    """Return the text of a result, in which other content is described. If all images and sounds can be attached to a
    message, the text is a `ToolResult` with them. Without any content, the structured content is returned as JSON.
    """
    text = "\n".join(_texts(result.content))
    if not text and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    files = tuple(_files(result.content))
    if not files or len(files) < sum(isinstance(block, ImageContent | AudioContent) for block in result.content):
        return text
    whole = ToolResult(text)
    whole.attachments, whole.with_attachments = files, "\n".join(_texts(result.content, "attached"))
    return whole


def _files(blocks: list[ContentBlock]) -> Iterator[Attachment]:
    """Store the images and audio that can be attached to a message, and yield them as attachments."""
    for number, block in enumerate(blocks, 1):
        if isinstance(block, ImageContent | AudioContent):
            with suppress(ValueError):
                yield store_contents(f"result-{number}", b64decode(block.data, validate=True))


def _texts(blocks: list[ContentBlock], state: str = "not shown") -> Iterator[str]:
    """Yield the text of each block. Links are written out. Images, audio and other data are described. `state` is the
    word for what the model gets of images and audio.
    """
    for block in blocks:
        if isinstance(block, TextContent):
            yield block.text
        elif isinstance(block, ImageContent | AudioContent):
            yield f"[{block.type}, {block.mime_type}, {_size(block.data)} bytes: {state}]"
        elif isinstance(block, ResourceLink):
            named = f"{block.title or block.name}: " if block.title or block.name else ""
            yield f"[link to a resource: {named}{block.uri}]"
        elif isinstance(block, EmbeddedResource):
            inside = block.resource
            if isinstance(inside, TextResourceContents):
                yield inside.text
            else:
                kind = inside.mime_type or "binary"
                yield f"[resource {inside.uri}, {kind}, {_size(inside.blob)} bytes: not shown]"


def _size(base64: str) -> int:
    """Return the number of bytes encoded by a Base64 string."""
    return len(base64) * 3 // 4 - base64[-2:].count("=")


async def answer_elicitation(
    context: ClientRequestContext,  # noqa: ARG001 - part of the library's signature
    params: ElicitRequestParams,
) -> ElicitResult:
    """Return the form requested by the server filled in with its default values, or a refusal. The request is declined
    if a required field has no default, or if the server wants to open a web page.
    """
    if not isinstance(params, ElicitRequestFormParams):
        return ElicitResult(action="decline")
    schema: dict[str, Any] = params.requested_schema
    fields: dict[str, Any] = schema.get("properties", {})
    filled = {name: field["default"] for name, field in fields.items() if "default" in field}
    if not set(schema.get("required", ())) <= set(filled):
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=filled)


# The library logs protocol errors with tracebacks, which are printed if logging is not configured.
logging.getLogger("mcp").addHandler(logging.NullHandler())

MOST_PAGES: Final = 100
"""The maximum number of pages of a server's tool list."""
MOST_TOOLS: Final = 1000
"""The maximum number of tools that a server may list."""
_MOMENT: Final = 1.0
_DROPPED: Final = re.compile(
    r"\bsession (?:not found|terminated|expired)|\bno valid session\b|\bserver not initialized\b", re.IGNORECASE
)
"""The errors with which remote servers refuse a session that they no longer know, for example after a restart."""
_DROPPED_CODES: Final = frozenset({CONNECTION_CLOSED, REQUEST_TIMEOUT, INVALID_REQUEST})  # two of the TypeScript SDK
_LONGEST_DROPPED: Final = 200


@asynccontextmanager
async def open_connections(
    servers: Sequence[Server], place: Place, bounds: ReplyBounds
) -> AsyncIterator[list[Connection]]:
    """Yield a connection to each server, in their order, with its tools listed. All are closed at the end of the `with`
    block. If a server cannot be reached, the others are closed, and `PortError` with the category `connection` is
    raised.
    """
    connections = [Connection(server, place, bounds) for server in servers]
    try:
        outcomes = await asyncio.gather(*(connection.begin() for connection in connections), return_exceptions=True)
        failures = [outcome for outcome in outcomes if outcome is not None]
        if failures:
            raise failures[0]
        yield connections
    finally:
        await asyncio.gather(*(connection.aclose() for connection in connections))


class Connection:
    """A connection to a server. If the server exits, the next call reconnects.

    When a server exits, all of its calls fail, including those of other items. They are then retried once on a new
    server, one at a time, so that a call that crashes every server does not affect the others.
    """

    def __init__(self, server: Server, place: Place, bounds: ReplyBounds) -> None:
        self.server = server
        self._bounds = bounds
        self.listing: list[Tool] = []
        self._place = place
        self._one_at_a_time = asyncio.Lock()
        self._repeating = asyncio.Lock()
        self._link: _ClientTask | None = None

    async def begin(self) -> None:
        """Connect, and store the server's tools in `listing`. Raises `PortError` with the category `connection` if the
        server cannot be started or reached, or if it violates the protocol.
        """
        try:
            async with asyncio.timeout(self.server.options.start_timeout):
                self.listing = await self._all_tools(await self._client())
        except Exception as error:  # the server may cause any error
            raise PortError(self._explain_failure(error), category=ErrorCategory.CONNECTION) from None

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool and return its result as text. If the server exits, the call is repeated once. Raises `ToolError`
        if the tool fails or does not respond in time, and `PortError` if the server exits twice, or `ToolError` if a
        remote server was disconnected because of its reply.
        """
        try:
            return await self._call_once(tool, arguments)
        except _ServerGone:
            async with self._repeating:
                try:
                    return await self._call_once(tool, arguments)
                except _ServerGone as gone:
                    if gone.stopped and self.server.is_remote:  # the server itself is still running
                        raise ToolError(str(gone)) from None
                    message = f"the tool {tool!r} failed twice: {gone}"
                    raise PortError(message, category=ErrorCategory.CONNECTION) from None

    async def _call_once(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call the tool once and return its result as text. Raises `ToolError` if the tool fails or does not respond in
        time, and `_ServerGone` if the server exits or cannot be started.
        """
        try:
            async with asyncio.timeout(self.server.options.start_timeout):
                client = await self._client()
        except (_CannotConnect, TimeoutError) as error:
            raise _ServerGone(self._explain_failure(error)) from None
        link = self._link
        seconds = self.server.options.call_timeout
        try:
            # The library's own timeout starts only when the request has been sent, which a server can delay.
            async with asyncio.timeout(seconds + _MOMENT):
                result = await client.call_tool(tool, dict(arguments), seconds)
        except Exception as error:
            raise self._call_failed(error, link) from None
        message = result_text(result)
        if result.is_error:
            raise ToolError(message or f"{tool} failed, and {self.server} gave no reason")
        return message

    async def aclose(self) -> None:
        """Close the connection. A server that was started by a command is stopped."""
        if self._link is not None:
            await self._link.end()

    async def _client(self) -> Client:
        """Return the connected client, after connecting if there is none or the connection has ended. Raises
        `_CannotConnect` if connecting fails.
        """
        async with self._one_at_a_time:
            if self._link is None or self._link.over:
                if self._link is not None:
                    await self._link.end()
                self._link = _ClientTask(self.server, self._place, self._bounds)
            return await self._link.client()

    async def _all_tools(self, client: Client) -> list[Tool]:
        """Return the tools on all pages of the server's list, which may be empty. Raises `ReplyTooLarge` if there are
        more than `MOST_TOOLS` tools or `MOST_PAGES` pages.
        """
        if client.server_capabilities.tools is None:
            return []
        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            if len(tools) > MOST_TOOLS:
                raise ReplyTooLarge(f"the server lists more than {MOST_TOOLS} tools")
            cursor = page.next_cursor
            if not cursor:
                return tools
        raise ReplyTooLarge(f"the server lists its tools on more than {MOST_PAGES} pages")

    def _explain_failure(self, error: Exception) -> str:
        """Return a message that explains why the server cannot be used, with the end of its stderr, without secrets."""
        if isinstance(error, TimeoutError):
            seconds = self.server.options.start_timeout
            why = f"the server did not answer within {seconds:g} s; raise start_timeout"
        else:
            why = (self._link and self._link.output.stopped) or _error_text(error)
        words = self._link.output.stderr_tail() if self._link is not None else ""
        message = f"{self.server} cannot be used: {why}" + (f"; the server wrote: {words}" if words else "")
        return self._without_secrets(message)

    def _call_failed(self, error: Exception, link: _ClientTask | None) -> Exception:
        """Return the exception to raise for a failed call over `link`: `_ServerGone` if the server exited or was
        disconnected, otherwise `ToolError`, also after a timeout. Secrets are hidden. If the server has dropped the
        session, the next call reconnects.
        """
        if isinstance(error, TimeoutError) or _is_timeout(error):
            message = f"{self.server} did not answer within {self.server.options.call_timeout:g} s"
        elif link is not None and (link.over or _is_disconnect(error)):
            link.over = True
            words = link.output.stderr_tail()
            went = f"was disconnected because {link.output.stopped}" if link.output.stopped else "ended"
            message = f"{self.server} {went} before it answered" + (f"; the server wrote: {words}" if words else "")
            return _ServerGone(self._without_secrets(message), stopped=link.output.stopped is not None)
        elif link is not None and self.server.is_remote and _is_dropped(error):
            link.over = True
            return _ServerGone(self._without_secrets(f"{self.server}: {_error_text(error)}"), stopped=True)
        else:
            message = f"{self.server}: {_error_text(error)}"
        return ToolError(self._without_secrets(message))

    def _without_secrets(self, text: str) -> str:
        return mask_secrets(text, self.server.secrets())


class _ServerGone(Exception):
    """Raised if a server exits during a call or cannot be started.

    `stopped` is True if this program disconnected the server because a reply was invalid or too large, or if a remote
    server has dropped the session.
    """

    def __init__(self, message: str, *, stopped: bool = False) -> None:
        super().__init__(message)
        self.stopped = stopped


class _CannotConnect(Exception):
    """Raised if a client cannot be connected. The message contains the reason."""


class _ClientTask:
    """A client, and the task that opens and closes it. Only the task that opened a client may close it."""

    def __init__(self, server: Server, place: Place, bounds: ReplyBounds) -> None:
        self.over = False
        self._scope = anyio.CancelScope()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.output = Output()
        self._task = asyncio.create_task(self._hold(server, place, bounds), name=f"MCP server {server.name}")

    async def client(self) -> Client:
        """Wait until the client is connected. Raises `_CannotConnect` if connecting fails or the client is closed."""
        return await asyncio.shield(self._ready)

    async def end(self) -> None:
        """Close the client and wait until it is closed."""
        # Cancel the scope, not the task: the library's shutdown of a server process is shielded only from the former.
        self._scope.cancel()
        await asyncio.wait([self._task])

    async def _hold(self, server: Server, place: Place, bounds: ReplyBounds) -> None:
        """Connect the client, and keep it open until `end` is called or the connection breaks. Errors are not raised
        here. They are raised by `client` if it is waiting.
        """
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(_client(server, place, self.output, bounds))
                    self._ready.set_result(client)
                    await anyio.sleep_forever()
        except Exception as error:  # from the library, its tasks or its transport
            self._fail(_first_error(error))
        finally:
            self.over = True
            self._fail(_CannotConnect(self.output.stopped or "the connection was closed"))

    def _fail(self, error: BaseException) -> None:
        """Make callers that wait for the client raise an error, unless it is connected or has already failed."""
        if not self._ready.done():
            self._ready.set_exception(_CannotConnect(_error_text(error)))
            self._ready.exception()  # mark it as retrieved: no task may be awaiting it


def _client(server: Server, place: Place, output: Output, bounds: ReplyBounds) -> Client:
    """Return a client for the server, without connecting. The client only responds to elicitation if the server's
    option is "defaults".
    """
    return Client(
        transport(server, place, output, bounds),
        client_info=Implementation(name="karenina", version=__version__),
        elicitation_callback=answer_elicitation if server.options.elicitation == "defaults" else None,
    )


def _error_text(error: BaseException) -> str:
    """Return an error's message, or its type if the message is empty. If there are several validation errors, only the
    first is returned.
    """
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"the server violated the protocol ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    return str(error) or type(error).__name__


def _is_disconnect(error: Exception) -> bool:
    """Return whether the error means that the server is gone.

    Servers use the library's codes for errors of their own, so its texts count, too.
    """
    if not isinstance(error, MCPError):
        return isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError)
    text = error.message
    return error.code == CONNECTION_CLOSED and (text == "Connection closed" or text.startswith("SSE stream "))


def _is_dropped(error: Exception) -> bool:
    """Return whether a remote server no longer knows the session. A tool may have sessions of its own, about which an
    error has the code for errors inside the server.
    """
    known = isinstance(error, MCPError) and error.code in _DROPPED_CODES
    return known and _DROPPED.search(_error_text(error)[:_LONGEST_DROPPED]) is not None


def _is_timeout(error: Exception) -> bool:
    """Return whether the library gave up waiting for the server."""
    return isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT and error.message.startswith("Request '")


def _first_error(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups. If `error` is not a group, return it unchanged."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
