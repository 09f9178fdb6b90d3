"""`BackgroundTasks`: tasks that run beside a run's stream of results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class BackgroundTasks:
    """Tasks of one event loop. `failure` is the first error of one of them; each error calls `on_failure`."""

    def __init__(self, on_failure: Callable[[], None]) -> None:
        self.failure: BaseException | None = None
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # else Python warns of work that was cancelled before it began
        return task

    async def cancel(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            self._on_failure()
