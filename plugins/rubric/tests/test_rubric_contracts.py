"""The contracts of stages and kinds of traits, for those of this distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from karenina_core import Question
from karenina_core.data.rubrics import LLMRubricTrait, RegexRubricTrait, Rubric
from karenina_core.models.ports import CallInfo, Message
from karenina_rubric import plugin
from karenina_rubric.computed_traits import RegexTraitEvaluator
from karenina_rubric.evaluation import RubricEvaluation
from karenina_rubric.llm_traits import LLMTraitEvaluator
from karenina_testing.contracts import StageContract, TraitContract

pytestmark = pytest.mark.alone

CLEAR = LLMRubricTrait(name="clear", description="How clear is it?", kind="score", max_score=3)


class Rubrics:
    entry_point = "karenina_rubric:plugin"

    def fill(self, messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Mapping[str, Any]:
        return {"reasoning": "So it says.", "score": 3 if "BCL2" in messages[-1].content else 1}


class TestRubricEvaluation(Rubrics, StageContract):
    stage = RubricEvaluation
    question = Question(question="Which gene?", raw_answer="TRUTHRAW", rubric=Rubric.of(CLEAR))
    settings = {"evaluation_mode": "rubric_only"}
    plugins = (plugin,)


class TestLLMTraits(Rubrics, TraitContract):
    trait = CLEAR
    evaluator = LLMTraitEvaluator()
    scores = {"It is BCL2.": 3, "Who knows?": 1}
    lowest, highest = 1, 3
    plugins = (plugin,)


class TestRegexTraits(Rubrics, TraitContract):
    trait = RegexRubricTrait(name="cites", pattern="doi:", case_sensitive=False)
    evaluator = RegexTraitEvaluator()
    scores = {"See DOI:10.1000/182.": True, "See the paper.": False}
