"""Several works of one item at once, such as the judging of its traits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from karenina_core.errors import ItemInterrupt, RunError

T = TypeVar("T")


async def gather_all(works: Iterable[Awaitable[T]]) -> list[T]:
    """The results of works that are under way at once, in their order. For stages that make several calls.

    Where one raises, the others go on to their end before it comes out here: a call that is under way is paid for, and
    its reply is kept. (A task group cancels them.) Of several errors the first comes out, before all others one that
    is not the stage's own: it ends the run, or leaves the item unfinished. Where the caller is cancelled, so are they.
    """
    ended = await asyncio.gather(*works, return_exceptions=True)
    errors = [one for one in ended if isinstance(one, BaseException)]
    if errors:
        raise next((one for one in errors if isinstance(one, RunError | ItemInterrupt)), errors[0])
    return [one for one in ended if not isinstance(one, BaseException)]
