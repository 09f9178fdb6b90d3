"""The plugin that adds commands, export formats and report sections to `karenina`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl
from karenina_terminal.command_hook import lazy_commands
from karenina_toolkit.lazy_names import offer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_report.exports.exporter import Exporter


class commands:  # noqa: N801 - the entry point's name
    """The plugin that adds commands, export formats and sections of the report page to `karenina`."""

    karenina_commands = lazy_commands(
        {
            "compare": (
                "karenina_report.compare_command:app",
                "Compare runs question by question: the difference with its interval, and the questions that flipped.",
            ),
            "export": (
                "karenina_report.export_command:export",
                "Write results in another format: tables for analysis, JUnit XML for CI, Markdown, JSON, answers.",
            ),
            "report": (
                "karenina_report.report_command:report",
                "Write the results of a run, or of several, as one HTML file that opens from disk without a network.",
            ),
            "stats": (
                "karenina_report.report_command:stats",
                "Print statistics of a run: rates, traits, pass@k, variance components, and judge agreement.",
            ),
        }
    )

    @staticmethod
    @hookimpl
    def karenina_exporters() -> Sequence[Exporter]:
        """Return the built-in export formats."""
        from karenina_report.exports.registered import built_in

        return built_in()

    karenina_run_notes = offer(
        "karenina_report.journal_notes:unfinished_notes",
        "karenina_report.journal_notes:served_notes",
        "karenina_report.check_notes:check_notes",
    )
    karenina_report_sections = offer("karenina_report.page.own_sections:run_sections")
