"""Computing results from stored replies on several cores, before the run makes any calls.

If a run is resumed, or its ground truth or settings have changed, most replies are already in the journal. Forked
processes then run parts of the matrix with a read-only journal, and the run stores and reports their results. Answers
with a missing reply are left to the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, aclosing, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from karenina_core.data.result import VerificationResult
from karenina_core.errors import ItemInterrupt
from karenina_engine.calls.call import CallCounts
from karenina_engine.cost.ledger import Ledger, SpendCounts
from karenina_engine.journal.fingerprint import Fingerprints
from karenina_engine.journal.journal import FinishedItem, Journal, StoredResult
from karenina_engine.results.result_lines import dump_result
from karenina_engine.run.executor import AsyncioExecutor
from karenina_engine.run.matrix import IndexedResult
from karenina_engine.run.process_pool import ProcessPool, WorkerState, can_fork, cores
from karenina_engine.run.resume import ResumeState
from karenina_engine.run.session import RunSession

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.data.result import ItemId
    from karenina_engine.calls.call import CallOutcome, CallRecord
    from karenina_engine.run.matrix import AnswerTask

_CHUNK: Final = 100
"""The number of answers that a process computes at a time."""
_MIN_ANSWERS: Final = 5 * _CHUNK
"""The minimum number of answers for which forking is worthwhile."""
_MAX_PROCESSES: Final = 4
"""The maximum number of processes. With more, the main process could not store their results fast enough."""
_MAX_MISSES: Final = 10
"""The number of consecutive answers without a reply after which the rest of the chunk is left to the run."""
_MAX_FAILED_CHUNKS: Final = 4
"""The number of consecutive failed chunks after which everything else is left to the run.

A chunk fails if most of its answers lack a reply.
"""


class ReplyMissing(ItemInterrupt):
    """Raised if a reply is not in the journal, so that the item is left to the run."""


@dataclass(slots=True)
class ChunkCounts:
    """The number of replies and results that a chunk took from the journal."""

    tally: CallCounts = field(default_factory=CallCounts)
    lines: dict[tuple[str, str, str, str, str], SpendCounts] = field(default_factory=dict)
    kept: int = 0
    again: int = 0

    def add(self, tally: CallCounts, ledger: Ledger, kept: int, again: int) -> None:
        """Add the counts for an answer: its cached calls in `tally` and `ledger`, and its results. `kept` and `again`
        count its results as in `ResumeState`.
        """
        self.tally.cached += tally.cached
        self.tally.saved += tally.saved
        for line in ledger.lines:
            self.lines.setdefault(line.names, SpendCounts()).merge(line.cached)
        self.kept += kept
        self.again += again


@dataclass(slots=True)
class ChunkResult:
    """The results of a chunk by index, the rows to store, and the answers that are left to the run.

    `uses_agents` is True if an answer calls an agent. Such answers are left to the run, because the journal may contain
    only part of the agent's work.
    """

    results: list[tuple[int, str]] = field(default_factory=list)
    finished: list[FinishedItem] = field(default_factory=list)
    seen: list[tuple[int, StoredResult]] = field(default_factory=list)
    left: set[int] = field(default_factory=set)
    uses_agents: bool = False
    counts: ChunkCounts = field(default_factory=ChunkCounts)


class PrecomputedResults:
    """The results of a run that need no calls. They are computed by a pool of processes."""

    def __init__(self, session: RunSession, count: int) -> None:
        assert session.journal is not None
        self._session = session
        self._journal = journal = session.journal
        self._done = bytearray(session.matrix.answers)
        with journal.closed_for_fork():
            self._pool: ProcessPool[range, ChunkResult] = ProcessPool(
                lambda state: _Worker(session, journal.path, state).run_chunk, count
            )

    def close(self) -> None:
        """End the processes."""
        self._pool.close()

    async def results(self) -> AsyncGenerator[IndexedResult]:
        """Store and yield the results that need no calls, in matrix order. This ends early if the run is stopped, or if
        most answers lack a reply or call an agent. Raises `JournalError` if a result cannot be stored.

        The results come from forked processes that replay the journal. The processes end with the iteration, so it
        works only once.
        """
        session, failed_chunks = self._session, 0
        try:
            async with aclosing(self._pool.aresults(self._chunks())) as chunks:
                async for orders, chunk in chunks:
                    if session.stopped is not None:
                        return
                    if chunk is None:
                        continue
                    self._store(chunk)
                    for order in orders:
                        self._done[order] = order not in chunk.left
                    for place, text in chunk.results:
                        yield IndexedResult(place, VerificationResult.model_validate_json(text), text)
                    failed_chunks = failed_chunks + 1 if len(chunk.left) > len(orders) // 2 else 0
                    if chunk.uses_agents or failed_chunks >= _MAX_FAILED_CHUNKS:
                        return
        finally:
            self.close()

    def remaining_tasks(self) -> Iterator[AnswerTask]:
        """Yield the answers that are left to the run."""
        return self._session.matrix.part(order for order, done in enumerate(self._done) if not done)

    def _chunks(self) -> Iterator[range]:
        """Yield the orders of the answers, in chunks."""
        return (range(at, min(at + _CHUNK, len(self._done))) for at in range(0, len(self._done), _CHUNK))

    def _store(self, chunk: ChunkResult) -> None:
        """Store the results of a chunk unless the run is a replay, and add its counts to the run's counts. Raises
        `JournalError` if the journal cannot be written.
        """
        session, counts = self._session, chunk.counts
        if not self._journal.replaying:
            for place, stored in chunk.seen:
                self._journal.seen(place, stored)
            for item in chunk.finished:
                self._journal.add(item)
            self._journal.flush()
        session.tally.add(counts.tally)
        for names, count in counts.lines.items():
            session.ledger.add_cached(names, count)
        assert session.result_store is not None
        session.result_store.count(counts.kept, counts.again)


@contextmanager
def precompute_results(session: RunSession) -> Iterator[PrecomputedResults | None]:
    """Start processes that compute results from stored replies inside the `with` block, if this is worthwhile, and
    yield them, or None. Enter this context before starting any threads, including those of progress displays.

    Yields None if there are too few answers, no stored replies, only one processor, or no way to fork. Also yields None
    if the run has a budget, another executor, or observers of anything except results.
    """
    count = min(cores(), _MAX_PROCESSES)
    if count < 2 or not _is_worthwhile(session):
        yield None
        return
    with closing(PrecomputedResults(session, count)) as precomputed:
        yield precomputed


def _is_worthwhile(session: RunSession) -> bool:
    """Return whether processes can be forked and save time, which takes stored replies and many answers. This is never
    so with a budget or another executor, or if observers would miss events.
    """
    observers = session.parts.observers
    return (
        session.journal is not None
        and session.journal.had_replies
        and session.matrix.answers >= _MIN_ANSWERS
        and isinstance(session.executor, AsyncioExecutor)
        and session.budget is None
        and not any(observers.observes(event) for event in ("answer", "stage", "call"))
        and not observers.observes_item_starts
        and can_fork()
    )


class _Worker:
    """The run in a forked process. It only reads the journal."""

    def __init__(self, session: RunSession, journal: Path, state: WorkerState) -> None:
        self._journal = RecordingJournal(Journal.open(journal, replaying=True), replaying=session.parts.offline)
        fingerprints = Fingerprints(session.config, session.parts.plugins, session.parts.trust)
        self._resume_state = ResumeState(self._journal, fingerprints)
        self._session = session.without_calls(self._journal, self._resume_state)
        self._loop = asyncio.new_event_loop()
        self._state = state

    def run_chunk(self, orders: range) -> ChunkResult:
        """Run the items of the answers with the given orders."""
        with self._journal.reading():
            return self._loop.run_until_complete(self._run_chunk(orders))

    async def _run_chunk(self, orders: range) -> ChunkResult:
        """Run the items of the answers with the given orders, as far as the journal has their replies, and return the
        results. After an answer that calls an agent, or `_MAX_MISSES` answers in a row without a reply, the rest of the
        chunk is left to the run.
        """
        chunk, misses, logged = ChunkResult(), 0, self._state.logged
        for task in self._session.matrix.part(orders):
            if self._state.ending:
                break
            self._journal.begin_answer()
            before = len(logged)
            if await self._run_answer(task, chunk):
                chunk.finished += self._journal.finished
                chunk.seen += self._journal.still_valid
                misses = 0
                continue
            del logged[before:]
            chunk.left.add(task.order)
            misses += 1
            chunk.uses_agents = self._journal.asked_agent
            if chunk.uses_agents or misses >= _MAX_MISSES:
                chunk.left.update(range(task.order, orders.stop))
                break
        return chunk

    async def _run_answer(self, task: AnswerTask, chunk: ChunkResult) -> bool:
        """Run the items of an answer, and return whether all replies were in the journal. If a reply was missing,
        nothing is added to the chunk.
        """
        session, resume_state = self._session, self._resume_state
        kept, again = resume_state.kept, resume_state.again
        session.runner.calls.take_counts()
        session.ledger.clear()
        judges, stored = session.pending_judges(task)
        if judges:
            try:
                async with aclosing(session.runner.answer(task, judges)) as results:
                    async for judge, result in results:
                        stored.append(await session.store_result(task, judge, result))
            except* ReplyMissing:
                pass
            if self._journal.missed:
                return False
        chunk.results += [(place, text or dump_result(result)) for place, result, text in stored]
        chunk.counts.add(session.tally, session.ledger, resume_state.kept - kept, resume_state.again - again)
        return True


class RecordingJournal:
    """A read-only journal that records the rows to store. `missed` becomes True if a reply is missing.

    If `replaying` is set, stored errors are used too.
    """

    def __init__(self, journal: Journal, *, replaying: bool) -> None:
        self._journal = journal
        self.replaying = replaying
        self.asked_agent = False
        self.begin_answer()

    def begin_answer(self) -> None:
        """Clear the records of the previous answer."""
        self.missed = False
        self.finished: list[FinishedItem] = []
        self.still_valid: list[tuple[int, StoredResult]] = []

    def reading(self) -> AbstractContextManager[None]:
        """Return a context manager for reading the file in its current state throughout the `with` block."""
        return self._journal.reading()

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of the call, or raise `ReplyMissing` and set `missed` if no stored reply can be
        reused. Agent calls, and all calls after one, always raise it. In a replay, this is the same as `Journal.find`.
        """
        if self.replaying:
            return await self._journal.find(call)
        self.asked_agent = self.asked_agent or call.endpoint.port == "agent"
        stored = self._journal.reply(call) if not self.asked_agent else None
        if stored is None or not stored.reusable:
            self.missed = True
            raise ReplyMissing
        return stored.outcome

    async def store(self, call: CallRecord, made: CallOutcome) -> None:
        """Do nothing, because no calls are made."""

    def leave(self, call: CallRecord) -> None:
        """Do nothing, because no calls are made."""

    @property
    def had_results(self) -> bool:
        """Whether the journal contained any results when it was opened."""
        return self._journal.had_results

    def result(self, item: ItemId, fingerprint: bytes) -> StoredResult | None:
        """Return the stored result of an item with the given fingerprint, or None if there is none."""
        return self._journal.result(item, fingerprint)

    def warn_of_damage(self, what: str) -> None:
        """Log that a row in the file is damaged."""
        self._journal.warn_of_damage(what)

    async def finish(
        self, place: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, *, again: bool
    ) -> None:
        """Record an item's result so that the run can store it later."""
        self.finished.append(FinishedItem(place, item, fingerprint, outcome, text, again))

    def seen(self, place: int, kept: StoredResult) -> None:
        """Record that a stored result is still valid. `place` is its index in the run."""
        self.still_valid.append((place, kept))
