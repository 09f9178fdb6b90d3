"""Resuming a run. Items that already have a result in its journal are skipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.errors import describe_error
from karenina_engine.journal.rows import UnstorableRow
from karenina_engine.results.result_lines import dump_result

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from karenina_core.data.result import ItemId
    from karenina_engine.journal.fingerprint import Fingerprints
    from karenina_engine.journal.journal import StoredResult
    from karenina_engine.run.matrix import AnswerTask


class ResultStore(Protocol):
    """A store for results. `kept` and `again` are the same as in `ResumeState`."""

    kept: int
    again: int

    def count(self, kept: int, again: int) -> None:
        """Add the counts from another process to `kept` and `again`."""

    async def read_folders(self, task: AnswerTask) -> None:
        """Read the question's folders for `result` without blocking."""

    def result(self, task: AnswerTask, judge: int) -> tuple[VerificationResult, str] | None:
        """Return an item's stored result with its text, or None if the item has to run.

        `judge` is the index of the judge in `task.judges`.
        """

    async def finish(
        self, task: AnswerTask, judge: int, result: VerificationResult
    ) -> tuple[VerificationResult, str | None]:
        """Store an item's result, and return it with its text, if it was stored as text.

        `judge` is the index of the judge in `task.judges`. Raises `UnstorableRow` if the result cannot be stored, and
        `JournalError` if the store cannot be written.
        """


class ResultJournal(Protocol):
    """The results in a journal (`karenina_engine.journal.journal.Journal`)."""

    @property
    def replaying(self) -> bool:
        """Whether all items run again with the replies in the journal."""

    @property
    def had_results(self) -> bool:
        """Whether the journal contained any results when it was opened."""

    def result(self, item: ItemId, fingerprint: bytes) -> StoredResult | None:
        """Return the item's result with this fingerprint, if it was stored before the journal was opened."""

    def seen(self, index: int, stored: StoredResult) -> None:
        """Record that a stored result also belongs to this run, at `index` in its matrix."""

    def finish(
        self, index: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, *, again: bool
    ) -> Awaitable[None]:
        """Store an item's result. Await the return value to be sure that it is in the file."""

    def warn_of_damage(self, what: str) -> None:
        """Log that part of the file is damaged. `what` names that part."""


@dataclass(slots=True)
class ResumeState:
    """The results of a run in its journal. `kept` counts those that are reused."""

    journal: ResultJournal
    fingerprints: Fingerprints
    kept: int = 0
    again: int = field(default=0)
    """The number of items that run again because their result is not final."""

    def count(self, kept: int, again: int) -> None:
        """Add the counts from another process to `kept` and `again`."""
        self.kept += kept
        self.again += again

    async def read_folders(self, task: AnswerTask) -> None:
        """Read the question's folders for `result` without blocking."""
        await self.fingerprints.read_folders(task.question, task.pipeline.plan)

    def result(self, task: AnswerTask, judge: int) -> tuple[VerificationResult, str] | None:
        """Return the item's valid stored result with its text, or None if the item has to run.

        This updates `kept` and `again`. In a replay, all items have to run.
        """
        if self.journal.replaying or not self.journal.had_results:
            return None
        stored = self.journal.result(task.item(judge), self._fingerprint(task, judge))
        if stored is None:
            return None
        if stored.again:
            self.again += 1
            return None
        result = self._parse(stored, task.question.id)
        if result is None:
            return None
        self.journal.seen(task.index(judge), stored)
        self.kept += 1
        return result, stored.text if stored.compressed else dump_result(result)

    async def finish(
        self, task: AnswerTask, judge: int, result: VerificationResult
    ) -> tuple[VerificationResult, str | None]:
        """Store an item's result, and return it with its text.

        A replay stores nothing. It returns the result with the times and id of the stored one, and no text. Raises
        `UnstorableRow` if the result cannot be stored, and `JournalError` if the journal cannot be written.
        """
        item, fingerprint = task.item(judge), self._fingerprint(task, judge)
        if self.journal.replaying:
            return self._with_stored_times(result, item, fingerprint), None
        again = runs_again(result)
        try:
            text = dump_result(result)
        except ValueError as error:
            raise UnstorableRow(f"the result cannot be converted to JSON: {describe_error(error)}") from error
        await self.journal.finish(task.index(judge), item, fingerprint, result.outcome.value, text, again=again)
        return result, text

    def _with_stored_times(self, result: VerificationResult, item: ItemId, fingerprint: bytes) -> VerificationResult:
        """Give the result of a replay the times and id of the stored result, if there is one."""
        stored = self.journal.result(item, fingerprint)
        then = self._parse(stored, item.question) if stored is not None else None
        if then is None:
            return result
        for name in ("timestamp", "execution_time", "result_id"):
            setattr(result.metadata, name, getattr(then.metadata, name))
        times: dict[str, list[float]] = {}  # lists, since the judges of a panel have stages with the same names
        for record in reversed(then.stages):
            times.setdefault(record.name, []).append(record.seconds)
        for record in result.stages:
            record.seconds = times[record.name].pop() if times.get(record.name) else record.seconds
        return result

    def _parse(self, stored: StoredResult, question_id: str) -> VerificationResult | None:
        """Parse a stored result, or return None and warn that the journal is damaged."""
        try:
            return VerificationResult.model_validate_json(stored.text)
        except ValueError:
            self.journal.warn_of_damage(f"the result for question {question_id!r}")
            return None

    def _fingerprint(self, task: AnswerTask, judge: int) -> bytes:
        """Return the fingerprint of a judge's item."""
        return self.fingerprints.compute(task.question, task.pipeline.plan, task.answering_model, task.judges[judge])


def runs_again(result: VerificationResult) -> bool:
    """Return whether an item with this result runs again when its run is resumed.

    It does if a call failed in every attempt, or if the item was not judged for a reason that the user can fix. Replies
    that were received are not requested again, even if they are unreadable or leave the item undecided.
    """
    if any(record.failed_calls for record in result.stages):
        return True
    return result.outcome.group == "not_judged" and result.outcome is not Outcome.PARSE_ERROR
