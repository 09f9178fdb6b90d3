"""Trait evaluators: the contract between the rubric stage and plugins that score traits.

This module also scores traits concurrently, and merges trait scores into the result's fields, which map trait names to
values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from pydantic import ValidationError

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
    """The outcome of scoring one trait.

    `score` is None if the trait could not be scored, in which case `error` is the reason. `result_field` names the
    field that contains scores of this kind, by trait name: a field in the result's rubric section (`llm_trait_scores`,
    ...), or one of the plugin's own (`tasting_trait_scores`), which becomes an entry in `other_trait_scores`. `fields`
    contains this trait's values for further result fields (`llm_trait_labels`, `extracted_rubric_excerpts`,
    `trait_metadata`, ...), which map trait names to values.
    """

    trait: str
    result_field: str
    score: Any = None
    error: str | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


class TraitEvaluator(Protocol):
    """An evaluator for the traits that it claims. A single stateless object is used for all items concurrently.

    Each trait goes to the first evaluator that claims it, in descending order of `precedence`, then in order of `name`.
    An evaluator gets all the traits that it claimed in a single call, so that it can score them together.
    """

    name: ClassVar[str]
    precedence: ClassVar[int]

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether this evaluator scores the trait in this configuration.

        `context.config.section` returns the evaluator's settings.
        """

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """Return one score for each trait, in any order.

        A trait's failure must be returned as the `error` of its score, because an exception fails all traits in the
        call.
        """


def find_flaw(evaluator: object) -> str | None:
    """Return why an object cannot be used as a trait evaluator, and how to fix it.

    Returns None if it can be used.
    """
    if isinstance(evaluator, type):
        return f"karenina_trait_evaluators returned the class {evaluator.__name__} instead of an instance of the class"
    kind = type(evaluator).__name__
    if not isinstance(getattr(evaluator, "name", None), str):
        return f"the trait evaluator {kind} has no name; set `name` to a string"
    if not isinstance(getattr(evaluator, "precedence", None), int):
        return (
            f"the trait evaluator {kind} has no precedence; set `precedence` to an integer (0 in standard evaluators)"
        )
    missing = [name for name in ("claims", "evaluate") if not callable(getattr(evaluator, name, None))]
    return f"the trait evaluator {kind} has no method {missing[0]}()" if missing else None


TraitT = TypeVar("TraitT", bound=RubricTrait)


async def score_each(
    traits: Sequence[TraitT], result_field: str, score: Callable[[TraitT], Awaitable[TraitScore]]
) -> list[TraitScore]:
    """Score all traits concurrently, and return the scores in the same order.

    An exception becomes the error of the trait for which it was raised.
    """

    async def one(trait: TraitT) -> TraitScore:
        try:
            return await score(trait)
        except Exception as error:
            return TraitScore(trait.name, result_field, error=describe_error(error))

    return await gather_all(one(trait) for trait in traits)


class KindEvaluator(Generic[TraitT]):
    """The base class for evaluators that score each trait of one `kind` separately. Subclasses define `score`.

    The traits are scored concurrently. An exception raised by `score` becomes the error of the trait.
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
        """Return one score for each trait of this kind, in the order of `traits`. Other traits get none."""

        async def score(trait: TraitT) -> TraitScore:
            return await self.score(trait, text, context)

        return await score_each([trait for trait in traits if isinstance(trait, self.kind)], self.result_field, score)

    async def score(self, trait: TraitT, text: str, context: VerificationContext) -> TraitScore:
        """Return the score of one trait for the answer `text`. An exception becomes the trait's error."""
        raise NotImplementedError(f"{type(self).__name__} must define score()")


ERRORS: Final = "trait_errors"
METADATA: Final = "trait_metadata"
OTHERS: Final = "other_trait_scores"
DEEP_SCORES: Final = "deep_judgment_rubric_scores"

_SECTIONS: Final = (VerificationResultRubric, VerificationResultDeepJudgmentRubric)


@dataclass(slots=True)
class ResultFields:
    """The result fields collected so far, and the values that do not fit their fields, each by field and trait."""

    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    unfit: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, trait: RubricTrait, score: TraitScore) -> None:
        """Add the outcome of one trait.

        A score whose `result_field` is not a field of the result becomes an entry in `other_trait_scores`. If a score
        does not fit its field, only this trait fails. Values in `fields` that do not fit are stored as unfit, and the
        trait does not fail. A score of None without an error gets an error.
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
            error = "the evaluator returned neither a score nor an error"
        if error is not None:
            self._put(ERRORS, trait.name, error)

    def fail(self, trait: RubricTrait, error: str) -> None:
        """Add a trait's error. If the result has a field for the trait's kind, also add the score None to it."""
        name = f"{trait.type}_trait_scores"
        if name in TRAIT_SCORES:
            self._put(name, trait.name, None)
        self._put(ERRORS, trait.name, error)

    def _put(self, name: str, trait: str, value: object) -> None:
        """Set a trait's value in the field `name`, replacing any earlier value."""
        self.fields.setdefault(name, {})[trait] = value


def fits_field(name: str, trait: str, value: object) -> bool:
    """Return whether the result field `name` accepts `value` for a trait. Unknown fields accept all values.

    Root fields accept no values, because they are not mappings by trait name.
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
    """A summary of the deep judgment of a rubric.

    `fields` contains additional result fields that do not come from an evaluator.
    """

    performed: bool
    metadata: dict[str, dict[str, Any]] | None = None
    without_excerpts: list[str] | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


def summarize_deep_judgment(fields: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> DeepJudgmentSummary:
    """Summarize `trait_metadata` and `deep_judgment_rubric_scores`, the fields returned by deep-judgment evaluators.

    If both are missing, deep judgment was not performed. `names` contains the names of the LLM traits. Those in neither
    field were scored without deep judgment. A trait without a score is not listed as lacking excerpts.
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
