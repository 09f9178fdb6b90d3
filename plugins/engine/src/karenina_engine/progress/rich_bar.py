"""A progress bar for terminals, with lines about the run below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from karenina_engine.progress.run_progress import RunProgress

_REFRESHED: Final = 4  # times a second


class RichBar(Progress):
    """A progress bar using rich. If `transient` is set, it disappears when it stops."""

    def __init__(self, progress: RunProgress, console: Console, *, transient: bool) -> None:
        self._progress = progress
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=transient,
            refresh_per_second=_REFRESHED,
        )
        self._task = self.add_task("running", total=progress.total)

    def advance_to(self, done: int) -> None:
        """Show that `done` items are finished."""
        self.update(self._task, completed=done)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar and up to two lines, with the counts, the speed and the calls in flight."""
        shown = self._progress
        lines = [" · ".join(part for part in (shown.counts(), *shown.speed()) if part), " · ".join(shown.calls())]
        yield Group(
            *super().get_renderables(),
            *(Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines if line),
        )
