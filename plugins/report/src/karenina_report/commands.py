"""The plugin that adds `karenina compare`; loaded when the command line is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    import typer


class commands:  # noqa: N801 - the entry point's name
    """Adds `compare` to the `karenina` command."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the command. Neither numpy nor any result is loaded for it."""
        from karenina_report.compare_command import EPILOG, CompareCommand, compare

        app.command("compare", cls=CompareCommand, epilog=EPILOG)(compare)
