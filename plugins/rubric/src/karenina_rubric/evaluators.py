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
    """The outcome of scoring one trait.

    `score` is None if the trait could not be scored; `error` is the reason. `result_field` names the field that holds
    scores of this kind, by trait name: a field of the result's rubric section (`llm_trait_scores`, ...), or one of the
    plugin's own (`tasting_trait_scores`), which becomes an entry in `other_trait_scores`. `fields` maps the names of
    further result fields by trait name (`llm_trait_labels`, `extracted_rubric_excerpts`, `trait_metadata`, ...) to this
    trait's value.
    """

    trait: str
    result_field: str
    score: Any = None
    error: str | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


class TraitEvaluator(Protocol):
    """An evaluator of the traits that it claims. One stateless object serves all items concurrently.

    Each trait goes to the first evaluator that claims it, in the order of descending `precedence`, then of `name`. An
    evaluator gets all traits that it claimed in one call, so that it can score them together.
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

        Return a trait's failure as the `error` of its score: an exception fails all traits of the call.
        """


def find_flaw(evaluator: object) -> str | None:
    """Return why an object cannot be used as a trait evaluator, and how to fix it; None if it can."""
    if isinstance(evaluator, type):
        return f"karenina_trait_evaluators returned the class {evaluator.__name__}: return an instance of it"
    kind = type(evaluator).__name__
    if not isinstance(getattr(evaluator, "name", None), str):
        return f"the trait evaluator {kind} has no name: set name to a string"
    if not isinstance(getattr(evaluator, "precedence", None), int):
        return f"the trait evaluator {kind} has no precedence: set precedence to an integer (0 in standard evaluators)"
    missing = [name for name in ("claims", "evaluate") if not callable(getattr(evaluator, name, None))]
    return f"the trait evaluator {kind} has no method {missing[0]}()" if missing else None


TraitT = TypeVar("TraitT", bound=RubricTrait)


async def score_each(
    traits: Sequence[TraitT], result_field: str, score: Callable[[TraitT], Awaitable[TraitScore]]
) -> list[TraitScore]:
    """Score all traits concurrently, and return the scores in the same order.

    An exception becomes the error of the trait that raised it.
    """

    async def one(trait: TraitT) -> TraitScore:
        try:
            return await score(trait)
        except Exception as error:
            return TraitScore(trait.name, result_field, error=describe_error(error))

    return await gather_all(one(trait) for trait in traits)
