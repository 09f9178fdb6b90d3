"""The progress of runs that Python programs and notebooks start.

A display is an observer of the run. A terminal has a bar of the library rich, a notebook one of tqdm; without them,
lines are printed now and then.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, Self

from karenina_core.hooks import hookimpl
from karenina_engine.progress.run_progress import RunProgress

if TYPE_CHECKING:
    from karenina_core.data.outcome import Outcome
    from karenina_core.data.result import VerificationResult
    from karenina_engine.progress.observers import RunFinished, RunStarted


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

    def add(self, outcome: Outcome, ended: str = "") -> None:
        """Show that an item ended, at this time (now by default)."""
        if self._progress is not None and self._bar is not None:
            self._progress.add(outcome, ended)
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
        self.add(result.outcome, result.metadata.timestamp)

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
        self._bar = _tqdm()(total=progress.total, desc="running", unit="item", smoothing=0)

    def update(self) -> None:
        self._bar.initial = self._progress.stored  # which its rate leaves out
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
