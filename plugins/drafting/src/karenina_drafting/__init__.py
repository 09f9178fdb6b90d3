"""Draft answer templates with a model: each draft is checked by a program, and left to a person if it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_core import Stage


class plugin:  # noqa: N801 - the entry point's name
    """The stage of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        """Offer `DraftTemplate`, which only the runs of `karenina draft` use."""
        from karenina_drafting.draft_stage import DraftTemplate

        return [DraftTemplate]
