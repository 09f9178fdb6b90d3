"""Overload detection: does a server refuse calls because too many are in flight, or does it refuse some at any load?

A limiter that treats each refusal as overload, as TCP treats each loss as congestion, ends up making one call at a time
if a server refuses a tenth of all calls at random. The share of refused calls distinguishes the two causes: overload
vanishes when fewer calls are made concurrently, whereas a constant share does not. Therefore, after each reduction, the
share is measured at the lower level (number of calls in flight). If the share has not fallen, the refusals are no
reason to reduce the number of calls in flight. This finding expires: after a certain number of calls, the next refusal
causes another reduction and a new measurement.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from math import sqrt
from typing import Final

_ENOUGH: Final = 16
"""The minimum number of calls at the lower level from which a share is estimated."""
_MEMORY: Final = 64.0
"""The maximum number of past calls that a share covers."""
_LARGEST: Final = 0.5
"""A share above this is overload, at any level."""
_FIRST: Final = 3
"""If this many calls directly after a reduction are all refused, there are still too many calls in flight."""
_STREAK, _AMONG = 8, 10
"""This many refusals among this many consecutive calls are overload."""
_CHANCE: Final = 3.0
"""The number of standard errors by which shares may differ by chance."""
_VALID: Final = 32.0
"""The number of calls for which a finding is valid, for each call that was measured."""


class RefusalCause(Enum):
    """The cause of a refusal.

    Either too many calls were in flight, the server refuses a share of calls regardless of their number, or the cause
    is not yet known.
    """

    OVERLOAD = auto()
    CONSTANT = auto()
    UNDECIDED = auto()


@dataclass(slots=True)
class _Share:
    """The recent calls at one concurrency level, and how many of them were refused."""

    calls: float = 0.0
    refused: float = 0.0

    def add_call(self) -> None:
        """Count a call. After `_MEMORY` calls, older calls and refusals lose weight."""
        self.calls += 1
        if self.calls > _MEMORY:
            self.calls *= 0.75
            self.refused *= 0.75

    def add_refusal(self) -> None:
        """Count the refusal of a call that has already been counted.

        If `refused` would exceed `calls`, `calls` is raised to it.
        """
        self.refused += 1
        self.calls = max(self.calls, self.refused)

    def exceeds(self, other: _Share) -> bool:
        """Return whether this share exceeds `other` by more than chance explains. Both must contain calls."""
        pooled = (self.refused + other.refused) / (self.calls + other.calls)
        error = sqrt(pooled * (1 - pooled) * (1 / self.calls + 1 / other.calls))
        return self.refused / self.calls > other.refused / other.calls + _CHANCE * error


class OverloadDetector:
    """Compares the share of refused calls at two concurrency levels while there are refusals.

    `add_call` counts each call that starts, and `judge` counts each refusal of a call that started after the last
    reduction. The limiter lowers its limit after `OVERLOAD`; lower levels are then compared with the level of that
    refusal.
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
        """Whether calls were refused at the lower level, but too few calls were made there to estimate the share."""
        return self._level > 0 and self._below.refused > 0 and self._below.calls < _ENOUGH

    def add_call(self, level: int) -> None:
        """Count a call that is starting, where `level` is the number of calls in flight, including this one."""
        self._calls += 1
        (self._below if level < self._level else self._above).add_call()

    def judge(self, number: int, level: int) -> RefusalCause:
        """Count the refusal of call `number` at a time when `level` calls were in flight, and return its cause."""
        self._refused += 1
        self._last.append(number)
        below = level < self._level
        (self._below if below else self._above).add_refusal()
        if self._in_a_row(number):
            return self._overload(level, certain=True)
        return self._classify_below(level) if below else self._classify_above(level)

    def _in_a_row(self, number: int) -> bool:
        """Return whether so many of the latest calls were refused that the cause is certainly overload.

        `number` is the number of the call that was just refused.
        """
        if self._refused == _FIRST and number == self._reduced_at + _FIRST:
            return True
        return len(self._last) == _STREAK and max(self._last) - min(self._last) < _AMONG

    def _classify_below(self, level: int) -> RefusalCause:
        """Return the cause of a refusal below the level of the last reduction.

        If the cause is overload, the measurement starts again; if it is a constant share, the finding is recorded.
        """
        if self._below.calls < _ENOUGH:
            return RefusalCause.UNDECIDED
        if self._below.refused > _LARGEST * self._below.calls:
            return self._overload(level, certain=True)
        return RefusalCause.UNDECIDED if self._certain else self._constant()

    def _classify_above(self, level: int) -> RefusalCause:
        """Return the cause of a refusal at or above the level of the last reduction.

        Without a valid measurement below that level, the refusal is taken to mean overload.
        """
        measured = self._below.calls >= _ENOUGH and self._below.refused > 0
        expired = self._level == 0 and self._calls > self._expires
        if not measured or expired:
            return self._overload(level, certain=False)
        if self._above.exceeds(self._below):
            return self._overload(level, certain=True, keep=True)
        return self._constant() if self._level else RefusalCause.CONSTANT

    def _constant(self) -> RefusalCause:
        """Record that the share of refusals is constant until this finding expires, and return `CONSTANT`."""
        self._level = 0
        self._expires = self._calls + _VALID * self._below.calls
        self._above = _Share()
        return RefusalCause.CONSTANT

    def _overload(self, level: int, *, certain: bool, keep: bool = False) -> RefusalCause:
        """Record a refusal due to overload at `level`, and return `OVERLOAD`.

        A new measurement starts below `level`. With `keep`, the counts already measured there are kept. `certain` means
        that no other cause is possible.
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
