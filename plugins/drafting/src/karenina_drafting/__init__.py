"""Draft answer templates with a model: each draft is checked automatically; the user writes those that fail.

The entry points are `commands` and `plugin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    import typer

    from karenina_core import Stage


class plugin:  # noqa: N801 - the entry point's name
    """The plugin with this distribution's stage."""

    @staticmethod
    @hookimpl
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        """Return `DraftTemplate`, which only runs of `karenina draft` use."""
        from karenina_drafting.draft_stage import DraftTemplate

        return [DraftTemplate]


class commands:  # noqa: N801 - the entry point's name
    """The plugin that adds the command `karenina draft`."""

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
