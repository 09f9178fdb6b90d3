"""The execution of a run in this process, as the executor `asyncio` does it.

Each worker takes one answer at a time and lets the judges evaluate it. The number of workers depends on the number of
calls that may be in flight.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from karenina_core.errors import RunError
from karenina_engine.run.matrix import AnswerTask, IndexedResult

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.run.session import RunSession


W = TypeVar("W")
R = TypeVar("R")

_MAX_WAITING: Final = 128
"""The maximum number of results waiting to be consumed. If there are more, workers have to wait."""
MAX_ANSWERS: Final = 512
"""The maximum number of answers in progress at a time."""
CANCELLED: Final = "a task of the run was cancelled from outside the run"
"""The message of the error that ends a run in this case."""
_LAST_STEPS: Final = 0.05
"""The number of seconds between an item's last reply and its result."""


class WorkerPool(ABC, Generic[W, R]):
    """A pool of workers that process `tasks`. `target_size` returns the desired number of workers.

    Each worker processes one task at a time, so there is never an asyncio task for every item. Set `wakeup` after the
    desired number has changed. If `work` raises an exception, all workers stop.
    """

    def __init__(self, tasks: Iterator[W], wakeup: asyncio.Event) -> None:
        self._tasks = tasks
        self._wakeup = wakeup
        self._workers: set[asyncio.Task[None]] = set()
        self._active = 0
        self._ready: deque[R] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()  # a semaphore looks at many that were woken before
        self._closed = False
        self._stopping = False
        self._failure: BaseException | None = None

    @abstractmethod
    async def work(self, tasks: Iterator[W]) -> None:
        """Process tasks one at a time until there are no more, passing the results to `put`."""

    @abstractmethod
    def target_size(self) -> int:
        """Return the number of workers that there should currently be."""

    async def results(self) -> AsyncGenerator[R]:
        """Start the workers, and yield their results as they arrive. The first error from `work` cancels the other
        workers, and is raised when all have ended. If a worker is cancelled from outside the pool, raises `RunError`.
        """
        try:
            while True:
                while self._ready:
                    self._wake_next()
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
        """Pass a result to the consumer of `results`. If too many results are waiting already, this waits too."""
        if len(self._ready) >= _MAX_WAITING:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self._ready.append(result)
        self._wakeup.set()

    def _wake_next(self) -> None:
        """Wake the first worker that is waiting to pass on a result."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def close(self) -> None:
        """Stop starting tasks. Tasks in progress continue."""
        self._closed = True

    def cancel(self) -> None:
        """Cancel all workers immediately."""
        self._closed = self._stopping = True
        for worker in self._workers:
            worker.cancel()

    def _tasks_of_worker(self) -> Iterator[W]:
        """Yield the pool's next tasks to one worker. This ends early if the pool is closed or has too many workers."""
        for task in self._tasks:
            yield task
            if self._closed or self._active > self.target_size():
                self._active -= 1
                return
        self._closed = True

    def _on_worker_done(self, worker: asyncio.Task[None]) -> None:
        """Remove a worker that has ended. If it failed, or was cancelled from outside, record the error and cancel the
        other workers.
        """
        self._workers.discard(worker)
        failure = None if worker.cancelled() else worker.exception()
        if worker.cancelled() and not self._stopping:  # otherwise its item would be lost without an error
            failure = RunError(CANCELLED)
        if failure is not None and self._failure is None:
            self._failure = failure
            self.cancel()
        self._wakeup.set()


def _first_error(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class LocalExecution(WorkerPool[AnswerTask, IndexedResult]):
    """Executes a run using workers in this process and event loop."""

    def __init__(self, session: RunSession) -> None:
        super().__init__(session.remaining_tasks(), session.limits.changed)
        self._session = session

    async def work(self, tasks: Iterator[AnswerTask]) -> None:
        """Run the items of the given answers, one answer at a time, storing their results and passing them on. Items
        with a stored result are not run, but their results are passed on too.
        """
        session = self._session
        for task in tasks:
            await asyncio.sleep(0)  # as in `_store`
            if session.result_store is not None and task.pipeline.plan.naming_folders:
                await session.result_store.read_folders(task)
            judges, stored = session.pending_judges(task)
            for placed in stored:
                await self.put(placed)
            if not judges:
                continue
            results = session.runner.answer(task, judges)
            if len(judges) == 1:
                async with aclosing(results):
                    async for judge, result in results:
                        await self._store(task, judge, result)
                continue
            async with asyncio.TaskGroup() as storing, aclosing(results):
                async for judge, result in results:  # other judges continue while this result waits for the journal
                    storing.create_task(self._store(task, judge, result))

    async def _store(self, task: AnswerTask, judge: int, result: VerificationResult) -> None:
        """Store the result of an item, and pass it on.

        Items that are ready do this in a row. With other code in between, it would take twice the computing time,
        because that code does not fit into a processor's caches.
        """
        await asyncio.sleep(0)
        await self.put(await self._session.store_result(task, judge, result))

    def target_size(self) -> int:
        """Return the number of answers that should be in progress: half as many again as the calls that could be in
        flight, and at least two more than these, but at most `MAX_ANSWERS`.
        """
        could = self._session.limits.capacity()  # plus some, since items also compute and wait for the journal
        return min(could + max(2, could // 2), MAX_ANSWERS)

    def stop(self, grace: float) -> None:
        """Stop the workers. Calls in flight have `grace` seconds to finish."""
        self.close()
        if not grace:
            self.cancel()
            return
        self._cancel_at(asyncio.get_running_loop().time() + grace)

    def _cancel_at(self, end: float) -> None:
        """Cancel the workers at the time `end` of the event loop's clock, or as soon as no calls are in flight."""
        loop = asyncio.get_running_loop()
        over = self._session.runner.calls.in_flight == 0 or loop.time() >= end
        loop.call_later(_LAST_STEPS, *((self.cancel,) if over else (self._cancel_at, end)))
