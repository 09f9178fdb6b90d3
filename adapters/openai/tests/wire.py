"""A server that is scripted byte by byte, a proxy, and their connections: for the tests of connections."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import trustme
from openai_servers import completion

from karenina_core.models.ports import Message, PortError
from karenina_openai.parser import OpenAILLM

ASK = [Message.user("Where is the Louvre?")]
BODY = json.dumps(completion()).encode()
RESET = struct.pack("ii", 1, 0)  # a socket that lingers for no time is reset, not closed


@pytest.fixture(params=["asyncio", "uvloop"])
def either_loop(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Return the event loops that runs use, for `anyio_backend`."""
    if request.param == "uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


async def fails(port: OpenAILLM) -> PortError:
    """Return the error of a call."""
    with pytest.raises(PortError) as caught:
        await port.invoke(ASK)
    return caught.value


async def uses_its_connections_again(port: OpenAILLM, wire: Wire, at_once: int = 1) -> bool:
    """Make so many calls at once until they open no further connection, at most twenty times. A thread of the client
    takes a connection back shortly after the reply, so that on a busy machine the next call may need another one.
    """
    for _ in range(20):
        opened = len(wire.callers)
        replies = await asyncio.gather(*(port.invoke(ASK) for _ in range(at_once)))
        assert {one.text for one in replies} == {"Paris."}
        if opened and len(wire.callers) == opened:
            return True
        await asyncio.sleep(0.02)
    return False


def reply(body: bytes = BODY, *headers: str, status: str = "200 OK") -> bytes:
    """Return a reply with its length."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "\r\n"]).encode() + body


def chunked(body: bytes = BODY, size: int = 10) -> bytes:
    """Return a reply in chunks."""
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*parts, b""])
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks


@dataclass
class Caller:
    """One connection, as the server sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def request(self) -> tuple[list[str], bytes]:
        """Return the lines of a request's head, and its body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        lengths = [line.partition(":")[2] for line in head if line.lower().startswith("content-length:")]
        return head, await self.reader.readexactly(int(lengths[0]) if lengths else 0)

    async def says(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hears_the_end(self) -> None:
        """Wait until the other side has closed the connection."""
        while await self.reader.read(65536):
            pass
        self.gone.set()

    def reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


@dataclass
class Wire:
    """A server at `url`; `heads` are those of all requests, `callers` all connections; `asked` is set by `silence`."""

    url: str = ""
    port: int = 0
    heads: list[list[str]] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)


Script = Callable[[Wire, Caller], Awaitable[None]]


def each(*replies: bytes) -> Script:
    """Answer the requests of each connection with `replies`, and close it after the last."""

    async def script(wire: Wire, caller: Caller) -> None:
        for data in replies:
            wire.heads.append((await caller.request())[0])
            await caller.says(data)

    return script


def always(data: bytes = b"") -> Script:
    """Answer all requests with `data`."""

    async def script(wire: Wire, caller: Caller) -> None:
        while True:
            wire.heads.append((await caller.request())[0])
            await caller.says(data or reply())

    return script


def silence(begun: bytes = b"") -> Script:
    """Receive a request and send no more than `begun`."""

    async def script(wire: Wire, caller: Caller) -> None:
        await caller.request()
        await caller.says(begun)
        wire.asked.set()
        await caller.hears_the_end()

    return script


@asynccontextmanager
async def served(script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Wire]:
    """Yield a server that runs `script` for each connection, and closes it afterwards."""
    wire = Wire()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = Caller(reader, writer)
        wire.callers.append(caller)
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await script(wire, caller)
        except (asyncio.IncompleteReadError, ConnectionError):
            caller.gone.set()
        except asyncio.CancelledError:  # the test is over
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls, limit=2**24)
    wire.port = server.sockets[0].getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    wire.url = f"{'http' if tls is None else 'https'}://{name}:{wire.port}/v1"
    try:
        yield wire
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """Return the TLS context of a server with a certificate for `names`."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(made)
    return made


def tunnel(port: int) -> Script:
    """Return a proxy that leads every CONNECT to `port` of this machine."""

    async def script(wire: Wire, caller: Caller) -> None:
        wire.heads.append((await caller.request())[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await caller.says(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def lead(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                while data := await source.read(65536):
                    target.write(data)
            target.close()

        await asyncio.gather(lead(caller.reader, writer), lead(reader, caller.writer))

    return script
