"""Time that passes only where everything waits for it: a busy machine changes nothing, and no test waits itself."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_GRACE: Final = 0.02
"""Seconds, real ones, in which something may still come before time goes on."""


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop for tests of limits of time, in which sleeping for an hour takes no time.

    Its clock stands still while any coroutine has something to do, and goes on to the next moment for which one waits
    when none has. So a time-out comes where something would wait longer than that, never because the machine is slow.
    It is for what happens in this loop, servers on loopback included: for a thread or another process it does not wait.
    """

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the loop was made, as its own clock counts them."""
        return self._jumping.now


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """What `asyncio.run` would give, in a loop with a clock of its own."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(work)


class _Jumping(selectors.DefaultSelector):
    """Where nothing comes but in some seconds, it is those seconds later at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout and min(timeout, _GRACE))
        if timeout and not ready:
            self.now += timeout
        return ready
