"""Score several traits at once, so that none costs the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from karenina_core.errors import told
from karenina_core.rubrics import RubricTrait
from karenina_core.rubrics.evaluation import TraitScore

TraitT = TypeVar("TraitT", bound=RubricTrait)


async def each_alone(
    traits: Sequence[TraitT], result_field: str, score: Callable[[TraitT], Awaitable[TraitScore]]
) -> list[TraitScore]:
    """`score` of each trait, all under way at once, in the order of the traits; what raises is that trait's error."""

    async def one(trait: TraitT) -> TraitScore:
        try:
            return await score(trait)
        except Exception as error:
            return TraitScore(trait.name, result_field, error=told(error))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(trait)) for trait in traits]
    return [task.result() for task in tasks]
