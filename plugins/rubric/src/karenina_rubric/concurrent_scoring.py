"""Score several traits at once, so that none costs the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from karenina_core.data.rubrics import RubricTrait
from karenina_core.errors import describe_error
from karenina_rubric.evaluators import TraitScore
from karenina_toolkit.gather_all import gather_all

TraitT = TypeVar("TraitT", bound=RubricTrait)


async def score_each(
    traits: Sequence[TraitT], result_field: str, score: Callable[[TraitT], Awaitable[TraitScore]]
) -> list[TraitScore]:
    """`score` of each trait, all under way at once, in the order of the traits; what raises is that trait's error."""

    async def one(trait: TraitT) -> TraitScore:
        try:
            return await score(trait)
        except Exception as error:
            return TraitScore(trait.name, result_field, error=describe_error(error))

    return await gather_all(one(trait) for trait in traits)
