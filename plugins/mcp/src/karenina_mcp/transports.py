"""How a server is reached: over HTTP, or over the standard input and output of its process."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client

from karenina_mcp.stdio import Output, connect_stdio
from karenina_toolkit.http.reply_body import ACCEPTED_ENCODINGS, make_bounding_hook
from karenina_toolkit.http.urls import uses_proxy

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client import Transport

    from karenina_core.models.ports import ProgramSandbox
    from karenina_mcp.settings import Server
    from karenina_toolkit.replies.reply_bounds import BrokenReply, ReplyBounds, ReplyTooLarge


_ESCAPES: Final = re.compile(rb"\\\\|\\u[dD](?:[89abAB]\w\w\\u[dD][c-fC-F]\w\w|(?P<half>[89a-fA-F]\w\w))")
"""Matches escaped backslashes, pairs of surrogates and halves of pairs in JSON."""
USUAL_VARIABLES: Final = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"),
)
"""Environment variables passed to servers in addition to those that the MCP library passes (PATH, HOME, TERM, ...)."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place in which servers run: the folder `workspace` and the `sandbox`, either of which may be None."""

    workspace: Path | None = None
    sandbox: ProgramSandbox | None = None


def transport(server: Server, place: Place, output: Output, bounds: ReplyBounds) -> Transport:
    """Return the transport for a server, without connecting. A server process runs in `place`, and `output` receives
    its stderr and, if it is stopped, the reason. Raises `ValueError` if the command line is empty, the program is not
    found, or an environment variable is not set, but for servers with a URL only when connecting.
    """
    if server.is_remote:
        return _over_http(server, output, bounds)
    command, workspace = server.command(), place.workspace
    environment = server.passed_variables()
    if workspace is not None and "-m" in command[1:]:
        # Otherwise, Python would import what an agent wrote into its workspace.
        environment = {"PYTHONSAFEPATH": "1", **environment}
    if place.sandbox is not None:
        return _isolated(
            place.sandbox.isolate(command, workspace, environment, network=server.options.network), output, bounds
        )
    usual = {name: os.environ[name] for name in USUAL_VARIABLES if name in os.environ}
    environment = {**get_default_environment(), **usual, **environment}
    return connect_stdio(command, environment, workspace, output, bounds)


@asynccontextmanager
async def _isolated(
    isolated: AbstractAsyncContextManager[tuple[Sequence[str], Mapping[str, str]]], output: Output, bounds: ReplyBounds
) -> AsyncIterator[Any]:
    """Connect to a server that runs in a sandbox for the duration of the `with` block, and yield its streams.
    `isolated` yields its command and environment.
    """
    async with isolated as (command, environment), connect_stdio(command, environment, None, output, bounds) as streams:
        yield streams


@asynccontextmanager
async def _over_http(server: Server, output: Output, bounds: ReplyBounds) -> AsyncIterator[Any]:
    """Connect to a server by URL for the duration of the `with` block, and yield its streams. If a reply is invalid or
    exceeds `bounds`, the connection is closed and the reason is stored in `output.stopped`.
    """

    def note(error: BrokenReply | ReplyTooLarge) -> None:
        output.stopped = str(error)  # the library reports only that the connection was closed

    bound = make_bounding_hook(
        httpx2.AsyncByteStream, "the server", bounds, by_event=True, on_error=note, edit=_without_half_pairs
    )
    headers = {"Accept-Encoding": ACCEPTED_ENCODINGS, **server.headers()}
    longest = max(server.options.start_timeout, server.options.call_timeout)
    seconds = httpx2.Timeout(server.options.start_timeout, read=longest + 5)
    async with (
        httpx2.AsyncClient(
            headers=headers,
            timeout=seconds,
            event_hooks={"response": [bound]},
            verify=httpx2.create_ssl_context(),  # trusts what the environment names, also without `trust_env`
            trust_env=uses_proxy(server.url()),
        ) as client,
        # The client already limits events as configured; the library's own limit is 1 MB.
        streamable_http_client(server.url(), http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


async def _without_half_pairs(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a body with U+FFFD in place of half surrogate pairs, which servers write if they cut text, and which the
    MCP library refuses. What follows the last end of a line is held back until its line ends.
    """
    begun: list[bytes] = []
    async for piece in pieces:
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if end:
            yield _ESCAPES.sub(_replace_half, b"".join([*begun, piece[:end]]))
            begun = []
        begun.append(piece[end:])
    yield _ESCAPES.sub(_replace_half, b"".join(begun))


def _replace_half(found: re.Match[bytes]) -> bytes:
    """Return an escape unchanged, or the escape of U+FFFD if it is half a surrogate pair."""
    return found[0] if found["half"] is None else rb"\ufffd"
