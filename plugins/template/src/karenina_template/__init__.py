"""Answer templates and the stages 1, 7 and 8, which load, fill and verify them. Entry points name `plugin`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_core import Stage


class plugin:  # noqa: N801 - what entry points name
    """The plugin with the stages of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_validate_template() -> Sequence[type[Stage]]:
        """Offer the stage of slot 1."""
        from karenina_template.validate_template import ValidateTemplate

        return [ValidateTemplate]

    @staticmethod
    @hookimpl
    def karenina_parse_template() -> Sequence[type[Stage]]:
        """Offer the stage of slot 7."""
        from karenina_template.parse_template import ParseTemplate

        return [ParseTemplate]

    @staticmethod
    @hookimpl
    def karenina_verify_template() -> Sequence[type[Stage]]:
        """Offer the stage of slot 8."""
        from karenina_template.verify_template import VerifyTemplate

        return [VerifyTemplate]
