"""The plugin that adds `karenina label` and `karenina calibrate`, and corrected rates to other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl
from karenina_terminal.completion import complete_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import typer

    from karenina_report.page.section import PageRuns, PageSection
    from karenina_report.run_notes import NotedRun, RunNote


def label_files(incomplete: str) -> list[str]:
    """Return files that could contain labels, for shell completion: sheets and JSON Lines files."""
    return complete_files(incomplete, (".jsonl", ".csv", ".xlsx"))


class commands:  # noqa: N801 - the entry point's name
    """The plugin that adds commands to `karenina`, and corrected pass rates to `show`, `compare` and `report`."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the commands."""
        from karenina_terminal.lazy_commands import add_lazy_command

        add_lazy_command(
            app,
            "label",
            "karenina_calibration.label_command:label",
            "Draw answers of a run at random, and ask a person whether each is right and was read correctly.",
        )
        add_lazy_command(
            app,
            "calibrate",
            "karenina_calibration.calibrate_command:calibrate",
            "Compare a run's verdicts and extracted values with human labels, and correct its pass rate.",
        )

    @staticmethod
    @hookimpl
    def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
        """Offer notes with the corrected rates of runs that have a label file beside their results."""
        from karenina_calibration.label_paths import has_labels

        def notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
            if not has_labels(run.source for run in runs):
                return []
            from karenina_calibration.run_labels import corrected_notes

            return corrected_notes(runs)

        return [notes]

    @staticmethod
    @hookimpl
    def karenina_report_sections() -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
        """Offer the section with corrected rates."""
        from karenina_calibration.run_labels import corrected_section

        return [corrected_section]
