"""Progress displays for runs started from Python programs and notebooks.

A display observes the run and shows a progress bar. It uses rich in a terminal and tqdm in a notebook. Without these
libraries, it prints lines from time to time.
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
    """The interface of a run's progress bar."""

    def update(self) -> None:
        """Show the progress after an item has finished."""

    def close(self) -> None:
        """Show the final state and stop the bar."""


class ProgressDisplay:
    """Shows the progress of a run with a bar created by `make_bar`.

    Runs with fewer than `least` items are not shown.
    """

    def __init__(self, make_bar: Callable[[RunProgress], ProgressBar], *, least: int = 1) -> None:
        self._make_bar = make_bar
        self._least = least
        self._progress: RunProgress | None = None
        self._bar: ProgressBar | None = None

    def start(self, items: int) -> None:
        """Start the display for a run with the given number of items."""
        progress = RunProgress(items)
        self._bar = self._make_bar(progress) if items >= self._least else None
        self._progress = progress

    def add(self, outcome: Outcome, ended: str = "") -> None:
        """Show that an item has finished. `ended` is an ISO timestamp, and defaults to the current time. This does
        nothing if the display is not running or if the run is too small to be shown.
        """
        if self._progress is not None and self._bar is not None:
            self._progress.add(outcome, ended)
            self._bar.update()

    def add_all(self, outcomes: Sequence[Outcome], total: int) -> None:
        """Show that several items have finished, starting the display if necessary. `total` is the number of items in
        the run.
        """
        if self._progress is None:
            self.start(total)
        for outcome in outcomes:
            self.add(outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the display."""
        self.close()

    def close(self) -> None:
        """Show the end of the run, and release the terminal."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    @hookimpl
    def karenina_run_started(self, event: RunStarted) -> None:
        """Start the display."""
        self.start(event.items)

    @hookimpl
    def karenina_item_finished(self, result: VerificationResult) -> None:
        """Show that the item is finished."""
        self.add(result.outcome, result.metadata.timestamp)

    @hookimpl
    def karenina_run_finished(self, event: RunFinished) -> None:
        """Close the display."""
        self.close()


def choose_display(wanted: bool | None = None) -> ProgressDisplay | None:
    """Return a display that writes to standard error, or None if no progress should be shown. By default, progress is
    shown for runs of several items in a terminal or notebook. Set `wanted` to True to always show it, or to False to
    never show it.
    """
    if wanted is False or sys.stderr is None:
        return None
    in_notebook = _is_notebook()
    if in_notebook or sys.stderr.isatty():
        return ProgressDisplay(_find_bar(in_notebook=in_notebook), least=1 if wanted else 2)
    return ProgressDisplay(_Lines) if wanted else None


def _find_bar(*, in_notebook: bool) -> Callable[[RunProgress], ProgressBar]:
    """Return the progress bar class for this environment. If its library is not installed, return plain lines."""
    if not in_notebook and find_spec("rich") is not None:
        return _TerminalBar
    return _TqdmBar if find_spec("tqdm") is not None else _Lines


def _is_notebook() -> bool:
    """Return whether this process is a notebook kernel."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return getattr(shell, "kernel", None) is not None


class _Lines:
    """Progress lines on standard error: at most twenty, plus one for every half minute."""

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress

    def update(self) -> None:
        """Print a line if one is due."""
        line = self._progress.next_line()
        if line is not None:
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is the output

    def close(self) -> None:
        """Do nothing, because a line has been printed after the last item."""


class _TerminalBar:
    """A progress bar using rich."""

    def __init__(self, progress: RunProgress) -> None:
        from rich.console import Console

        from karenina_engine.progress.rich_bar import RichBar

        self._progress = progress
        self._bar = RichBar(progress, Console(stderr=True), transient=False)
        self._bar.start()

    def update(self) -> None:
        """Show the number of finished items."""
        self._bar.advance_to(self._progress.done)

    def close(self) -> None:
        """Stop the bar, leaving it in the terminal."""
        self._bar.stop()


class _TqdmBar:
    """A progress bar using tqdm. It is a widget in notebooks with ipywidgets."""

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress
        self._bar = _tqdm()(total=progress.total, desc="running", unit="item", smoothing=0)

    def update(self) -> None:
        """Advance the bar by one item, and show the counts."""
        self._bar.initial = self._progress.stored  # which tqdm leaves out of the rate
        self._bar.set_postfix_str(self._progress.counts(), refresh=False)
        self._bar.update()

    def close(self) -> None:
        """Show the final state and stop the bar."""
        self._bar.refresh()
        self._bar.close()


def _tqdm() -> Any:
    """Return the tqdm class for this environment, without its monitor thread."""
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # ipywidgets is optional
        from tqdm.auto import tqdm

    return type("tqdm", (tqdm,), {"monitor_interval": 0})
