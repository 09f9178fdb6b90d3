"""Stages 5 and 6: ask a judge about the answer before it is parsed. The entry points name `plugin`."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core import Stage, hookimpl


class plugin:  # noqa: N801 - what entry points name
    """Offers the stages of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_abstention_check() -> Sequence[type[Stage]]:
        """Slot 5."""
        from karenina_checks.abstention import AbstentionCheck

        return [AbstentionCheck]

    @staticmethod
    @hookimpl
    def karenina_sufficiency_check() -> Sequence[type[Stage]]:
        """Slot 6."""
        from karenina_checks.sufficiency import SufficiencyCheck

        return [SufficiencyCheck]
