"""Servers that refuse calls, and runs over them in simulated time, which is fast and repeatable."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from karenina_core import ModelConfig
from karenina_core.models.ports import CallNotes, ErrorCategory, PortError
from karenina_engine.calls.concurrency import Bounds
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits, is_refusal
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.run.local_execution import WorkerPool

MODEL = ModelConfig(id="m", interface="scripted", model_name="m")
ROUND_TRIP = 0.001


class Server:
    """A server that replies after about `latency` seconds unless `refuses` returns True."""

    status = 429

    def __init__(self, latency: float, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.latency = latency
        self.refusals = self.busy = 0
        self.replied_at: list[float] = []

    @property
    def now(self) -> float:
        """The simulated time."""
        return asyncio.get_running_loop().time()

    def refuses(self) -> bool:
        """Return whether the call that arrives is refused."""
        return False

    def retry_after(self) -> float | None:
        """Return the seconds that a refusal asks for."""
        return None

    async def call(self) -> None:
        """Serve one call. Raises `PortError` if it is refused."""
        if self.refuses():
            self.refusals += 1
            await asyncio.sleep(ROUND_TRIP)
            category = ErrorCategory.RATE_LIMIT if self.status == 429 else ErrorCategory.SERVER
            raise PortError("refused", category=category, status=self.status, retry_after=self.retry_after())
        self.busy += 1
        await asyncio.sleep(self.latency * self.random.uniform(0.8, 1.2))
        self.busy -= 1
        self.replied_at.append(self.now)


class RefusingServer(Server):
    """A server that refuses a share of the calls at any load; the share and its concurrency limit may change."""

    def __init__(
        self,
        latency: float,
        share: Callable[[float], float] = lambda _: 0.0,
        allowed: Callable[[float], float] = lambda _: float("inf"),
        seed: int = 0,
    ) -> None:
        super().__init__(latency, seed)
        self._share = share
        self._allowed = allowed

    def refuses(self) -> bool:
        return self.busy >= self._allowed(self.now) or self.random.random() < self._share(self.now)


class TokenBucketServer(Server):
    """A server with a limit of calls a second, and a larger one after a pause."""

    def __init__(self, latency: float, rate: float, burst: float, seed: int = 0) -> None:
        super().__init__(latency, seed)
        self._rate, self._burst, self._tokens, self._filled = rate, burst, burst, 0.0

    def refuses(self) -> bool:
        self._tokens = min(self._burst, self._tokens + (self.now - self._filled) * self._rate)
        self._filled = self.now
        if self._tokens < 1:
            return True
        self._tokens -= 1
        return False

    def retry_after(self) -> float:
        return (1 - self._tokens) / self._rate


class QuotaServer(Server):
    """A server with a limit of calls in each period; it states the seconds until the next one."""

    def __init__(self, latency: float, calls: int, period: float, seed: int = 0) -> None:
        super().__init__(latency, seed)
        self._calls, self._period, self._current, self._used = calls, period, 0, 0

    def refuses(self) -> bool:
        current = int(self.now / self._period)
        if current != self._current:
            self._current, self._used = current, 0
        self._used += 1
        return self._used > self._calls

    def retry_after(self) -> float:
        return self._period - self.now % self._period


class OverloadedServer(RefusingServer):
    """A server that is overloaded (529) for some time."""

    status = 529


@dataclass
class Simulation:
    """The time and the calls of a run over a server."""

    seconds: float
    most_seconds: float
    """The time of the first 95% of replies, without the waits of the last retries."""
    replies: int
    refusals: int
    failed: int
    places: float


def simulate(server: Server, questions: int, fixed: int | None = None) -> Simulation:
    """Make two calls for each question, one after the other, limited and retried as in a run."""
    random.seed(server.random.random())
    bounds = Bounds(fixed, fixed, fixed=True) if fixed else Bounds()
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(_run(server, questions, bounds))


async def _run(server: Server, questions: int, bounds: Bounds) -> Simulation:
    loop = asyncio.get_running_loop()
    policy = RetryPolicy()
    limits = ConcurrencyLimits(lambda _model: bounds, clock=loop.time, patience=policy.patience)
    places = limits.limiter(MODEL)
    failed = 0

    async def call(order: int) -> None:
        notes = CallNotes()
        while True:
            place = places.acquire() or await places.wait(order)
            try:
                await server.call()
            except PortError as error:
                places.on_overload(place, error.retry_after) if is_refusal(error) else places.release()
                waiting = policy.next_delay(error, notes, places.seconds_refusing())
            else:
                places.on_success()
                return
            places.retrying += 1
            limits.changed.set()
            await asyncio.sleep(waiting)
            places.retrying -= 1

    async def question(order: int) -> None:
        nonlocal failed
        failed += 1
        with suppress(PortError):
            await call(order)
            await call(order)
            failed -= 1

    class Crew(WorkerPool[int, None]):
        async def work(self, tasks: Iterator[int]) -> None:
            for order in tasks:
                await question(order)

        def target_size(self) -> int:
            return limits.capacity()

    async for _ in Crew(iter(range(questions)), limits.changed).results():
        pass
    replied_at = server.replied_at or [loop.time()]
    most = replied_at[95 * len(replied_at) // 100]
    return Simulation(loop.time(), most, len(server.replied_at), server.refusals, failed, places.limit)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next scheduled time. It reads from no socket."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class _JumpingSelector(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.now += timeout
            return []
        return super().select(timeout)
