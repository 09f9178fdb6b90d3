"""How a server is reached: a process of its own over stdio, or HTTP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

if TYPE_CHECKING:
    from mcp.client import Transport

    from karenina_mcp.settings import Server

USUAL_VARIABLES: Final = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"),
)
"""What a process gets of the environment beside what the MCP library passes on: PATH, HOME, USER, SHELL, TERM, ..."""


def transport(server: Server, workspace: Path | None, errors: IO[bytes]) -> Transport:
    """The way to a server. What a process writes to stderr goes to `errors`, a real file."""
    if server.is_remote:
        return _over_http(server)
    program, *arguments = server.command()
    environment = {name: os.environ[name] for name in USUAL_VARIABLES if name in os.environ}
    if workspace is not None and "-m" in arguments:
        environment["PYTHONSAFEPATH"] = "1"  # or Python would import what an agent wrote into its workspace
    return stdio_client(
        StdioServerParameters(
            command=program,
            args=arguments,
            env={**environment, **server.passed_on()},
            cwd=workspace,
            encoding_error_handler="replace",
        ),
        errlog=errors,  # type: ignore[arg-type] # it takes any real file
    )


@asynccontextmanager
async def _over_http(server: Server) -> AsyncIterator[Any]:
    longest = max(server.options.start_timeout, server.options.call_timeout)
    seconds = httpx2.Timeout(server.options.start_timeout, read=longest + 5)
    async with (
        httpx2.AsyncClient(headers=server.headers(), timeout=seconds) as client,
        streamable_http_client(server.url(), http_client=client) as streams,
    ):
        yield streams
