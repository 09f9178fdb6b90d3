"""Telling overload apart from a server that fails at random.

If a server refuses a tenth of all calls at random, a limiter that treats every refusal as overload ends up making one
call at a time. The share of refused calls tells the two apart: with fewer calls in flight, it drops if the server is
overloaded and stays the same otherwise. So after each reduction, we measure the share at the lower level. If it has not
dropped, refusals no longer reduce the limit. This finding expires after a number of calls, and the next refusal starts
another measurement.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from math import sqrt
from typing import Final

_ENOUGH: Final = 16
"""The minimum number of calls at the lower level for an estimate."""
_MEMORY: Final = 64.0
"""The maximum number of past calls that are used to compute a share."""
_LARGEST: Final = 0.5
"""A share larger than this means overload, at any level."""
_FIRST: Final = 3
"""If the first calls after a reduction are all refused, this number of refusals leads to another reduction."""
_STREAK, _AMONG = 8, 10
"""`_STREAK` refusals among `_AMONG` consecutive calls mean overload."""
_CHANCE: Final = 3.0
"""The number of standard errors by which two shares may differ by chance."""
_VALID: Final = 32.0
"""The number of calls for which a finding remains valid, per measured call."""


class RefusalCause(Enum):
    """The cause of a refusal: too many calls, a constant share of refusals, or not known yet."""

    OVERLOAD = auto()
    CONSTANT = auto()
    UNDECIDED = auto()


@dataclass(slots=True)
class _Share:
    """The number of recent calls at one concurrency level, and the number of them that were refused."""

    calls: float = 0.0
    refused: float = 0.0

    def add_call(self) -> None:
        """Count a call. After `_MEMORY` calls, older calls and refusals lose weight."""
        self.calls += 1
        if self.calls > _MEMORY:
            self.calls *= 0.75
            self.refused *= 0.75

    def add_refusal(self) -> None:
        """Count the refusal of a call that has already been counted."""
        self.refused += 1
        self.calls = max(self.calls, self.refused)

    def exceeds(self, other: _Share) -> bool:
        """Return whether this share is significantly larger than `other`. Neither share may be empty."""
        pooled = (self.refused + other.refused) / (self.calls + other.calls)
        error = sqrt(pooled * (1 - pooled) * (1 / self.calls + 1 / other.calls))
        return self.refused / self.calls > other.refused / other.calls + _CHANCE * error


class OverloadDetector:
    """Compares the shares of refused calls at two levels of concurrency.

    Call `add_call` for each call that starts, and `judge` for each refusal of a call that started after the last
    reduction. If `judge` returns `OVERLOAD`, the limiter lowers its limit.
    """

    __slots__ = ("_above", "_below", "_calls", "_certain", "_expires", "_last", "_level", "_reduced_at", "_refused")

    def __init__(self) -> None:
        self._above = _Share()  # at the level of the last reduction and above; at every level if there was no reduction
        self._below = _Share()
        self._level = 0  # of the last refusal for overload; 0 if the share was found to be constant since
        self._certain = False  # whether that refusal was certainly for overload
        self._calls = 0
        self._expires = 0.0  # the number of calls after which the finding of a constant share expires
        self._reduced_at = 0  # the number of calls at the last reduction
        self._refused = 0  # refusals since the last reduction
        self._last: deque[int] = deque(maxlen=_STREAK)

    @property
    def measuring(self) -> bool:
        """Whether there are refusals at the lower level, but too few calls for an estimate."""
        return self._level > 0 and self._below.refused > 0 and self._below.calls < _ENOUGH

    def add_call(self, level: int) -> None:
        """Count a call that is starting. `level` is the number of calls in flight, including this one."""
        self._calls += 1
        (self._below if level < self._level else self._above).add_call()

    def judge(self, number: int, level: int) -> RefusalCause:
        """Count a refusal, and return its likely cause. `number` is the number of the refused call, and `level` is the
        number of calls in flight.
        """
        self._refused += 1
        self._last.append(number)
        below = level < self._level
        (self._below if below else self._above).add_refusal()
        if self._in_a_row(number):
            return self._overload(level, certain=True)
        return self._classify_below(level) if below else self._classify_above(level)

    def _in_a_row(self, number: int) -> bool:
        """Return whether so many of the most recent calls were refused that the server must be overloaded. `number` is
        the number of the call that was just refused.
        """
        if self._refused == _FIRST and number == self._reduced_at + _FIRST:
            return True
        return len(self._last) == _STREAK and max(self._last) - min(self._last) < _AMONG

    def _classify_below(self, level: int) -> RefusalCause:
        """Return the cause of a refusal below the level of the last reduction: undecided, as long as there are few
        calls or if that reduction was certain; an overload, which starts the measurement again; or a constant share of
        refusals, which is recorded as a finding.
        """
        if self._below.calls < _ENOUGH:
            return RefusalCause.UNDECIDED
        if self._below.refused > _LARGEST * self._below.calls:
            return self._overload(level, certain=True)
        return RefusalCause.UNDECIDED if self._certain else self._constant()

    def _classify_above(self, level: int) -> RefusalCause:
        """Return the cause of a refusal at or above the level of the last reduction, and record it. Without a valid
        measurement, the cause is assumed to be overload.
        """
        measured = self._below.calls >= _ENOUGH and self._below.refused > 0
        expired = self._level == 0 and self._calls > self._expires
        if not measured or expired:
            return self._overload(level, certain=False)
        if self._above.exceeds(self._below):
            return self._overload(level, certain=True, keep=True)
        return self._constant() if self._level else RefusalCause.CONSTANT

    def _constant(self) -> RefusalCause:
        """Record that the share of refusals is constant, and return `CONSTANT`. The finding expires after a number of
        calls.
        """
        self._level = 0
        self._expires = self._calls + _VALID * self._below.calls
        self._above = _Share()
        return RefusalCause.CONSTANT

    def _overload(self, level: int, *, certain: bool, keep: bool = False) -> RefusalCause:
        """Record an overload at `level`, and return `OVERLOAD`. This starts a new measurement below `level`. Set `keep`
        to keep the calls already counted there, and `certain` if the refusal can have no other cause.
        """
        self._level = level
        self._certain = certain
        self._reduced_at = self._calls
        self._refused = 0
        self._last.clear()
        self._above = _Share()
        if not keep:
            self._below = _Share()
        return RefusalCause.OVERLOAD
