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
