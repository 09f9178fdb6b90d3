"""Concurrent scoring of several traits, in which a failure affects one trait only."""

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
    """Score all traits concurrently, and return the scores in their order; an exception is the error of its trait."""

    async def one(trait: TraitT) -> TraitScore:
        try:
            return await score(trait)
        except Exception as error:
            return TraitScore(trait.name, result_field, error=describe_error(error))

    return await gather_all(one(trait) for trait in traits)
