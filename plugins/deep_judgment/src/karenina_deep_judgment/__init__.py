"""Deep judgment: values and scores based on excerpts and reasoning. Entry points refer to `plugin`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_core import Stage
    from karenina_rubric.evaluators import TraitEvaluator
    from karenina_toolkit.agents.tool_sources import SearchTool


class plugin:  # noqa: N801 - the entry points' name
    """The stages of this distribution, its evaluator of LLM traits, and a search tool."""

    @staticmethod
    @hookimpl
    def karenina_parse_template() -> Sequence[type[Stage]]:
        """Offer `DeepJudgmentParseTemplate` for slot 7."""
        from karenina_deep_judgment.parse_template import DeepJudgmentParseTemplate

        return [DeepJudgmentParseTemplate]

    @staticmethod
    @hookimpl
    def karenina_deep_judgment_auto_fail() -> Sequence[type[Stage]]:
        """Offer `DeepJudgmentAutoFail` for slot 10."""
        from karenina_deep_judgment.auto_fail import DeepJudgmentAutoFail

        return [DeepJudgmentAutoFail]

    @staticmethod
    @hookimpl
    def karenina_deep_judgment_rubric_auto_fail() -> Sequence[type[Stage]]:
        """Offer `DeepJudgmentRubricAutoFail` for slot 12."""
        from karenina_deep_judgment.auto_fail import DeepJudgmentRubricAutoFail

        return [DeepJudgmentRubricAutoFail]

    @staticmethod
    @hookimpl
    def karenina_trait_evaluators() -> Sequence[TraitEvaluator]:
        """Offer the evaluator that scores LLM traits from excerpts and reasoning."""
        from karenina_deep_judgment.trait_evaluator import DeepJudgmentTraitEvaluator

        return [DeepJudgmentTraitEvaluator()]

    @staticmethod
    @hookimpl
    def karenina_search_tools() -> Sequence[SearchTool]:
        """Offer the search tool `tavily`."""
        from karenina_deep_judgment.search_tools import TavilySearch

        return [TavilySearch()]
