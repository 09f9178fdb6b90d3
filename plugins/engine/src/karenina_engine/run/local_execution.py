"""The execution of a run in this process: workers get the answers, and let the judges evaluate them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from karenina_engine.run.matrix import AnswerTask, IndexedResult
from karenina_engine.run.worker_pool import WorkerPool

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.run.session import RunSession

MAX_ANSWERS: Final = 512
"""The most answers in progress at once, whatever the models allow."""
_LAST_STEPS: Final = 0.05
"""Seconds from the last reply to the result, if no other call follows."""


class LocalExecution(WorkerPool[AnswerTask, IndexedResult]):
    """The workers of a run, in this process and event loop."""

    def __init__(self, session: RunSession) -> None:
        super().__init__(session.remaining_tasks(), session.limits.changed)
        self._session = session

    async def work(self, tasks: Iterator[AnswerTask]) -> None:
        """Run the items of these answers, one answer after another."""
        session = self._session
        for task in tasks:
            if session.result_store is not None:
                await session.result_store.read_folders(task)
            judges, kept = session.pending_judges(task)
            for placed in kept:
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
                async for judge, result in results:  # the others go on while this one waits for the journal
                    storing.create_task(self._store(task, judge, result))

    async def _store(self, task: AnswerTask, judge: int, result: VerificationResult) -> None:
        await self.put(await self._session.store_result(task, judge, result))

    def target_size(self) -> int:
        """Return how many answers should be in progress."""
        could = self._session.limits.capacity()  # and some more, since items also compute and wait for the journal
        return min(could + max(2, could // 2), MAX_ANSWERS)

    def stop(self, grace: float) -> None:
        """Stop the workers, after calls in flight have had `grace` seconds to end."""
        self.close()
        if not grace:
            self.cancel()
            return
        self._cancel_at(asyncio.get_running_loop().time() + grace)

    def _cancel_at(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        over = self._session.runner.calls.in_flight == 0 or loop.time() >= end
        loop.call_later(_LAST_STEPS, *((self.cancel,) if over else (self._cancel_at, end)))
