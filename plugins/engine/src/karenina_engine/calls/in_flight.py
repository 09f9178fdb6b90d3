"""Calls in flight, which identical calls join."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_engine.calls.call import CallOutcome


@dataclass(slots=True)
class CallInFlight:
    """A call that is being made, for which identical calls wait. `outcome` stays None if it was cancelled."""

    ended: asyncio.Event | None = None  # made by the first call that waits; most calls have none
    outcome: CallOutcome | None = None

    async def wait(self) -> None:
        """Return when the call has ended."""
        if self.ended is None:
            self.ended = asyncio.Event()
        await self.ended.wait()

    def end(self) -> None:
        """Wake the calls that wait."""
        if self.ended is not None:
            self.ended.set()
