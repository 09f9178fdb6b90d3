"""Streams without a finish reason: broken off, unless the server never gives one."""

from __future__ import annotations

import asyncio

import pytest

from karenina_core.models.ports import NO_USAGE, Usage
from karenina_toolkit.http.reply_body import IncompleteStream, UnendedStream, check_stream_end

SOME = Usage(7, 3, calls=1)


def test_a_stream_without_a_reason_is_broken_off_if_others_have_one() -> None:
    async def streams() -> None:
        check_stream_end("a", SOME, has_reason=True)
        with pytest.raises(IncompleteStream, match="although earlier streams from the server had one") as caught:
            check_stream_end("a", SOME, has_reason=False)
        assert (type(caught.value), caught.value.usage) == (IncompleteStream, SOME)

    asyncio.run(streams())


def test_a_server_without_reasons_is_believed_after_five() -> None:
    async def streams() -> None:
        for _ in range(5):
            with pytest.raises(UnendedStream) as caught:
                check_stream_end("a", Usage(calls=1), has_reason=False)
            assert caught.value.usage == NO_USAGE
        check_stream_end("a", SOME, has_reason=False)
        with pytest.raises(UnendedStream):
            check_stream_end("b", SOME, has_reason=False)

    asyncio.run(streams())
