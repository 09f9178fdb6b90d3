"""The contract for a kind of rubric trait and its evaluator."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import pytest

from karenina_core.artifacts.artifact import ArtifactKey
from karenina_core.artifacts.keys import ArtifactKeys
from karenina_core.data.question import Question
from karenina_core.data.rubrics import LLMRubricTrait, RegexRubricTrait, RubricTrait, trait_from_json, trait_to_json
from karenina_core.models.ports import CallInfo, Message, ParserReply
from karenina_core.stages.context import VerificationContext
from karenina_core.stages.stage import Stage
from karenina_testing.contracts.plugin import PluginContract, find_unmarked_fields
from karenina_testing.contracts.stage import TRUTH, failing_models
from karenina_testing.scripted_models import ScriptedModels
from karenina_testing.stage_runner import run_stage

OTHERS = (LLMRubricTrait(name="clear", description="It is clear."), RegexRubricTrait(name="cites", pattern="doi"))
SCORES = ArtifactKey("contract.scores", list)


class AnyScore(Protocol):
    """The part of `karenina_rubric.evaluators.TraitScore` that the contract uses."""

    @property
    def trait(self) -> str:
        """The name of the trait."""

    @property
    def result_field(self) -> str:
        """The result field that contains the score."""

    @property
    def score(self) -> Any:
        """The score."""

    @property
    def error(self) -> str | None:
        """The reason why there is no score, or None."""


class AnyEvaluator(Protocol):
    """A `karenina_rubric.evaluators.TraitEvaluator`."""

    name: ClassVar[str]
    precedence: ClassVar[int]

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether the evaluator scores this trait."""

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[AnyScore]:
        """Return a score for each trait."""


class TraitContract(PluginContract):
    """The contract for a kind of rubric trait and its evaluator.

    - `trait`: a trait of this kind, with fields that differ from the defaults.
    - `evaluator`: the evaluator that scores it.
    - `scores`: sample answers, each with its expected score.
    - `lowest`, `highest`: the score range; omit these if scores are not numbers.
    - `settings`: the run's configuration; `plugins`: additional plugins that the evaluator needs.

    If a judge scores the trait, override `fill` or `say` to reply to the request.
    """

    trait: ClassVar[RubricTrait]
    evaluator: ClassVar[AnyEvaluator]
    scores: ClassVar[Mapping[str, object]]
    lowest: ClassVar[float | None] = None
    highest: ClassVar[float | None] = None
    settings: ClassVar[Mapping[str, Any]] = {}
    plugins: ClassVar[Sequence[object]] = ()

    def fill(
        self, messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo
    ) -> Mapping[str, Any] | str | ParserReply:
        """Return the judge's reply to a request for JSON."""
        return dict.fromkeys(schema.get("properties", {}))

    def say(self, messages: Sequence[Message], info: CallInfo) -> str:
        """Return the judge's reply to a request for text."""
        return "an answer"

    def evaluate(self, text: str, *traits: RubricTrait, models: ScriptedModels | None = None) -> list[AnyScore]:
        """Return the scores of the answer `text` on the given `traits` (default: the sample trait). Raises
        `RuntimeError` if the evaluation fails as a whole, or if the evaluator does not claim these traits, or claims
        those of other kinds.
        """
        evaluator, scored = self.evaluator, traits or (self.trait,)
        others = [other for other in OTHERS if not isinstance(other, type(self.trait))]

        class Scoring(Stage):
            name = "Scoring"
            requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
            produces = frozenset({SCORES})

            async def execute(self, context: VerificationContext) -> None:
                assert all(evaluator.claims(trait, context) for trait in scored), (
                    "the evaluator does not claim its own traits"
                )
                assert not any(evaluator.claims(trait, context) for trait in others), (
                    "the evaluator claims traits of other kinds"
                )
                context.set_artifact(SCORES, list(await evaluator.evaluate(scored, text, context)))

        run = asyncio.run(
            run_stage(
                Scoring,
                question=Question(question="Which gene was found first?", raw_answer=TRUTH),
                artifacts={ArtifactKeys.RAW_LLM_RESPONSE: text},
                models=models or ScriptedModels(fill=self.fill, say=self.say),
                plugins=self.plugins,
                **self.settings,
            )
        )
        if run.error is not None:
            raise RuntimeError(run.error.message)
        return run.artifact(SCORES) or []

    def test_json_gives_the_same_trait(self) -> None:
        written = json.loads(json.dumps(trait_to_json(self.trait), allow_nan=False))
        assert written["type"] == type(self.trait).model_fields["type"].default
        assert trait_from_json(written) == self.trait, "offer the trait's class through the karenina_trait_kinds hook"

    def test_each_field_says_whether_a_benchmark_may_set_it(self) -> None:
        assert find_unmarked_fields(type(self.trait)) == []

    def test_the_evaluator_has_a_name_and_a_precedence(self) -> None:
        assert self.evaluator.name.strip()
        assert isinstance(self.evaluator.precedence, int)

    def test_the_evaluator_scores_its_kind_and_no_other(self) -> None:
        for text, expected in self.scores.items():
            (score,) = self.evaluate(text)
            assert (score.trait, score.error) == (self.trait.name, None)
            assert score.score == expected, text
            assert score.result_field.endswith("_trait_scores"), score.result_field

    def test_scores_are_in_their_range(self) -> None:
        for text in self.scores:
            (score,) = self.evaluate(text)
            assert self.lowest is None or score.score >= self.lowest, text
            assert self.highest is None or score.score <= self.highest, text

    def test_each_trait_gets_one_score(self) -> None:
        other = self.trait.model_copy(update={"name": f"{self.trait.name}-2"})
        scores = self.evaluate(next(iter(self.scores)), self.trait, other)
        assert sorted(score.trait for score in scores) == sorted([self.trait.name, other.name])

    @pytest.mark.parametrize("failure", ["no server", "no reply", "no JSON"])
    def test_a_failing_judge_is_an_error_and_not_a_score(self, failure: str) -> None:
        models = failing_models(failure)
        try:
            scores = self.evaluate(next(iter(self.scores)), models=models)
        except RuntimeError:
            return
        if models.requests:
            assert [(score.score, bool(score.error)) for score in scores] == [(None, True)]

    def test_no_ground_truth_reaches_a_model(self) -> None:
        models = ScriptedModels(fill=self.fill, say=self.say)
        self.evaluate(next(iter(self.scores)), models=models)
        assert [request.text for request in models.requests if TRUTH in request.text] == []
