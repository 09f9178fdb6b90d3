"""The pool of workers: all tasks are done, and a cancelled worker is a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from karenina_core.errors import RunError
from karenina_engine.run.local_execution import WorkerPool


class TwoWorkers(WorkerPool[str, str]):
    """Two workers, whose results are their tasks."""

    async def work(self, tasks: Iterator[str]) -> None:
        for task in tasks:
            await asyncio.sleep(0)
            if task == "vanish":
                raise asyncio.CancelledError
            await self.put(task)

    def target_size(self) -> int:
        return 2


def run_tasks(tasks: list[str]) -> tuple[list[str], BaseException | None]:
    """Return the tasks that a pool of two workers did, and its failure; the task "vanish" cancels its worker."""

    async def run() -> tuple[list[str], BaseException | None]:
        done: list[str] = []
        try:
            async with asyncio.timeout(60):
                async for result in TwoWorkers(iter(tasks), asyncio.Event()).results():
                    done.append(result)  # noqa: PERF401 - those before an error count
        except RunError as error:
            return done, error
        return done, None

    return asyncio.run(run())


def test_all_tasks_are_done_by_few_workers() -> None:
    assert run_tasks(["a", "b", "c", "d", "e"]) == (["a", "b", "c", "d", "e"], None)


def test_a_worker_cancelled_from_outside_is_a_failure() -> None:
    for tasks in (["a", "vanish", "b"], ["a", "b", "vanish"], ["vanish"]):
        assert isinstance(run_tasks(tasks)[1], RunError)
