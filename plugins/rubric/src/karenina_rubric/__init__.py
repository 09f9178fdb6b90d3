"""Stage 11 and the plain trait evaluators: judge, pattern, function, expected things. Entry points name `plugin`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import Stage, hookimpl

if TYPE_CHECKING:
    from karenina_rubric.evaluators import TraitEvaluator


class plugin:  # noqa: N801 - what entry points name
    """Offers the stage of this distribution, and what scores the trait kinds of the core."""

    @staticmethod
    @hookimpl
    def karenina_rubric_evaluation() -> Sequence[type[Stage]]:
        """Slot 11."""
        from karenina_rubric.evaluation import RubricEvaluation

        return [RubricEvaluation]

    @staticmethod
    @hookimpl
    def karenina_trait_evaluators() -> Sequence[TraitEvaluator]:
        """The evaluators of LLM, regex, callable and metric traits; all have precedence 0."""
        from karenina_rubric.callable_traits import CallableTraitEvaluator
        from karenina_rubric.llm_traits import LLMTraitEvaluator
        from karenina_rubric.metric_traits import MetricTraitEvaluator
        from karenina_rubric.regex_traits import RegexTraitEvaluator

        return [LLMTraitEvaluator(), RegexTraitEvaluator(), CallableTraitEvaluator(), MetricTraitEvaluator()]
