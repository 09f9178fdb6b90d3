"""A clock that advances only when everything waits for it: a busy machine changes nothing, and no test really waits."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_GRACE: Final = 0.02
"""Real seconds in which something may still arrive before the clock advances."""


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop for tests of time limits, in which sleeping for an hour takes no time.

    Its clock does not advance while any coroutine can run, and jumps to the next scheduled moment otherwise. So a
    timeout occurs only if something would wait longer than that, never because the machine is slow. It supports what
    happens in this loop, including servers on loopback: it does not wait for threads or other processes.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the seconds since the loop was created, on its own clock."""
        return self._jumping.now


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, as `asyncio.run` does, in a loop with a clock of its own."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(work)


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the clock at once if nothing arrives before the timeout."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout and min(timeout, _GRACE))
        if timeout and not ready:
            self.now += timeout
        return ready
