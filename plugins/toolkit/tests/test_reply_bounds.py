"""The bounds of one reply: bytes, nesting, number of values; and a reply follows its request."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import ErrorCategory
from karenina_toolkit.http.reply_body import bound_body, make_bounding_hook
from karenina_toolkit.replies.reply_bounds import (
    DEEPEST,
    MOST_VALUES,
    BrokenReply,
    ReplyBounds,
    ReplyTooLarge,
    check_depth,
    read_json,
)

WHERE = "http://localhost:9"
ROOM = ReplyBounds(max_bytes=10_000_000)


def body(*pieces: bytes, encoding: str = "", bounds: ReplyBounds = ROOM, by_event: bool = False) -> bytes:
    """Return what is left of a body that arrives in these pieces."""

    async def arriving() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def read() -> bytes:
        return b"".join([part async for part in bound_body(arriving(), encoding, WHERE, bounds, by_event=by_event)])

    return asyncio.run(read())


@pytest.mark.parametrize("levels", [DEEPEST, 100_000])
def test_deep_json_is_refused(levels: int) -> None:
    with pytest.raises(ValueError, match="nested"):
        read_json(b'{"a":' + b"[" * (levels + 1) + b"]" * (levels + 1) + b"}")


def test_json_of_the_deepest_allowed_nesting_is_read() -> None:
    raw = b"[" * DEEPEST + b"]" * DEEPEST

    assert read_json(raw) == json.loads(raw)


def test_depth_counts_lists_and_mappings() -> None:
    deep: Any = []
    for _ in range(DEEPEST // 2 + 1):
        deep = [{"a": deep}]
    with pytest.raises(ValueError, match=f"deeper than {DEEPEST} levels"):
        check_depth(deep)


def test_json_of_too_many_values_is_not_parsed() -> None:
    def parse(raw: bytes) -> Any:
        raise AssertionError("it was parsed")

    with pytest.raises(ValueError, match=f"more than {MOST_VALUES} values"):
        read_json(b"[" + b"0," * MOST_VALUES + b"0]", parse)


def test_bounds_come_from_the_configuration_of_the_model() -> None:
    model = ModelConfig(id="m", interface="openai", model_name="m", max_reply_bytes=7, stream_timeout=3.0)

    assert ReplyBounds.of(model) == ReplyBounds(7, 3.0)


def test_a_reply_that_is_too_large_is_permanent_with_cure() -> None:
    with pytest.raises(ReplyTooLarge, match="raise max_reply_bytes") as caught:
        body(b"x" * 600, b"x" * 600, bounds=ReplyBounds(max_bytes=1000))
    assert caught.value.category is ErrorCategory.PERMANENT


def test_packed_bytes_that_unpack_to_nothing_are_counted() -> None:
    empty = gzip.compress(b"", mtime=0)

    with pytest.raises(ReplyTooLarge, match="larger than 1000 bytes when decompressed"):
        body(*[empty] * 100, encoding="gzip", bounds=ReplyBounds(max_bytes=1000))


def test_unpacked_bytes_are_counted() -> None:
    packed = gzip.compress(b" " * 1_000_000)

    assert len(packed) < 2000
    with pytest.raises(ReplyTooLarge, match="larger than 100000 bytes when decompressed"):
        body(packed, encoding="gzip", bounds=ReplyBounds(max_bytes=100_000))


def test_values_are_counted_while_a_body_arrives() -> None:
    with pytest.raises(ReplyTooLarge, match=f"more than {MOST_VALUES} JSON values"):
        body(b"[" + b"[]," * 700_000, b"[]," * 700_000)


def test_a_gzip_body_of_many_parts_is_refused() -> None:
    parts = gzip.compress(b"", mtime=0) * 2000

    with pytest.raises(BrokenReply, match="compressed reply with too many parts"):
        body(parts, encoding="gzip")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_body_that_is_cut_off_is_an_error(encoding: str) -> None:
    whole = b'{"text": "Paris"}'
    packed = gzip.compress(whole) if encoding == "gzip" else zlib.compress(whole)

    assert body(packed, encoding=encoding) == whole
    with pytest.raises(BrokenReply, match="is incomplete"):
        body(packed[:-5], encoding=encoding)


def test_bounds_apply_to_each_event_of_a_stream() -> None:
    event, bounds = b"data: " + b"x" * 500 + b"\n\n", ReplyBounds(max_bytes=1000)

    assert len(body(*[event] * 10, bounds=bounds, by_event=True)) == 10 * len(event)
    with pytest.raises(ReplyTooLarge):
        body(*[event.rstrip()] * 10, bounds=bounds, by_event=True)


class Connection:
    """A connection of an HTTP client, which reads and writes."""

    async def read(self) -> bytes:
        return b""

    async def write(self) -> None: ...


class Response:
    """A response of an HTTP client over this connection."""

    def __init__(self, connection: Connection) -> None:
        self.extensions = {"network_stream": connection}
        self.headers: dict[str, str] = {}
        self.stream: Any = object()


def test_a_reply_without_a_read_after_the_request_is_refused() -> None:
    hook, connection = make_bounding_hook(object, WHERE, ROOM), Connection()

    async def exchange(*, read: bool) -> None:
        await connection.write()
        if read:
            await connection.read()
        await hook(Response(connection))

    async def conversation() -> None:
        await exchange(read=True)
        await exchange(read=True)
        with pytest.raises(BrokenReply, match="sent unsolicited data"):
            await exchange(read=False)

    asyncio.run(conversation())


def test_the_error_of_a_body_is_reported_and_raised() -> None:
    """Some libraries only log what is raised while they read a body."""
    seen: list[Exception] = []
    hook = make_bounding_hook(object, WHERE, ReplyBounds(10), on_error=seen.append)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x" * 11

    async def read() -> None:
        response = Response(Connection())
        response.stream = pieces()
        response.extensions = {}
        await hook(response)
        with pytest.raises(ReplyTooLarge) as caught:
            _ = [piece async for piece in response.stream]
        assert seen == [caught.value]

    asyncio.run(read())
