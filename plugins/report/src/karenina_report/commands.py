"""The plugin that adds `karenina compare` and `karenina stats`; loaded when the command line is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    import typer


class commands:  # noqa: N801 - the entry point's name
    """Adds `compare` and `stats` to the `karenina` command."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the commands. Neither numpy nor any result is loaded for it."""
        from karenina_report.compare_command import EPILOG, CompareCommand, compare
        from karenina_report.stats_command import stats

        app.command("compare", cls=CompareCommand, epilog=EPILOG)(compare)
        app.command("stats")(stats)
