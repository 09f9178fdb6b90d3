"""Score several traits at once, so that none costs the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from karenina_core.errors import KareninaError
from karenina_core.ports import PortError
from karenina_core.rubrics import RubricTrait
from karenina_core.rubrics.evaluation import TraitScore
from karenina_core.structured import StructuredError

TraitT = TypeVar("TraitT", bound=RubricTrait)


async def each_alone(
    traits: Sequence[TraitT], result_field: str, score: Callable[[TraitT], Awaitable[TraitScore]]
) -> list[TraitScore]:
    """`score` of each trait, all under way at once, in the order of the traits; what raises is that trait's error."""

    async def one(trait: TraitT) -> TraitScore:
        try:
            return await score(trait)
        except Exception as error:
            return TraitScore(trait.name, result_field, error=said(error))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(trait)) for trait in traits]
    return [task.result() for task in tasks]


def said(error: Exception) -> str:
    """What an error says; with its class where it is none of ours, because others are often too short to be told."""
    text = str(error)
    if text and isinstance(error, KareninaError | PortError | StructuredError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
