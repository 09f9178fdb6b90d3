"""The one retry layer: which failed calls are made again, and after how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from karenina_core.ports import CallNotes, ErrorCategory, PortError

T = TypeVar("T")

BUDGETS: Final[Mapping[ErrorCategory, int]] = {
    ErrorCategory.CONNECTION: 2,
    ErrorCategory.TIMEOUT: 1,
    ErrorCategory.RATE_LIMIT: 8,
    ErrorCategory.SERVER: 4,
    ErrorCategory.PERMANENT: 0,
}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call may be made again for each category of error, and the waiting times in seconds.

    The n-th wait is drawn between half and all of `base * 2**n`, at most `cap`; where the server named a time
    (Retry-After) the wait is at least that long, but never above `patience`.
    """

    budgets: Mapping[ErrorCategory, int] = field(default_factory=lambda: BUDGETS)
    base: float = 0.5
    cap: float = 30.0
    patience: float = 120.0

    def wait(self, attempt: int, error: PortError, draw: Callable[[], float] = random.random) -> float:
        """Seconds to wait after the `attempt`-th failure (from 0)."""
        full: float = min(self.cap, self.base * 2**attempt)
        own = full / 2 + full / 2 * draw()
        waiting = max(own, error.retry_after or 0.0)
        return min(waiting, self.patience)

    async def call(self, call: Callable[[], Awaitable[T]], notes: CallNotes) -> T:
        """The result of `call`, made again as the budgets allow; `notes` say how often. Raises the last `PortError`."""
        spent: dict[ErrorCategory, int] = {}
        attempt = 0
        while True:
            try:
                return await call()
            except PortError as error:
                if not error.retriable or spent.get(error.category, 0) >= self.budgets.get(error.category, 0):
                    raise
                spent[error.category] = spent.get(error.category, 0) + 1
                notes.retries[error.category.value] = spent[error.category]
                waiting = self.wait(attempt, error)
                await asyncio.sleep(waiting)
                notes.waited += waiting
                attempt += 1
