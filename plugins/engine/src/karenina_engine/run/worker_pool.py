"""A pool of asyncio workers whose size follows the number of calls that may be in flight."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from typing import Final, Generic, TypeVar

from karenina_core.errors import RunError

W = TypeVar("W")
R = TypeVar("R")

_MAX_WAITING: Final = 128
"""The results that wait for the consumer before their workers have to wait."""


class WorkerPool(ABC, Generic[W, R]):
    """A pool that does `tasks` with as many workers as `target_size` returns at the time.

    A worker does one task after another, so the event loop never has a task for each of them. `wakeup` is set by
    workers, and by whoever changes the target size. If `work` raises, all workers stop.
    """

    def __init__(self, tasks: Iterator[W], wakeup: asyncio.Event) -> None:
        self._tasks = tasks
        self._wakeup = wakeup
        self._workers: set[asyncio.Task[None]] = set()
        self._active = 0
        self._ready: deque[R] = deque()
        self._room = asyncio.Semaphore(_MAX_WAITING)
        self._closed = False
        self._stopping = False
        self._failure: BaseException | None = None

    @abstractmethod
    async def work(self, tasks: Iterator[W]) -> None:
        """Do tasks, one after another, and `put` their results."""

    @abstractmethod
    def target_size(self) -> int:
        """Return how many workers there should be."""

    async def results(self) -> AsyncGenerator[R]:
        """Start the workers, and yield their results as they come. Raises what `work` raised."""
        try:
            while True:
                while self._ready:
                    self._room.release()
                    yield self._ready.popleft()
                while not self._closed and self._active < self.target_size():
                    self._active += 1
                    worker = asyncio.get_running_loop().create_task(self.work(self._tasks_of_worker()))
                    self._workers.add(worker)
                    worker.add_done_callback(self._on_worker_done)
                if self._workers:
                    self._wakeup.clear()
                    await self._wakeup.wait()
                else:
                    break
            if self._failure is not None:
                raise _first_error(self._failure)
        finally:
            self.cancel()
            if self._workers:
                await asyncio.wait(self._workers)

    async def put(self, result: R) -> None:
        """Pass a result to the consumer of `results`. Many that it has not taken yet make the worker wait."""
        await self._room.acquire()
        self._ready.append(result)
        self._wakeup.set()

    def close(self) -> None:
        """Start no further task."""
        self._closed = True

    def cancel(self) -> None:
        """Cancel all workers at once."""
        self._closed = self._stopping = True
        for worker in self._workers:
            worker.cancel()

    def _tasks_of_worker(self) -> Iterator[W]:
        """Yield the tasks of one worker, until there are none, or too many workers."""
        for task in self._tasks:
            yield task
            if self._closed or self._active > self.target_size():
                self._active -= 1
                return
        self._closed = True

    def _on_worker_done(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        failure = None if worker.cancelled() else worker.exception()
        if worker.cancelled() and not self._stopping:  # otherwise its item would be lost without an error
            failure = RunError("a task of the run was cancelled by something other than the run")
        if failure is not None and self._failure is None:
            self._failure = failure
            self.cancel()
        self._wakeup.set()


def _first_error(error: BaseException) -> BaseException:
    """Return the error itself, or the first one of a group, however deeply nested."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
