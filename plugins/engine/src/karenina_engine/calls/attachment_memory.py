"""The limit on attachments in memory: contents are read when they are sent, and only a few calls at once hold them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

MOST: Final = 64_000_000
"""The maximum size, in base64, of the attachments that are sent at the same time. A larger call is sent alone."""


@dataclass(slots=True)
class AttachmentMemory:
    """The memory for the attachments of calls in flight, which calls get in the order in which they ask for it."""

    most: int = MOST
    held: int = 0
    _waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Wait until there is memory for `size` bytes and for the calls that asked earlier, and hold it inside the
        `async with` block.
        """
        if self._waiting or not self._fits(size):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._give_back(size)
                raise
        else:
            self.held += size
        try:
            yield
        finally:
            self._give_back(size)

    def _fits(self, size: int) -> bool:
        return self.held == 0 or self.held + size <= self.most

    def _give_back(self, size: int) -> None:
        """Release the memory of a call, and admit the first waiting calls for which there is enough now."""
        self.held -= size
        while self._waiting and (self._waiting[0][1].done() or self._fits(self._waiting[0][0])):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.held += size
                turn.set_result(None)
