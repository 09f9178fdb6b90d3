"""Going on where an earlier run with the same journal stopped: which items have a result already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.errors import describe_error
from karenina_engine.journal.rows import UnstorableRow

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from karenina_core.data.question import Question
    from karenina_core.planning.plan import Plan
    from karenina_engine.journal.fingerprint import Fingerprints
    from karenina_engine.journal.journal import StoredResult
    from karenina_engine.journal.rows import ItemId
    from karenina_engine.journal.tasks import AnswerTask


class ResultStore(Protocol):
    """What a run takes results from and gives them to. `kept` and `again` count as in `ResumeState`."""

    kept: int
    again: int

    def count(self, kept: int, again: int) -> None:
        """Add results that another process has taken from the journal to `kept` and `again`."""

    async def look(self, question: Question, plan: Plan) -> None:
        """Read what `result` needs of a question without holding up the event loop."""

    def result(self, task: AnswerTask, judge: int, plan: Plan) -> tuple[VerificationResult, str] | None:
        """Return the result of an item that need not run, and its line; None if it has to run."""

    async def finish(
        self, task: AnswerTask, judge: int, plan: Plan, result: VerificationResult
    ) -> tuple[VerificationResult, str | None]:
        """Take the result of an item that has run; return it as it is stored, and the line, if one was stored.

        Raises `UnstorableRow` and `JournalError`.
        """


class ResultJournal(Protocol):
    """The part of a journal that holds results (`karenina_engine.journal.journal.Journal`)."""

    @property
    def replaying(self) -> bool:
        """Whether every item runs again, with the replies of the journal."""

    @property
    def had_results(self) -> bool:
        """Whether there was any result when the journal was opened."""

    def result(self, item: ItemId, fingerprint: bytes) -> StoredResult | None:
        """Return the result that is stored for an item under this fingerprint, since before the run."""

    def seen(self, place: int, kept: StoredResult) -> None:
        """Note that the run has a stored result, at this place of its matrix."""

    def finish(
        self, place: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, *, again: bool
    ) -> Awaitable[None]:
        """Store the result of an item, as its JSON line."""

    def warn_of_damage(self, what: str) -> None:
        """Log that something in the file is damaged."""


@dataclass(slots=True)
class ResumeState:
    """The results of a run that its journal keeps. `kept` counts those that were there already."""

    journal: ResultJournal
    fingerprints: Fingerprints
    kept: int = 0
    again: int = field(default=0)
    """How many items had a result that could not stand, and run again."""

    def count(self, kept: int, again: int) -> None:
        """Add results that another process has taken from the journal to `kept` and `again`."""
        self.kept += kept
        self.again += again

    async def look(self, question: Question, plan: Plan) -> None:
        """Read the folders of a question, so that `result` does not hold up the event loop with them."""
        await self.fingerprints.look(question, plan)

    def result(self, task: AnswerTask, judge: int, plan: Plan) -> tuple[VerificationResult, str] | None:
        """The kept result of an item, where it still holds, with its line; None where it has to run, or in a replay."""
        if self.journal.replaying or not self.journal.had_results:
            return None
        kept = self.journal.result(task.item(judge), self._fingerprint(task, judge, plan))
        if kept is None:
            return None
        if kept.again:
            self.again += 1
            return None
        try:
            found = VerificationResult.model_validate_json(kept.text)
        except ValueError:
            self.journal.warn_of_damage(f"the result of question {task.question.id!r}")
            return None
        self.journal.seen(task.place(judge), kept)
        self.kept += 1
        return found, kept.text

    async def finish(
        self, task: AnswerTask, judge: int, plan: Plan, result: VerificationResult
    ) -> tuple[VerificationResult, str | None]:
        """Store the result of an item that has run; return it as it was written, with the line, if one was.

        Raises `UnstorableRow` and `JournalError`.
        """
        item, fingerprint = task.item(judge), self._fingerprint(task, judge, plan)
        if self.journal.replaying:
            return self._as_it_was(result, item, fingerprint), None
        again = runs_again(result)
        try:
            text = result.model_dump_json()
        except ValueError as error:
            raise UnstorableRow(f"it is not JSON: {describe_error(error)}") from error
        await self.journal.finish(task.place(judge), item, fingerprint, result.outcome.value, text, again=again)
        return result, text

    def _as_it_was(
        self, result: VerificationResult, item: tuple[str, str, str, int], fingerprint: bytes
    ) -> VerificationResult:
        """A result of a replay, with the times of the one that was kept: when it ended and how long its stages took."""
        kept = self.journal.result(item, fingerprint)
        if kept is None:
            return result
        try:
            then = VerificationResult.model_validate_json(kept.text)
        except ValueError:
            self.journal.warn_of_damage(f"the result of question {item[0]!r}")
            return result
        for name in ("timestamp", "execution_time", "result_id"):
            setattr(result.metadata, name, getattr(then.metadata, name))
        times = {record.name: record.seconds for record in then.stages}
        for record in result.stages:
            record.seconds = times.get(record.name, record.seconds)
        return result

    def _fingerprint(self, task: AnswerTask, judge: int, plan: Plan) -> bytes:
        return self.fingerprints.compute(task.question, plan, task.answering_model, task.judges[judge])


def runs_again(result: VerificationResult) -> bool:
    """Whether an item with this result has to run again when its run goes on.

    So it is where a call failed for good, and where a stage failed by something other than what a judge said: that is
    what the user mends before they give the command again. Replies that came are not asked for again.
    """
    if any(record.failed_calls for record in result.stages):
        return True
    return not result.outcome.judged and result.outcome is not Outcome.PARSE_ERROR
