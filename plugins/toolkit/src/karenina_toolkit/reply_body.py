"""The body of a reply, unpacked piece by piece within its bounds, for SDKs that use a client of the httpx family."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, Protocol, cast

from karenina_toolkit.reply_bounds import MOST_VALUES, BrokenReply, ReplyBounds, ReplyTooLarge, count_value_marks

ACCEPTED_ENCODINGS: Final = "gzip, deflate"
"""What a client may name in `Accept-Encoding`: the encodings that are unpacked here."""
_PIECE: Final = 65536
_READS: Final = "_karenina_reads"
_ENDS_OF_EVENTS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_MOST_MEMBERS: Final = 1024
"""Parts of a gzip body; each costs an object of its own."""


class Unpacker:
    """Unpacks a body that arrives in pieces, in pieces of a bounded size. Raises `BrokenReply`.

    Some servers leave the wrapping of deflate out, and some name a character set as the encoding; both are accepted.
    """

    def __init__(self, where: str, encoding: str) -> None:
        self._where = where
        name = encoding.strip().lower()
        self._packed = name in ("gzip", "x-gzip", "deflate")
        if name in ("br", "zstd", "compress", "x-compress"):
            raise BrokenReply(f"{where} sent a reply packed as {name!r}, which was not accepted")
        self._inflater = zlib.decompressobj(32 + zlib.MAX_WBITS)
        self._begun = False
        self._members = 1

    def add(self, raw: bytes) -> Iterator[bytes]:
        """Yield what `raw` unpacks to."""
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
                raise BrokenReply(f"{self._where} sent a reply that cannot be unpacked ({error})") from None
            raw = self._inflater.unconsumed_tail
            if self._inflater.eof:
                raw = self._next_member()

    def end(self) -> None:
        """Raise `BrokenReply` if the body ended too early."""
        if self._begun and not self._inflater.eof:
            raise BrokenReply(f"{self._where} sent a packed reply that is cut off")

    def _next_member(self) -> bytes:
        rest = self._inflater.unused_data
        if not rest.startswith(b"\x1f\x8b"):
            return b""
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise BrokenReply(f"{self._where} sent a reply that is packed in too many parts")
        self._inflater = zlib.decompressobj(32 + zlib.MAX_WBITS)
        return rest


async def bound_body(
    pieces: AsyncIterable[bytes], encoding: str, where: str, bounds: ReplyBounds, *, by_event: bool = False
) -> AsyncIterator[bytes]:
    """Yield the unpacked body of a reply from the server `where`. Raises `ReplyTooLarge` and `BrokenReply`.

    With `by_event` the bounds are those of each event of a stream that may go on for ever.
    """
    unpacker = Unpacker(where, encoding)
    packed = size = marks = 0
    tail = b""
    async for piece in pieces:
        packed += len(piece)
        bounds.check_size(where, packed)  # packed data may unpack to nothing
        for unpacked in unpacker.add(piece):
            size += len(unpacked)
            marks += count_value_marks(unpacked)
            bounds.check_size(where, size)
            if marks > MOST_VALUES:
                raise ReplyTooLarge(f"{where} sent a reply of more than {MOST_VALUES} JSON values, which was cut off")
            if by_event:
                tail += unpacked
                if any(end in tail for end in _ENDS_OF_EVENTS):
                    packed = size = marks = 0
                tail = tail[-3:]
            yield unpacked
    unpacker.end()


class _Stream(Protocol):
    """A body as the clients of the httpx family know it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class _BoundedStream:
    def __init__(self, stream: _Stream, pieces: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        await self._stream.aclose()


def make_bounding_hook(
    stream_type: type[object], where: str, bounds: ReplyBounds, *, by_event: bool = False
) -> Callable[[Any], Awaitable[None]]:
    """Return a hook for the responses of a client of the httpx family, which bounds and unpacks their bodies.

    `stream_type` is the client's `AsyncByteStream`. The client must send `ACCEPTED_ENCODINGS` in `Accept-Encoding`.
    With `by_event`, the bounds of a stream of events are those of each event.
    """
    kind = cast("type[_BoundedStream]", type("BoundedStream", (_BoundedStream, stream_type), {}))

    async def bound(response: Any) -> None:
        _check_asked_for(response.extensions.get("network_stream"), where)
        encoding = response.headers.pop("content-encoding", "")
        events = by_event and response.headers.get("content-type", "").startswith("text/event-stream")
        pieces = bound_body(response.stream, encoding, where, bounds, by_event=events)
        response.stream = kind(response.stream, pieces)

    return bound


def _check_asked_for(stream: Any, where: str) -> None:
    """Raise `BrokenReply` if the reply was sent before its request: the client keeps what follows an earlier reply.

    A reply for which nothing was read after its request was written can only be such data.
    """
    if stream is None:
        return
    reads: int | None = getattr(stream, _READS, None)
    if reads == 0:
        raise BrokenReply(f"{where} sent data without a request; its connection was closed")
    if reads is None:
        setattr(stream, _READS, 1)
        stream.read = _counting(stream, stream.read, writes=False)
        stream.write = _counting(stream, stream.write, writes=True)


def _counting(stream: Any, method: Callable[..., Awaitable[Any]], *, writes: bool) -> Callable[..., Any]:
    """Return the method of a connection that notes the reads since the last write."""

    async def counted(*arguments: Any, **named: Any) -> Any:
        setattr(stream, _READS, 0 if writes else getattr(stream, _READS) + 1)
        return await method(*arguments, **named)

    return counted
