"""The ends of streamed replies: which of them were broken off."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from karenina_core.models.ports import NO_USAGE, Usage

_MOST_UNENDED = 5
"""Streams without a finish reason that are retried, of a server that has given none so far."""


class IncompleteStream(Exception):
    """Raised if a stream ends before its reply does; `usage` is what it counted until then."""

    def __init__(self, message: str, usage: Usage = NO_USAGE) -> None:
        super().__init__(message)
        self.usage = usage if usage.total_tokens else NO_USAGE


class UnendedStream(IncompleteStream):
    """Raised if a stream of a server that gives no finish reasons so far ends without one."""


@dataclass(slots=True)
class _StreamEnds:
    """The ends of a server's streams in one run: whether any had a finish reason, and how many had none."""

    gives_reasons: bool = False
    without: int = 0


_runs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _StreamEnds]] = WeakKeyDictionary()


def check_stream_end(server: Hashable, usage: Usage, *, has_reason: bool) -> None:
    """Raise `IncompleteStream` for a stream that came to its last event, but without a finish reason.

    Such a stream was broken off, unless the server gives no reasons at all: this is assumed after
    `_MOST_UNENDED` streams of this run without one. `usage` is that of the stream.
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
