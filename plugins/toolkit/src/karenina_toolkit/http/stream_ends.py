"""The ends of streamed replies, and which of the streams were broken off."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from karenina_core.models.ports import NO_USAGE, Usage

_MOST_UNENDED = 5
"""Maximum streams without a finish reason that are retried, for a server that has given none so far."""


class IncompleteStream(Exception):
    """Raised when a stream ends before its reply is complete; `usage` is what was counted until then."""

    def __init__(self, message: str, usage: Usage = NO_USAGE) -> None:
        super().__init__(message)
        self.usage = usage if usage.total_tokens else NO_USAGE


class UnendedStream(IncompleteStream):
    """Raised when a stream ends without a finish reason, and the server has given none so far."""


@dataclass(slots=True)
class _StreamEnds:
    """The ends of a server's streams in one run: whether any had a finish reason, and how many had none."""

    gives_reasons: bool = False
    without: int = 0


_runs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _StreamEnds]] = WeakKeyDictionary()


def check_stream_end(server: Hashable, usage: Usage, *, has_reason: bool) -> None:
    """Raise `IncompleteStream` for a stream that reached its end without a finish reason (not `has_reason`).

    Such a stream was broken off, unless the server gives no reasons at all, which is assumed after `_MOST_UNENDED`
    streams of this run without one. `usage` is the usage of the stream.
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
        raise IncompleteStream(f"{why}, which the server gave before", usage)
    if ends.without <= _MOST_UNENDED:
        raise UnendedStream(f"{why}, so its reply may be incomplete", usage)
