"""The plugin that adds `karenina compare`, `export`, `report` and `stats`, export formats and report sections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import typer

    from karenina_report.exports.exporter import Exporter
    from karenina_report.page.section import PageRuns, PageSection


class commands:  # noqa: N801 - the entry point's name
    """The plugin that adds commands to `karenina`, export formats, and sections of the report page."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the commands."""
        from karenina_terminal.lazy_commands import add_lazy_command

        add_lazy_command(
            app,
            "compare",
            "karenina_report.compare_command:app",
            "Compare runs question by question: the difference with its interval, and the questions that flipped.",
        )
        add_lazy_command(
            app,
            "export",
            "karenina_report.export_command:export",
            "Write results in another format: tables for analysis, JUnit XML for CI, Markdown, JSON, answers.",
        )
        add_lazy_command(
            app,
            "report",
            "karenina_report.report_command:report",
            "Write the results of a run, or of several, as one HTML file that opens from disk without a network.",
        )
        add_lazy_command(
            app,
            "stats",
            "karenina_report.report_command:stats",
            "Print statistics of a run: rates, traits, pass@k, variance components, and judge agreement.",
        )

    @staticmethod
    @hookimpl
    def karenina_exporters() -> Sequence[Exporter]:
        """Offer the built-in export formats."""
        from karenina_report.exports.registered import built_in

        return built_in()

    @staticmethod
    @hookimpl
    def karenina_report_sections() -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
        """Offer the tables of outcomes, models, judges and keywords."""
        from karenina_report.page.own_sections import run_sections

        return [run_sections]
