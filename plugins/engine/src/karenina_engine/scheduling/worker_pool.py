"""A pool of asyncio workers whose size follows the number of calls that may be in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

from karenina_core.errors import RunError

W = TypeVar("W")


class WorkerPool(Generic[W]):
    """A pool that calls `work` with each of the `tasks`, with as many workers as `target_size` returns at the time.

    A worker processes one task after another, so the event loop never has a task for each of them. `on_end` is called
    when the last worker has ended. If `work` raises, all workers stop, and `failure` holds the error.
    """

    def __init__(
        self,
        tasks: Iterator[W],
        work: Callable[[W], Awaitable[None]],
        target_size: Callable[[], int],
        on_end: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self._work = work
        self._target_size = target_size
        self._on_end = on_end
        self._workers: set[asyncio.Task[None]] = set()
        self._active = 0
        self._closed = False
        self._stopping = False
        self.failure: BaseException | None = None

    def fill(self) -> None:
        """Start workers until the pool has its target size."""
        while not self._closed and self._active < self._target_size():
            self._active += 1
            worker = asyncio.get_running_loop().create_task(self._work_loop())
            self._workers.add(worker)
            worker.add_done_callback(self._on_worker_done)

    def close(self) -> None:
        """Start no further task."""
        self._closed = True

    def cancel(self) -> None:
        """Cancel all workers at once."""
        self._closed = self._stopping = True
        for worker in self._workers:
            worker.cancel()
        if not self._workers:
            self._on_end()

    async def aclose(self) -> None:
        """Cancel all workers, and wait until they have ended."""
        self.cancel()
        if self._workers:
            await asyncio.wait(self._workers)

    async def _work_loop(self) -> None:
        for task in self._tasks:
            await self._work(task)
            if self._closed or self._active > self._target_size():
                self._active -= 1
                return
        self._closed = True

    def _on_worker_done(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        failure = None if worker.cancelled() else worker.exception()
        if worker.cancelled() and not self._stopping:  # otherwise its item would be lost without an error
            failure = RunError("a task of the run was cancelled by something other than the run")
        if failure is not None and self.failure is None:
            self.failure = failure
            self.cancel()
        elif not self._workers:
            self._on_end()
