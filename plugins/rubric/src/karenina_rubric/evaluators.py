"""What scores rubric traits: the contract between the rubric stage and the plugins that bring evaluators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from karenina_core.data.rubrics.base import RubricTrait
    from karenina_core.stages.context import VerificationContext


@dataclass(frozen=True, slots=True)
class TraitScore:
    """What became of one trait.

    `score` is None where it could not be scored, and `error` says why then. `result_field` is the field of the result's
    rubric section that holds scores of this kind, by trait name (`llm_trait_scores`, ...), or a name of the plugin's
    own (`tasting_trait_scores`), which is then an entry of `other_trait_scores`. `fields` are further result fields
    that are mappings by trait name, with this trait's value (`llm_trait_labels`, `extracted_rubric_excerpts`,
    `trait_metadata`, ...).
    """

    trait: str
    result_field: str
    score: Any = None
    error: str | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


class TraitEvaluator(Protocol):
    """Scores the traits that it claims. One object serves all items at once and holds nothing of any.

    Each trait goes to the first evaluator that claims it, in the order of falling `precedence`, then of `name`. All
    traits of one evaluator come in one call, so that it may score them together.
    """

    name: ClassVar[str]
    precedence: ClassVar[int]

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Whether it scores this trait under this configuration (its own settings: `context.config.section`)."""

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """One score for each trait, in any order. A trait that fails has an error; an exception fails all of them."""


def find_flaw(evaluator: object) -> str | None:
    """Return why an object cannot be used as a trait evaluator, with the cure, or None if it can."""
    if isinstance(evaluator, type):
        return f"karenina_trait_evaluators offers the class {evaluator.__name__}: offer an object of it"
    kind = type(evaluator).__name__
    if not isinstance(getattr(evaluator, "name", None), str):
        return f"the trait evaluator {kind} has no name: set name to a text"
    if not isinstance(getattr(evaluator, "precedence", None), int):
        return f"the trait evaluator {kind} has no precedence: set precedence to a whole number (the plain ones have 0)"
    missing = [name for name in ("claims", "evaluate") if not callable(getattr(evaluator, name, None))]
    return f"the trait evaluator {kind} lacks the method {missing[0]}()" if missing else None
