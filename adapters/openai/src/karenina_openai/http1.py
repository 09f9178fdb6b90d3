"""One HTTP/1.1 connection: a request goes out, and its reply comes in, whole or piece by piece."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from enum import IntEnum
from typing import cast

import httptools

_LONGEST_HEAD = 65536  # bytes: what goes on for longer is no head, and would fill the memory
_MOST_PARTS = 1024  # of a packed body: each costs a copy of all that follows


class Broken(Exception):
    """Raised for a connection that ended, or said what is not HTTP, before its reply was complete."""


class _Until(IntEnum):
    HEAD = 1
    PIECE = 2
    END = 3


class Connection(asyncio.Protocol):
    """Carries one request at a time. What goes wrong is raised where the reply is awaited, as `Broken`.

    `status` and `headers` (their names in lower case) are those of the reply, once its head has come. It lives in
    `loop`, and can be used nowhere else.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0
        self.transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(  # dangerous where others' requests come over the same connection
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._heard = 0
        self._busy = self._begun = self._ended = self._keeps = self._interim = False
        self._error: str | None = None
        self._body: list[bytes] = []
        self._unpacked: _Unpacked | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._until = _Until.END

    def send(self, request: bytes) -> None:
        """Send `request`, as it goes over the wire. Raises nothing: see the reply."""
        self.status, self.headers, self._body, self._unpacked = 0, {}, [], None
        self._busy, self._begun, self._ended, self._keeps, self._heard = True, False, False, False, 0
        if self.transport is not None and self._error is None:
            self.transport.write(request)

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self._begun:
            await self._more(_Until.HEAD)

    async def piece(self) -> bytes:
        """What has come of the body since the last call, unpacked; nothing after its end."""
        while True:
            if self._body:
                raw, self._body = b"".join(self._body), []
                if unpacked := self._unpack(raw):
                    return unpacked
            elif self._ended:
                return self._unpack_rest()
            else:
                await self._more(_Until.PIECE)

    async def rest(self) -> bytes:
        """What is left of the body, unpacked, when all of it has come."""
        while not self._ended:
            await self._more(_Until.END)
        raw, self._body = b"".join(self._body), []
        return self._unpack(raw) + self._unpack_rest()

    def rested(self) -> bool:
        """Whether the reply is complete and the connection can carry another request, which it then waits for.

        A server that answered before it had heard all might never hear the next request.
        """
        self._busy = False
        if not (self._ended and self._keeps and self.usable()):
            return False
        return self.transport is not None and self.transport.get_write_buffer_size() == 0

    def usable(self) -> bool:
        """Whether the connection stands, as far as is known here."""
        return self._error is None and self.transport is not None and not self.transport.is_closing()

    def abort(self, why: str = "it was closed here") -> None:
        """End the connection at once; a reply that is under way is broken."""
        self._fail(why)
        if self.transport is not None:
            self.transport.abort()

    def abandon(self) -> None:
        """End the connection from outside of its loop, which may have ended, and the connection with it."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.abort)

    async def _more(self, until: _Until) -> None:
        if self._error is not None:
            raise Broken(self._error)
        self._until = until
        self._waiter = self.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self, reached: _Until) -> None:
        if self._waiter is not None and reached >= self._until and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, why: str) -> None:
        if self._error is None:
            self._error = why
            self._wake(_Until.END)

    def _unpack(self, raw: bytes) -> bytes:
        if self._unpacked is None:
            encoding = self.headers.get("content-encoding", "identity").strip().lower()
            if encoding in ("br", "zstd", "compress", "x-compress"):
                raise Broken(f"its reply is packed as {encoding!r}, which was not asked for")
            if encoding not in ("gzip", "x-gzip", "deflate"):
                return raw  # some servers name what is no packing, such as utf-8
            self._unpacked = _Unpacked()
        return self._unpacked.add(raw)

    def _unpack_rest(self) -> bytes:
        return b"" if self._unpacked is None else self._unpacked.end()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the way out."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        if not self._busy:
            self.abort("it said something without being asked")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._ended:
                self.abort(f"what came is not HTTP: {error}")
            self._keeps = False
        if not self._begun:
            self._heard += len(data)
            if self._heard > _LONGEST_HEAD:
                self.abort("the head of its reply does not end")

    def connection_lost(self, error: Exception | None) -> None:
        """End the reply: with its body, where nothing else says where that ends, else as broken."""
        packing = self.headers.get("transfer-encoding", "").lower()
        told = packing.rpartition(",")[2].strip() == "chunked" if packing else "content-length" in self.headers
        if error is None and self._begun and not self._ended and not told:
            self._ended = True  # the end of the connection is that of the body
            self._wake(_Until.END)
        middle = "in the middle of" if self._begun else "before"
        self._fail(str(error) if error is not None else f"the server closed it {middle} its reply")

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Refuse a second reply to one request."""
        if self._ended:
            raise Broken("more came than was asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; of several of one name, the first counts. What follows the body is none."""
        if self._begun:
            return
        self.headers.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "surrogateescape"))

    def on_headers_complete(self) -> None:
        """Take the head, unless it only announces another (as `100 Continue`)."""
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200 and status != 101
        if self._interim:
            self.headers = {}
            return
        self.status = status
        self._begun = True
        self._wake(_Until.HEAD)

    def on_body(self, body: bytes) -> None:
        """Take a piece."""
        self._body.append(body)
        self._wake(_Until.PIECE)

    def on_message_complete(self) -> None:
        """Take the end, and whether the server goes on listening."""
        if not self._interim:
            self._ended, self._keeps = True, self._parser.should_keep_alive()
            self._wake(_Until.END)


class _Unpacked:
    """A body in gzip or deflate, of which some servers leave the wrapping away."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS)
        self._first = True
        self._parts = 1

    def add(self, raw: bytes) -> bytes:
        if self._first and raw:
            self._first = False
            if raw[0] & 0x0F != zlib.DEFLATED and raw[0] != 0x1F:
                self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            found = self._unpacker.decompress(raw)
            while self._unpacker.eof and self._unpacker.unused_data.startswith(b"\x1f\x8b"):  # gzip may have parts
                self._parts += 1
                if self._parts > _MOST_PARTS:
                    raise Broken("its reply is packed in too many parts")
                raw, self._unpacker = self._unpacker.unused_data, zlib.decompressobj(32 + zlib.MAX_WBITS)
                found += self._unpacker.decompress(raw)
        except zlib.error as error:
            raise Broken(f"its reply cannot be unpacked: {error}") from None
        return found

    def end(self) -> bytes:
        if not self._first and not self._unpacker.eof:
            raise Broken("its packed reply is cut off")
        return b""
