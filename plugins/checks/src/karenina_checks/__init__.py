"""Stages 5 and 6, in which a judge checks the answer before it is parsed. Entry points refer to `plugin`."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core import Stage, hookimpl


class plugin:  # noqa: N801 - the entry points' name
    """The stages of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_abstention_check() -> Sequence[type[Stage]]:
        """Offer `AbstentionCheck` for slot 5."""
        from karenina_checks.answer_checks import AbstentionCheck

        return [AbstentionCheck]

    @staticmethod
    @hookimpl
    def karenina_sufficiency_check() -> Sequence[type[Stage]]:
        """Offer `SufficiencyCheck` for slot 6."""
        from karenina_checks.answer_checks import SufficiencyCheck

        return [SufficiencyCheck]
