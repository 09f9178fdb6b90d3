"""The stages for slots 2 to 4, which get the answer and fail invalid conversations. Entry points refer to `plugin`."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core import Stage, hookimpl


class plugin:  # noqa: N801 - the entry points' name
    """The stages of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_generate_answer() -> Sequence[type[Stage]]:
        """Offer `GenerateAnswer` for slot 2."""
        from karenina_generation.generate_answer import GenerateAnswer

        return [GenerateAnswer]

    @staticmethod
    @hookimpl
    def karenina_recursion_limit_auto_fail() -> Sequence[type[Stage]]:
        """Offer `RecursionLimitAutoFail` for slot 3."""
        from karenina_generation.auto_fail import RecursionLimitAutoFail

        return [RecursionLimitAutoFail]

    @staticmethod
    @hookimpl
    def karenina_trace_validation_auto_fail() -> Sequence[type[Stage]]:
        """Offer `TraceValidationAutoFail` for slot 4."""
        from karenina_generation.auto_fail import TraceValidationAutoFail

        return [TraceValidationAutoFail]
