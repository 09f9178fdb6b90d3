"""A rubric's result fields: mappings by trait name, merged from trait scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from karenina_core.data.rubrics import RubricTrait
from karenina_core.data.sections import (
    ROOT_FIELDS,
    TRAIT_SCORES,
    VerificationResultDeepJudgmentRubric,
    VerificationResultRubric,
)
from karenina_rubric.evaluators import TraitScore

ERRORS: Final = "trait_errors"
METADATA: Final = "trait_metadata"
OTHERS: Final = "other_trait_scores"
DEEP_SCORES: Final = "deep_judgment_rubric_scores"

_SECTIONS: Final = (VerificationResultRubric, VerificationResultDeepJudgmentRubric)


@dataclass(slots=True)
class ResultFields:
    """The result fields collected so far, and the values that do not fit their field; both by field, then by trait."""

    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    unfit: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, trait: RubricTrait, score: TraitScore) -> None:
        """Add the outcome of one trait.

        A score that does not fit its field fails this trait only; unfit values of `fields` do not fail it.
        """
        error = None if score.error is None else str(score.error)
        if not any(score.result_field in section.model_fields for section in _SECTIONS):
            self.fields.setdefault(OTHERS, {}).setdefault(score.result_field, {})[trait.name] = score.score
        elif score.result_field in TRAIT_SCORES and fits_field(score.result_field, trait.name, score.score):
            self._put(score.result_field, trait.name, score.score)
        else:
            self.unfit.setdefault(score.result_field, {})[trait.name] = score.score
            self.fail(
                trait, error := error or f"the score {score.score!r:.100} does not fit the field {score.result_field}"
            )
        for name, value in score.fields.items():
            if fits_field(name, trait.name, value):
                self._put(name, trait.name, value)
            else:
                self.unfit.setdefault(name, {})[trait.name] = value
        if error is None and score.score is None:
            error = "its evaluator returned neither a score nor an error"
        if error is not None:
            self._put(ERRORS, trait.name, error)

    def fail(self, trait: RubricTrait, error: str) -> None:
        """Add a trait's error, and the score None in the field for the trait's kind, if the result has such a field."""
        name = f"{trait.type}_trait_scores"
        if name in TRAIT_SCORES:
            self._put(name, trait.name, None)
        self._put(ERRORS, trait.name, error)

    def _put(self, name: str, trait: str, value: object) -> None:
        self.fields.setdefault(name, {})[trait] = value


def fits_field(name: str, trait: str, value: object) -> bool:
    """Return whether the result field `name` accepts `value` for a trait; unknown fields accept all values.

    Root fields accept none, because they are not mappings by trait name.
    """
    if name in ROOT_FIELDS:
        return False
    for section in _SECTIONS:
        if name in section.model_fields:
            try:
                section.model_validate({name: {trait: value}})
            except ValidationError:
                return False
    return True


@dataclass(frozen=True, slots=True)
class DeepJudgmentSummary:
    """What deep judgment did for a rubric; `fields` are further result fields, not returned by any evaluator."""

    performed: bool
    metadata: dict[str, dict[str, Any]] | None = None
    without_excerpts: list[str] | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


def summarize_deep_judgment(fields: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> DeepJudgmentSummary:
    """Summarize the fields `trait_metadata` and `deep_judgment_rubric_scores`, which deep-judgment evaluators return.

    `names` are the LLM traits: those in neither field were scored without deep judgment. A trait without a score is
    not listed as lacking excerpts.
    """
    metadata = {name: dict(facts) for name, facts in fields.get(METADATA, {}).items()}
    deep = {*metadata, *fields.get(DEEP_SCORES, {})}
    if not deep:
        return DeepJudgmentSummary(False)
    scores = fields.get("llm_trait_scores", {})
    return DeepJudgmentSummary(
        True,
        metadata,
        [name for name, facts in metadata.items() if scores.get(name) is not None and _lacks_excerpts(facts)],
        {
            "standard_rubric_scores": {name: scores.get(name) for name in names if name not in deep} or None,
            "total_deep_judgment_model_calls": _total(metadata, "model_calls"),
            "total_traits_evaluated": len(deep),
            "total_excerpt_retries": _total(metadata, "excerpt_retry_count"),
        },
    )


def _lacks_excerpts(facts: Mapping[str, Any]) -> bool:
    """Return whether excerpts were requested and none found."""
    completed = facts.get("stages_completed", ("excerpt_extraction",))
    asked = isinstance(completed, Sequence) and "excerpt_extraction" in completed
    return facts.get("excerpt_validation_failed") is True or (asked and facts.get("had_excerpts") is False)


def _total(metadata: Mapping[str, Mapping[str, Any]], key: str) -> int:
    counts = [facts.get(key) for facts in metadata.values()]
    return sum(count for count in counts if isinstance(count, int))
