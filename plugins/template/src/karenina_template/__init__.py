"""Answer templates, and stages 1, 7 and 8, which load, fill and verify them. Entry points refer to `plugin`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_core import Stage


class plugin:  # noqa: N801 - what entry points name
    """The stages of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_validate_template() -> Sequence[type[Stage]]:
        """Offer `ValidateTemplate` for slot 1."""
        from karenina_template.validate_template import ValidateTemplate

        return [ValidateTemplate]

    @staticmethod
    @hookimpl
    def karenina_parse_template() -> Sequence[type[Stage]]:
        """Offer `ParseTemplate` for slot 7."""
        from karenina_template.parse_template import ParseTemplate

        return [ParseTemplate]

    @staticmethod
    @hookimpl
    def karenina_verify_template() -> Sequence[type[Stage]]:
        """Offer `VerifyTemplate` for slot 8."""
        from karenina_template.verify_template import VerifyTemplate

        return [VerifyTemplate]
