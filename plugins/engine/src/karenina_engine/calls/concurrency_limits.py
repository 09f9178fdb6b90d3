"""How many calls may be under way at once: of each server, found out while the run goes on, and of all together.

A server (the models of one interface, name and base URL) has places. A run does not know how many it can bear, so the
number of its places moves: it doubles with each round of replies until the server refuses a call, is halved then, goes
back quickly to just below where the refusal came, and looks from there for more, one place at a time and less often
each time that it is refused again. Many refusals of calls that were under way together are one. (The law is that of
TCP: V. Jacobson, Congestion avoidance and control, SIGCOMM 1988; the slower and slower search is our own.) Refusals
that do not depend on the number of places change nothing (`karenina_engine.calls.overload_detection`).

A server that takes every call but makes them wait shows nothing but that more places bring no more replies: there the
doubling ends as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Self

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_engine.calls.overload_detection import OverloadDetector, RefusalCause

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

Server = tuple[str, str, str | None]
CEILING: Final = 256
START: Final = 32

_REFUSALS: Final = frozenset({429, 503, 529})
_SLOWEST: Final = 1 / 64  # places a round that the search begins with where it was refused again and again
_LARGER, _GAIN = 1.5, 1.15  # with so many times the places, there must be so many times the replies
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_HOPELESS_PAUSE = 0.1  # for a server from which no reply is expected any more


def server_of(model: ModelConfig) -> Server:
    """What limits are for: models of one interface, name and base URL share their places."""
    return (model.interface, model.model_name, model.endpoint_base_url)


def is_refusal(error: PortError) -> bool:
    """Whether the server says that it has too much to do: a rate limit, or status 429, 503 or 529."""
    return error.category is ErrorCategory.RATE_LIMIT or error.status in _REFUSALS


@dataclass(frozen=True, slots=True)
class Bounds:
    """With how many places a server begins, and how many it has at most. `fixed` places do not move."""

    start: int = START
    ceiling: int = CEILING
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Concurrency:
    """What a configuration says about how many calls may be under way at once.

    `most` are those of all servers together, `models` the fixed numbers of some models by their ids. Other servers
    begin with `start` places and have at most `ceiling`; where an adapter declares a number it is both. `part` says
    which one of how many workers has these places, each an equal part of all.
    """

    start: int | None = None
    ceiling: int = CEILING
    models: Mapping[str, int] = field(default_factory=dict)
    most: int | None = None
    part: tuple[int, int] = (0, 1)

    def share(self, worker: int, workers: int) -> Self:
        """What one of several workers may have, so that all together have what one would have alone.

        Each has one place at least: with more workers than places there would be more places.
        """
        most = _part(self.most, worker, workers) if self.most is not None else None
        return replace(self, most=most, part=(worker, workers))

    def bounds(self, model: ModelConfig, declared: int | None) -> Bounds:
        """The bounds of the model's server, whose adapter declares a number, or None."""
        fixed = self.models.get(model.id)
        if fixed is not None:
            places = _part(fixed, *self.part)
            return Bounds(places, places, fixed=True)
        ceiling = self.ceiling if declared is None else max(1, declared)
        start = self.start if self.start is not None else START if declared is None else ceiling
        return Bounds(_part(min(start, ceiling), *self.part), _part(ceiling, *self.part))


def _part(places: int, worker: int, workers: int) -> int:
    return max(1, (places + workers - 1 - worker) // workers)


class ServerLimiter:
    """The places of one server.

    A call takes one (`acquire`, or `wait` where none is free) and gives it back with what became of it: `on_success`,
    `on_overload` or `release`. A call that waits to be made again holds none.
    """

    __slots__ = (
        "_all",
        "_bounds",
        "_first_step",
        "_given",
        "_mark",
        "_pausing",
        "_queue",
        "_reference",
        "_refusals",
        "_refusing_since",
        "_round",
        "_serial",
        "_step",
        "_test",
        "_wall",
        "_wanted",
        "held",
        "limit",
        "name",
        "queued",
        "retrying",
    )

    def __init__(self, limits: ConcurrencyLimits, name: str, bounds: Bounds) -> None:
        self.name = name
        """What people call the server."""
        self.limit: float = max(1, min(bounds.start, bounds.ceiling))
        """How many places there are; of a fraction the whole part counts."""
        self.held = 0
        """Calls under way."""
        self.queued = 0
        """Calls that wait for a place."""
        self.retrying = 0
        """Calls that failed, and that wait until they are made again. They hold no place."""
        self._all = limits
        self._bounds = bounds
        self._queue: list[tuple[int, int, asyncio.Future[int]]] = []
        self._serial = 0
        self._wanted = 0  # replies that may still make more places: those to calls that, together, took all of them
        self._given = 0
        self._mark = 0  # the last place that was given before the places became fewer
        self._wall = inf  # just below where the server refused
        self._step = self._first_step = 1.0  # by how many places the limit grows in a round, beyond the wall
        self._refusals = 0  # in a row, without a reply between them
        self._refusing_since: float | None = None
        self._pausing: asyncio.TimerHandle | None = None
        self._round = _Round()
        self._reference = _Reference()
        self._test = OverloadDetector()

    def tighten(self, bounds: Bounds) -> None:
        """Keep to `bounds` as well."""
        known = self._bounds
        ceiling = min(known.ceiling, bounds.ceiling)
        self._bounds = Bounds(min(known.start, bounds.start, ceiling), ceiling, known.fixed or bounds.fixed)
        self.limit = min(self.limit, self._bounds.start)

    def acquire(self) -> int:
        """A place, as a number above 0, or 0 where the call has to `wait`."""
        if self._queue or not self._free():
            return 0
        return self._give()

    async def wait(self, order: int) -> int:
        """A place, when there is one. Of the calls that wait, those of the lowest `order` go first."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._serial += 1
        heappush(self._queue, (order, self._serial, future))
        self.queued += 1
        self._all.wake(self)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release()
            raise
        finally:
            self.queued -= 1

    def on_success(self) -> None:
        """Give the place back after a reply. Where places are wanted there may be more from now on."""
        wanted = self._wanted > 0
        self._wanted -= wanted
        self.held -= 1
        self._all.held -= 1
        self._refusals = 0
        self._refusing_since = None
        if self._pausing is not None:
            self._end_pause()
        if not wanted:
            self._round.began = 0.0
        elif not self._bounds.fixed and self.limit < self._bounds.ceiling and not self._test.measuring:
            self._grow()
        self._all.wake(self)

    def on_overload(self, place: int, retry_after: float | None = None) -> None:
        """Give `place` back after the server refused the call. `retry_after` are the seconds that it asked for."""
        if self._refusing_since is None:
            self._refusing_since = self._all.clock()
        under_way = self.held
        self.held -= 1
        self._all.held -= 1
        if place <= self._mark:  # it was under way when another one was refused: that was one burst
            self._wall = max(self.limit, self._wall - 1)
        else:
            verdict = RefusalCause.OVERLOAD if self._bounds.fixed else self._test.judge(place, under_way)
            if verdict is RefusalCause.OVERLOAD:
                self._overloaded(under_way, retry_after)
            elif verdict is RefusalCause.CONSTANT:
                self._wall = inf
                self._step = self._first_step = 1.0
        self._all.wake(self)

    def seconds_refusing(self) -> float:
        """Return for how many seconds the server has refused calls without any reply."""
        return 0.0 if self._refusing_since is None else self._all.clock() - self._refusing_since

    def release(self) -> None:
        """Give the place back after a call that says nothing about the server's load."""
        self.held -= 1
        self._all.held -= 1
        self._all.wake(self)

    def _overloaded(self, under_way: int, retry_after: float | None) -> None:
        """Have fewer places, and none for a while if this was not the first refusal without a reply between."""
        self._refusals += 1
        self._mark = self._given
        if not self._bounds.fixed:
            self._halve(under_way)
        if self._refusals > 1:
            self._pause(retry_after)

    def _halve(self, under_way: int) -> None:
        alone = self.limit < 2  # one call at a time is refused: how many the server bears otherwise is not known
        again = self.limit >= self._wall and not alone
        self._first_step = max(_SLOWEST, self._first_step / 2) if again else 1.0
        self._step = self._first_step
        self.limit = max(1.0, self.limit / 2)
        self._wall = inf if alone else max(self.limit, under_way - 1.0)
        self._round.began = self._reference.rate = 0.0

    def wake(self) -> None:
        """Give the places that are free to those who wait."""
        while self._queue and self._free():
            self.wake_one()

    def wake_one(self) -> None:
        """Give one place to the first who waits."""
        future = heappop(self._queue)[2]
        if not future.done():
            future.set_result(self._give())

    def next_order(self) -> int | None:
        """The order of the call that would get the next place, or None where none waits or there is no place."""
        while self._queue and self._queue[0][2].done():
            heappop(self._queue)
        return self._queue[0][0] if self._queue and self._free() else None

    def _free(self) -> bool:
        return self.held < int(self.limit) and self._pausing is None and self._all.held < self._all.most

    def _give(self) -> int:
        self.held += 1
        self._all.held += 1
        self._given += 1
        self._test.add_call(self.held)
        if self.held >= int(self.limit):
            self._wanted = self.held
        if not self._round.began:
            self._round = _Round(self._all.clock(), self.limit)
        return self._given

    def _grow(self) -> None:
        before = int(self.limit)
        ceiling = self._bounds.ceiling
        if self.limit < self._wall:
            self.limit = min(self.limit + 1, self._wall, ceiling)
        else:
            self.limit = min(self.limit + self._step / self.limit, ceiling)
            if int(self.limit) > before:
                self._wall = self.limit
                self._step = min(self.limit, self._step * 2)
        self._look_back(before)
        if int(self.limit) != before:
            self._all.changed()

    def _look_back(self, places: int) -> None:
        """At the end of a round, see whether more places brought more replies; else take them back."""
        this = self._round
        this.replies += 1
        if this.replies < places:
            return
        now = self._all.clock()
        rate = this.replies / max(now - this.began, 1e-9)
        self._round = _Round(now, self.limit)
        known = self._reference
        if known.rate and this.limit < _LARGER * known.limit:
            return
        if known.rate and rate < _GAIN * known.rate:
            self.limit = self._wall = known.limit
            self._step = self._first_step = max(_SLOWEST, self._first_step / 4)
            self._round.limit = self.limit
        else:
            known.limit, known.rate = this.limit, rate

    def _pause(self, retry_after: float | None) -> None:
        """Give no place for a while: nothing but refusals came, and whoever waits would only be refused, too."""
        own = _FIRST_PAUSE * 2 ** min(self._refusals - 2, 16)
        longest = _LONGEST_PAUSE if self.seconds_refusing() <= self._all.patience else _HOPELESS_PAUSE
        seconds = min(max(own, retry_after or 0.0), longest)
        if self._pausing is not None:
            self._pausing.cancel()
        self._pausing = asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._end_pause()
        self._all.wake(self)

    def _end_pause(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None


@dataclass(slots=True)
class ConcurrencyLimits:
    """The places of all servers of a run. `bounds` are those of a model's server.

    `most` is how many calls may be under way at all servers together. `on_change` is told when more or fewer calls
    could be under way than before. `clock` is what times are measured by. A server that has refused all calls for
    longer than `patience` seconds delays the calls that are left by short pauses only.
    """

    bounds: Callable[[ModelConfig], Bounds]
    most: float = inf
    on_change: Callable[[], None] | None = None
    held: int = 0
    clock: Callable[[], float] = time.monotonic
    patience: float = inf
    _places: dict[Server, ServerLimiter] = field(default_factory=dict)

    def limiter(self, model: ModelConfig) -> ServerLimiter:
        """The places of the model's server."""
        server = server_of(model)
        found = self._places.get(server)
        if found is None:
            found = self._places[server] = ServerLimiter(self, model.display_string, self.bounds(model))
        return found

    def prepare(self, models: Iterable[ModelConfig]) -> None:
        """Make the places of all servers of `models`. Where models of one server differ, the narrowest bounds hold."""
        for model in models:
            self.limiter(model).tighten(self.bounds(model))

    @property
    def servers(self) -> Sequence[ServerLimiter]:
        """All servers that were asked for so far."""
        return tuple(self._places.values())

    def capacity(self) -> int:
        """How many calls could be under way now, and how many more wait for being made again."""
        places = min(self.most, sum(int(one.limit) for one in self._places.values()))
        return int(places) + min(sum(one.retrying for one in self._places.values()), int(places))

    def close(self) -> None:
        """Give no more places: what is under way may end, and nothing else begins."""
        self.most = 0

    def wake(self, changed: ServerLimiter) -> None:
        """Give the places that are free to those who wait, the earliest items first. `changed` has a free place."""
        if self.most == inf:
            changed.wake()
            return
        while self.held < self.most:
            waiting = [(order, one) for one in self._places.values() if (order := one.next_order()) is not None]
            if not waiting:
                return
            min(waiting, key=itemgetter(0))[1].wake_one()

    def changed(self) -> None:
        """Say that more or fewer calls can be under way."""
        if self.on_change is not None:
            self.on_change()


@dataclass(slots=True)
class _Round:
    """As many replies as there are places: since when, and with how many places it began."""

    began: float = 0.0
    limit: float = 0.0
    replies: int = 0


@dataclass(slots=True)
class _Reference:
    """What an earlier round brought: replies a second, with so many places."""

    rate: float = 0.0
    limit: float = 0.0
