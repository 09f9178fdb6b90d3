"""Deep judgment, which bases values and scores on excerpts and reasoning.

The entry points refer to `plugin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_toolkit.lazy_names import offer

if TYPE_CHECKING:
    from karenina_rubric.evaluators import TraitEvaluator
    from karenina_toolkit.agents.tool_sources import SearchTool


class plugin:  # noqa: N801 - the entry points' name
    """The deep judgment stages, the evaluator for LLM traits, and a search tool."""

    karenina_parse_template = offer("karenina_deep_judgment.parse_template:DeepJudgmentParseTemplate")
    karenina_deep_judgment_auto_fail = offer("karenina_deep_judgment.auto_fail:DeepJudgmentAutoFail")
    karenina_deep_judgment_rubric_auto_fail = offer("karenina_deep_judgment.auto_fail:DeepJudgmentRubricAutoFail")

    @staticmethod
    @hookimpl
    def karenina_trait_evaluators() -> Sequence[TraitEvaluator]:
        """Return the evaluator that scores LLM traits from excerpts and reasoning."""
        from karenina_deep_judgment.trait_evaluator import DeepJudgmentTraitEvaluator

        return [DeepJudgmentTraitEvaluator()]

    @staticmethod
    @hookimpl
    def karenina_search_tools() -> Sequence[SearchTool]:
        """Return the search tool called `tavily`."""
        from karenina_deep_judgment.search_tools import TavilySearch

        return [TavilySearch()]
