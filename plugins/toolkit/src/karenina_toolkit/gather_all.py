"""Run several awaitables of one item at once, such as the scoring of its traits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from karenina_core.errors import ItemInterrupt, RunError

T = TypeVar("T")


async def gather_all(works: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results of awaitables that run at once, in their order. For stages that make several calls.

    If one raises, the others still run to their end before the error is raised: a call in flight is paid for, and its
    reply is kept. (A task group would cancel them.) Of several errors the first is raised, except that a `RunError` or
    `Unfinished`, which concerns more than the stage, goes first. If the caller is cancelled, all of them are.
    """
    ended = await asyncio.gather(*works, return_exceptions=True)
    errors = [one for one in ended if isinstance(one, BaseException)]
    if errors:
        raise next((one for one in errors if isinstance(one, RunError | ItemInterrupt)), errors[0])
    return [one for one in ended if not isinstance(one, BaseException)]
