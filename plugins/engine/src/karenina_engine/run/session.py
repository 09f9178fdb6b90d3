"""The session of a run. It executes the items and yields their results."""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from karenina_core.catalog import read_catalog
from karenina_core.data.result import VerificationResult
from karenina_core.errors import KareninaError, RunError, describe_error
from karenina_engine.calls.call_runner import describe_unknown_ends
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
from karenina_engine.check.plugin_checks import loaded_distributions, warn_about_absent
from karenina_engine.cost.ledger import Ledger
from karenina_engine.journal.fingerprint import Fingerprints
from karenina_engine.journal.rows import UnstorableRow
from karenina_engine.model_settings import configured_models
from karenina_engine.progress.observers import NO_OBSERVERS, RunFinished, RunStarted
from karenina_engine.results.aggregate import RunTally, Totals
from karenina_engine.run.item_runner import ItemRunner
from karenina_engine.run.matrix import IndexedResult
from karenina_engine.run.resume import ResultStore, ResumeState
from karenina_engine.settings import EngineSettings
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_engine.calls.call import CallCounts, ReplyStore
    from karenina_engine.cost.budget import Budget
    from karenina_engine.journal.journal import Journal
    from karenina_engine.results.kept_files import FileStore
    from karenina_engine.run.matrix import AnswerTask, Matrix
    from karenina_engine.run.port_factory import RunParts

GRACE: Final = 3.0
"""The number of seconds that calls in flight have to finish, so that their replies are stored, when Ctrl-C or the time
limit stops a run.
"""

_OPEN_FILES: Final = 4096
"""The number of files that a process may open during a run, if the system allows it. Connections count as files."""

StopListener = Callable[[float], None]
"""A function to call when a run is stopped, with the number of seconds that calls in flight may still take."""

logger = logging.getLogger("karenina")


class PrecomputedPart(Protocol):
    """The part of a run whose results other processes compute first."""

    def results(self) -> AsyncGenerator[IndexedResult]:
        """Yield the results of this part. Raises `JournalError` if a result cannot be stored."""

    def remaining_tasks(self) -> Iterator[AnswerTask]:
        """Yield the answers that are left to the run."""


class SupportsExecute(Protocol):
    """The part of a `karenina_engine.run.executor.Executor` that a session needs."""

    def execute(self, session: RunSession) -> AsyncGenerator[IndexedResult]:
        """Yield the result of every item with its index in the matrix."""


class RunSession:
    """A run that has passed all checks, with its calls, results and costs so far.

    `executor` runs the items of `matrix`. Replies and results are stored in `journal`. Without a journal, results are
    stored in `results` and replies in the store in `parts`. `command` describes how the run was started.
    """

    def __init__(
        self,
        parts: RunParts,
        matrix: Matrix,
        *,
        ledger: Ledger,
        budget: Budget | None = None,
        executor: SupportsExecute,
        journal: Journal | None = None,
        command: Mapping[str, Any] | None = None,
        results: ResultStore | None = None,
    ) -> None:
        if journal is not None:
            parts = replace(parts, store=journal)
            results = ResumeState(journal, Fingerprints(parts.config, parts.plugins, parts.trust))
        self.parts: Final = replace(parts, ledger=ledger, budget=budget)
        self.matrix: Final = matrix
        self.ledger: Final = ledger
        self.budget: Final = budget
        self.executor: Final = executor
        self.journal: Final = journal
        self.distributions: Final = loaded_distributions(parts.plugins)
        self.command: Final = {**command, "distributions": self.distributions} if command else {}
        self.result_store: Final = results
        self.runner: Final = ItemRunner(self.parts, matrix.panel)
        self._totals = Totals()
        self._computed: PrecomputedPart | None = None
        self._stopped: str | None = None
        self._stop_requested = False  # by `stop`; when the budget is exhausted, items in progress continue
        self._stop_listeners: list[StopListener] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def with_journal(self, journal: Journal, command: Mapping[str, Any] | None = None) -> RunSession:
        """Return a copy of this run that stores its replies and results in a journal."""
        return RunSession(
            self.parts,
            self.matrix,
            ledger=self.ledger,
            budget=self.budget,
            executor=self.executor,
            journal=journal,
            command=command,
        )

    def with_replies(self, store: ReplyStore, results: ResultStore, executor: SupportsExecute) -> RunSession:
        """Return a copy of this run that uses the given stores instead of a journal, and runs with `executor`."""
        return RunSession(
            replace(self.parts, store=store),
            self.matrix,
            ledger=self.ledger,
            budget=self.budget,
            executor=executor,
            results=results,
        )

    def without_calls(self, store: ReplyStore, results: ResultStore, *, files: FileStore | None = None) -> RunSession:
        """Return a copy of this run that only computes results from the replies in `store`, without calls, observers or
        a budget. `results` and `files` replace the stores for results and for the files of items.
        """
        files = files if files is not None else self.parts.files
        parts = replace(self.parts, store=store, offline=True, observers=NO_OBSERVERS, files=files)
        matrix = replace(self.matrix, pipelines=self.matrix.pipelines.without_observers())
        return RunSession(parts, matrix, ledger=Ledger(self.ledger.prices), executor=self.executor, results=results)

    @property
    def resumable(self) -> bool:
        """Whether `karenina resume` can continue the run. It needs a journal and a benchmark file."""
        return self.journal is not None and self.command.get("benchmark") is not None

    @property
    def tally(self) -> CallCounts:
        """The counts of the calls made so far and of the calls that were answered by stored replies."""
        return self.runner.calls.tally

    def __len__(self) -> int:
        """Return the number of items in the run."""
        return len(self.matrix)

    @property
    def config(self) -> VerificationConfig:
        """The configuration of the run."""
        return self.parts.config

    @property
    def calls_models(self) -> bool:
        """Whether the run may call a model. This is False in a replay, and if all models replay recorded answers."""
        models = configured_models(self.config) if not self.parts.offline else []
        return any(not find_adapter(self.parts.plugins, model.interface).spec.recorded for _, model in models)

    @property
    def limits(self) -> ConcurrencyLimits:
        """The concurrency limits of the run's models."""
        return self.parts.limits

    @property
    def stopped(self) -> str | None:
        """The reason why the run stopped early, in words that follow "because". None if it did not stop early."""
        exhausted = self.budget.exhaustion if self.budget is not None else ""
        return self._stopped or exhausted or None

    @property
    def outcomes(self) -> RunTally:
        """The counts of the results so far."""
        return self._totals.outcomes

    @property
    def totals(self) -> Totals:
        """The totals of the results so far, with their traits, calls and tokens."""
        return self._totals

    def stop(self, why: str, *, grace: float = 0.0) -> None:
        """Stop the run, from its event loop. Its results end early, but remain valid. Calls in flight have `grace`
        seconds to finish, so that their replies are stored; a second call ends this wait. `why` is the reason, in words
        that follow "because"; only the first one counts.

        From elsewhere, use `stop_soon`.
        """
        again, self._stop_requested = self._stop_requested, True
        self._stopped = self.stopped or why
        self.limits.close()
        for listener in tuple(self._stop_listeners):
            listener(0.0 if again else grace)

    def add_stop_listener(self, listener: StopListener) -> None:
        """Register a function that `stop` will call in the event loop. Its argument is the number of seconds that calls
        in flight may still take.
        """
        self._stop_listeners.append(listener)

    def remove_stop_listener(self, listener: StopListener) -> None:
        """Remove a listener. Raises `ValueError` if the listener was not added."""
        self._stop_listeners.remove(listener)

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called. Another call would end the wait for calls in flight."""
        return self._stop_requested

    @property
    def running(self) -> bool:
        """Whether the run is currently executing."""
        return self._loop is not None

    def stop_soon(self, why: str, *, grace: float = 0.0, then: Callable[[], None] = lambda: None) -> None:
        """Stop the run for the reason `why` from a signal handler or another thread, with `grace` seconds for calls in
        flight. Afterwards, `then` is called in the event loop. If the run has not started yet, it ends as soon as it
        starts, and `then` is not called.
        """

        def stop() -> None:
            """Stop the run and then call `then`."""
            self.stop(why, grace=grace)
            then()

        if self._loop is None:
            self._stopped = why
        else:
            self._loop.call_soon_threadsafe(stop)

    async def results(self) -> AsyncGenerator[VerificationResult]:
        """Yield the result of every item, in the order in which the items end. To stop the run, close the generator.
        Raises `JournalError` if the journal can no longer be written.

        With a journal, results are stored before they are yielded, and items that have a stored result are not run
        again.
        """
        async with aclosing(self.indexed_results()) as results:
            async for indexed in results:
                yield indexed.result

    async def indexed_results(self, computed: PrecomputedPart | None = None) -> AsyncGenerator[IndexedResult]:
        """Execute the run, and yield results with their indexes and stored texts as items end, beginning with those
        from `computed`, which other processes have computed, if it is given. If the run is stopped, the results end
        early, and a warning gives the number of items without one. Raises `JournalError` if the journal can no longer
        be written, and `RunError` if the executor leaves out the result of an item, yields it twice or yields one of no
        item, or if that of a plugin fails.

        The start and end of the run are recorded in the journal and reported to observers.
        """
        self._computed = computed
        core, observers = self.config.core, self.parts.observers
        models = [model for _, model in configured_models(self.config)]
        repeated = {unit: count * core.replicate_count for unit, count in self.matrix.repeated.items()}
        executor, ended = f"the executor {type(self.executor).__name__}", bytearray(len(self))
        totals = self._totals = Totals(per_question=core.replicate_count, repeated=repeated)
        began = time.monotonic()
        journal = self.journal if self.journal is not None and not self.journal.replaying else None
        keeps_replies = self.parts.store is not None and not self.parts.offline
        if self.journal is not None:
            used = (self.journal.last_command() or {}).get("distributions")
            warn_about_absent(self.journal.path, used if isinstance(used, Mapping) else {}, self.distributions)
        if journal is not None:
            journal.begin(len(self), self.command, self.ledger)
            if self.resumable and self.matrix.rules is not None:
                journal.store_rules(self.matrix.rules.blocks())
            journal.store_endpoint_digests(self.runner.model_identities())
            if self.matrix.attachments is not None:
                journal.store_attachments(self.matrix.attachments.files.facts)
        if self.budget is not None:
            self.budget.count_earlier(models)
        self.limits.prepare(models)
        observers.run_started(RunStarted(len(self), self.config))
        try:
            async with self._running():
                for stream in self._streams():
                    async with aclosing(stream):
                        async for placed in stream:
                            if not 0 <= placed.place < len(ended):
                                where = f"place {placed.place} of {len(ended)} items"
                                raise RunError(f"{executor} yielded a result at {where}")
                            if ended[placed.place]:
                                raise RunError(f"{executor} yielded the result of an item twice; yield each once")
                            ended[placed.place] = 1
                            totals.add(placed.result)
                            observers.item_finished(placed.result)
                            yield placed
            if len(totals) < len(self) and self.stopped is None:
                raise RunError(f"{executor} ended after the results of {len(totals)} of {len(self)} items; yield all")
        except Exception as error:
            if isinstance(error, KareninaError) or self._has_own_executor():
                raise
            hint = self._journal_hint() if keeps_replies else ""
            raise RunError(f"{executor} failed: {describe_error(error, self.executor)}{hint}") from error
        finally:
            interrupted = len(totals) < len(self)
            if interrupted and self.stopped is not None:
                missing = len(self) - len(totals)
                logger.warning(
                    "stopped after %d of %d items because %s; %d %s no result%s",
                    len(totals),
                    len(self),
                    self.stopped,
                    missing,
                    "item has" if missing == 1 else "items have",
                    self._journal_hint() if keeps_replies else "",
                )
            for (model, reason), count in sorted(self.tally.unknown_ends.items()):
                logger.warning("%s, which was treated as a normal end", describe_unknown_ends(model, reason, count))
            finished = RunFinished(totals.outcomes.summary(), time.monotonic() - began, interrupted, self.stopped)
            observers.run_finished(finished)
            if journal is not None and journal.broken is None:
                journal.end(self.tally, finished=not interrupted)

    def _has_own_executor(self) -> bool:
        """Return whether the executor is one of this project, whose unexpected errors are shown with a traceback."""
        return type(self.executor).__module__.partition(".")[0].replace("_", "-") in read_catalog()["members"]

    def _journal_hint(self) -> str:
        """Return the end of a message, which explains how to continue the run."""
        higher = " and a higher budget" if self.budget is not None and self.budget.exhausted else ""
        return f"; another run with the same journal{higher} continues from there"

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        """Inside the `async with` block, stop the run when its time limit is reached. At the end, close its ports and
        tools.
        """
        limit, clock = self.config.section(EngineSettings).run_timeout, None
        _allow_open_files()
        self._loop = asyncio.get_running_loop()

        def time_out() -> None:
            """Stop the run, unless it is stopping already."""
            if not self.stopping:
                self.stop(f"the time limit was reached (run_timeout = {limit:g} s)", grace=GRACE)

        if limit is not None:
            clock = self._loop.call_later(limit, time_out)
        try:
            yield
        finally:
            self._loop = None
            if clock is not None:
                clock.cancel()
            await self.runner.aclose()

    def _streams(self) -> Iterator[AsyncGenerator[IndexedResult]]:
        """Yield the stream of precomputed results, then the executor's stream. Once the run has been stopped, neither
        is yielded. Raises `RunError` if the executor does not return an asynchronous generator.
        """
        if self.stopped is None and self._computed is not None:
            yield self._computed.results()
        if self.stopped is None:
            stream = self.executor.execute(self)
            returned: object = stream
            if not isinstance(returned, AsyncGenerator):
                what = f"execute() of the executor {type(self.executor).__name__} returned {returned!r:.80}"
                raise RunError(f"{what} instead of an asynchronous generator")
            yield stream

    def remaining_tasks(self) -> Iterator[AnswerTask]:
        """Yield the answers that are not precomputed."""
        return iter(self.matrix) if self._computed is None else self._computed.remaining_tasks()

    def pending_judges(self, task: AnswerTask) -> tuple[list[int], list[IndexedResult]]:
        """Return the indexes of an answer's judges whose items have to run, and the stored results of the other judges.
        Once the budget is exhausted, no more items run.
        """
        judges: list[int] = []
        stored: list[IndexedResult] = []
        for judge in range(len(task.judges)):
            earlier = None
            if self.result_store is not None:
                earlier = self.result_store.result(task, judge)
            if earlier is None:
                judges.append(judge)
            else:
                stored.append(IndexedResult(task.index(judge), *earlier))
        if self.budget is not None and self.budget.exhausted:
            judges = []
        return judges, stored

    async def store_result(self, task: AnswerTask, judge: int, result: VerificationResult) -> IndexedResult:
        """Store the result of the item with the judge at index `judge` of `task.judges` in the journal, if there is
        one, and return the result with its index. If it cannot be stored, an error result takes its place. Raises
        `JournalError` if the journal cannot be written.
        """
        text = None
        if self.result_store is not None:
            try:
                result, text = await self.result_store.finish(task, judge, result)
            except UnstorableRow as error:
                result = self.runner.make_failed_result(
                    task, judge, f"the result of this item could not be stored: {error}"
                )
                result, text = await self.result_store.finish(task, judge, result)
        return IndexedResult(task.index(judge), result, text)


def _allow_open_files() -> None:
    """Raise this process's limit on open files to `_OPEN_FILES`, or as far as the system allows. The default is 256 on
    macOS, which is too low for the connections of 256 concurrent calls.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # the system refuses
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
