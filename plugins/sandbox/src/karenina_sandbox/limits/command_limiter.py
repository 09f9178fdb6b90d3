"""The limit on the number of commands that run at the same time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary


class CommandLimiter:
    """A limit on concurrent commands. A command that ran out of time among others may run again alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running = 0
        self._alone = False
        self._waiting_alone = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def slot(self, *, alone: bool = False) -> AsyncIterator[None]:
        """Wait until a command may run, and count it as running within the block. With `alone`, no other may run."""
        async with self._changed:
            self._waiting_alone += alone
            try:
                await self._changed.wait_for(lambda: self._is_free(alone))
            finally:
                self._waiting_alone -= alone
            self._running += 1
            self._alone = alone
        try:
            yield
        finally:
            async with self._changed:
                self._running -= 1
                self._alone = False
                self._changed.notify_all()

    def _is_free(self, alone: bool) -> bool:
        if alone:
            return self._running == 0
        return not self._alone and not self._waiting_alone and self._running < self._most


_LIMITERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, CommandLimiter]] = WeakKeyDictionary()


def command_limiter(most: int | None) -> CommandLimiter:
    """Return the limiter of the running event loop. `most` defaults to the number of cores."""
    loop = asyncio.get_running_loop()
    return _LIMITERS.setdefault(loop, CommandLimiter(most or os.cpu_count() or 1))
