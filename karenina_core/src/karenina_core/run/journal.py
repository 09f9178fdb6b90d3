"""The journal of runs: every reply, before it is used, and every result, so that nothing is asked or lost twice.

What stands in the file is told in `karenina_core.run.journal_file`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from karenina_core.ports import CallNotes, NotReplayed
from karenina_core.run import journal_file
from karenina_core.run.calls import Made
from karenina_core.run.command import same_run
from karenina_core.run.journal_file import JournalError, telling
from karenina_core.run.ledger import COUNTED, SPENT, line_of
from karenina_core.run.marks import Marks
from karenina_core.run.replies import error_of, error_text, reply_of, reply_text, usable_again

if TYPE_CHECKING:
    from types import TracebackType

    from filelock import BaseFileLock

    from karenina_core.run.calls import Call, Tally
    from karenina_core.run.ledger import Ledger, Line

ItemId = tuple[str, str, str, int]
"""Question, answering model, judge and replicate, as `VerificationResult.item` gives them."""

GATHERING: Final = 0.02
"""Seconds between two commits, at the least, while models are answering: what comes in between is written together.

So what waited goes on together, too. A processor that does the same work for several items one after another has it at
hand: a question takes a twentieth less of its time than with a quarter of this.
"""

_REPLY: Final = (
    "INSERT INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET failed = excluded.failed, reusable = excluded.reusable, "
    "finish_reason = excluded.finish_reason, input_tokens = excluded.input_tokens, "
    "output_tokens = excluded.output_tokens, calls = excluded.calls, seconds = excluded.seconds, "
    "retries = excluded.retries, waited = excluded.waited, time = excluded.time, reply = excluded.reply"
)
_RESULT: Final = (
    "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (question_id, answering, judge, replicate, fingerprint) DO UPDATE SET run = excluded.run, "
    "place = excluded.place, outcome = excluded.outcome, again = excluded.again, time = excluded.time, "
    "result = excluded.result"
)
_SPENT: Final = "INSERT OR REPLACE INTO spent VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_NO_RETRIES: Final = "{}"
_SEEN: Final = "UPDATE results SET run = ?, place = ? WHERE rowid = ?"

logger = logging.getLogger("karenina")


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A result that the journal holds: its row, its JSON line, and whether its item has to run again."""

    row: int
    text: str
    again: bool
    run: int
    place: int


@dataclass(frozen=True, slots=True)
class FinishedItem:
    """A result as `Journal.finish` is told of it."""

    place: int
    item: ItemId
    fingerprint: bytes
    outcome: str
    text: str
    again: bool


class Journal:
    """One journal, held by this process from `open` to `close`.

    It serves one event loop at a time; what comes from a run is gathered and committed together, and `store` and
    `finish` return when it is in the file. `replaying` says that no call may be made: what was not kept is an error.
    """

    def __init__(self, path: Path, database: sqlite3.Connection, lock: BaseFileLock | None, *, replaying: bool) -> None:
        self.path = path
        self.replaying = replaying
        self.run_id = 0
        self.session = 0
        self.broken: JournalError | None = None
        self.answering: Callable[[], int] | None = None
        """How many calls are being answered. Set by a run: where there are none, nobody is waited for any longer."""
        self._database = database
        self._lock = lock
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._keys: set[bytes] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._committed = self._due = 0.0
        with telling(path, "read"):
            self._had_results = database.execute("SELECT 1 FROM results LIMIT 1").fetchone() is not None
            self._had_replies = database.execute("SELECT 1 FROM replies LIMIT 1").fetchone() is not None
        self._marks = Marks() if not replaying else None
        self._ledger: Ledger | None = None

    @classmethod
    def open(cls, path: str | Path, *, fresh: bool = False, replaying: bool = False) -> Self:
        """The journal at `path`, made where there is none; with `fresh` an earlier one is kept under another name.

        Raises `JournalError`: for a file that is no journal, is of a newer format, is damaged or cannot be written;
        `JournalInUse` where another process works on it.
        """
        file = Path(path)
        if replaying:
            return cls(file, journal_file.open_to_read(file), None, replaying=True)
        lock = journal_file.hold(file)
        try:
            if fresh:
                journal_file.put_aside(file)
            database = journal_file.open_to_write(file)
            try:
                with telling(file, "written"):
                    journal_file.note_worker(database)
            except BaseException:
                database.close()
                raise
        except BaseException:
            lock.release()
            raise
        return cls(file, database, lock, replaying=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except JournalError:
            if error is None:
                raise
            logger.debug("the journal could not be closed", exc_info=True)  # what ended the block says more

    def close(self) -> None:
        """Write what is left, and let go of the file. Raises `JournalError` where it could not be written."""
        lock, self._lock = self._lock, None
        if lock is None:
            self._database.close()
            return
        try:
            self.broken = None  # there may be room again
            self.flush()
            with telling(self.path, "written"):
                journal_file.forget_worker(self._database)
        finally:
            self._database.close()
            lock.release()

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Have the file closed while the block lasts, and held all the same: SQLite's files do not outlive a fork."""
        if not self.replaying:
            self.flush()
        self._database.close()
        try:
            yield
        finally:
            opened = journal_file.open_to_read if self.replaying else journal_file.open_to_write
            self._database = opened(self.path)

    # ---- runs

    def begin(self, items: int, command: Mapping[str, Any], ledger: Ledger | None = None) -> None:
        """A run begins, with so many items; `command` is what it was started with, as JSON values without secrets.

        Where it asks for the same as that of the last run, it is the same run, which goes on. What `ledger` counts is
        kept with the replies, and it is told what was spent before.
        """
        last, written = self.last_command(), json.dumps(command, sort_keys=True)
        with self._writing():
            if last is not None and same_run(last, command):
                (self.run_id,) = self._database.execute("SELECT max(id) FROM runs").fetchone()
                self._database.execute(
                    "UPDATE runs SET items = ?, command = ?, ended = NULL WHERE id = ?", (items, written, self.run_id)
                )
            else:
                cursor = self._database.execute(
                    "INSERT INTO runs (began, items, command) VALUES (?, ?, ?)", (time.time(), items, written)
                )
                self.run_id = cursor.lastrowid or 0
            if ledger is not None:
                self._begin_session(ledger)

    def _begin_session(self, ledger: Ledger) -> None:
        ledger.before = [line_of(row) for row in self._database.execute(SPENT)]
        cursor = self._database.execute(
            "INSERT INTO sessions (run, began, prices) VALUES (?, ?, ?)",
            (self.run_id, time.time(), json.dumps(ledger.prices.snapshot())),
        )
        self.session = cursor.lastrowid or 0
        self._ledger = ledger

    def last_command(self) -> Mapping[str, Any] | None:
        """What the last run was started with; None where there was none."""
        with telling(self.path, "read"):
            row = self._database.execute("SELECT command FROM runs ORDER BY id DESC LIMIT 1").fetchone()
        return json.loads(row[0]) if row is not None else None

    def end(self, tally: Tally, *, finished: bool) -> None:
        """The run has ended, or was stopped, after those calls."""
        counts = {"made": tally.made, "kept": tally.kept, "failed": tally.failed}
        tokens = {"input_tokens": tally.used.input_tokens, "output_tokens": tally.used.output_tokens}
        self.flush()
        ledger, self._ledger = self._ledger, None
        with self._writing():
            if ledger is not None:  # a stage may have brought a model of its own
                prices = json.dumps(ledger.prices.snapshot())
                self._database.execute("UPDATE sessions SET prices = ? WHERE id = ?", (prices, self.session))
            self._database.execute(
                "UPDATE runs SET ended = ?, tally = ? WHERE id = ?",
                (time.time() if finished else None, json.dumps({**counts, **tokens}), self.run_id),
            )

    # ---- replies

    @property
    def had_replies(self) -> bool:
        """Whether there was any reply when the journal was opened."""
        return self._had_replies

    async def find(self, call: Call) -> Made | None:
        """What was kept of such a call: a reply that may be used again, or None.

        While replaying, all that was kept, errors too; where nothing was, it raises `PortError`.
        """
        if self.broken is not None:
            raise self.broken
        if not self._may_hold(call.key):
            return None
        if call.key in self._keys:
            self.flush()
        with telling(self.path, "read"):
            row = self._database.execute(
                "SELECT failed, reusable, retries, waited, seconds, reply FROM replies WHERE key = ?", (call.key,)
            ).fetchone()
        if row is None:
            if self.replaying:
                raise _missing(self.path, call)
            return None
        failed, reusable, retries, waited, seconds, text = row
        if not (reusable or self._as_it_was(call)):
            return None
        notes = CallNotes(json.loads(retries) if retries != _NO_RETRIES else {}, waited, seconds)
        if failed:
            return Made(None, error_of(text), notes)
        return Made(reply_of(call.target.port, text), None, notes)

    def store(self, call: Call, made: Made) -> Awaitable[None]:
        """Keep what became of a call. When the awaitable returns it is in the file, whatever happens to the process."""
        reply, notes = made.reply, made.notes
        info, model = call.info, call.target.model
        if reply is not None:
            usage, text, finish = reply.usage, reply_text(reply), reply.finish_reason
            reusable = call.lasting and usable_again(reply)
            spent = (0, 0, 0) if call.parts else (usage.input_tokens, usage.output_tokens, usage.calls)
        else:
            assert made.error is not None
            text, finish, reusable, spent = error_text(made.error), None, False, (0, 0, 0)
        self._keys.add(call.key)
        if self._marks is not None:
            self._marks.add(call.key)
        return self._write(
            _REPLY,
            (
                *(call.key, call.target.port, model.id, model.interface, model.model_name),
                *(info.stage, info.task, info.question_id, info.replicate),
                *(reply is None, reusable, finish, *spent, notes.seconds),
                *(json.dumps(notes.retries) if notes.retries else _NO_RETRIES, notes.waited, time.time(), text),
            ),
        )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One look at the file while the block lasts, which costs half of one for each reply. Nothing is written."""
        with telling(self.path, "read"):
            self._database.execute("BEGIN")
        try:
            yield
        finally:
            with telling(self.path, "read"):
                self._database.execute("COMMIT")

    def leave(self, call: Call) -> None:
        """Nothing is noted of calls that were not made."""

    def _as_it_was(self, call: Call) -> bool:
        """Whether the call ends as it did then, also where that is no answer to go on with."""
        return self.replaying

    def _may_hold(self, key: bytes) -> bool:
        """Whether a reply to a call with this key may be there: one to a new call, as most are, is not looked for."""
        return self._had_replies or self._marks is None or key in self._marks

    # ---- results

    @property
    def had_results(self) -> bool:
        """Whether there was any result when the journal was opened."""
        return self._had_results

    def result(self, item: ItemId, fingerprint: bytes) -> KeptResult | None:
        """The result that is kept for an item under this fingerprint, since before the run."""
        if not self._had_results:
            return None
        with telling(self.path, "read"):
            row = self._database.execute(
                "SELECT rowid, result, again, run, place FROM results WHERE question_id = ? AND answering = ? "
                "AND judge = ? AND replicate = ? AND fingerprint = ?",
                (*item, fingerprint),
            ).fetchone()
        return KeptResult(row[0], row[1], bool(row[2]), row[3], row[4]) if row is not None else None

    def finish(
        self, place: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, *, again: bool
    ) -> Awaitable[None]:
        """Keep the result of an item, as its JSON line. When the awaitable returns it is in the file."""
        return self._write(_RESULT, self._result_row(place, item, fingerprint, outcome, text, again))

    def add(self, finished: FinishedItem) -> None:
        """Keep a result that another process has found out. It is in the file after the next `flush`."""
        one = finished
        self._add(_RESULT, self._result_row(one.place, one.item, one.fingerprint, one.outcome, one.text, one.again))

    def _result_row(
        self, place: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, again: bool
    ) -> tuple[Any, ...]:
        return (*item, fingerprint, self.run_id, place, outcome, again, time.time(), text)

    def seen(self, place: int, kept: KeptResult) -> None:
        """Note that the run that is under way has a result that was kept, at this place of its matrix."""
        if (kept.run, kept.place) != (self.run_id, place):
            self._add(_SEEN, (self.run_id, place, kept.row))

    # ---- writing

    def flush(self) -> None:
        """Commit what has gathered, now. Raises `JournalError`; what could not be written is kept for the next try."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        try:
            if self._rows or (self._ledger is not None and self._ledger.changed):
                with self._writing():
                    for statement, rows in self._rows.items():
                        self._database.executemany(statement, rows)
                    if self._ledger is not None:
                        lines = self._ledger.changed.values()
                        self._database.executemany(_SPENT, (self._spent(line) for line in lines))
                if self._ledger is not None:
                    self._ledger.changed.clear()
                self._rows.clear()
                self._keys.clear()
        except JournalError as error:
            self.broken = error
            for one in waiting:
                if not one.done():
                    one.set_exception(error)
                    one.exception()  # whoever waited may be gone
            raise
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def _spent(self, line: Line) -> tuple[Any, ...]:
        return (self.session, *line.names, *(getattr(line.made, name) for name in COUNTED))

    def _write(self, statement: str, row: tuple[Any, ...]) -> asyncio.Future[None]:
        """Have the row written with the next commit, which the future waits for."""
        if self.broken is not None:
            raise self.broken
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._add(statement, row)
        self._waiting.append(done)
        return done

    def _add(self, statement: str, row: tuple[Any, ...]) -> None:
        self._rows.setdefault(statement, []).append(row)
        loop = asyncio.get_running_loop()
        due = self._committed + GATHERING if self.answering is None or self.answering() else 0.0
        if self._timer is None or due < self._due:
            if self._timer is not None:
                self._timer.cancel()
            rest, self._due = due - loop.time(), due
            self._timer = loop.call_later(rest, self._tick) if rest > 0 else loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.flush()
        except JournalError:
            logger.debug("the journal could not be written", exc_info=True)  # who waits for it is told
        self._committed = asyncio.get_running_loop().time()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction: all of it or nothing."""
        database = self._database
        with telling(self.path, "written"):
            try:
                if database.in_transaction:  # Ctrl-C came between the beginning and what was to be written
                    database.execute("ROLLBACK")
                database.execute("BEGIN IMMEDIATE")
                yield
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise


def _missing(path: Path, call: Call) -> NotReplayed:
    info, model = call.info, call.target.model
    stage = f" of stage {info.stage}" if info.stage else ""
    who = f"{model.id!r} ({model.display_string})" if call.of_model else f"the service {model.id!r}"
    return NotReplayed(
        f"the journal {path} holds no reply of {who} to this call{stage}"
        f"{f' ({info.task})' if info.task else ''} for question {info.question_id!r}, replicate {info.replicate}, and "
        "a replay asks nobody: what is sent now was not sent then (another prompt, model, parameter or version), or "
        "the run did not get so far; run without --replay to ask"
    )
