"""The progress of a run on the error output: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from karenina_core.outcome import Outcome

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from karenina_core.results import VerificationResult

_MOST_LINES = 20


class RunProgress:
    """Counts finished items and shows them while the `with` block lasts. `quiet` only counts."""

    def __init__(self, console: Console, total: int, *, quiet: bool = False) -> None:
        self.done = 0
        self._console = console
        self._total = total
        self._quiet = quiet
        self._counts: Counter[str] = Counter()
        self._bar: Progress | None = None
        if console.is_terminal and not quiet:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
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
        """Count one result."""
        self.done += 1
        self._counts[_kind(result.outcome)] += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=self._text())
        elif not self._quiet and self._lines(self.done) > self._lines(self.done - 1):
            self._console.print(f"{self.done}/{self._total} {self._text()}", soft_wrap=True)

    def _lines(self, done: int) -> int:
        """How many lines there are after so many items: the last item always adds one."""
        return done * min(_MOST_LINES, self._total) // self._total

    def _text(self) -> str:
        return ", ".join(f"{count} {kind}" for kind, count in sorted(self._counts.items()))


def _kind(outcome: Outcome) -> str:
    if outcome in (Outcome.CORRECT, Outcome.SCORED):
        return outcome.value
    return "not correct" if outcome.judged else "not judged"
