"""The evaluator that scores each LLM trait from excerpts and reasoning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from karenina_core.data.rubrics import LLMRubricTrait, RubricTrait
from karenina_core.errors import describe_error
from karenina_deep_judgment.excerpt_extraction import extract_excerpts
from karenina_deep_judgment.prompts import TRAIT_REASONING, TRAIT_SCORE, reasoning_request, score_request
from karenina_deep_judgment.search_tools import assess_risks, overall_risk
from karenina_deep_judgment.settings import resolve_trait_settings, settings_of
from karenina_rubric.evaluators import TraitScore
from karenina_rubric.score_schema import describe_scale, read_score, score_schema
from karenina_toolkit.stage_support import gather_all
from karenina_toolkit.structured import InvalidReply, ask, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationContext

FIELD: Final = "llm_trait_scores"
SCORED: Final = "score_extraction"
"""The last entry in `stages_completed` in the metadata of a trait that has a score."""


class DeepJudgmentTraitEvaluator:
    """Scores the LLM traits selected by `deep_judgment_rubric_mode`, before the standard evaluator does.

    A trait that lacks the excerpts it needs is still scored, but `excerpt_validation_failed` is set, so that stage 12
    fails the answer. Traits are judged concurrently, and a failure only affects one trait.
    """

    name: ClassVar[str] = "deep_judgment"
    precedence: ClassVar[int] = 10

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether deep judgment is enabled for the trait in this configuration."""
        return resolve_trait_settings(trait, context.question.id, settings_of(context.config)) is not None

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """Return one score for each LLM trait, in the order of `traits`. Other traits are ignored. If a trait cannot be
        scored, no exception is raised, and its score has the error.
        """
        asked = [trait for trait in traits if isinstance(trait, LLMRubricTrait)]
        return await gather_all(self._score_or_error(trait, text, context) for trait in asked)

    async def _score_or_error(self, trait: LLMRubricTrait, text: str, context: VerificationContext) -> TraitScore:
        """Score a trait. If this fails, no exception is raised: the score has the error, and the fields that were set
        before it.
        """
        metadata: dict[str, Any] = {
            "stages_completed": [],
            "model_calls": 0,
            "had_excerpts": False,
            "excerpt_retry_count": 0,
            "excerpt_validation_failed": False,
        }
        fields: dict[str, object] = {"trait_metadata": metadata}
        try:
            score = await self._judge(trait, text, context, metadata, fields)
        except Exception as error:
            return TraitScore(trait.name, FIELD, error=describe_error(error), fields=fields)
        return TraitScore(trait.name, FIELD, score, fields=fields)

    @staticmethod
    async def _judge(
        trait: LLMRubricTrait,
        text: str,
        context: VerificationContext,
        metadata: dict[str, Any],
        fields: dict[str, object],
    ) -> object:
        """Judge a trait to which deep judgment applies, adding to `metadata` and `fields` at each step, and return its
        score. Raises `StructuredError` or `PortError` if the judge fails.
        """
        settings = settings_of(context.config)
        how = resolve_trait_settings(trait, context.question.id, settings)
        assert how is not None
        question = context.question.question
        items = {trait.name: trait.description or trait.summary or ""}
        excerpts: dict[str, list[dict[str, Any]]] | None = None
        if how.excerpts:
            quoted = await extract_excerpts(context, text, items, how.limits)
            excerpts = quoted.found
            metadata["model_calls"] += quoted.calls
            metadata["had_excerpts"] = not quoted.missing
            metadata["excerpt_retry_count"] = quoted.retries
            metadata["excerpt_validation_failed"] = bool(quoted.missing)
            metadata["stages_completed"].append("excerpt_extraction")
            fields["extracted_rubric_excerpts"] = excerpts[trait.name]
            if quoted.rejected:
                metadata["rejected_excerpts"] = quoted.rejected[trait.name]
        if how.search and excerpts is not None:
            metadata["model_calls"] += await assess_risks(context, settings.deep_judgment_rubric_search_tool, excerpts)
            metadata["stages_completed"].append("hallucination_assessment")
            of_trait = excerpts[trait.name]
            fields["rubric_hallucination_risk_assessment"] = {
                "overall_risk": overall_risk(of_trait),
                "per_excerpt_risks": [excerpt.get("hallucination_risk") for excerpt in of_trait],
            }

        reasons = await ask(
            context, TRAIT_REASONING, reasoning_request(question, text, items, excerpts), _REASONS, _read_reasoning
        )
        metadata["model_calls"] += reasons.tries
        metadata["stages_completed"].append("reasoning_generation")
        fields["rubric_trait_reasoning"] = reasons.value

        described = " ".join(filter(None, [f"{trait.name}:", items[trait.name]]))
        form = score_schema(trait)
        scored = await ask(
            context,
            TRAIT_SCORE,
            score_request(question, text, described, describe_scale(trait), {trait.name: reasons.value}),
            form.complete(object_schema({"score": form.schema})),
            lambda values: read_score(trait, values["score"]),
        )
        metadata["model_calls"] += scored.tries
        metadata["stages_completed"].append(SCORED)
        score = scored.value
        fields["deep_judgment_rubric_scores"] = score.value
        if score.label is not None:
            fields["llm_trait_labels"] = score.label
        return score.value


_REASONS: Final = object_schema({"reasoning": {"type": "string", "maxLength": 2000}})


def _read_reasoning(values: Mapping[str, Any]) -> str:
    """Return the reasoning in a judge's reply. Raises `InvalidReply` if it is blank or not a string."""
    reasoning = values["reasoning"]
    if not isinstance(reasoning, str) or not reasoning.strip():
        raise InvalidReply("reasoning must be a string of one or more sentences")
    return reasoning
