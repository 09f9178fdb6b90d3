"""The queue of calls that wait for a server's slots."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class SlotQueue:
    """A server's free slots, which are given to calls in the order in which they ask.

    Several event loops can use the queue at once. A waiting call has not been sent, so its time limit has not started.
    """

    def __init__(self, slots: int) -> None:
        self._lock = threading.Lock()
        self._free = list(range(slots))
        self._waiting: deque[Future[int]] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[int]:
        """Wait for a slot and yield its number. The slot is free again at the end of the block."""
        slot = await self._take()
        try:
            yield slot
        finally:
            self._give_back(slot)

    async def _take(self) -> int:
        """Wait for a slot and return its number. Calls get slots in the order of asking, also between threads."""
        with self._lock:
            if self._free:
                return self._free.pop(0)
            turn: Future[int] = Future()
            self._waiting.append(turn)
        try:
            return await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel():  # it was this call's turn already
                self._give_back(turn.result())
            raise

    def _give_back(self, slot: int) -> None:
        """Give a slot to the call that has waited longest, or free it if no call is waiting."""
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(slot)
                    return
            self._free.append(slot)
