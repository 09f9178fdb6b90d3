"""The stage for slot 11, and the evaluators for the standard trait kinds.

The entry points refer to `plugin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_toolkit.lazy_names import offer

if TYPE_CHECKING:
    from karenina_rubric.evaluators import TraitEvaluator


class plugin:  # noqa: N801 - the entry points' name
    """The rubric stage, and the evaluators for the trait kinds defined by the core."""

    karenina_rubric_evaluation = offer("karenina_rubric.evaluation:RubricEvaluation")

    @staticmethod
    @hookimpl
    def karenina_trait_evaluators() -> Sequence[TraitEvaluator]:
        """Return the evaluators for LLM, regex, callable and metric traits, all with a precedence of 0."""
        from karenina_rubric.computed_traits import CallableTraitEvaluator, RegexTraitEvaluator
        from karenina_rubric.llm_traits import LLMTraitEvaluator
        from karenina_rubric.metric_traits import MetricTraitEvaluator

        return [LLMTraitEvaluator(), RegexTraitEvaluator(), CallableTraitEvaluator(), MetricTraitEvaluator()]
