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
    """A store for results. For `kept` and `again`, see `ResumeState`."""

    kept: int
    again: int

    def count(self, kept: int, again: int) -> None:
        """Add another process's counts to `kept` and `again`."""

    async def read_folders(self, task: AnswerTask) -> None:
        """Read the question's folders in a thread, so that `result` does not block."""

    def result(self, task: AnswerTask, judge: int) -> tuple[VerificationResult, str] | None:
        """Return an item's stored result with its text, or None if the item has to run.

        `judge` is the index of the judge in `task.judges`.
        """

    async def finish(
        self, task: AnswerTask, judge: int, result: VerificationResult
    ) -> tuple[VerificationResult, str | None]:
        """Store the result of the item with the judge at index `judge` of `task.judges`, and return the result, maybe
        changed, with its text (None if it was not stored as text). Raises `UnstorableRow` if the result cannot be
        stored, and `JournalError` if the store cannot be written.
        """


class ResultJournal(Protocol):
    """The results in a journal (`karenina_engine.journal.journal.Journal`)."""

    @property
    def replaying(self) -> bool:
        """Whether all items run again with the journal's replies."""

    @property
    def had_results(self) -> bool:
        """Whether the journal contained any results when it was opened."""

    def result(self, item: ItemId, fingerprint: bytes) -> StoredResult | None:
        """Return the item's result with the given fingerprint, if it was stored before the journal was opened."""

    def seen(self, index: int, stored: StoredResult) -> None:
        """Record that a stored result also belongs to this run, at `index` in the run's matrix."""

    def finish(
        self, index: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, *, again: bool
    ) -> Awaitable[None]:
        """Store an item's result. Once the returned awaitable has completed, it is in the file."""

    def warn_of_damage(self, what: str) -> None:
        """Log that part of the file is damaged. `what` describes that part."""


@dataclass(slots=True)
class ResumeState:
    """The stored results of a run in its journal. `kept` is the number of results that are reused."""

    journal: ResultJournal
    fingerprints: Fingerprints
    kept: int = 0
    again: int = field(default=0)
    """The number of items that run again because their result is not final."""

    def count(self, kept: int, again: int) -> None:
        """Add another process's counts to `kept` and `again`."""
        self.kept += kept
        self.again += again

    async def read_folders(self, task: AnswerTask) -> None:
        """Read the question's folders in a thread, so that `result` does not block."""
        await self.fingerprints.read_folders(task.question, task.pipeline.plan)

    def is_done(self, task: AnswerTask) -> bool:
        """Return whether all items of an answer have valid results, or the run is a replay. This counts nothing."""
        if self.journal.replaying:
            return True
        stored = [
            self.journal.result(task.item(judge), self._fingerprint(task, judge)) for judge in range(len(task.judges))
        ]
        return all(one is not None and not one.again for one in stored)

    def result(self, task: AnswerTask, judge: int) -> tuple[VerificationResult, str] | None:
        """Return the stored result, with its text, of the task's item for the judge with the index `judge` if it is
        still valid, or None if the item has to run, as it always has in a replay. Also counts the result in `kept` or
        `again`.
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
        """Store the result of the task's item for the judge at index `judge`, and return it with its JSON text. In a
        replay, nothing is stored: `result` gets the times and the id of the stored result, in place, and the text is
        None. Raises `UnstorableRow` if it cannot be stored, and `JournalError` if the journal cannot be written.
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
        """Set the times and the id of a replayed result, in place, to those of the stored result, if there is one, and
        return it.
        """
        stored = self.journal.result(item, fingerprint)
        then = self._parse(stored, item.question) if stored is not None else None
        if then is None:
            return result
        for name in ("timestamp", "execution_time", "result_id"):
            setattr(result.metadata, name, getattr(then.metadata, name))
        times: dict[str, list[float]] = {}  # lists, since the judges of a panel have stages with the same names
        for record in reversed(then.stages):
            times.setdefault(record.name, []).append(record.seconds)
        result.stages = [
            record.model_copy(update={"seconds": times[record.name].pop()}) if times.get(record.name) else record
            for record in result.stages
        ]
        return result

    def _parse(self, stored: StoredResult, question_id: str) -> VerificationResult | None:
        """Return a stored result, or None with a warning about the journal's damage if it cannot be parsed."""
        try:
            return VerificationResult.model_validate_json(stored.text)
        except ValueError:
            self.journal.warn_of_damage(f"the result for question {question_id!r}")
            return None

    def _fingerprint(self, task: AnswerTask, judge: int) -> bytes:
        return self.fingerprints.compute(task.question, task.pipeline.plan, task.answering_model, task.judges[judge])


def runs_again(result: VerificationResult) -> bool:
    """Return whether an item with this result runs again when its run is resumed.

    It does if a call failed in every attempt, or if the item was not judged for a reason that the user can fix. Replies
    that were received are not requested again, even if they are unreadable or leave the item undecided.
    """
    if any(record.failed_calls for record in result.stages):
        return True
    return result.outcome.group == "not_judged" and result.outcome is not Outcome.PARSE_ERROR
