"""Stages 1b, 7b and 11b: workspaces, and judges that inspect them. Entry points refer to `plugin`."""

from __future__ import annotations

from collections.abc import Sequence

from karenina_core import Stage, hookimpl


class plugin:  # noqa: N801 - the entry points' name
    """The stages of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_extra_stages() -> Sequence[type[Stage]]:
        """Offer `PrepareWorkspace`, which runs between slots 1 and 2."""
        from karenina_agentic.prepare_workspace import PrepareWorkspace

        return [PrepareWorkspace]

    @staticmethod
    @hookimpl
    def karenina_parse_template() -> Sequence[type[Stage]]:
        """Offer `AgenticParseTemplate` for slot 7."""
        from karenina_agentic.parse_template import AgenticParseTemplate

        return [AgenticParseTemplate]

    @staticmethod
    @hookimpl
    def karenina_rubric_evaluation() -> Sequence[type[Stage]]:
        """Offer `AgenticRubricEvaluation` for slot 11."""
        from karenina_agentic.trait_evaluation import AgenticRubricEvaluation

        return [AgenticRubricEvaluation]
