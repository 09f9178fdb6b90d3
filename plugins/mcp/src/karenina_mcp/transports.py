"""Transports to servers: a process over stdio, or HTTP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from karenina_mcp.stdio import Output, connect_stdio
from karenina_toolkit.reply_body import ACCEPTED_ENCODINGS, make_bounding_hook

if TYPE_CHECKING:
    from mcp.client import Transport

    from karenina_mcp.settings import Server
    from karenina_toolkit.reply_bounds import BrokenReply, ReplyBounds, ReplyTooLarge

USUAL_VARIABLES: Final = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"),
)
"""Environment variables for a process besides those that the MCP library passes on: PATH, HOME, USER, SHELL,
TERM, ...
"""


def transport(server: Server, workspace: Path | None, output: Output, bounds: ReplyBounds) -> Transport:
    """Return the transport to a server. Other output of a process goes to `output`."""
    if server.is_remote:
        return _over_http(server, output, bounds)
    command = server.command()
    environment = {name: os.environ[name] for name in USUAL_VARIABLES if name in os.environ}
    if workspace is not None and "-m" in command[1:]:
        environment["PYTHONSAFEPATH"] = "1"  # or Python would import what an agent wrote into its workspace
    return connect_stdio(command, {**environment, **server.passed_variables()}, workspace, output, bounds)


@asynccontextmanager
async def _over_http(server: Server, output: Output, bounds: ReplyBounds) -> AsyncIterator[Any]:
    def note(error: BrokenReply | ReplyTooLarge) -> None:
        output.stopped = str(error)  # the library only reports that the connection was closed

    bound = make_bounding_hook(httpx2.AsyncByteStream, "it", bounds, by_event=True, on_error=note)
    headers = {"Accept-Encoding": ACCEPTED_ENCODINGS, **server.headers()}
    longest = max(server.options.start_timeout, server.options.call_timeout)
    seconds = httpx2.Timeout(server.options.start_timeout, read=longest + 5)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=seconds, event_hooks={"response": [bound]}) as client,
        # The client bounds events already, as the user wants it; the library's own bound is 1 MB.
        streamable_http_client(server.url(), http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams
