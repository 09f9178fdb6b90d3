"""Trait evaluators: the contract between the rubric stage and plugins that score traits, and concurrent scoring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from karenina_core.data.rubrics import RubricTrait
from karenina_core.errors import describe_error
from karenina_toolkit.stage_support import gather_all

if TYPE_CHECKING:
    from karenina_core.data.rubrics.base import RubricTrait
    from karenina_core.stages.context import VerificationContext


@dataclass(frozen=True, slots=True)
class TraitScore:
    """The outcome of one trait.

    `score` is None if the trait could not be scored; `error` is the reason. `result_field` is the field for scores of
    this kind, by trait name, in the result's rubric section (`llm_trait_scores`, ...), or a name of the plugin's own
    (`tasting_trait_scores`), which becomes an entry of `other_trait_scores`. `fields` maps further result fields, which
    are mappings by trait name, to the value of this trait (`llm_trait_labels`, `extracted_rubric_excerpts`,
    `trait_metadata`, ...).
    """

    trait: str
    result_field: str
    score: Any = None
    error: str | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


class TraitEvaluator(Protocol):
    """An evaluator of the traits that it claims. One object serves all items concurrently, without state.

    Each trait goes to the first evaluator that claims it, ordered by descending `precedence`, then by `name`. All
    traits of one evaluator are passed in one call, so that it can score them together.
    """

    name: ClassVar[str]
    precedence: ClassVar[int]

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether it scores this trait in this configuration (see `context.config.section` for its settings)."""

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """Return one score for each trait, in any order. A failed trait has an error; an exception fails all traits."""


def find_flaw(evaluator: object) -> str | None:
    """Return why an object cannot be used as a trait evaluator, with the cure, or None if it can."""
    if isinstance(evaluator, type):
        return f"karenina_trait_evaluators returned the class {evaluator.__name__}: return an instance of it"
    kind = type(evaluator).__name__
    if not isinstance(getattr(evaluator, "name", None), str):
        return f"the trait evaluator {kind} has no name: set name to a text"
    if not isinstance(getattr(evaluator, "precedence", None), int):
        return f"the trait evaluator {kind} has no precedence: set precedence to an integer (0 in standard evaluators)"
    missing = [name for name in ("claims", "evaluate") if not callable(getattr(evaluator, name, None))]
    return f"the trait evaluator {kind} has no method {missing[0]}()" if missing else None


TraitT = TypeVar("TraitT", bound=RubricTrait)


async def score_each(
    traits: Sequence[TraitT], result_field: str, score: Callable[[TraitT], Awaitable[TraitScore]]
) -> list[TraitScore]:
    """Score all traits concurrently, and return the scores in their order; an exception is the error of its trait."""

    async def one(trait: TraitT) -> TraitScore:
        try:
            return await score(trait)
        except Exception as error:
            return TraitScore(trait.name, result_field, error=describe_error(error))

    return await gather_all(one(trait) for trait in traits)
