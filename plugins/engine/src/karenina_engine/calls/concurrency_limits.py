"""Limits on the number of calls in flight, per server and in total.

A server is identified by interface, name and base URL. We do not know how many calls it can handle, so its limit adapts
as in TCP congestion control (V. Jacobson, Congestion avoidance and control, SIGCOMM 1988). The limit doubles with each
round of replies until the server refuses a call, for example with status 429. It is then halved, quickly grows back to
just below the number of calls at which the server refused, and continues from there one permit at a time. This search
slows down with each refusal. Several refusals at the same time count as one. Refusals that have nothing to do with the
number of calls are ignored; see `karenina_engine.calls.overload_detection`.

Some servers never refuse calls but queue them instead. The limit therefore also stops doubling when more permits do not
lead to more replies.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_engine.calls.concurrency import Bounds
from karenina_engine.calls.overload_detection import OverloadDetector, RefusalCause

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

Server = tuple[str, str, str | None]

_REFUSALS: Final = frozenset({429, 503, 529})
_SLOWEST: Final = 1 / 64  # permits per round at which the search starts after many refusals
_LARGER, _GAIN = 1.5, 1.15  # this many times the permits must bring this many times the replies
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_GIVING_UP_PAUSE = 0.1  # for a server that is no longer expected to reply


def server_of(model: ModelConfig) -> Server:
    """Return a key that identifies the model's server. Models with the same interface, name and base URL share
    permits.
    """
    return (model.interface, model.model_name, model.endpoint_base_url)


def is_refusal(error: PortError) -> bool:
    """Return whether the error means that the server is overloaded and refused the call. This is the case for
    rate-limit errors and for the status codes 429, 503 and 529.
    """
    return error.category is ErrorCategory.RATE_LIMIT or error.status in _REFUSALS


class ServerLimiter:
    """Limits the calls to one server.

    Every call needs a permit. Get one from `acquire` or, if that returns 0, from `wait`. Return the permit with
    `on_success`, `on_overload` or `release`, depending on how the call ended. A call does not hold a permit while it
    waits for a retry.
    """

    __slots__ = (
        "_bounds",
        "_ceiling_seen",
        "_first_step",
        "_granted",
        "_growth_replies",
        "_last_before_reduction",
        "_limits",
        "_pausing",
        "_queue",
        "_reference",
        "_refusals",
        "_refusing_since",
        "_round",
        "_serial",
        "_step",
        "_test",
        "held",
        "limit",
        "name",
        "queued",
        "retrying",
    )

    def __init__(self, limits: ConcurrencyLimits, name: str, bounds: Bounds) -> None:
        self.name = name
        """The server's name in messages."""
        self.limit: float = max(1, min(bounds.start, bounds.ceiling))
        """The number of permits; fractions accumulate, and only the integer part counts."""
        self.held = 0
        """Calls in flight."""
        self.queued = 0
        """Calls waiting for a permit."""
        self.retrying = 0
        """Failed calls waiting for their retry. They hold no permit."""
        self._limits = limits
        self._bounds = bounds
        self._queue: list[tuple[int, int, asyncio.Future[int]]] = []
        self._serial = 0
        self._growth_replies = 0  # replies that may raise the limit: those to calls that together held all permits
        self._granted = 0
        self._last_before_reduction = 0  # the last permit granted before the last reduction
        self._ceiling_seen = inf  # just below the number of calls at which the server refused
        self._step = self._first_step = 1.0  # growth of the limit per round above that number
        self._refusals = 0  # consecutive, without a reply in between
        self._refusing_since: float | None = None
        self._pausing: asyncio.TimerHandle | None = None
        self._round = _Round()
        self._reference = _Reference()
        self._test = OverloadDetector()

    def tighten(self, bounds: Bounds) -> None:
        """Restrict the current bounds to `bounds`. The current limit is lowered to the new `start` if necessary. It
        becomes fixed if the current or the new bounds are fixed.
        """
        current = self._bounds
        ceiling = min(current.ceiling, bounds.ceiling)
        self._bounds = Bounds(min(current.start, bounds.start, ceiling), ceiling, current.fixed or bounds.fixed)
        self.limit = min(self.limit, self._bounds.start)

    def acquire(self) -> int:
        """Take a permit if one is free and no other call is waiting, and return the permit's number. Otherwise, return
        0 without waiting.
        """
        if self._queue or not self._has_free_permit():
            return 0
        return self._grant()

    async def wait(self, order: int) -> int:
        """Wait for a permit, and return the permit's number. Calls with the lowest `order` go first. Calls with the
        same order are served first come, first served.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._serial += 1
        heappush(self._queue, (order, self._serial, future))
        self.queued += 1
        if self._has_free_permit():
            self._limits.wake(self)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release()
            raise
        finally:
            self.queued -= 1

    def on_success(self) -> None:
        """Give back a permit after a reply. This may raise the limit, and it ends any pause."""
        may_grow = self._growth_replies > 0
        self._growth_replies -= may_grow
        self.held -= 1
        self._limits.held -= 1
        self._refusals = 0
        self._refusing_since = None
        if self._pausing is not None:
            self._end_pause()
        if not may_grow:
            self._round.began = 0.0
        elif not self._bounds.fixed and self.limit < self._bounds.ceiling and not self._test.measuring:
            self._grow()
        self._limits.wake(self)

    def on_overload(self, permit: int, retry_after: float | None = None) -> None:
        """Return a permit after the server refused a call. If too many calls are the likely cause, and the call does
        not belong to a burst in which another one was refused, this lowers the limit, and from the second refusal on
        pauses the server, for a time that `retry_after` may extend.

        `retry_after` is the delay in seconds that the server asked for, if any. A refusal in the same burst as an
        earlier one changes almost nothing. If a constant share of calls is refused, the level at which the server
        refused is forgotten, so that the limit grows fast again.
        """
        if self._refusing_since is None:
            self._refusing_since = self._limits.clock()
        in_flight = self.held
        self.held -= 1
        self._limits.held -= 1
        if permit <= self._last_before_reduction:  # in flight when another call was refused: part of the same burst
            self._ceiling_seen = max(self.limit, self._ceiling_seen - 1)
        else:
            verdict = RefusalCause.OVERLOAD if self._bounds.fixed else self._test.judge(permit, in_flight)
            if verdict is RefusalCause.OVERLOAD:
                self._reduce(in_flight, retry_after)
            elif verdict is RefusalCause.CONSTANT:
                self._ceiling_seen = inf
                self._step = self._first_step = 1.0
        self._limits.wake(self)

    def seconds_refusing(self) -> float:
        """Return the number of seconds for which the server has refused every call. Returns 0 if it has not refused any
        call since its last reply.
        """
        return 0.0 if self._refusing_since is None else self._limits.clock() - self._refusing_since

    def release(self) -> None:
        """Return a permit after a call whose outcome says nothing about the server's load."""
        self.held -= 1
        self._limits.held -= 1
        self._limits.wake(self)

    def _reduce(self, in_flight: int, retry_after: float | None) -> None:
        """Lower the limit, unless it is fixed, and pause after repeated refusals. `in_flight` is the number of calls in
        flight when the server refused one, including the refused call.
        """
        self._refusals += 1
        self._last_before_reduction = self._granted
        if not self._bounds.fixed:
            self._halve(in_flight)
        if self._refusals > 1:
            self._pause(retry_after)

    def _halve(self, in_flight: int) -> None:
        """Halve the limit, and remember the level at which the server refused. Up to that level, the limit will grow
        fast, and beyond it the more slowly the more often the server refuses there.
        """
        alone = self.limit < 2  # even one call at a time is refused, so the server's limit is not known
        again = self.limit >= self._ceiling_seen and not alone
        self._first_step = max(_SLOWEST, self._first_step / 2) if again else 1.0
        self._step = self._first_step
        self.limit = max(1.0, self.limit / 2)
        self._ceiling_seen = inf if alone else max(self.limit, in_flight - 1.0)
        self._round.began = self._reference.rate = 0.0

    def wake(self) -> None:
        """Grant the free permits to the calls waiting for this server. Calls of earlier items that are waiting for
        other servers do not take precedence.
        """
        while self._queue and self._has_free_permit():
            self.wake_one()

    def wake_one(self) -> None:
        """Remove the first call from the queue, and grant it a permit unless it was cancelled."""
        future = heappop(self._queue)[2]
        if not future.done():
            future.set_result(self._grant())

    def next_order(self) -> int | None:
        """Return the order of the next call to get a permit. Returns None if no call is waiting or no permit is
        free.
        """
        while self._queue and self._queue[0][2].done():
            heappop(self._queue)
        return self._queue[0][0] if self._queue and self._has_free_permit() else None

    def _has_free_permit(self) -> bool:
        return self.held < int(self.limit) and self._pausing is None and self._limits.held < self._limits.most

    def _grant(self) -> int:
        """Count a call as started, and return the number of its permit."""
        self.held += 1
        self._limits.held += 1
        self._granted += 1
        self._test.add_call(self.held)
        if self.held >= int(self.limit):
            self._growth_replies = self.held
        if not self._round.began:
            self._round = _Round(self._limits.clock(), self.limit)
        return self._granted

    def _grow(self) -> None:
        """Raise the limit after a reply. It grows quickly up to the level at which the server refused, and slowly
        beyond that.
        """
        before = int(self.limit)
        ceiling = self._bounds.ceiling
        if self.limit < self._ceiling_seen:
            self.limit = min(self.limit + 1, self._ceiling_seen, ceiling)
        else:
            self.limit = min(self.limit + self._step / self.limit, ceiling)
            if int(self.limit) > before:
                self._ceiling_seen = self.limit
                self._step = min(self.limit, self._step * 2)
        self._compare_rounds(before)
        if int(self.limit) != before:
            self._limits.changed.set()

    def _compare_rounds(self, permits: int) -> None:
        """Count a reply for the current round, and end the round after as many replies as there were `permits` before
        this one. If the new permits did not lead to more replies per second, take them back.
        """
        this = self._round
        this.replies += 1
        if this.replies < permits:
            return
        now = self._limits.clock()
        rate = this.replies / max(now - this.began, 1e-9)
        self._round = _Round(now, self.limit)
        reference = self._reference
        if reference.rate and this.limit < _LARGER * reference.limit:
            return
        if reference.rate and rate < _GAIN * reference.rate:
            self.limit = self._ceiling_seen = reference.limit
            self._step = self._first_step = max(_SLOWEST, self._first_step / 4)
            self._round.limit = self.limit
        else:
            reference.limit, reference.rate = this.limit, rate

    def _pause(self, retry_after: float | None) -> None:
        """Pause the server because it keeps refusing calls: each time twice as long, but at least `retry_after`
        seconds, if given, and at most a maximum, which depends on patience. A current pause is replaced.

        The maximum is `_LONGEST_PAUSE`. After the server has refused all calls for longer than the run's patience, it
        is `_GIVING_UP_PAUSE`.
        """
        own = _FIRST_PAUSE * 2 ** min(self._refusals - 2, 16)
        longest = _LONGEST_PAUSE if self.seconds_refusing() <= self._limits.patience else _GIVING_UP_PAUSE
        seconds = min(max(own, retry_after or 0.0), longest)
        if self._pausing is not None:
            self._pausing.cancel()
        self._pausing = asyncio.get_running_loop().call_later(seconds, self._resume)

    def _resume(self) -> None:
        """End the pause, and grant the free permits to waiting calls."""
        self._end_pause()
        self._limits.wake(self)

    def _end_pause(self) -> None:
        """End the pause, if any, without waking the waiting calls."""
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None


@dataclass(slots=True)
class ConcurrencyLimits:
    """The limiters for all servers of a run.

    `bounds` is a function that returns the bounds for a model's server. `most` limits the calls to all servers
    together. `changed` is set whenever the capacity changes, and `clock` returns the time in seconds. When a server has
    refused all calls for more than `patience` seconds, its pauses become short, so that the remaining calls fail soon.
    `services` is the number of services being called. These calls are not limited.
    """

    bounds: Callable[[ModelConfig], Bounds]
    most: float = inf
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0
    services: int = 0
    clock: Callable[[], float] = time.monotonic
    patience: float = inf
    _limiters: dict[Server, ServerLimiter] = field(default_factory=dict)

    def limiter(self, model: ModelConfig) -> ServerLimiter:
        """Return the limiter for the model's server, creating it if necessary."""
        server = server_of(model)
        limiter = self._limiters.get(server)
        if limiter is None:
            limiter = self._limiters[server] = ServerLimiter(self, model.display_string, self.bounds(model))
        return limiter

    def prepare(self, models: Iterable[ModelConfig]) -> None:
        """Create the limiters for the given models, and narrow each to the smallest bounds of the models on its
        server.
        """
        for model in models:
            self.limiter(model).tighten(self.bounds(model))

    @property
    def servers(self) -> Sequence[ServerLimiter]:
        """The limiters created so far."""
        return tuple(self._limiters.values())

    @property
    def answering(self) -> int:
        """The number of calls that models and services are processing."""
        return self.held + self.services

    def capacity(self) -> int:
        """Return the number of calls that could be in flight now. Calls waiting for a retry are added, up to the number
        of permits.
        """
        limiters = self._limiters.values()
        permits = int(min(self.most, sum([int(limiter.limit) for limiter in limiters])))
        return permits + min(permits, sum([limiter.retrying for limiter in limiters]))

    def close(self) -> None:
        """Stop granting permits. Calls in flight may finish, but no new calls start."""
        self.most = 0

    def wake(self, changed: ServerLimiter) -> None:
        """Grant free permits to waiting calls, starting with the earliest items. `changed` is the limiter that may have
        a free permit. Other servers are only considered if all servers share a limit.
        """
        if self.most == inf:
            changed.wake()
            return
        while self.held < self.most:
            waiting = [
                (order, limiter) for limiter in self._limiters.values() if (order := limiter.next_order()) is not None
            ]
            if not waiting:
                return
            min(waiting, key=itemgetter(0))[1].wake_one()


@dataclass(slots=True)
class _Round:
    """A round of replies. It ends after as many replies as there are permits."""

    began: float = 0.0
    limit: float = 0.0
    replies: int = 0


@dataclass(slots=True)
class _Reference:
    """An earlier round to compare with.

    `rate` is its number of replies per second, or 0 if there was no earlier round. `limit` is the limit during that
    round.
    """

    rate: float = 0.0
    limit: float = 0.0
