"""What a worker gives up, or dies with, holds up nobody: one budget, a cashier, and workers that ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, Message
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, Endpoint
from karenina_engine.cost.budget import Budget, OverBudget
from karenina_engine.cost.ledger import Ledger
from karenina_engine.cost.price_source import OwnPrice
from karenina_engine.cost.price_table import PriceTable
from karenina_ray.budget_server import BudgetServer
from karenina_ray.remote import RemoteBudget, RemoteClient
from karenina_ray.serialization import Payload
from karenina_ray.worker_handle import WorkerHandle

MODEL = ModelConfig(id="mayor", interface="town", model_name="mayor", max_tokens=8)


def call(order: int) -> Call:
    return Call(Endpoint("llm", MODEL, "town 1", {}), [Message.user("Which gene?")], CallInfo(str(order), order=order))


class Town:
    """A budget that covers two calls at once, and two workers of one event loop with their purses."""

    def __init__(self) -> None:
        self.budget = Budget(0, Ledger(PriceTable(Plugins(), {"mayor": OwnPrice(input=1, output=4)})))
        self.each = self.budget.most(call(0))
        self.budget.limit = 2 * self.each
        self.cashier = BudgetServer(
            self.budget, self._answer, lambda work: asyncio.get_running_loop().create_task(work)
        )
        self.hands = [WorkerHandle(None, place, models={0: MODEL}) for place in range(2)]
        self._tellers = [RemoteClient(self._hearing(hand), paid=True) for hand in self.hands]
        self.purses = [RemoteBudget(teller) for teller in self._tellers]

    def _answer(self, hand: WorkerHandle, told: Payload) -> None:
        self._tellers[hand.place].answered(told)

    def _hearing(self, hand: WorkerHandle) -> Callable[[Payload], None]:
        def hear(told: Payload) -> None:
            if told["kind"] == "take":
                self.cashier.reserve(hand, told)
            elif told["kind"] == "release":
                self.cashier.release(hand, told["reserved"])

        return hear


async def begun(work: Any) -> asyncio.Task[int]:
    """A task, as far as it comes by itself."""
    task = asyncio.get_running_loop().create_task(work)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


def test_a_call_that_is_not_covered_waits_until_another_worker_gives_back() -> None:
    async def run() -> list[bool]:
        town = Town()
        first, second = [await town.purses[0].reserve(call(order)) for order in (1, 2)]
        third = await begun(town.purses[1].reserve(call(3)))
        waited = not third.done()
        town.purses[0].release(first)
        town.purses[1].release(await third)
        town.purses[0].release(second)
        return [waited, town.budget.reserved == 0]

    assert asyncio.run(run()) == [True, True]


def test_who_gives_up_waiting_is_not_covered_any_more() -> None:
    async def run() -> list[int]:
        town = Town()
        held = [await town.purses[0].reserve(call(order)) for order in (1, 2)]
        gives_up = await begun(town.purses[1].reserve(call(3)))
        gives_up.cancel()
        await asyncio.wait([gives_up])
        for reserved in held:
            town.purses[0].release(reserved)
        await begun(asyncio.sleep(0))
        after_it = [await town.purses[0].reserve(call(order)) for order in (4, 5)]
        return [town.budget.reserved // town.each, len(after_it)]

    assert asyncio.run(run()) == [2, 2]


@pytest.mark.parametrize("turns", range(6))
def test_who_gives_up_at_whatever_moment_holds_nothing(turns: int) -> None:
    async def run() -> int:
        town = Town()
        asking = asyncio.get_running_loop().create_task(town.purses[0].reserve(call(1)))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not asking.done():
            asking.cancel()
            await asyncio.wait([asking])
        else:
            town.purses[0].release(asking.result())
        await begun(asyncio.sleep(0))
        return town.budget.reserved

    assert asyncio.run(run()) == 0


def test_what_a_dead_worker_held_is_lost_and_what_it_waited_for_is_not() -> None:
    async def run() -> tuple[int, int]:
        town = Town()
        await town.purses[0].reserve(call(1))
        other = await town.purses[1].reserve(call(2))
        await begun(town.purses[0].reserve(call(3)))
        town.cashier.gone(town.hands[0])
        await begun(asyncio.sleep(0))
        town.purses[1].release(other)
        await begun(asyncio.sleep(0))
        return town.budget.lost // town.each, town.budget.reserved

    assert asyncio.run(run()) == (1, 0)


def test_where_all_is_lost_who_asks_is_told_so() -> None:
    async def run() -> None:
        town = Town()
        for order in (1, 2):
            await town.purses[0].reserve(call(order))
        town.cashier.gone(town.hands[0])
        with pytest.raises(OverBudget):
            await town.purses[1].reserve(call(3))
        assert town.budget.exhausted

    asyncio.run(run())
