"""Parsing of requests to the scripted server, and writing of replies."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from karenina_testing.server.exchange import MalformedRequest, Reply, Request

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([^\r]*)", re.IGNORECASE)
_DECIMAL: Final = re.compile(rb"[0-9]{1,18}[ \t]*")
_HEXADECIMAL: Final = re.compile(rb"[0-9a-fA-F]{1,15}[ \t]*")
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_CLOSE: Final = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)
_EXPECT: Final = re.compile(rb"\r\nexpect:[ \t]*100-continue", re.IGNORECASE)
_RESET: Final = struct.pack("ii", 1, 0)
"""The value of `SO_LINGER` that makes closing the socket reset the connection."""


class Owner(Protocol):
    """The server that a connection belongs to."""

    def opened(self, connection: Connection) -> int:
        """Count an open connection and return its number, starting at 1."""

    def closed(self, connection: Connection) -> None:
        """Count a closed connection."""

    def reply_to(self, request: Request) -> tuple[Any, Reply | Awaitable[Reply]]:
        """Return a note to pass to `sent`, and the reply to the request."""

    def failed(self, problem: BaseException) -> None:
        """Record an exception raised in the script or while sending a reply."""

    def sent(self, note: Any, whole: bool) -> None:
        """Record whether the whole reply was sent while the client was still connected."""


class Connection(asyncio.Protocol):
    """A connection that serves requests in order. It keeps reading in order to notice when the client leaves."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._got = bytearray()
        self._needed = 0
        self._busy = False
        self._continued = False
        self._task: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: Any = None
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport and report the connection to the owner."""
        self._transport = transport
        self._number = self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop any reply in progress and notify the owner."""
        self._gone.set()
        self._writable.set()
        self._owner.closed(self)

    def pause_writing(self) -> None:
        """Pause sending, because the client is slow."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Resume sending."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Store the data, and reply once a request is complete."""
        self._got += data
        if not self._busy and len(self._got) >= self._needed:
            self._serve_or_refuse()

    def close(self) -> None:
        """Abort the connection and any reply in progress."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _serve_or_refuse(self) -> None:
        """Serve the complete requests. A malformed request gets status 400 and closes the connection; any other
        exception is passed to the owner and closes it too.
        """
        try:
            self._serve()
        except MalformedRequest as error:
            refusal = Reply({"error": {"message": str(error)}}, 400, {"Connection": "close"})
            self._transport.write(refusal.start(len(refusal.payload)) + refusal.payload)
            self._transport.close()
        except BaseException as problem:  # asyncio would print it, and the test would not fail
            self._owner.failed(problem)
            self._transport.close()

    def _serve(self) -> None:
        """Serve the complete requests in order, until a reply takes time. Raises `MalformedRequest` if a request cannot
        be read.
        """
        while not self._busy and not self._transport.is_closing():
            request = self._take()
            if request is None:
                return
            request.check()
            note, reply = self._owner.reply_to(request)
            leaves = _CLOSE.search(request.head) is not None
            if isinstance(reply, Reply) and not reply.delay and reply.chunks is None:
                self._owner.sent(note, True)  # before it is written: the client may read the log at once
                self._write(reply, request, leaves)
                self._busy = reply.end == "hang"
            else:
                self._busy = True
                self._task = asyncio.get_running_loop().create_task(self._work(note, reply, request, leaves))

    def _take(self) -> Request | None:
        """Take the next request from the data, and return it, or None if it is incomplete. Sends `100 Continue` if the
        client waits for it. Raises `MalformedRequest` if the data is not HTTP.
        """
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            if self._got and not self._got[:1].isalpha():
                raise MalformedRequest("the data is not an HTTP request")  # such as the first message of TLS
            return None
        head = bytes(self._got[:end])
        if _EXPECT.search(head) and not self._continued:
            self._continued = True
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if _CHUNKED.search(head):
            unpacked = _unpack(bytes(self._got[end + 4 :]))
            if unpacked is None:
                return None
            body, rest = unpacked
            self._got = bytearray(rest)
        else:
            match = _LENGTH.search(head)
            self._needed = end + 4 + (_number(_DECIMAL, match[1], 10) if match else 0)
            if len(self._got) < self._needed:
                return None
            body = bytes(self._got[end + 4 : self._needed])
            del self._got[: self._needed]
        self._needed, self._continued = 0, False
        method, _, target = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        return Request(method, target.rpartition(" ")[0] or target, head, body, self._number)

    def _write(self, reply: Reply, request: Request, leaves: bool) -> None:
        """Send a prepared reply. Set `leaves` if the client asked to close the connection."""
        if reply.raw is not None:
            self._transport.write(reply.raw)
        else:
            payload = reply.payload
            start = reply.start(len(payload))
            if reply.cut is not None:
                payload = payload[: int(len(payload) * reply.cut)]
            self._transport.write(start if request.method == "HEAD" else start + payload)
        self._finish(reply, leaves)

    def _finish(self, reply: Reply, leaves: bool) -> None:
        """Reset, close or keep the connection as `reply.end` says. With `leaves`, a connection that would be kept is
        closed.
        """
        if reply.end == "reset":
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
        elif reply.end == "close" or (leaves and reply.end == "keep"):
            self._transport.close()

    async def _work(self, note: Any, coming: Reply | Awaitable[Reply], request: Request, leaves: bool) -> None:
        """Send the reply `coming`, which is delayed, streamed or still being computed, and then serve the next
        requests. Set `leaves` if the client asked to close the connection.
        """
        reply = coming if isinstance(coming, Reply) else None
        try:
            if reply is None:
                reply = await coming  # type: ignore[misc]  # it is not a reply, so it is awaitable
            if reply.delay:
                await self._sleep(reply.delay)
            if self._gone.is_set() or reply.chunks is None:
                self._owner.sent(note, not self._gone.is_set())
                self._write(reply, request, leaves)
            else:
                self._owner.sent(note, await self._stream(reply))
                self._finish(reply, leaves)
        except BaseException as problem:
            self._owner.sent(note, False)
            self._transport.abort()
            if isinstance(problem, asyncio.CancelledError):
                raise
            self._owner.failed(problem)
            return
        if reply.end != "hang":
            self._busy = False
            self._serve_or_refuse()

    async def _stream(self, reply: Reply) -> bool:
        """Send a stream, with its pauses, up to `reply.cut` if that is set. Returns False if the client disconnected
        before the end.
        """
        chunked = reply.raw is None and "content-length" not in {name.lower() for name in reply.headers}
        pieces = reply.pieces()
        if reply.cut is not None:
            every = list(pieces)
            pieces = every[: int(len(every) * reply.cut)]
        waiting = [reply.start(None) if reply.raw is None else reply.raw]
        for piece in pieces:
            if not isinstance(piece, bytes):
                self._transport.write(b"".join(waiting))
                waiting = []
                await self._sleep(piece)
            elif piece:
                waiting.append(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                if len(piece) > _LARGE or len(waiting) > _MANY:
                    self._transport.write(b"".join(waiting))
                    waiting = []
                    await asyncio.sleep(0)  # other connections get a turn, however fast this client reads
                    await self._writable.wait()
            if self._gone.is_set():
                return False
        if chunked and reply.cut is None and reply.end != "hang":
            waiting.append(b"0\r\n\r\n")
        self._transport.write(b"".join(waiting))
        await self._writable.wait()
        return not self._gone.is_set()

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but return at once when the client disconnects. 0 seconds still let other tasks run."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        except TimeoutError:
            pass


_LARGE: Final = 2**12
_MANY: Final = 64


def _unpack(data: bytes) -> tuple[bytes, bytes] | None:
    """Return a chunked request's body and the bytes after it, or None if it is incomplete. Raises `MalformedRequest` if
    a chunk's length is not a number.
    """
    parts: list[bytes] = []
    while True:
        line, mark, data = data.partition(b"\r\n")
        if not mark:
            return None
        size = _number(_HEXADECIMAL, line.partition(b";")[0], 16)
        if size == 0:
            return (b"".join(parts), data[2:]) if data[:2] == b"\r\n" else None
        if len(data) < size + 2:
            return None
        parts.append(data[:size])
        data = data[size + 2 :]


def _number(pattern: re.Pattern[bytes], text: bytes, system: int) -> int:
    """Parse a number in the base `system`. Raises `MalformedRequest` unless the text matches `pattern`."""
    if not pattern.fullmatch(text):
        raise MalformedRequest("the length of the body is not a valid number")
    return int(text, system)
