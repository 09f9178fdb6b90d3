"""Tests of background tasks: the first error is kept, and no task is left at the end."""

from __future__ import annotations

import asyncio

import pytest

from karenina_ray.worker_scheduler import BackgroundTasks


def test_first_error_is_kept_and_each_is_reported() -> None:
    reported: list[str] = []

    async def fail(turns: int, why: str) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise LookupError(why)

    async def work() -> BaseException | None:
        tasks = BackgroundTasks(lambda: reported.append("failed"))
        await asyncio.wait([tasks.start(fail(2, "second")), tasks.start(fail(1, "first"))])
        return tasks.failure

    assert str(asyncio.run(work())) == "first"
    assert reported == ["failed", "failed"]


def test_cancel_ends_all_tasks_without_a_failure() -> None:
    ended: list[str] = []

    async def run_forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("up")

    async def work() -> BaseException | None:
        tasks = BackgroundTasks(lambda: None)
        tasks.start(run_forever())
        await asyncio.sleep(0)
        await tasks.cancel()
        return tasks.failure

    assert asyncio.run(work()) is None
    assert ended == ["up"]


def test_task_cancelled_before_its_start_emits_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    async def work() -> None:
        pytest.fail("it was cancelled")

    async def cancelled() -> None:
        BackgroundTasks(lambda: None).start(work()).cancel()
        await asyncio.sleep(0.01)

    asyncio.run(cancelled())
    assert not [one for one in recwarn.list if "never awaited" in str(one.message)]
