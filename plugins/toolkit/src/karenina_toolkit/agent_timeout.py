"""The time limit of an agent run, which counts requests and tools and not the waiting for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from karenina_core.models.ports import ErrorCategory, PortError

if TYPE_CHECKING:
    from karenina_core.models.ports import AgentOptions, AgentReply, Message, Turn, TurnGuard


class AgentClock:
    """The clock of one agent run. `where` names the model and its server in errors.

    `options` are those of the run, with a guard that stops the clock whenever a request waits: for a free slot, until
    the server may be called again, or for the journal. How long that takes depends on the other items of the run, and
    an agent must not fail because of them.
    """

    def __init__(self, where: str, options: AgentOptions) -> None:
        guard = options.guard
        self.options = options if guard is None else replace(options, guard=self._without_waiting(guard))
        self._where = where
        self._clock: asyncio.Timeout | None = None
        self._left: float | None = None

    async def limit(self, run: Awaitable[AgentReply], so_far: Callable[[], AgentReply]) -> AgentReply:
        """Return what `run` returns. Raises `PortError` of category `timeout` when its time is over.

        Any `PortError` of the run gets what was done until then, which `so_far` returns, as its `partial`.
        """
        seconds, setting = self.options.timeout, self.options.timeout_setting
        clock = self._clock = asyncio.timeout(seconds)
        try:
            async with clock:
                return await run
        except TimeoutError:
            if not clock.expired():
                raise
            done = so_far()
            raise PortError(
                f"{self._where}: the agent did not end within {seconds:g} s (it had {done.usage.calls} turns); raise "
                f"{setting}, which counts requests and tools only",
                category=ErrorCategory.TIMEOUT,
                partial=done,
            ) from None
        except PortError as error:
            error.partial = so_far()
            raise
        finally:
            self._clock = None  # of a request that is cancelled later

    def _without_waiting(self, guard: TurnGuard) -> TurnGuard:
        async def waiting(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
            self._stop()
            try:
                return await guard(lambda: self._counted(ask), trace)
            finally:
                self._go_on()

        return waiting

    async def _counted(self, ask: Callable[[], Awaitable[Turn]]) -> Turn:
        self._go_on()
        try:
            return await ask()
        finally:
            self._stop()

    def _stop(self) -> None:
        clock = self._clock
        if clock is not None and not clock.expired() and (end := clock.when()) is not None:
            self._left = end - asyncio.get_running_loop().time()
            clock.reschedule(None)

    def _go_on(self) -> None:
        clock = self._clock
        if clock is not None and not clock.expired() and self._left is not None:
            clock.reschedule(asyncio.get_running_loop().time() + self._left)
            self._left = None
