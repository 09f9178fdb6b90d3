"""The one retry layer: which failed calls are made again, and after how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from karenina_core.models.ports import CallNotes, ErrorCategory, PortError

T = TypeVar("T")

DEFAULT_MAX_RETRIES: Final[Mapping[ErrorCategory, int]] = {
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
    (Retry-After) the wait is at least that long. All waits of a call together are at most `patience`: a call that
    would have to wait longer fails. So does every call to a server that has refused all calls for that long.
    """

    max_retries: Mapping[ErrorCategory, int] = field(default_factory=lambda: DEFAULT_MAX_RETRIES)
    base: float = 0.5
    cap: float = 30.0
    patience: float = 300.0

    def again(self, error: PortError, notes: CallNotes, draw: Callable[[], float] = random.random) -> float | None:
        """Seconds after which a call that failed with `error` is made again, or None where it has failed for good.

        `notes` say what it took so far.
        """
        if not error.retriable or notes.retries.get(error.category, 0) >= self.max_retries.get(error.category, 0):
            return None
        attempt = sum(notes.retries.values())
        full: float = min(self.cap, self.base * 2**attempt)
        waiting = max(full / 2 + full / 2 * draw(), error.retry_after or 0.0)
        return waiting if notes.waited + waiting <= self.patience else None

    def next_delay(self, error: PortError, notes: CallNotes, refusing: float = 0.0) -> float:
        """Seconds to wait before the call is made again, as `notes` now say. Raises `error` if it failed for good.

        `refusing` are the seconds for which the server has refused all calls.
        """
        waiting = self.again(error, notes) if refusing <= self.patience else None
        if waiting is None:
            error.args = (f"{error}{self._why_not_again(error, notes, refusing)}",)
            raise error
        notes.retries[error.category.value] = notes.retries.get(error.category.value, 0) + 1
        notes.waited += waiting
        return waiting

    def _why_not_again(self, error: PortError, notes: CallNotes, refusing: float) -> str:
        """Return what is added to the message of a call that is not made again."""
        parts = []
        tries = 1 + sum(notes.retries.values())
        if tries > 1:
            parts.append(f"it was tried {tries} times, with {notes.waited:.1f} s between them")
        if error.retriable and refusing > self.patience:
            parts.append(f"the server has refused all calls for longer than retry_patience ({self.patience:g} s)")
        elif error.retriable and (error.retry_after or 0.0) > self.patience - notes.waited:
            parts.append(
                f"the server asks for a wait of {error.retry_after:,.0f} s, which is longer than retry_patience "
                f"({self.patience:g} s) allows"
            )
        return "".join(f"; {part}" for part in parts)

    async def call(self, call: Callable[[], Awaitable[T]], notes: CallNotes) -> T:
        """The result of `call`, made again as the budgets allow; `notes` say how often. Raises the last `PortError`."""
        while True:
            try:
                return await call()
            except PortError as error:
                waiting = self.next_delay(error, notes)
            await asyncio.sleep(waiting)
