"""Stages 1, 7 and 8: read the template, have a judge fill it, compare it with the truth. Entry points name `plugin`."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core import Stage, hookimpl


class plugin:  # noqa: N801 - what entry points name
    """Offers the stages of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_validate_template() -> Sequence[type[Stage]]:
        """Slot 1."""
        from karenina_template.validate_template import ValidateTemplate

        return [ValidateTemplate]

    @staticmethod
    @hookimpl
    def karenina_parse_template() -> Sequence[type[Stage]]:
        """Slot 7."""
        from karenina_template.parse_template import ParseTemplate

        return [ParseTemplate]

    @staticmethod
    @hookimpl
    def karenina_verify_template() -> Sequence[type[Stage]]:
        """Slot 8."""
        from karenina_template.verify_template import VerifyTemplate

        return [VerifyTemplate]
