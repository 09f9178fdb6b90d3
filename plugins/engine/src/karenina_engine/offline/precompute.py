"""What a run finds in its journal, worked out on all cores before anybody is asked.

Where a run goes on, or its truths or settings have changed, most replies are there, and all that is left is to compute.
Processes that are forked from the run take parts of its matrix and go the ordinary way over them, with a journal that
they only read. What they find out goes to the run, which keeps and shows it as its own. An answer of which any reply
is missing is left as if nobody had looked at it.
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
from karenina_engine.journal.journal import FinishedItem, ItemId, Journal, StoredResult
from karenina_engine.journal.resume import ResumeState
from karenina_engine.scheduling.executor import AsyncioExecutor
from karenina_engine.scheduling.indexed_result import IndexedResult
from karenina_engine.scheduling.process_pool import ProcessPool, WorkerState, can_fork, cores
from karenina_engine.scheduling.session import RunSession

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_engine.calls.call import CallOutcome, CallRecord
    from karenina_engine.journal.tasks import AnswerTask
    from karenina_engine.scheduling.prepared_run import PreparedRun

_SHARE: Final = 100
"""Answers that a process takes at a time."""
_FEWEST: Final = 5 * _SHARE
"""Answers of a run for which it is worth while to fork."""
_MOST: Final = 4
"""Processes at the most: the one that keeps what they find out has enough to do with so many."""
_IN_A_ROW: Final = 10
"""Answers one after another that lack a reply, after which the rest of the share is not looked at."""
_IN_VAIN: Final = 4
"""Shares one after another, most answers of which lack a reply, after which the rest is not looked at."""


class ReplyMissing(ItemInterrupt):
    """A call whose reply is not in the journal. No error of the item's: it is left to the run, which may ask."""


@dataclass(slots=True)
class Counted:
    """What the answers of a share have taken from the journal."""

    tally: CallCounts = field(default_factory=CallCounts)
    lines: dict[tuple[str, str, str, str, str], SpendCounts] = field(default_factory=dict)
    kept: int = 0
    again: int = 0

    def add(self, tally: CallCounts, ledger: Ledger, kept: int, again: int) -> None:
        """Count an answer."""
        self.tally.cached += tally.cached
        self.tally.saved += tally.saved
        for line in ledger.lines:
            self.lines.setdefault(line.names, SpendCounts()).merge(line.cached)
        self.kept += kept
        self.again += again


@dataclass(slots=True)
class Share:
    """What came of some answers: their results by place, what is to be written of them, and who is left to the run.

    It is `hopeless` where agents are asked, whose work is more than their reply: others would only do a part of it.
    """

    results: list[tuple[int, str]] = field(default_factory=list)
    finished: list[FinishedItem] = field(default_factory=list)
    seen: list[tuple[int, StoredResult]] = field(default_factory=list)
    left: set[int] = field(default_factory=set)
    hopeless: bool = False
    counted: Counted = field(default_factory=Counted)


class PrecomputedResults:
    """The part of a run that needs no call, and the processes that work it out."""

    def __init__(self, run: RunSession, count: int) -> None:
        assert run.journal is not None
        self._run = run
        self._journal = journal = run.journal
        self._done = bytearray(run.prepared.matrix.answers)
        with journal.let_go():
            self._forked: ProcessPool[range, Share] = ProcessPool(
                lambda apart: _Worker(run.prepared, journal.path, apart).share, count
            )

    def close(self) -> None:
        """End the processes."""
        self._forked.close()

    async def results(self) -> AsyncGenerator[IndexedResult]:
        """What needs no call, in the order of the matrix. Raises `JournalError` where it cannot be kept."""
        run, vain = self._run, 0
        try:
            async with aclosing(self._forked.aresults(self._shares())) as shares:
                async for orders, share in shares:
                    if run.stopped is not None:
                        return
                    if share is None:
                        continue
                    self._keep(share)
                    for order in orders:
                        self._done[order] = order not in share.left
                    for place, text in share.results:
                        yield IndexedResult(place, VerificationResult.model_validate_json(text), text)
                    vain = vain + 1 if len(share.left) > len(orders) // 2 else 0
                    if share.hopeless or vain >= _IN_VAIN:
                        return
        finally:
            self.close()

    def remaining_tasks(self) -> Iterator[AnswerTask]:
        """The answers that the run has still to get."""
        return self._run.prepared.matrix.part(order for order, done in enumerate(self._done) if not done)

    def _shares(self) -> Iterator[range]:
        return (range(at, min(at + _SHARE, len(self._done))) for at in range(0, len(self._done), _SHARE))

    def _keep(self, share: Share) -> None:
        """Write down what was found out, and count it. Afterwards it is in the file."""
        run, counted = self._run, share.counted
        if not self._journal.replaying:
            for place, kept in share.seen:
                self._journal.seen(place, kept)
            for item in share.finished:
                self._journal.add(item)
            self._journal.flush()
        run.tally.add(counted.tally)
        for names, count in counted.lines.items():
            run.ledger.add_cached(names, count)
        assert run.result_store is not None
        run.result_store.count(counted.kept, counted.again)


@contextmanager
def precompute_results(run: RunSession) -> Iterator[PrecomputedResults | None]:
    """Have processes at hand, while the block lasts, for what the run finds in its journal, where that is of use.

    To be entered before anything starts threads, such as the progress on a terminal. There are none, and `None` is
    given, where the run works elsewhere, spends a budget, or is observed in more than its results.
    """
    count = min(cores(), _MOST)
    if count < 2 or not _useful(run):
        yield None
        return
    with closing(PrecomputedResults(run, count)) as spared:
        yield spared


def _useful(run: RunSession) -> bool:
    prepared, hears = run.prepared, run.prepared.observers.observes
    return (
        run.journal is not None
        and run.journal.had_replies
        and prepared.matrix.answers >= _FEWEST
        and isinstance(run.executor, AsyncioExecutor)
        and run.budget is None
        and not any(hears(what) for what in ("answer", "stage", "call"))
        and not prepared.observers.observes_item_starts
        and can_fork()
    )


class _Worker:
    """The run as a process has it that was forked: with a journal that is read, and notes what would be written."""

    def __init__(self, prepared: PreparedRun, journal: Path, apart: WorkerState) -> None:
        self._journal = _RecordingJournal(Journal.open(journal, replaying=True), replaying=prepared.offline)
        fingerprints = Fingerprints(prepared.config, prepared.plugins, prepared.trust)
        self._continuing = ResumeState(self._journal, fingerprints)
        self._run = RunSession(prepared.without_calls(), replies=self._journal, results=self._continuing)
        self._loop = asyncio.new_event_loop()
        self._apart = apart

    def share(self, orders: range) -> Share:
        """Work on the answers of these orders."""
        with self._journal.reading():
            return self._loop.run_until_complete(self._share(orders))

    async def _share(self, orders: range) -> Share:
        share, in_a_row, logged = Share(), 0, self._apart.logged
        for task in self._run.prepared.matrix.part(orders):
            if self._apart.ending:
                break
            self._journal.begin_answer()
            before = len(logged)
            if await self._answer(task, share):
                share.finished += self._journal.finished
                share.seen += self._journal.were_seen
                in_a_row = 0
                continue
            del logged[before:]
            share.left.add(task.order)
            in_a_row += 1
            share.hopeless = self._journal.asked_agent
            if share.hopeless or in_a_row >= _IN_A_ROW:
                share.left.update(range(task.order, orders.stop))
                break
        return share

    async def _answer(self, task: AnswerTask, share: Share) -> bool:
        """Work on one answer; whether all was there that it takes."""
        run, continuing = self._run, self._continuing
        kept, again = continuing.kept, continuing.again
        run.runner.calls.take_counts()
        run.ledger.clear()
        judges, found = run.pending_judges(task)

        async def done(judge: int, result: VerificationResult) -> None:
            found.append(await run.store_result(task, judge, result))

        if judges:
            try:
                await run.runner.answer(task, judges, done)
            except* ReplyMissing:
                pass
            if self._journal.missed:
                return False
        share.results += [(place, line or result.model_dump_json()) for place, result, line in found]
        share.counted.add(run.tally, run.ledger, continuing.kept - kept, continuing.again - again)
        return True


class _RecordingJournal:
    """A journal that is read, and whose readers say what they would have written. `missed`: a reply was not there.

    It is a `ReplyStore` and has `ResultRows`. `replaying` says that errors are taken from it as well.
    """

    def __init__(self, journal: Journal, *, replaying: bool) -> None:
        self._journal = journal
        self.replaying = replaying
        self.asked_agent = False
        self.begin_answer()

    def begin_answer(self) -> None:
        """Forget what was noted of the last answer."""
        self.missed = False
        self.finished: list[FinishedItem] = []
        self.were_seen: list[tuple[int, StoredResult]] = []

    def reading(self) -> AbstractContextManager[None]:
        """Read the file as it is at the beginning of the block."""
        return self._journal.reading()

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Return what the journal holds of the call.

        Raises `ReplyMissing` if it has no reply, and for every call of an agent, since parts of its work may be stored.
        """
        if self.replaying:
            return await self._journal.find(call)
        self.asked_agent = self.asked_agent or call.endpoint.port == "agent"
        kept = self._journal.reply(call) if not self.asked_agent else None
        if kept is None or not kept.reusable:
            self.missed = True
            raise ReplyMissing
        return kept.made

    async def store(self, call: CallRecord, made: CallOutcome) -> None:
        """Store nothing: no call is made."""

    def leave(self, call: CallRecord) -> None:
        """Note nothing: no call is made."""

    @property
    def had_results(self) -> bool:
        """Whether there was any result when the journal was opened."""
        return self._journal.had_results

    def result(self, item: ItemId, fingerprint: bytes) -> StoredResult | None:
        """Return the result that the journal holds for an item under this fingerprint."""
        return self._journal.result(item, fingerprint)

    def warn_of_damage(self, what: str) -> None:
        """Log that something in the file is damaged."""
        self._journal.warn_of_damage(what)

    async def finish(
        self, place: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, *, again: bool
    ) -> None:
        """Note the result of an item."""
        self.finished.append(FinishedItem(place, item, fingerprint, outcome, text, again))

    def seen(self, place: int, kept: StoredResult) -> None:
        """Note that a kept result still holds."""
        self.were_seen.append((place, kept))
