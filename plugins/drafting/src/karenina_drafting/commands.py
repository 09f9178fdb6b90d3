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
        """Add the command `draft`."""
        from karenina_terminal.lazy_commands import add_lazy_command

        add_lazy_command(
            app,
            "draft",
            "karenina_drafting.draft_command:app",
            "Draft a template for each question from its answer, check the drafts, and write them for review.",
        )
