"""`RegexTraitEvaluator`: scores whether a pattern matches the answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

from karenina_core.data.rubrics import RegexRubricTrait, RubricTrait
from karenina_rubric.evaluators import TraitScore, score_each
from karenina_toolkit.patterns import check_pattern, search

if TYPE_CHECKING:
    from karenina_core import VerificationContext

FIELD: Final = "regex_trait_scores"


class RegexTraitEvaluator:
    """An evaluator that searches the answer for each regex trait's pattern.

    `karenina_toolkit.patterns` limits the time of a search.
    """

    name: ClassVar[str] = "regex"
    precedence: ClassVar[int] = 0

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        """Return whether this is a regex trait."""
        return isinstance(trait, RegexRubricTrait)

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        """Return one score for each trait."""

        async def score(trait: RegexRubricTrait) -> TraitScore:
            return TraitScore(trait.name, FIELD, await context.in_thread(matches, trait, text))

        return await score_each([one for one in traits if isinstance(one, RegexRubricTrait)], FIELD, score)


def matches(trait: RegexRubricTrait, text: str) -> bool:
    """Return whether the trait's pattern occurs in `text`, or the opposite if the trait inverts its result.

    Raises `PatternTimeout` if the search takes too long.
    """
    match = search(trait.pattern, text, () if trait.case_sensitive else ("IGNORECASE",))
    return (match is not None) is not trait.invert_result


@lru_cache(maxsize=4096)
def pattern_error(pattern: str) -> str | None:
    """Return why `pattern` does not compile, or None if it does.

    Results are cached, because most questions in a benchmark share their patterns.
    """
    try:
        check_pattern(pattern)
    except ValueError as error:
        return str(error)
    return None
