"""The session of a run: a bounded number of answers is in progress, and results are yielded as items end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

from karenina_core.data.result import VerificationResult
from karenina_engine.calls.call_runner import describe_unknown_ends
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
from karenina_engine.cost.budget import Budget
from karenina_engine.cost.ledger import Ledger
from karenina_engine.journal.fingerprint import Fingerprints
from karenina_engine.journal.resume import ResultStore, ResumeState
from karenina_engine.journal.rows import UnstorableRow
from karenina_engine.results.aggregate import RunTally
from karenina_engine.scheduling.events import RunFinished, RunStarted
from karenina_engine.scheduling.indexed_result import IndexedResult
from karenina_engine.scheduling.item_runner import ItemRunner
from karenina_engine.scheduling.plugin_checks import loaded_distributions
from karenina_engine.scheduling.settings import EngineSettings
from karenina_engine.scheduling.worker_pool import WorkerPool

if TYPE_CHECKING:
    from karenina_engine.calls.call import CallCounts, ReplyStore
    from karenina_engine.journal.journal import Journal
    from karenina_engine.journal.tasks import AnswerTask
    from karenina_engine.scheduling.prepared_run import PreparedRun

StopListener = Callable[[float], None]
"""Called when a run is stopped, with the seconds that calls in flight may take to end."""

MAX_ANSWERS = 512
"""The most answers in progress at once, whatever the models allow."""
_MAX_WAITING = 128  # results that wait for the consumer before their producers have to wait
_LAST_STEPS = 0.05  # seconds from the last reply to the result, if no other call follows

logger = logging.getLogger("karenina")


class PrecomputedPart(Protocol):
    """The part of a run whose results other processes compute before the run does the rest."""

    def results(self) -> AsyncGenerator[IndexedResult]:
        """Yield the results of this part. Raises `JournalError` if one cannot be stored."""

    def remaining_tasks(self) -> Iterator[AnswerTask]:
        """Yield the answers that remain for the run."""


class SupportsExecute(Protocol):
    """The part of a `karenina_engine.scheduling.executor.Executor` that a session calls."""

    def execute(self, run: RunSession) -> AsyncGenerator[IndexedResult]:
        """Yield the result of every item with its index in the matrix."""


class RunSession:
    """The state of a run in progress: its calls, results and costs, and whether it was stopped.

    `executor` runs the items; without one, this process does. `journal` stores replies and results, unless `replies`
    and `results` are given in its place. `command` is what the journal stores of how the run was started.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        *,
        executor: SupportsExecute | None = None,
        journal: Journal | None = None,
        command: Mapping[str, Any] | None = None,
        replies: ReplyStore | None = None,
        results: ResultStore | None = None,
    ) -> None:
        self.prepared: Final = prepared
        self.executor: Final = executor
        self.journal: Final = journal
        self.distributions: Final = loaded_distributions(prepared.plugins)
        self.command: Final = {**command, "distributions": self.distributions} if command else {}
        self.reply_store: Final = replies if replies is not None else journal
        if results is None and journal is not None:
            results = ResumeState(journal, Fingerprints(prepared.config, prepared.plugins, prepared.trust))
        self.result_store: Final = results
        self.ledger: Final = Ledger(prepared.prices)
        limit = prepared.budget
        self.budget: Final = Budget(limit, self.ledger, on_spent=self._is_spent) if limit is not None else None
        self.runner: Final = ItemRunner(
            prepared.config,
            prepared.plugins,
            trust=prepared.trust,
            policy=prepared.policy,
            reply_store=self.reply_store,
            offline=prepared.offline,
            observers=prepared.observers,
            planner=prepared.planner,
            ledger=self.ledger,
            budget=self.budget,
            panel=prepared.matrix.panel,
        )
        self._outcomes = RunTally()
        self._computed: PrecomputedPart | None = None
        self._pool: WorkerPool[AnswerTask] | None = None
        self._stopped: str | None = None
        self._stop_requested = False  # by `stop`; when the budget is spent, items in progress go on
        self._stop_listeners: list[StopListener] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def _is_spent(self) -> None:
        assert self.budget is not None
        self._stopped = self._stopped or self.budget.describe_exhaustion()

    @property
    def resumable(self) -> bool:
        """Whether `karenina resume` can continue the run: it has a journal, and its benchmark is a file."""
        return self.journal is not None and self.command.get("benchmark") is not None

    @property
    def tally(self) -> CallCounts:
        """The calls that the run has made so far, and those whose replies the journal had."""
        return self.runner.calls.tally

    def __len__(self) -> int:
        """Return the number of items of the run."""
        return len(self.prepared.matrix)

    @property
    def limits(self) -> ConcurrencyLimits:
        """The current concurrency limits of the models."""
        return self.runner.limits

    @property
    def stopped(self) -> str | None:
        """The reason why the run was stopped before its end, as the end of a sentence with "because", or None."""
        return self._stopped

    @property
    def outcomes(self) -> RunTally:
        """The counts of the results so far."""
        return self._outcomes

    def stop(self, why: str, *, grace: float = 0.0) -> None:
        """Stop the run: its stream ends early, and every result that it has yielded stays valid.

        No further call begins. Calls in flight may take `grace` seconds to end, so that their replies are stored. Call
        this in the event loop of the run (`stop_soon` from elsewhere). A second call ends the grace period.
        """
        pool = self._pool
        again, self._stop_requested = self._stop_requested, True
        self._stopped = self._stopped or why
        self.limits.close()
        for listener in tuple(self._stop_listeners):
            listener(0.0 if again else grace)
        if pool is None:
            return
        pool.close()
        if again or not grace:
            pool.cancel()
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + grace

        def look() -> None:
            if self.runner.calls.in_flight == 0 or loop.time() >= end:
                loop.call_later(_LAST_STEPS, pool.cancel)
            else:
                loop.call_later(_LAST_STEPS, look)

        look()

    def add_stop_listener(self, listener: StopListener) -> None:
        """Let `stop` call `listener` in the event loop, with the seconds that calls in flight may take to end."""
        self._stop_listeners.append(listener)

    def remove_stop_listener(self, listener: StopListener) -> None:
        """Remove a listener that `add_stop_listener` added."""
        self._stop_listeners.remove(listener)

    @property
    def running(self) -> bool:
        """Whether the run is executing."""
        return self._loop is not None

    def stop_soon(self, why: str, *, grace: float = 0.0, then: Callable[[], None] = lambda: None) -> None:
        """Stop the run from a signal handler or another thread; `then` is called in the event loop afterwards."""

        def stop() -> None:
            self.stop(why, grace=grace)
            then()

        if self._loop is None:
            self._stopped = why
        else:
            self._loop.call_soon_threadsafe(stop)

    async def results(self) -> AsyncGenerator[VerificationResult]:
        """Yield the result of every item, in the order in which they end. Leaving the loop early stops the run cleanly.

        With a journal, each result is stored before it is yielded, and stored results are yielded without running
        their items. Raises `JournalError` if the journal can no longer be written.
        """
        async with aclosing(self.indexed_results()) as results:
            async for indexed in results:
                yield indexed.result

    async def indexed_results(self, computed: PrecomputedPart | None = None) -> AsyncGenerator[IndexedResult]:
        """Yield the results with their indexes in the matrix, and the lines that the journal holds of them.

        `computed` yields the results that need no call, if they are computed elsewhere.
        """
        self._computed = computed
        outcomes = self._outcomes = RunTally(self.prepared.config.core.replicate_count)
        began = time.monotonic()
        journal = self.journal if self.journal is not None and not self.journal.replaying else None
        keeps_replies = self.reply_store is not None and not self.prepared.offline
        if journal is not None:
            journal.begin(len(self), self.command, self.ledger)
            journal.store_endpoint_digests(self.runner.model_identities())
        if self.budget is not None:
            core = self.prepared.config.core
            self.budget.count_earlier((*core.answering_models, *core.parsing_models))
        self.prepared.observers.run_started(RunStarted(len(self), self.prepared.config))
        try:
            async with aclosing(self._stream()) as stream:
                async for placed in stream:
                    result, meta = placed.result, placed.result.metadata
                    group = (meta.answering_id, meta.parsing_id)
                    outcomes.add(group, result.outcome, meta.question_id, result.template.verify_granular_result)
                    self.prepared.observers.item_finished(result)
                    yield placed
        finally:
            interrupted = len(outcomes) < len(self)
            if interrupted and self._stopped is not None:
                missing = len(self) - len(outcomes)
                logger.warning(
                    "stopped after %d of %d items, because %s: %d %s no result%s",
                    len(outcomes),
                    len(self),
                    self._stopped,
                    missing,
                    "item has" if missing == 1 else "items have",
                    self._journal_hint() if keeps_replies else "",
                )
            for (model, reason), count in sorted(self.tally.unknown_ends.items()):
                logger.warning("%s: taken as a normal end", describe_unknown_ends(model, reason, count))
            finished = RunFinished(outcomes.summary(), time.monotonic() - began, interrupted, self._stopped)
            self.prepared.observers.run_finished(finished)
            if journal is not None and journal.broken is None:
                journal.end(self.tally, finished=not interrupted)

    def _journal_hint(self) -> str:
        higher = " and a higher budget" if self.budget is not None and self.budget.exhausted else ""
        return f"; another run with the same journal{higher} continues with them"

    async def _stream(self) -> AsyncGenerator[IndexedResult]:
        limit, clock = self.prepared.config.section(EngineSettings).run_timeout, None
        if limit is not None:
            late = f"the time limit is over (run_timeout = {limit:g} s)"
            clock = asyncio.get_running_loop().call_later(limit, self.stop, late)
        self._loop = asyncio.get_running_loop()
        try:
            if self._stopped is None:
                executed = self.execute_locally() if self.executor is None else self.executor.execute(self)
                async with aclosing(executed) as results:
                    async for placed in results:
                        yield placed
        finally:
            self._loop = None
            if clock is not None:
                clock.cancel()

    async def execute_locally(self) -> AsyncGenerator[IndexedResult]:
        """Run the items in this process and event loop, and yield their results."""
        core, limits, computed = self.prepared.config.core, self.limits, self._computed
        if self.journal is not None:
            self.journal.answering = self.runner.calls.answering
        limits.prepare((*core.answering_models, *core.parsing_models))
        ready: asyncio.Queue[IndexedResult | None] = asyncio.Queue()  # None comes after the last result
        room = asyncio.Semaphore(_MAX_WAITING)  # a bounded queue could be full when that None comes

        async def enqueue(placed: IndexedResult) -> None:
            await room.acquire()
            ready.put_nowait(placed)

        def target_size() -> int:
            could = limits.capacity()  # and some more, since items also compute and wait for the journal
            return min(could + max(2, could // 2), MAX_ANSWERS)

        if computed is not None:
            async with aclosing(computed.results()) as results:
                async for placed in results:
                    yield placed
            if self._stopped is not None:
                return
        tasks = iter(self.prepared.matrix) if computed is None else computed.remaining_tasks()
        pool = self._pool = WorkerPool(
            tasks, lambda task: self._answer(task, enqueue), target_size, lambda: ready.put_nowait(None)
        )
        limits.on_change = pool.fill
        try:
            pool.fill()
            while (indexed := await ready.get()) is not None:
                room.release()
                yield indexed
            if pool.failure is not None:
                raise _first_error(pool.failure)
        finally:
            limits.on_change = None
            await pool.aclose()
            await self.runner.aclose()

    async def _answer(self, task: AnswerTask, enqueue: Callable[[IndexedResult], Awaitable[None]]) -> None:
        """Run the items of one answer, and enqueue their results."""
        if self.result_store is not None:
            await self.result_store.read_folders(task.question, self.runner.planner.plan(task.question))
        judges, kept = self.pending_judges(task)
        for placed in kept:
            await enqueue(placed)
        if not judges:
            return

        async def done(judge: int, result: VerificationResult) -> None:
            await enqueue(await self.store_result(task, judge, result))

        await self.runner.answer(task, judges, done)

    def pending_judges(self, task: AnswerTask) -> tuple[list[int], list[IndexedResult]]:
        """Return the judges of an answer whose items have to run, and the results of the others from the journal.

        No item has to run once the budget is spent.
        """
        judges: list[int] = []
        kept: list[IndexedResult] = []
        for judge in range(len(task.judges)):
            found = None
            if self.result_store is not None:
                found = self.result_store.result(task, judge, self.runner.planner.plan(task.question))
            if found is None:
                judges.append(judge)
            else:
                kept.append(IndexedResult(task.index(judge), *found))
        if self.budget is not None and self.budget.exhausted:
            judges = []
        return judges, kept

    async def store_result(self, task: AnswerTask, judge: int, result: VerificationResult) -> IndexedResult:
        """Store the result of an item in the journal, if there is one, and return it with its index.

        Raises `JournalError`.
        """
        line = None
        if self.result_store is not None:
            plan = self.runner.planner.plan(task.question)
            try:
                result, line = await self.result_store.finish(task, judge, plan, result)
            except UnstorableRow as error:
                result = self.runner.make_failed_result(
                    task, judge, f"the result of this item cannot be stored: {error}"
                )
                result, line = await self.result_store.finish(task, judge, plan, result)
        return IndexedResult(task.index(judge), result, line)


def _first_error(error: BaseException) -> BaseException:
    """Return the error itself, or the first one of a group, however deeply nested."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
