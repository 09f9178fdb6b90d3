"""Tests of `BudgetServer`: a worker that dies or gives up a request delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, Message, Usage
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, Endpoint
from karenina_engine.cost.budget import Budget, OverBudget
from karenina_engine.cost.ledger import Ledger, PriceTable
from karenina_engine.cost.price_source import OwnPrice
from karenina_ray.journal_server import BudgetServer
from karenina_ray.serialization import Payload
from karenina_ray.work_queue import WorkerHandle
from karenina_ray.worker import RemoteBudget, RemoteClient

MODEL = ModelConfig(id="answering", interface="fake_plugin.fake", model_name="answering", max_tokens=8)


def call(order: int) -> Call:
    return Call(Endpoint("llm", MODEL, "fake 1", {}), [Message.user("Which gene?")], CallInfo(str(order), order=order))


class Setup:
    """A budget that covers two calls at once, and two workers with remote budgets, all in one event loop."""

    def __init__(self) -> None:
        self.budget = Budget(0, Ledger(PriceTable(Plugins(), {"answering": OwnPrice(input=1, output=4)})))
        self.budget.spend(call(0), Usage(0, 8, calls=1), 0)  # a first call is made alone
        self.each = self.budget.max_cost(call(0))
        self.budget.limit = 2 * self.each
        self.server = BudgetServer(
            self.budget, self._respond, lambda work: asyncio.get_running_loop().create_task(work)
        )
        self.workers = [WorkerHandle(None, index, models={0: MODEL}) for index in range(2)]
        self._clients = [RemoteClient(self._sender(worker), paid=True) for worker in self.workers]
        self.budgets = [RemoteBudget(client) for client in self._clients]

    def _respond(self, worker: WorkerHandle, message: Payload) -> None:
        self._clients[worker.index].on_response(message)

    def _sender(self, worker: WorkerHandle) -> Callable[[Payload], None]:
        def send(message: Payload) -> None:
            if message["kind"] == "reserve":
                self.server.reserve(worker, message)
            elif message["kind"] == "holds":
                self.server.holds(worker, message)
            elif message["kind"] == "release":
                self.server.release(worker, message["reserved"])

        return send


async def start(work: Any) -> asyncio.Task[int]:
    """Start a task, and let it run until it waits."""
    task = asyncio.get_running_loop().create_task(work)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


def test_uncovered_call_waits_until_another_worker_releases() -> None:
    async def run() -> list[bool]:
        setup = Setup()
        first, second = [await setup.budgets[0].reserve(call(order)) for order in (1, 2)]
        third = await start(setup.budgets[1].reserve(call(3)))
        waited = not third.done()
        setup.budgets[0].release(first)
        setup.budgets[1].release(await third)
        setup.budgets[0].release(second)
        return [waited, setup.budget.reserved == 0]

    assert asyncio.run(run()) == [True, True]


def test_cancelled_request_gets_no_reservation() -> None:
    async def run() -> list[int]:
        setup = Setup()
        held = [await setup.budgets[0].reserve(call(order)) for order in (1, 2)]
        gives_up = await start(setup.budgets[1].reserve(call(3)))
        gives_up.cancel()
        await asyncio.wait([gives_up])
        for reserved in held:
            setup.budgets[0].release(reserved)
        await start(asyncio.sleep(0))
        after_it = [await setup.budgets[0].reserve(call(order)) for order in (4, 5)]
        return [setup.budget.reserved // setup.each, len(after_it)]

    assert asyncio.run(run()) == [2, 2]


@pytest.mark.parametrize("turns", range(6))
def test_request_cancelled_at_any_moment_holds_nothing(turns: int) -> None:
    async def run() -> int:
        setup = Setup()
        waiting = asyncio.get_running_loop().create_task(setup.budgets[0].reserve(call(1)))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait([waiting])
        else:
            setup.budgets[0].release(waiting.result())
        await start(asyncio.sleep(0))
        return setup.budget.reserved

    assert asyncio.run(run()) == 0


def test_death_forfeits_reservations_and_cancels_requests() -> None:
    async def run() -> tuple[int, int]:
        setup = Setup()
        await setup.budgets[0].reserve(call(1))
        other = await setup.budgets[1].reserve(call(2))
        await start(setup.budgets[0].reserve(call(3)))
        setup.server.on_worker_death(setup.workers[0])
        await start(asyncio.sleep(0))
        setup.budgets[1].release(other)
        await start(asyncio.sleep(0))
        return setup.budget.lost // setup.each, setup.budget.reserved

    assert asyncio.run(run()) == (1, 0)


def test_a_worker_learns_that_calls_of_another_cost_more() -> None:
    async def run() -> list[bool]:
        setup = Setup()
        first, second = [await setup.budgets[at].reserve(call(at)) for at in (0, 1)]
        before = await setup.budgets[1].holds(second)
        setup.budget.spend(call(0), Usage(10, 800, calls=1), 8 * setup.each // 10)
        setup.budgets[0].release(first)
        return [before, await setup.budgets[1].holds(second)]

    assert asyncio.run(run()) == [True, False]


def test_request_fails_if_everything_is_forfeited() -> None:
    async def run() -> None:
        setup = Setup()
        for order in (1, 2):
            await setup.budgets[0].reserve(call(order))
        setup.server.on_worker_death(setup.workers[0])
        with pytest.raises(OverBudget):
            await setup.budgets[1].reserve(call(3))
        assert setup.budget.exhausted

    asyncio.run(run())
