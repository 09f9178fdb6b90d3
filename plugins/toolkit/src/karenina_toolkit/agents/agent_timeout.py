"""The time limit of an agent run, which counts requests and tool calls but not the waiting between them."""

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

    `options` are the options of the run, with a guard that stops the clock while a request waits: for a free slot, for
    the end of a backoff, or for the journal. The length of these waits depends on the other items of the run, and must
    not make an agent fail.
    """

    def __init__(self, where: str, options: AgentOptions) -> None:
        guard = options.guard
        self.options = options if guard is None else replace(options, guard=self._exclude_waiting(guard))
        self._where = where
        self._clock: asyncio.Timeout | None = None
        self._left: float | None = None

    async def limit(self, run: Awaitable[AgentReply], so_far: Callable[[], AgentReply]) -> AgentReply:
        """Return the result of `run`. Raises `PortError` of category `timeout` if the time runs out first.

        Any `PortError` from `run` gets the result of `so_far`, the reply so far, as its `partial`.
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
                f"{self._where}: the agent did not finish within {seconds:g} s ({done.usage.calls} turns); raise "
                f"{setting}, which counts only requests and tool calls",
                category=ErrorCategory.TIMEOUT,
                partial=done,
            ) from None
        except PortError as error:
            error.partial = so_far()
            raise
        finally:
            self._clock = None  # a request may be cancelled later

    def _exclude_waiting(self, guard: TurnGuard) -> TurnGuard:
        async def guard_without_clock(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
            self._stop()
            try:
                return await guard(lambda: self._with_clock(ask), trace)
            finally:
                self._resume()

        return guard_without_clock

    async def _with_clock(self, ask: Callable[[], Awaitable[Turn]]) -> Turn:
        self._resume()
        try:
            return await ask()
        finally:
            self._stop()

    def _stop(self) -> None:
        clock = self._clock
        if clock is not None and not clock.expired() and (end := clock.when()) is not None:
            self._left = end - asyncio.get_running_loop().time()
            clock.reschedule(None)

    def _resume(self) -> None:
        clock = self._clock
        if clock is not None and not clock.expired() and self._left is not None:
            clock.reschedule(asyncio.get_running_loop().time() + self._left)
            self._left = None
