"""The progress of a run on the error output: a bar on a terminal, or occasional lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.text import Text

from karenina_engine.progress.rich_bar import RichBar

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from karenina_core.data.result import VerificationResult
    from karenina_engine.progress.run_progress import RunProgress


class ProgressOutput:
    """The display of a run's progress inside the `with` block. `quiet` only counts."""

    def __init__(self, console: Console, progress: RunProgress, *, quiet: bool = False) -> None:
        self.progress = progress
        self._console = console
        self._quiet = quiet
        self._bar = RichBar(progress, console, transient=True) if console.is_terminal and not quiet else None

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
        self.progress.add(result.outcome, result.metadata.timestamp)
        if self._bar is not None:
            self._bar.advance_to(self.progress.done)
        elif not self._quiet and (line := self.progress.next_line()) is not None:
            self._console.print(Text(line), soft_wrap=True)
