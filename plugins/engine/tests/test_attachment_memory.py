"""The limit on the attachments of calls in flight."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from karenina_engine.calls.attachment_memory import AttachmentMemory


@given(st.lists(st.tuples(st.integers(1, 150), st.booleans()), max_size=25))
def test_the_limit_holds_and_every_call_is_made(calls: list[tuple[int, bool]]) -> None:
    memory = AttachmentMemory(most=100)
    together: list[tuple[int, int]] = []

    async def call(size: int) -> None:
        async with memory.hold(size):
            held.append(size)
            together.append((sum(held), len(held)))
            try:
                await asyncio.sleep(0)
            finally:
                held.remove(size)

    async def go() -> None:
        tasks = [asyncio.create_task(call(size)) for size, _ in calls]
        waiting = [asyncio.create_task(call(size)) for size, late in calls if late]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, *waiting, return_exceptions=True), 10)

    held: list[int] = []
    asyncio.run(go())

    assert memory.held == 0
    assert all(size <= 100 or many == 1 for size, many in together)
    assert len(together) >= len(calls)
