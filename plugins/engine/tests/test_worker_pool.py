"""The pool of workers: all tasks are done, and a cancelled worker is a failure."""

from __future__ import annotations

import asyncio

from karenina_core.errors import RunError
from karenina_engine.scheduling.worker_pool import WorkerPool


def run_tasks(tasks: list[str]) -> tuple[list[str], BaseException | None]:
    """Return the tasks that a pool of two workers did, and its failure; the task "vanish" cancels its worker."""

    async def run() -> tuple[list[str], BaseException | None]:
        done: list[str] = []
        ended = asyncio.Event()

        async def work(task: str) -> None:
            await asyncio.sleep(0)
            if task == "vanish":
                raise asyncio.CancelledError
            done.append(task)

        pool = WorkerPool(iter(tasks), work, lambda: 2, ended.set)
        pool.fill()
        await asyncio.wait_for(ended.wait(), 60)
        return done, pool.failure

    return asyncio.run(run())


def test_all_tasks_are_done_by_few_workers() -> None:
    assert run_tasks(["a", "b", "c", "d", "e"]) == (["a", "b", "c", "d", "e"], None)


def test_a_worker_cancelled_from_outside_is_a_failure() -> None:
    for tasks in (["a", "vanish", "b"], ["a", "b", "vanish"], ["vanish"]):
        assert isinstance(run_tasks(tasks)[1], RunError)
