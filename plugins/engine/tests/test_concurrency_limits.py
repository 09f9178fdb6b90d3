"""Tests of the limiter of a server: how many permits there are, who gets them, and that none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core import ModelConfig
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_engine.calls.concurrency import Bounds, Concurrency
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits, ServerLimiter, is_refusal
from karenina_testing.virtual_time import run_in_virtual_time

MODEL = ModelConfig(id="m", interface="scripted", model_name="m")


def places(start: int, ceiling: int = 100, *, fixed: bool = False, most: float = float("inf")) -> ServerLimiter:
    return ConcurrencyLimits(lambda _model: Bounds(start, ceiling, fixed), most).limiter(MODEL)


async def taken(server: ServerLimiter, order: int = 0) -> int:
    return server.acquire() or await server.wait(order)


def run(work: Callable[[], Any]) -> None:
    run_in_virtual_time(work())


def test_the_limit_grows_while_replies_come_and_places_are_wanted() -> None:
    async def work() -> None:
        server = places(2, ceiling=8)
        seen = []
        for _ in range(3):
            for _ in range(held := int(server.limit)):
                await taken(server)
            for _ in range(held):
                server.on_success()
            seen.append(int(server.limit))
        assert seen == [4, 8, 8]

        waiting = [asyncio.create_task(taken(server)) for _ in range(20)]
        await asyncio.sleep(0)
        for _ in range(20):
            server.on_success()
            await asyncio.sleep(0)
        assert server.limit == 8
        await asyncio.gather(*waiting)

    run(work)


def test_places_that_nobody_wants_do_not_become_more() -> None:
    async def work() -> None:
        server = places(4)
        for _ in range(50):
            await taken(server)
            server.on_success()
        assert server.limit == 4

    run(work)


def test_refusals_of_simultaneous_calls_halve_the_limit_once() -> None:
    async def work() -> None:
        server = places(32)
        burst = [await taken(server) for _ in range(32)]
        for place in burst[20:]:
            server.on_overload(place)
        assert server.limit == 16
        assert server.held == 20

        for _ in range(20):
            server.on_success()
        before = server.limit
        for place in [await taken(server) for _ in range(3)]:
            server.on_overload(place)
        assert server.limit == before / 2

    run(work)


def test_refusal_below_an_earlier_level_does_not_halve_the_limit() -> None:
    async def work() -> None:
        server = places(32)
        for place in [await taken(server) for _ in range(32)][31:]:
            server.on_overload(place)
        for _ in range(31):
            server.on_success()
        before = server.limit
        await taken(server)
        server.on_overload(await taken(server))
        assert server.limit == before

    run(work)


def test_server_that_only_refuses_keeps_one_permit_and_pauses() -> None:
    async def work() -> None:
        server = places(4)
        for _ in range(4):
            server.on_overload(await taken(server), retry_after=0.05)
        assert server.limit == 1
        assert server.acquire() == 0

        assert await asyncio.wait_for(taken(server), 5) > 0

    run(work)


def test_limit_returns_to_just_below_the_refusal() -> None:
    async def work() -> None:
        server = places(32)
        waiting = [asyncio.create_task(taken(server)) for _ in range(400)]
        await asyncio.sleep(0)
        for place in range(21, 33):
            server.on_overload(place)
        for _ in range(10):
            server.on_success()
            await asyncio.sleep(0)
        assert int(server.limit) == 20
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(work)


def test_fixed_places_do_not_move() -> None:
    async def work() -> None:
        server = places(5, 5, fixed=True)
        for _ in range(3):
            server.on_overload(await taken(server))
            server.on_success() if server.acquire() else None
        assert server.limit == 5

    run(work)


def test_of_calls_that_wait_those_of_earlier_items_go_first() -> None:
    async def work() -> None:
        server = places(1, 1)
        await taken(server)
        order: list[int] = []

        async def call(item: int) -> None:
            await taken(server, item)
            order.append(item)
            server.on_success()

        calls = [asyncio.create_task(call(item)) for item in (7, 3, 9, 1, 3)]
        await asyncio.sleep(0)
        server.release()
        await asyncio.gather(*calls)
        assert order == [1, 3, 3, 7, 9]

    run(work)


def test_common_limit_holds_and_the_earliest_item_is_first() -> None:
    async def work() -> None:
        limits = ConcurrencyLimits(lambda _model: Bounds(10, 10), most=2)
        one, other = (limits.limiter(MODEL.model_copy(update={"model_name": name})) for name in ("x", "y"))
        assert (one.acquire(), other.acquire(), one.acquire(), other.acquire()) == (1, 1, 0, 0)

        late, early = asyncio.create_task(taken(one, 5)), asyncio.create_task(taken(other, 2))
        await asyncio.sleep(0)
        one.on_success()
        await asyncio.sleep(0)
        assert (early.done(), late.done()) == (True, False)
        other.on_success()
        await asyncio.gather(early, late)
        assert limits.held == 2

    run(work)


def test_models_of_one_server_share_permits_and_narrowest_bounds() -> None:
    bounds = Concurrency(models={"a": 7}).bounds
    limits = ConcurrencyLimits(lambda model: bounds(model, None))
    a, b = (MODEL.model_copy(update={"id": id}) for id in ("a", "b"))
    limits.prepare([b, a])

    assert limits.limiter(a) is limits.limiter(b)
    assert limits.limiter(b).limit == 7


@pytest.mark.parametrize(
    ("configured", "declared", "bounds"),
    [
        (Concurrency(), None, Bounds(32, 256)),
        (Concurrency(), 4, Bounds(4, 4)),
        (Concurrency(start=2), 4, Bounds(2, 4)),
        (Concurrency(start=8), 4, Bounds(4, 4)),
        (Concurrency(start=8, ceiling=300), None, Bounds(8, 300)),
        (Concurrency(ceiling=3), None, Bounds(3, 3)),
        (Concurrency(ceiling=3, models={"m": 9}), 4, Bounds(9, 9, fixed=True)),
    ],
)
def test_bounds_follow_from_configuration_and_adapter(
    configured: Concurrency, declared: int | None, bounds: Bounds
) -> None:
    assert configured.bounds(MODEL, declared) == bounds


@pytest.mark.parametrize(
    ("category", "status", "refused"),
    [
        (ErrorCategory.RATE_LIMIT, None, True),
        (ErrorCategory.SERVER, 503, True),
        (ErrorCategory.SERVER, 529, True),
        (ErrorCategory.SERVER, 500, False),
        (ErrorCategory.TIMEOUT, 504, False),
        (ErrorCategory.CONNECTION, None, False),
    ],
)
def test_rate_limits_and_overload_are_refusals(category: ErrorCategory, status: int | None, refused: bool) -> None:
    assert is_refusal(PortError("no", category=category, status=status)) is refused


STEPS = st.lists(
    st.sampled_from(["acquire", "wait", "on_success", "on_overload", "release", "cancel", "turn"]), max_size=120
)


@given(STEPS, st.integers(1, 12), st.integers(1, 12), st.booleans(), st.sampled_from([1, 3, float("inf")]))
def test_limit_stays_within_its_bounds_and_loses_no_permit(
    steps: list[str], start: int, ceiling: int, fixed: bool, most: float
) -> None:
    async def work() -> None:
        server = places(min(start, ceiling), ceiling, fixed=fixed, most=most)
        held: list[int] = []
        waiting: list[asyncio.Task[int]] = []

        def arrived() -> Iterator[int]:
            for task in [one for one in waiting if one.done()]:
                waiting.remove(task)
                if not task.cancelled():
                    yield task.result()

        for step in steps:
            if step == "acquire" and (place := server.acquire()):
                held.append(place)
            elif step == "wait":
                waiting.append(asyncio.create_task(taken(server)))
            elif step == "cancel" and waiting:
                waiting[len(waiting) // 2].cancel()
            elif step == "turn":
                await asyncio.sleep(0)
            elif held and step == "on_overload":
                server.on_overload(held.pop(0))
            elif held and step in ("on_success", "release"):
                held.pop()
                getattr(server, step)()
            held.extend(arrived())
            assert 1 <= server.limit <= ceiling
            assert server.held <= min(ceiling, most)

        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        held.extend(arrived())
        for _ in held:
            server.release()
        assert (server.held, server.queued, server._limits.held) == (0, 0, 0)

    run(work)
