"""The progress of a run as text: counts, rate, remaining time, cost and calls in flight."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from karenina_core.data.outcome import Outcome
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_engine.calls.concurrency_limits import ConcurrencyLimits

_MOST_LINES: Final = 20
_LONGEST_SILENCE: Final = 30.0  # seconds between two lines, if items finish
_LOOKED_BACK: Final = 30.0  # seconds over which the rate is averaged
_NOT_JUDGED: Final = "not judged"


class RunProgress:
    """The progress of a run with `total` items: counts by outcome, rate and remaining time.

    `limits` contains the concurrency limits of the run's models. `cost` is a function that returns the cost so far as
    text, or None if costs are not counted. `clock` returns the time in seconds. Items that an earlier run stored are
    not included in the rate.
    """

    def __init__(
        self,
        total: int,
        *,
        limits: ConcurrencyLimits | None = None,
        cost: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self.total = total
        self._limits = limits
        self._cost = cost
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._began = self._said = clock()
        self._marks = [(self._began, 0)]
        self._new = 0
        self._since = datetime.now(UTC).isoformat(timespec="microseconds")

    def add(self, outcome: Outcome, ended: str = "") -> None:
        """Count an item. `ended` is the item's `metadata.timestamp`, and defaults to the current time; if it precedes
        this run, the item does not count for the rate.
        """
        self.done += 1
        self._new += not ended or ended >= self._since
        self._counts[_kind(outcome)] += 1
        if not outcome.judged:
            self._errors[outcome.value] += 1

    @property
    def stored(self) -> int:
        """The number of finished items that an earlier run stored."""
        return self.done - self._new

    def next_line(self) -> str | None:
        """Return a progress line if one is due after the last item, or None if not: at most `_MOST_LINES` lines at
        equal intervals, and one after `_LONGEST_SILENCE` seconds without a line. The time of the line is recorded.
        """
        due = self._lines(self.done) > self._lines(self.done - 1) or self._clock() - self._said >= _LONGEST_SILENCE
        if not due:
            return None
        self._said = self._clock()
        more = self.speed() + self.calls()
        return f"{self.done}/{self.total} {self.counts()}" + "".join(f"; {part}" for part in more)

    def counts(self) -> str:
        """Return the number of items by outcome as text, with the number of errors by kind."""
        parts = [
            f"{count} {kind}" + (f" ({self._kinds_of_errors()})" if kind == _NOT_JUDGED else "")
            for kind, count in sorted(self._counts.items())
        ]
        return ", ".join(parts)

    def speed(self) -> list[str]:
        """Return texts with the rate, the remaining time and the cost. Those that are unknown are omitted."""
        parts = []
        rate = self._rate()
        if rate:
            number, unit = (rate, "s") if rate >= 1 else (60 * rate, "min") if 60 * rate >= 1 else (3600 * rate, "h")
            parts.append(f"{number:.1f} items/{unit}")
            if self.done < self.total:
                parts.append(f"{_duration((self.total - self.done) / rate)} left")
        cost = self._cost()
        return [*parts, cost] if cost is not None else parts

    def calls(self) -> list[str]:
        """Return a text for each active server: its calls in flight, its limit, and the calls waiting for a retry."""
        texts = []
        for server in self._limits.servers if self._limits is not None else ():
            if server.held or server.queued or server.retrying:
                waiting = f", {server.retrying} waiting for a retry" if server.retrying else ""
                texts.append(
                    f"{clean(server.name)} {quantity(server.held, 'open call')} (limit {int(server.limit)}){waiting}"
                )
        return texts

    def _lines(self, done: int) -> int:
        """Return the number of lines due after `done` items, not including the line for the last item."""
        return done * min(_MOST_LINES, self.total) // self.total

    def _rate(self) -> float:
        """Return the recent rate in items per second, or 0 if it is not known yet."""
        now = self._clock()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self._new))
            while len(self._marks) > 2 and now - self._marks[1][0] > _LOOKED_BACK:
                del self._marks[0]
        then, done = self._marks[0]
        return (self._new - done) / (now - then) if now > then else 0.0

    def _kinds_of_errors(self) -> str:
        """Return the number of unjudged items by kind of error, as text."""
        return ", ".join(f"{count} {kind}" for kind, count in sorted(self._errors.items()))


def _kind(outcome: Outcome) -> str:
    """Return the kind under which an outcome is counted: "correct", "scored", "not correct" or "not judged"."""
    if outcome.passes:
        return outcome.value
    return "not correct" if outcome.judged else _NOT_JUDGED


def _duration(seconds: float) -> str:
    """Return a duration as text: in seconds, in minutes, or in hours and minutes."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
