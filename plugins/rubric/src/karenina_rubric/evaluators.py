"""The interface between the rubric stage and plugins that score traits.

This module also runs evaluators concurrently, and collects their scores in the fields of the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from karenina_core.data.rubrics import RubricTrait
from karenina_core.data.sections import (
    ROOT_FIELDS,
    TRAIT_SCORES,
    VerificationResultDeepJudgmentRubric,
    VerificationResultRubric,
)
from karenina_core.errors import describe_error
from karenina_toolkit.stage_support import gather_all

if TYPE_CHECKING:
    from karenina_core.stages.context import VerificationContext


@dataclass(frozen=True, slots=True)
class TraitScore:
    """The score of a trait, or the reason why it has none.

    If the trait could not be scored, `score` is None and `error` contains the reason. `result_field` is the field in
    which the score is stored under the trait's name. It is either a field of the result's rubric section (such as
    `llm_trait_scores`) or a field of your own (such as `tasting_trait_scores`), which becomes an entry in
    `other_trait_scores`. Use `fields` to store other values of this trait in other result fields, such as
    `llm_trait_labels`, `extracted_rubric_excerpts` or `trait_metadata`.
    """

    trait: str
    result_field: str
    score: Any = None
    error: str | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


@runtime_checkable
class TraitEvaluator(Protocol):
    """Scores the traits that it claims.

    Each trait is scored by the first evaluator that claims it. Evaluators with a higher `precedence` are asked first,
    and those with the same precedence in alphabetical order of `name`. An evaluator gets all of its traits in a single
    call, so that it can score them together. The same object is used for all items concurrently, so it must not store
    any state.
    """

    name: ClassVar[str]
    precedence: ClassVar[int]

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether this evaluator should score the trait in this configuration.

        Use `context.config.section` to read the evaluator's settings.
        """

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """Return a score for each of the traits, in any order. If a trait fails, its score has an `error`.

        An exception fails all traits in the call.
        """


def find_flaw(evaluator: object) -> str | None:
    """Return the reason why an object cannot be used as a trait evaluator, with a fix, or None if it can."""
    if isinstance(evaluator, type):
        return f"karenina_trait_evaluators returned the class {evaluator.__name__} instead of an instance of the class"
    kind = type(evaluator).__name__
    if not isinstance(getattr(evaluator, "name", None), str):
        return f"the trait evaluator {kind} has no name; set `name` to a string"
    if not isinstance(getattr(evaluator, "precedence", None), int):
        return (
            f"the trait evaluator {kind} has no precedence; set `precedence` to an integer (0 in standard evaluators)"
        )
    if iscoroutinefunction(getattr(evaluator, "claims", None)):
        return f"claims() of the trait evaluator {kind} is never awaited; write def claims(...), without async"
    missing = [name for name in ("claims", "evaluate") if not callable(getattr(evaluator, name, None))]
    return f"the trait evaluator {kind} has no method {missing[0]}()" if missing else None


TraitT = TypeVar("TraitT", bound=RubricTrait)


async def score_each(
    traits: Sequence[TraitT], result_field: str, score: Callable[[TraitT], Awaitable[TraitScore]]
) -> list[TraitScore]:
    """Return the scores of all traits, in their order, from concurrent calls of `score`. If it raises for a trait, the
    score has the error, and belongs to `result_field`.
    """

    async def one(trait: TraitT) -> TraitScore:
        """Return the score of a trait. An exception becomes its error."""
        try:
            return await score(trait)
        except Exception as error:
            return TraitScore(trait.name, result_field, error=describe_error(error))

    return await gather_all(one(trait) for trait in traits)


class KindEvaluator(Generic[TraitT]):
    """Base class for evaluators that score traits of a single `kind`, one at a time.

    Subclasses define `score`. Traits are scored concurrently. If `score` raises an exception, the trait gets an error.
    """

    name: ClassVar[str]
    precedence: ClassVar[int] = 0
    result_field: ClassVar[str]
    kind: type[TraitT]

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether the trait is of this kind."""
        return isinstance(trait, self.kind)

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """Return a score for each trait of this kind, in any order. Other traits are ignored."""

        async def score(trait: TraitT) -> TraitScore:
            return await self.score(trait, text, context)

        return await score_each([trait for trait in traits if isinstance(trait, self.kind)], self.result_field, score)

    async def score(self, trait: TraitT, text: str, context: VerificationContext) -> TraitScore:
        """Score a trait based on `text`, the answer. If this raises an exception, the trait gets an error."""
        raise NotImplementedError(f"{type(self).__name__} must define score()")


ERRORS: Final = "trait_errors"
METADATA: Final = "trait_metadata"
OTHERS: Final = "other_trait_scores"
DEEP_SCORES: Final = "deep_judgment_rubric_scores"

_SECTIONS: Final = (VerificationResultRubric, VerificationResultDeepJudgmentRubric)


@dataclass(slots=True)
class ResultFields:
    """The result fields collected so far, and the values that were not valid, keyed by field and trait."""

    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    unfit: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, trait: RubricTrait, score: TraitScore) -> None:
        """Add a trait's score to its result field, or to `other_trait_scores` if the result has no such field. If the
        score has an error, is None or does not fit the field, an error is recorded instead.

        Invalid values in `fields` are stored separately and have no other effect.
        """
        error = None if score.error is None else str(score.error)
        plain = _convert_numbers(score.score)
        if error is None and (part := _find_unusable_part(plain)):
            error = f"the score contains {part}, which results cannot store"
            self.unfit.setdefault(score.result_field, {})[trait.name] = repr(score.score)
        scored = plain if error is None else None
        if not any(score.result_field in section.model_fields for section in _SECTIONS):
            self.fields.setdefault(OTHERS, {}).setdefault(score.result_field, {})[trait.name] = scored
        elif score.result_field in TRAIT_SCORES and fits_field(score.result_field, trait.name, scored):
            self._put(score.result_field, trait.name, scored)
        else:
            self.unfit.setdefault(score.result_field, {})[trait.name] = scored
            self.fail(trait, error := error or f"the score {scored!r:.100} does not fit the field {score.result_field}")
        for name, value in score.fields.items():
            if fits_field(name, trait.name, value):
                self._put(name, trait.name, value)
            else:
                self.unfit.setdefault(name, {})[trait.name] = value
        if error is None and score.score is None:
            error = "the evaluator returned neither a score nor an error"
        if error is not None:
            self._put(ERRORS, trait.name, error)

    def fail(self, trait: RubricTrait, error: str) -> None:
        """Add the error of a trait. If there is a result field for its kind, the score there is set to None."""
        name = f"{trait.type}_trait_scores"
        if name in TRAIT_SCORES:
            self._put(name, trait.name, None)
        self._put(ERRORS, trait.name, error)

    def _put(self, name: str, trait: str, value: object) -> None:
        self.fields.setdefault(name, {})[trait] = value


def _convert_numbers(score: object) -> object:
    """Return a score whose numbers of other types, such as those of NumPy, are replaced by integers and floats."""
    if isinstance(score, str | bool | int | float | None):
        return score
    if isinstance(score, Mapping):
        return {name: _convert_numbers(part) for name, part in score.items()}
    if isinstance(score, list | tuple):
        return [_convert_numbers(part) for part in score]
    if isinstance(score, Integral):
        return int(score)
    if isinstance(score, Real):
        with suppress(OverflowError):
            return float(score)
    return score


def _find_unusable_part(score: object) -> str:
    """Return the first part of a score that is not JSON, such as a number that is not finite or beyond the range of a
    float, or an empty string.
    """
    if isinstance(score, str | bool | None):
        return ""
    if isinstance(score, Mapping | list | tuple):
        parts = score.values() if isinstance(score, Mapping) else score
        return next(filter(None, map(_find_unusable_part, parts)), "")
    try:
        if isinstance(score, int | float):
            return "" if isfinite(score) else str(score)
        to_json(score)
    except OverflowError:
        return "an integer of more than 308 digits"
    except PydanticSerializationError:
        return f"{score!r:.80}"
    return ""


def fits_field(name: str, trait: str, value: object) -> bool:
    """Return whether the result field `name` accepts a trait's value. Unknown fields accept anything, and root fields
    nothing.

    Root fields do not map trait names to values.
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
    """A summary of deep judgment for all traits of a rubric: whether it was performed, and what was found for each.

    `fields` contains the values of result fields that are not set by the evaluators of single traits.
    """

    performed: bool
    metadata: dict[str, dict[str, Any]] | None = None
    without_excerpts: list[str] | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


def summarize_deep_judgment(fields: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> DeepJudgmentSummary:
    """Return a summary of the deep judgment in a rubric's result `fields`, which may state that it was not performed.
    `names` are those of all LLM traits.

    It was performed if `fields` contains `trait_metadata` or `deep_judgment_rubric_scores`. Traits in neither were
    scored without deep judgment. A trait without a score does not count as lacking excerpts.
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
    """Return whether excerpts were requested but none were found."""
    completed = facts.get("stages_completed", ("excerpt_extraction",))
    asked = isinstance(completed, Sequence) and "excerpt_extraction" in completed
    return facts.get("excerpt_validation_failed") is True or (asked and facts.get("had_excerpts") is False)


def _total(metadata: Mapping[str, Mapping[str, Any]], key: str) -> int:
    """Return the sum of the integers under `key` in the metadata of all traits. Other values are ignored."""
    counts = [facts.get(key) for facts in metadata.values()]
    return sum(count for count in counts if isinstance(count, int))
