"""The retry policy for calls. Nothing else retries calls."""

from __future__ import annotations

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
    ErrorCategory.EMPTY: 1,
    ErrorCategory.INCOMPLETE: 5,
    ErrorCategory.PERMANENT: 0,
}
_AT_ONCE: Final = (ErrorCategory.EMPTY, ErrorCategory.INCOMPLETE)
"""Errors that are retried without a delay, because the server did reply."""

_RATE_LIMIT_CURE: Final = (
    "wait and run again, allow fewer concurrent calls (max_concurrency), or raise retry_rate_limit and retry_patience"
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of retries for each category of error, and the delays between them.

    The delay before the n-th retry is a random number of seconds between half and all of `base * 2**n`, but at most
    `cap`. It is never shorter than the delay that the server asks for. A call fails if its
    delays would add up to more than `patience` seconds, or if its server has refused all calls for that long.
    """

    max_retries: Mapping[ErrorCategory, int] = field(default_factory=lambda: DEFAULT_MAX_RETRIES)
    base: float = 0.5
    cap: float = 30.0
    patience: float = 300.0

    def _draw_delay(self, error: PortError, notes: CallNotes) -> float | None:
        """Return a random delay before the next retry, at least as long as the server asked for. Returns None if the
        error is permanent, no retries are left, or the delays of the call would add up to more than `patience`.
        """
        if not error.retriable or notes.retries.get(error.category, 0) >= self.max_retries.get(error.category, 0):
            return None
        attempt = sum(notes.retries.values())
        full: float = min(self.cap, self.base * 2**attempt)
        drawn = 0.0 if error.category in _AT_ONCE else full / 2 + full / 2 * random.random()  # noqa: S311
        delay = max(drawn, error.retry_after or 0.0)
        return delay if notes.waited + delay <= self.patience else None

    def next_delay(self, error: PortError, notes: CallNotes, refusing: float = 0.0) -> float:
        """Return the delay before the next retry, without waiting, and count the retry in `notes`. If the call should
        not be retried, raises `error`, with an explanation in its `attempts`. `refusing` is the number of seconds for
        which the server has refused all calls.
        """
        delay = self._draw_delay(error, notes) if refusing <= self.patience else None
        if delay is None:
            error.attempts = self._why_not_again(error, notes, refusing)
            raise error
        notes.retries[error.category.value] = notes.retries.get(error.category.value, 0) + 1
        notes.waited += delay
        return delay

    def _why_not_again(self, error: PortError, notes: CallNotes, refusing: float) -> str:
        """Explain why a call is not retried again. The text goes at the end of an error message, and is empty if there
        is nothing to add. `refusing` is the number of seconds for which the server has refused all calls.
        """
        parts = []
        tries = 1 + sum(notes.retries.values())
        if tries > 1:
            parts.append(f"{tries} attempts, with {notes.waited:.1f} s of waiting in all")
        if error.retriable and refusing > self.patience:
            parts.append(f"the server has refused all calls for longer than retry_patience ({self.patience:g} s)")
        elif error.retriable and (wait := error.retry_after or 0.0) > self.patience - notes.waited:
            shown, still = f"{wait:,.0f}" if wait >= 10 else f"{wait:.2g}", "still " if notes.waited else ""
            parts.append(
                f"the server requested a wait of {shown} s, which is longer than retry_patience ({self.patience:g} s) "
                f"{still}allows"
            )
        if error.category is ErrorCategory.RATE_LIMIT:
            parts.append(_RATE_LIMIT_CURE)
        return "".join(f"; {part}" for part in parts)

    async def call(self, call: Callable[[], Awaitable[T]], notes: CallNotes) -> T:
        """Call a function and return its result, with retries as the policy allows. Retries are counted in `notes`. If
        every attempt fails, raises the last attempt's `PortError`.
        """
        import asyncio  # the policy is part of the settings, which commands load without making calls

        while True:
            try:
                return await call()
            except PortError as error:
                delay = self.next_delay(error, notes)
            await asyncio.sleep(delay)
