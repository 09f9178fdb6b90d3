"""The plugin that adds `karenina compare`, `export`, `report` and `stats`, export formats and sections of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import typer

    from karenina_report.exports.exporter import Exporter
    from karenina_report.page.section import PageRuns, PageSection


class commands:  # noqa: N801 - the entry point's name
    """Adds commands to `karenina`, and offers the export formats and the sections of the report page."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the commands. Neither numpy nor any result is loaded for it."""
        from karenina_report.compare_command import EPILOG, CompareCommand, compare
        from karenina_report.export_command import export
        from karenina_report.report_command import report
        from karenina_report.stats_command import stats

        app.command("compare", cls=CompareCommand, epilog=EPILOG)(compare)
        app.command("export")(export)
        app.command("report")(report)
        app.command("stats")(stats)

    @staticmethod
    @hookimpl
    def karenina_exporters() -> Sequence[Exporter]:
        """Offer the built-in formats of exports."""
        from karenina_report.exports.registered import built_in

        return built_in()

    @staticmethod
    @hookimpl
    def karenina_report_sections() -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
        """Offer the tables of outcomes, models, judges and keywords."""
        from karenina_report.page.own_sections import run_sections

        return [run_sections]
