"""Refusing runs whose attached files are missing, if one of them would be sent.

Whether a file is sent depends on the stored replies: an answer that only lacks its judge needs none. So the items whose
files are missing run with a read-only journal, until the first call that would be made.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from karenina_engine.calls.call import Call
from karenina_engine.journal.fingerprint import Fingerprints
from karenina_engine.journal.journal import Journal
from karenina_engine.results.kept_files import FileStore
from karenina_engine.run.execution import run_blocking
from karenina_engine.run.precompute import RecordingJournal, ReplyMissing
from karenina_engine.run.resume import ResumeState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_engine.calls.call import CallOutcome, CallRecord
    from karenina_engine.run.matrix import AnswerTask
    from karenina_engine.run.session import RunSession


def refuse_missing_files(session: RunSession) -> None:
    """Raise `ConfigError` if a missing attached file is needed by an answer's first call without a stored reply. Later
    calls are unknown, so a file that only they need makes them fail.
    """
    attachments, done = session.matrix.attachments, session.result_store
    if attachments is None or not attachments.needed:
        return
    tasks = [task for task in session.matrix if task.question.id in attachments.needed]
    if isinstance(done, ResumeState):
        tasks = [task for task in tasks if not done.is_done(task)]
    if tasks and session.journal is not None and not session.journal.replaying:
        tasks = _find_sending(session, session.journal, tasks)
    attachments.refuse_missing(task.question.id for task in tasks)


def _find_sending(session: RunSession, journal: Journal, tasks: Sequence[AnswerTask]) -> list[AnswerTask]:
    """Return the answers whose first call without a stored reply has attachments."""
    sending: list[AnswerTask] = []

    async def run() -> None:
        """Run the answers one after another without making calls, and add those that would send attachments to
        `sending`.
        """
        with Journal.open(journal.path, replaying=True) as opened:
            replies = _SendingJournal(opened)
            results = ResumeState(replies, Fingerprints(session.config, session.parts.plugins, session.parts.trust))
            rehearsal = session.without_calls(replies, results, files=FileStore.that_writes_nothing())
            for task in tasks:
                replies.begin_answer()
                judges, _ = rehearsal.pending_judges(task)
                try:
                    async with aclosing(rehearsal.runner.answer(task, judges)) as answered:
                        async for _ in answered:
                            pass
                except* ReplyMissing:
                    pass
                if replies.sends:
                    sending.append(task)

    run_blocking(run)
    return sending


class _SendingJournal(RecordingJournal):
    """A read-only journal. `sends` becomes True if a call with attachments has no stored reply."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal, replaying=False)

    def begin_answer(self) -> None:
        """Clear the records of the previous answer."""
        super().begin_answer()
        self.sends = False

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of the call. Raises `ReplyMissing` if no stored reply can be reused; `sends` is
        then True if the call has attachments.
        """
        stored = self._journal.reply(call)
        if stored is None or not stored.reusable:
            self.sends = self.sends or (isinstance(call, Call) and call.attached_bytes > 0)
            raise ReplyMissing
        return stored.outcome
