"""A clock that advances only when everything is waiting for it, so that tests do not wait or depend on machine load."""

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

    Its clock stands still while any coroutine can run and otherwise jumps to the next scheduled time. This means that a
    timeout occurs only if something would really wait that long, never because the machine is slow. This works for
    everything that runs in the loop, including servers on the loopback interface. It does not work for threads or other
    processes, because the clock does not wait for them.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the seconds since the loop was created, on its own clock."""
        return self._jumping.now


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a `VirtualTime` loop, as `asyncio.run` would, and return its result."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(work)


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that immediately advances the clock by the timeout if no I/O arrives."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the events that are ready. If there are none, advance the clock by `timeout`."""
        ready = super().select(timeout and min(timeout, _GRACE))
        if timeout and not ready:
            self.now += timeout
        return ready
