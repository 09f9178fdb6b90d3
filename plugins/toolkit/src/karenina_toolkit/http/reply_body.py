"""Reply bodies, decompressed piece by piece within limits, and streams that end too early.

`make_bounding_hook` applies the limits to the HTTP clients of SDKs, if these belong to the httpx family.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

from karenina_core.models.ports import NO_USAGE, Usage
from karenina_toolkit.replies.reply_bounds import (
    MOST_VALUES,
    BrokenReply,
    ReplyBounds,
    ReplyTooLarge,
    count_value_marks,
)

ACCEPTED_ENCODINGS: Final = "gzip, deflate"
"""The encodings that can be decompressed, for the `Accept-Encoding` header."""
_PIECE: Final = 65536
_READS: Final = "_karenina_reads"
_ENDS_OF_EVENTS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_MOST_MEMBERS: Final = 1024
"""The maximum number of members in a gzip body. Each member requires its own decompression object."""
# A run retries such a stream as `ErrorCategory.INCOMPLETE`. The default for that category in
# `karenina_engine.calls.retry` must not be lower than this number: a call with fewer retries never gets its reply
# accepted, because the run gives up before the server's streams count as complete.
_MOST_UNENDED = 5
"""The number of streams without a finish reason that are retried, if the server has never given one."""


class Unpacker:
    """Decompresses a body that arrives in pieces, and returns pieces of limited size.

    Raises `BrokenReply` if the encoding was not requested or the data is invalid. Two mistakes made by servers are
    tolerated: deflate without the zlib wrapper, and unknown encodings such as a character set. The latter count as
    uncompressed.
    """

    def __init__(self, where: str, encoding: str) -> None:
        self._where = where
        name = encoding.strip().lower()
        self._packed = name in ("gzip", "x-gzip", "deflate")
        if name in ("br", "zstd", "compress", "x-compress"):
            raise BrokenReply(f"{where} sent a reply compressed with {name!r}, which the request did not allow")
        self._inflater = zlib.decompressobj(32 + zlib.MAX_WBITS)
        self._begun = False
        self._members = 1

    def add(self, raw: bytes) -> Iterator[bytes]:
        """Yield the decompressed data of `raw`, or `raw` itself if the body is not compressed. Anything after the end
        of the body is ignored. Raises `BrokenReply` if the data cannot be decompressed.
        """
        if not self._packed or not raw:
            yield raw
            return
        if not self._begun:
            self._begun = True
            if raw[0] & 0x0F != zlib.DEFLATED and raw[0] != 0x1F:
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        while raw:
            try:
                yield self._inflater.decompress(raw, _PIECE)
            except zlib.error as error:
                raise BrokenReply(f"{self._where} sent a reply that cannot be decompressed ({error})") from None
            raw = self._inflater.unconsumed_tail
            if self._inflater.eof:
                raw = self._next_member()

    def end(self) -> None:
        """Raise `BrokenReply` if the body is incomplete. An empty body is accepted."""
        if self._begun and not self._inflater.eof:
            raise BrokenReply(f"{self._where} sent a compressed reply that is incomplete")

    def _next_member(self) -> bytes:
        """Start the next member of a gzip body, and return the rest of the input. Without a member, it is empty. Raises
        `BrokenReply` if there are more than 1024 members.
        """
        rest = self._inflater.unused_data
        if not rest.startswith(b"\x1f\x8b"):
            return b""
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise BrokenReply(f"{self._where} sent a compressed reply with too many parts")
        self._inflater = zlib.decompressobj(32 + zlib.MAX_WBITS)
        return rest


async def bound_body(
    pieces: AsyncIterable[bytes], encoding: str, where: str, bounds: ReplyBounds, *, by_event: bool = False
) -> AsyncIterator[bytes]:
    """Yield the decompressed body of a reply in pieces. Raises `ReplyTooLarge` if it, or with `by_event` a single
    event, has too many bytes or JSON values, and `BrokenReply` if it is incomplete or cannot be decompressed.

    `where` is the server, and `encoding` is the `Content-Encoding`. The time is not limited. With `by_event`, the
    stream itself may be endless.
    """
    unpacker = Unpacker(where, encoding)
    packed = size = marks = 0
    tail = b""
    async for piece in pieces:
        packed += len(piece)
        bounds.check_size(where, packed)  # compressed data may decompress to nothing
        for unpacked in unpacker.add(piece):
            size += len(unpacked)
            marks += count_value_marks(unpacked)
            bounds.check_size(where, size)
            if marks > MOST_VALUES:
                raise ReplyTooLarge(
                    f"the reply from {where} was discarded because it contains more than {MOST_VALUES} JSON values"
                )
            if by_event:
                tail += unpacked
                if any(end in tail for end in _ENDS_OF_EVENTS):
                    packed = size = marks = 0
                tail = tail[-3:]
            yield unpacked
    unpacker.end()


class _Stream(Protocol):
    """A body stream, as used by the clients of the httpx family."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class _BoundedStream:
    """A client's body stream, decompressed and limited."""

    def __init__(self, stream: _Stream, pieces: AsyncIterator[bytes], on_error: OnError | None) -> None:
        self._stream = stream
        self._pieces = pieces
        self._on_error = on_error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces:
                yield piece
        except (BrokenReply, ReplyTooLarge) as error:
            if self._on_error is not None:
                self._on_error(error)
            raise

    async def aclose(self) -> None:
        """Close the client's stream."""
        await self._stream.aclose()


OnError = Callable[[BrokenReply | ReplyTooLarge], None]
"""A function that is called with the error before it is raised, if a body is too large or cannot be decompressed."""


def make_bounding_hook(
    stream_type: type[object],
    where: str,
    bounds: ReplyBounds,
    *,
    by_event: bool = False,
    on_error: OnError | None = None,
    keep: Callable[[], bytearray | None] | None = None,
    edit: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] | None = None,
) -> Callable[[Any], Awaitable[None]]:
    """Return a response hook for clients of the httpx family that limits and decompresses bodies (with `by_event`, the
    limits apply to each event of a stream). It raises `BrokenReply` if a response was sent before its request.
    `on_error` is called with any error, because some libraries hide errors. `keep` may return a buffer to which the
    body is copied, and `edit` the pieces that the client gets instead of those of the body.

    `stream_type` is the client's `AsyncByteStream`. The client must send `ACCEPTED_ENCODINGS` as its `Accept-Encoding`.
    The hook removes `content-encoding` from responses.
    """
    kind = cast("type[_BoundedStream]", type("BoundedStream", (_BoundedStream, stream_type), {}))

    async def bound(response: Any) -> None:
        """Replace the stream of `response` with one that is limited and decompressed."""
        _check_requested(response.extensions.get("network_stream"), where)
        encoding = response.headers.pop("content-encoding", "")
        events = by_event and response.headers.get("content-type", "").startswith("text/event-stream")
        pieces = bound_body(response.stream, encoding, where, bounds, by_event=events)
        if keep is not None and (buffer := keep()) is not None:
            pieces = _copy(pieces, buffer)
        if edit is not None:
            pieces = edit(pieces)
        response.stream = kind(response.stream, pieces, on_error)

    return bound


async def _copy(pieces: AsyncIterator[bytes], buffer: bytearray) -> AsyncIterator[bytes]:
    async for piece in pieces:
        buffer += piece
        yield piece


def _check_requested(stream: Any, where: str) -> None:
    """Raise `BrokenReply` if the reply was sent before its request. `stream` is the client's connection, or None. The
    first check of a connection always succeeds, and wraps its `read` and `write` to count reads.

    The client buffers data that follows an earlier reply. If nothing has been read since the request was written, the
    reply must come from that buffer.
    """
    if stream is None:
        return
    reads: int | None = getattr(stream, _READS, None)
    if reads == 0:
        raise BrokenReply(f"{where} sent unsolicited data; the connection was closed")
    if reads is None:
        setattr(stream, _READS, 1)
        stream.read = _count_reads(stream, stream.read, writes=False)
        stream.write = _count_reads(stream, stream.write, writes=True)


def _count_reads(stream: Any, method: Callable[..., Awaitable[Any]], *, writes: bool) -> Callable[..., Any]:
    """Return a connection's method wrapped to count the reads since the last write. `writes` is true for `write`."""

    async def counted(*arguments: Any, **named: Any) -> Any:
        setattr(stream, _READS, 0 if writes else getattr(stream, _READS) + 1)
        return await method(*arguments, **named)

    return counted


class IncompleteStream(Exception):
    """Raised if a stream ends before its reply is complete. `usage` contains the tokens so far."""

    def __init__(self, message: str, usage: Usage = NO_USAGE) -> None:
        super().__init__(message)
        self.usage = usage if usage.total_tokens else NO_USAGE


class UnendedStream(IncompleteStream):
    """Raised if a stream ends without a finish reason, and the server has not given one in earlier streams."""


@dataclass(slots=True)
class _StreamEnds:
    """How a server's streams ended: whether any had a finish reason, and how many did not."""

    gives_reasons: bool = False
    without: int = 0


_runs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _StreamEnds]] = WeakKeyDictionary()


def check_stream_end(server: Hashable, usage: Usage, *, has_reason: bool) -> None:
    """Record how a stream ended, and raise `IncompleteStream` if it has no finish reason but an earlier stream from the
    server had one. Until one has, only the first `_MOST_UNENDED` streams raise, an `UnendedStream`: then the server is
    taken to give no reasons. Each event loop has its own record.

    `server` is any key that identifies the server, and `usage` is the stream's usage.
    """
    run = _runs.setdefault(asyncio.get_running_loop(), {})
    ends = run.get(server)
    if ends is None:
        ends = run[server] = _StreamEnds()
    if has_reason:
        ends.gives_reasons = True
        return
    ends.without += 1
    why = "the stream ended without a finish reason"
    if ends.gives_reasons:
        raise IncompleteStream(f"{why}, although earlier streams from the server had one", usage)
    if ends.without <= _MOST_UNENDED:
        raise UnendedStream(f"{why}, so the reply may be incomplete", usage)
