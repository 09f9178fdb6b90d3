from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from karenina_local.slot_queue import SlotQueue


def test_calls_get_a_slot_in_the_order_in_which_they_ask() -> None:
    async def run() -> list[int]:
        queue, order = SlotQueue(1), list[int]()

        async def call(number: int) -> None:
            async with queue.one() as slot:
                assert slot == 0
                order.append(number)
                await asyncio.sleep(0.01)

        await asyncio.gather(*map(call, range(5)))
        return order

    assert asyncio.run(run()) == [0, 1, 2, 3, 4]


def test_no_two_calls_have_the_same_slot() -> None:
    async def run() -> set[int]:
        queue = SlotQueue(3)
        async with queue.one() as first, queue.one() as second, queue.one() as third:
            return {first, second, third}

    assert asyncio.run(run()) == {0, 1, 2}


@pytest.mark.parametrize("late", [False, True])
def test_a_call_that_is_cancelled_leaves_its_turn_to_the_next(late: bool) -> None:
    async def run() -> None:
        queue = SlotQueue(1)

        async def call() -> None:
            async with queue.one():
                await asyncio.sleep(0)

        async with queue.one():
            waiting, following = asyncio.create_task(call()), asyncio.create_task(call())
            await asyncio.sleep(0.01)
            if not late:
                waiting.cancel()
        waiting.cancel()  # it has just been given the slot, and has not run yet
        await asyncio.gather(waiting, following, return_exceptions=True)
        async with asyncio.timeout(5), queue.one():
            assert waiting.cancelled()

    asyncio.run(run())


def test_calls_of_several_event_loops_share_the_slots() -> None:
    queue = SlotQueue(1)
    under_way = 0

    async def call() -> None:
        nonlocal under_way
        for _ in range(20):
            async with queue.one():
                under_way += 1
                await asyncio.sleep(0.001)
                assert under_way == 1
                under_way -= 1

    with ThreadPoolExecutor(4) as loops:
        for done in [loops.submit(asyncio.run, call()) for _ in range(4)]:
            done.result(60)
