"""A clock that only advances when everything is waiting, so that tests neither wait nor depend on machine load."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_GRACE: Final = 0.02
"""The number of real seconds to wait for I/O before the clock advances."""


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop for testing time limits, in which sleeping for an hour takes no time.

    Its clock stands still while a coroutine can run, and otherwise jumps to the next scheduled time. A timeout
    therefore means that something would really wait that long, never that the machine is slow. This works for
    everything in the loop, including servers on the loopback interface, but not for threads or other processes.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the seconds since the loop was created, by its own clock."""
        return self._jumping.now


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a `VirtualTime` loop, like `asyncio.run`, and return its result."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(work)


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the clock by the timeout if there is no I/O."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready events. If there are none, advance the clock by `timeout`."""
        ready = super().select(timeout and min(timeout, _GRACE))
        if timeout and not ready:
            self.now += timeout
        return ready
