"""The plugin that adds `karenina compare`, `export` and `stats`, and the built-in export formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

    from karenina_report.exports.exporter import Exporter


class commands:  # noqa: N801 - the entry point's name
    """Adds `compare`, `export` and `stats` to the `karenina` command, and offers the export formats."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the commands. Neither numpy nor any result is loaded for it."""
        from karenina_report.compare_command import EPILOG, CompareCommand, compare
        from karenina_report.export_command import export
        from karenina_report.stats_command import stats

        app.command("compare", cls=CompareCommand, epilog=EPILOG)(compare)
        app.command("export")(export)
        app.command("stats")(stats)

    @staticmethod
    @hookimpl
    def karenina_exporters() -> Sequence[Exporter]:
        """Offer the built-in formats of exports."""
        from karenina_report.exports.registered import built_in

        return built_in()
