"""The crew of a run: as many workers as calls could be under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

from karenina_core.errors import RunError

W = TypeVar("W")


class WorkerPool(Generic[W]):
    """Does the `work` on everything that `tasks` brings, with as many workers as `wanted` says at the moment.

    A worker takes one task after another, so that there is never a task of the event loop for each of them. `ended` is
    called when the last worker has gone. Where the work raises, all stop; `failure` has the error.
    """

    def __init__(
        self,
        tasks: Iterator[W],
        work: Callable[[W], Awaitable[None]],
        wanted: Callable[[], int],
        ended: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self._work = work
        self._wanted = wanted
        self._ended = ended
        self._workers: set[asyncio.Task[None]] = set()
        self._working = 0
        self._closed = False
        self._stopping = False
        self.failure: BaseException | None = None

    def fill(self) -> None:
        """Add the workers that are missing."""
        while not self._closed and self._working < self._wanted():
            self._working += 1
            worker = asyncio.get_running_loop().create_task(self._work_loop())
            self._workers.add(worker)
            worker.add_done_callback(self._on_worker_done)

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True

    def cancel(self) -> None:
        """Stop at once."""
        self._closed = self._stopping = True
        for worker in self._workers:
            worker.cancel()
        if not self._workers:
            self._ended()

    async def aclose(self) -> None:
        """Stop at once, and wait until all workers have gone."""
        self.cancel()
        if self._workers:
            await asyncio.wait(self._workers)

    async def _work_loop(self) -> None:
        for task in self._tasks:
            await self._work(task)
            if self._closed or self._working > self._wanted():
                self._working -= 1
                return
        self._closed = True

    def _on_worker_done(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        failure = None if worker.cancelled() else worker.exception()
        if worker.cancelled() and not self._stopping:  # else its item would be missing, and nobody would be told
            failure = RunError("a part of the run was cancelled by something that did not stop the run itself")
        if failure is not None and self.failure is None:
            self.failure = failure
            self.cancel()
        elif not self._workers:
            self._ended()
