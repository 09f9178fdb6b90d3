"""The progress of a run as text: counts, rate, time left, cost, and the calls in flight; and its display.

A display is an observer of a run that a Python program or a notebook starts. A terminal has a bar of the library rich,
a notebook one of tqdm; without them, lines are printed now and then.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from karenina_core.data.outcome import Outcome
from karenina_core.hooks import hookimpl
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
    from karenina_engine.progress.observers import RunFinished, RunStarted

_MOST_LINES: Final = 20
_LONGEST_SILENCE: Final = 30.0  # seconds between two lines, if items finish
_LOOKED_BACK: Final = 30.0  # seconds over which the rate is taken
_NOT_JUDGED: Final = "not judged"


class RunProgress:
    """The number of finished items of `total`, and what it says about the run.

    `limits` are those of the run's models, for the calls in flight. `cost` returns the cost so far as text, or None if
    it is not counted. `clock` returns seconds.
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

    def add(self, outcome: Outcome) -> None:
        """Count one item."""
        self.done += 1
        self._counts[_kind(outcome)] += 1
        if not outcome.judged:
            self._errors[outcome.value] += 1

    def next_line(self) -> str | None:
        """Return a line for a file, after an item was counted; None if the last one is recent enough."""
        due = self._lines(self.done) > self._lines(self.done - 1) or self._clock() - self._said >= _LONGEST_SILENCE
        if not due:
            return None
        self._said = self._clock()
        more = self.speed() + self.calls()
        return f"{self.done}/{self.total} {self.counts()}" + "".join(f"; {one}" for one in more)

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
            if self.done < self.total:
                found.append(f"{_duration((self.total - self.done) / rate)} left")
        cost = self._cost()
        return [*found, cost] if cost is not None else found

    def calls(self) -> list[str]:
        """Return, for each server, the calls in flight of its limit, and the calls that wait for a retry."""
        found = []
        for server in self._limits.servers if self._limits is not None else ():
            if server.held or server.queued or server.retrying:
                waiting = f", {server.retrying} waiting for a retry" if server.retrying else ""
                found.append(
                    f"{clean(server.name)} {quantity(server.held, 'open call')} (limit {int(server.limit)}){waiting}"
                )
        return found

    def _lines(self, done: int) -> int:
        """Return the number of lines after `done` items; the last item always adds one."""
        return done * min(_MOST_LINES, self.total) // self.total

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


def _kind(outcome: Outcome) -> str:
    if outcome.passes:
        return outcome.value
    return "not correct" if outcome.judged else _NOT_JUDGED


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


class ProgressBar(Protocol):
    """The bar of one run."""

    def update(self) -> None:
        """Show the progress after an item was counted."""

    def close(self) -> None:
        """Show the end."""


class ProgressDisplay:
    """An observer that shows the progress of a run of at least `least` items with the bars that `make_bar` makes."""

    def __init__(self, make_bar: Callable[[RunProgress], ProgressBar], *, least: int = 1) -> None:
        self._make_bar = make_bar
        self._least = least
        self._progress: RunProgress | None = None
        self._bar: ProgressBar | None = None

    def start(self, items: int) -> None:
        """Begin to show the progress of a run of this number of items."""
        progress = RunProgress(items)
        self._bar = self._make_bar(progress) if items >= self._least else None
        self._progress = progress

    def add(self, outcome: Outcome) -> None:
        """Show that an item ended."""
        if self._progress is not None and self._bar is not None:
            self._progress.add(outcome)
            self._bar.update()

    def add_all(self, outcomes: Sequence[Outcome], total: int) -> None:
        """Show that items ended, of `total` in all. The first call starts the display."""
        if self._progress is None:
            self.start(total)
        for outcome in outcomes:
            self.add(outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Show the end of the run, and release the terminal."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    @hookimpl
    def karenina_run_started(self, event: RunStarted) -> None:
        """Begin."""
        self.start(event.items)

    @hookimpl
    def karenina_item_finished(self, result: VerificationResult) -> None:
        """Count the item."""
        self.add(result.outcome)

    @hookimpl
    def karenina_run_finished(self, event: RunFinished) -> None:
        """End."""
        self.close()


def choose_display(wanted: bool | None = None) -> ProgressDisplay | None:
    """Return a display for the standard error output; None if no progress is shown.

    By default (None) it shows runs of several items on a terminal and in a notebook. False never shows progress, and
    True always does: with lines, if the output is neither.
    """
    if wanted is False or sys.stderr is None:
        return None
    in_notebook = _is_notebook()
    if in_notebook or sys.stderr.isatty():
        return ProgressDisplay(_find_bar(in_notebook=in_notebook), least=1 if wanted else 2)
    return ProgressDisplay(_Lines) if wanted else None


def _find_bar(*, in_notebook: bool) -> Callable[[RunProgress], ProgressBar]:
    """Return the bar for which a library is installed."""
    if not in_notebook and find_spec("rich") is not None:
        return _TerminalBar
    return _TqdmBar if find_spec("tqdm") is not None else _Lines


def _is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook. IPython is imported there already."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return getattr(shell, "kernel", None) is not None


class _Lines:
    """Lines on the error output, at most twenty and one every half minute."""

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress

    def update(self) -> None:
        line = self._progress.next_line()
        if line is not None:
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is the output

    def close(self) -> None:
        """Do nothing: the last item has its line."""


class _TerminalBar:
    """A bar of rich."""

    def __init__(self, progress: RunProgress) -> None:
        from rich.console import Console

        from karenina_engine.progress.rich_bar import RichBar

        self._progress = progress
        self._bar = RichBar(progress, Console(stderr=True), transient=False)
        self._bar.start()

    def update(self) -> None:
        self._bar.advance_to(self._progress.done)

    def close(self) -> None:
        self._bar.stop()


class _TqdmBar:
    """A bar of tqdm: a widget in notebooks with ipywidgets, else text."""

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress
        self._bar = _tqdm()(total=progress.total, desc="running", unit="item")

    def update(self) -> None:
        self._bar.set_postfix_str(self._progress.counts(), refresh=False)
        self._bar.update()

    def close(self) -> None:
        self._bar.refresh()
        self._bar.close()


def _tqdm() -> Any:
    """Return the class of tqdm for this environment, without the thread that each process would have from then on."""
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # ipywidgets is optional
        from tqdm.auto import tqdm

    return type("tqdm", (tqdm,), {"monitor_interval": 0})
