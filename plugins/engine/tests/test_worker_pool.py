"""The crew of a run: all tasks are done, and one that is taken away is told of."""

from __future__ import annotations

import asyncio

from karenina_core.errors import RunError
from karenina_engine.scheduling.worker_pool import WorkerPool


def carried_out(tasks: list[str]) -> tuple[list[str], BaseException | None]:
    """What a crew of two does of the tasks, and how it failed; "vanish" cancels the worker that has it."""

    async def run() -> tuple[list[str], BaseException | None]:
        done: list[str] = []
        ended = asyncio.Event()

        async def work(task: str) -> None:
            await asyncio.sleep(0)
            if task == "vanish":
                raise asyncio.CancelledError
            done.append(task)

        crew = WorkerPool(iter(tasks), work, lambda: 2, ended.set)
        crew.fill()
        await asyncio.wait_for(ended.wait(), 5)
        return done, crew.failure

    return asyncio.run(run())


def test_all_tasks_are_done_by_few_workers() -> None:
    assert carried_out(["a", "b", "c", "d", "e"]) == (["a", "b", "c", "d", "e"], None)


def test_a_task_that_was_cancelled_from_elsewhere_is_a_failure_and_no_gap() -> None:
    for tasks in (["a", "vanish", "b"], ["a", "b", "vanish"], ["vanish"]):
        assert isinstance(carried_out(tasks)[1], RunError)
