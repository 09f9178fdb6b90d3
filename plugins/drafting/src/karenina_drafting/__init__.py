"""Draft answer templates with a model: a program checks each draft, and drafts that fail are left to the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_core import Stage


class plugin:  # noqa: N801 - the entry point's name
    """The plugin with this distribution's stage."""

    @staticmethod
    @hookimpl
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        """Return `DraftTemplate`, which only runs of `karenina draft` use."""
        from karenina_drafting.draft_stage import DraftTemplate

        return [DraftTemplate]
