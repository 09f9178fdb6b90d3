"""What is under way beside the results: the first error counts, and at the end nothing is left."""

from __future__ import annotations

import asyncio

import pytest

from karenina_ray.background_tasks import BackgroundTasks


def test_the_first_error_is_kept_and_told() -> None:
    told: list[str] = []

    async def fail(turns: int, why: str) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise LookupError(why)

    async def work() -> BaseException | None:
        errands = BackgroundTasks(lambda: told.append("failed"))
        await asyncio.wait([errands.go(fail(2, "second")), errands.go(fail(1, "first"))])
        return errands.failure

    assert str(asyncio.run(work())) == "first"
    assert told == ["failed", "failed"]


def test_at_the_end_all_is_cancelled_and_that_is_no_failure() -> None:
    ended: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("up")

    async def work() -> BaseException | None:
        errands = BackgroundTasks(lambda: None)
        errands.go(for_ever())
        await asyncio.sleep(0)
        await errands.end()
        return errands.failure

    assert asyncio.run(work()) is None
    assert ended == ["up"]


def test_what_is_cancelled_before_it_began_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    async def work() -> None:
        pytest.fail("it was cancelled")

    async def cancelled() -> None:
        BackgroundTasks(lambda: None).go(work()).cancel()
        await asyncio.sleep(0.01)

    asyncio.run(cancelled())
    assert not [one for one in recwarn.list if "never awaited" in str(one.message)]
