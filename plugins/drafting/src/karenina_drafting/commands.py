"""The plugin that adds `karenina draft`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    import typer


class commands:  # noqa: N801 - the entry point's name
    """Adds the command `karenina draft`."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the command, without loading what it needs."""
        from karenina_drafting.draft_command import EPILOG, draft

        app.command("draft", epilog=EPILOG)(draft)
