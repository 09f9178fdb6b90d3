"""The commands `karenina label` and `karenina calibrate`, and corrected rates in other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl
from karenina_terminal.command_hook import lazy_commands
from karenina_terminal.completion import complete_files
from karenina_toolkit.lazy_names import offer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karenina_report.run_notes import NotedRun, RunNote


def label_files(incomplete: str) -> list[str]:
    """Complete the paths of files that may contain labels: sheets and JSON Lines files."""
    return complete_files(incomplete, (".jsonl", ".csv", ".xlsx"))


class commands:  # noqa: N801 - the entry point's name
    """Adds commands to `karenina`, and corrected pass rates to `show`, `compare` and `report`."""

    karenina_commands = lazy_commands(
        {
            "label": (
                "karenina_calibration.label_command:label",
                "Draw answers of a run at random, and ask a person whether each is right and was read correctly.",
            ),
            "calibrate": (
                "karenina_calibration.calibrate_command:calibrate",
                "Compare a run's verdicts and extracted values with human labels, and correct its pass rate.",
            ),
        }
    )

    @staticmethod
    @hookimpl
    def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
        """Return a list with one function, which makes notes with corrected rates. It makes none if no run has a label
        file next to its results.
        """
        from karenina_calibration.label_paths import has_labels

        def notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
            if not has_labels(run.source for run in runs):
                return []
            from karenina_calibration.run_labels import corrected_notes

            return corrected_notes(runs)

        return [notes]

    karenina_report_sections = offer("karenina_calibration.run_labels:corrected_section")
