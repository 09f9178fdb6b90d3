"""The progress of a run on the error output: a bar on a terminal, or occasional lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from karenina_cli.screen import clean
from karenina_core.data.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from rich.console import Console, RenderableType

    from karenina_core.data.result import VerificationResult
    from karenina_engine.calls.concurrency_limits import ConcurrencyLimits

_MOST_LINES = 20
_LONGEST_SILENCE = 30.0  # seconds between two lines, if items finish
_LOOKED_BACK = 30.0  # seconds over which the rate is taken
_REFRESHED = 4  # times a second


class RunProgress:
    """A counter of finished items, which shows them inside the `with` block. `quiet` only counts.

    For each server it shows the calls in flight, their limit, and the calls that wait for a retry. `cost` returns the
    cost so far as text, or None if it is not counted. `clock` returns seconds.
    """

    def __init__(
        self,
        console: Console,
        total: int,
        *,
        limits: ConcurrencyLimits | None = None,
        quiet: bool = False,
        cost: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self._console = console
        self._total = total
        self._limits = limits
        self._quiet = quiet
        self._cost = cost
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._began = self._said = clock()
        self._marks = [(self._began, 0)]
        self._bar: _Bar | None = None
        if console.is_terminal and not quiet:
            self._bar = _Bar(self, console)
            self._task = self._bar.add_task("running", total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def finished(self, result: VerificationResult) -> None:
        """SpendCounts one result."""
        self.done += 1
        self._counts[_kind(result.outcome)] += 1
        if not result.outcome.judged:
            self._errors[result.outcome.value] += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1)
        elif not self._quiet and self._is_time():
            self._said = self._clock()
            more = self.speed() + self.calls()
            text = f"{self.done}/{self._total} {self.counts()}" + "".join(f"; {one}" for one in more)
            self._console.print(Text(text), soft_wrap=True)

    def counts(self) -> str:
        """Return the numbers of items by outcome, with errors by their kind."""
        parts = [
            f"{count} {kind}" + (f" ({self._kinds_of_errors()})" if kind == _NOT_JUDGED else "")
            for kind, count in sorted(self._counts.items())
        ]
        return ", ".join(parts)

    def speed(self) -> list[str]:
        """Return the rate, the time left at this rate, and the cost, as far as they are known."""
        found = []
        rate = self._rate()
        if rate:
            found.append(f"{rate:.1f} items/s" if rate >= 1 else f"{60 * rate:.1f} items/min")
            if self.done < self._total:
                found.append(f"{_duration((self._total - self.done) / rate)} left")
        cost = self._cost()
        return [*found, cost] if cost is not None else found

    def calls(self) -> list[str]:
        """Return, for each server, the calls in flight of its limit, and the calls that wait for a retry."""
        found = []
        for server in self._limits.servers if self._limits is not None else ():
            if server.held or server.queued or server.retrying:
                waiting = f", {server.retrying} waiting for a retry" if server.retrying else ""
                found.append(f"{clean(server.name)} {server.held} of {int(server.limit)} calls{waiting}")
        return found

    def _is_time(self) -> bool:
        return self._lines(self.done) > self._lines(self.done - 1) or self._clock() - self._said >= _LONGEST_SILENCE

    def _lines(self, done: int) -> int:
        """Return the number of lines after `done` items; the last item always adds one."""
        return done * min(_MOST_LINES, self._total) // self._total

    def _rate(self) -> float:
        """Return the recent number of items per second."""
        now = self._clock()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self.done))
            while len(self._marks) > 2 and now - self._marks[1][0] > _LOOKED_BACK:
                del self._marks[0]
        then, done = self._marks[0]
        return (self.done - done) / (now - then) if now > then else 0.0

    def _kinds_of_errors(self) -> str:
        return ", ".join(f"{count} {kind}" for kind, count in sorted(self._errors.items()))


class _Bar(Progress):
    """The bar, with the counts and the calls in flight below it."""

    def __init__(self, progress: RunProgress, console: Console) -> None:
        self._progress = progress
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            refresh_per_second=_REFRESHED,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar and two lines of text."""
        shown = self._progress
        lines = [" · ".join(part for part in (shown.counts(), *shown.speed()) if part), " · ".join(shown.calls())]
        yield Group(
            *super().get_renderables(),
            *(Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines if line),
        )


_NOT_JUDGED = "not judged"


def _kind(outcome: Outcome) -> str:
    if outcome in (Outcome.CORRECT, Outcome.SCORED):
        return outcome.value
    return "not correct" if outcome.judged else _NOT_JUDGED


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
