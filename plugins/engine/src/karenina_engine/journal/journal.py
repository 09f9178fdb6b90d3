"""The journal of runs: every reply, before it is used, and every result, so that no call is made twice.

The tables are described in `karenina_engine.journal.schema`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from karenina_core.errors import describe_error
from karenina_core.models.ports import ErrorCategory, NoRecordedReply, PortError
from karenina_engine.calls.call import CallOutcome
from karenina_engine.journal import file as journal_file
from karenina_engine.journal import user_state
from karenina_engine.journal.bloom_filter import BloomFilter
from karenina_engine.journal.command import is_same_run
from karenina_engine.journal.file import ROW_ERRORS, JournalError, Sync, journal_errors
from karenina_engine.journal.rows import (
    ItemId,
    StoredReply,
    StoredRun,
    UnstorableRow,
    make_reply_row,
    make_result_row,
    make_spent_row,
    read_reply_row,
    read_run_row,
    sum_ledger_lines,
)
from karenina_engine.journal.schema import LAST_RUN, is_intact, with_digest
from karenina_engine.journal.writer import GATHERING, JournalWriter
from karenina_engine.results.header import is_header

if TYPE_CHECKING:
    import sqlite3
    from types import TracebackType

    from filelock import BaseFileLock

    from karenina_engine.calls.call import CallCounts, CallRecord
    from karenina_engine.cost.ledger import Ledger

__all__ = ["GATHERING", "FinishedItem", "ItemId", "Journal", "JournalError", "StoredResult"]

_REPLY: Final = (
    "INSERT INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET port = excluded.port, model = excluded.model, interface = excluded.interface, "
    "model_name = excluded.model_name, stage = excluded.stage, task = excluded.task, "
    "question_id = excluded.question_id, replicate = excluded.replicate, "
    "failed = excluded.failed, reusable = excluded.reusable, "
    "finish_reason = excluded.finish_reason, input_tokens = excluded.input_tokens, "
    "output_tokens = excluded.output_tokens, calls = excluded.calls, seconds = excluded.seconds, "
    "retries = excluded.retries, waited = excluded.waited, time = excluded.time, reply = excluded.reply, "
    "digest = excluded.digest"
)
_RESULT: Final = (
    "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (question_id, answering, judge, replicate, fingerprint) DO UPDATE SET run = excluded.run, "
    "place = excluded.place, outcome = excluded.outcome, again = excluded.again, time = excluded.time, "
    "result = excluded.result, digest = excluded.digest"
)
_SPENT: Final = "INSERT OR REPLACE INTO spent VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TARGET: Final = "target "
_DIGESTS: Final = re.compile(r"([0-9a-f]{64}){1,2}")
_SEEN: Final = "UPDATE results SET run = ?, place = ? WHERE rowid = ?"
_RUN: Final = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)"
_SESSION: Final = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)"

logger = logging.getLogger("karenina")


@dataclass(frozen=True, slots=True)
class StoredResult:
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
        self._lock = lock
        self._writer = JournalWriter(path, database)
        self._writer.more_rows, self._writer.committed = self._spent_rows, self._committed
        self._keys: set[bytes] = set()
        self._session: tuple[Any, ...] = ()
        self._sync: Sync = "normal"
        self._warned = False
        with journal_errors(path, "read"):
            self._had_results = database.execute("SELECT 1 FROM results LIMIT 1").fetchone() is not None
            self._had_replies = database.execute("SELECT 1 FROM replies LIMIT 1").fetchone() is not None
        self._marks = BloomFilter() if not replaying else None
        self._ledger: Ledger | None = None

    @property
    def broken(self) -> JournalError | None:
        """Why the file can no longer be written; None while it can."""
        return self._writer.broken

    @property
    def answering(self) -> Callable[[], int] | None:
        """How many calls are being answered. Set by a run: if none is, a commit waits for nothing more."""
        return self._writer.answering

    @answering.setter
    def answering(self, answering: Callable[[], int] | None) -> None:
        self._writer.answering = answering

    @property
    def _database(self) -> sqlite3.Connection:
        return self._writer.database

    @classmethod
    def open(cls, path: str | Path, *, fresh: bool = False, replaying: bool = False, sync: Sync = "normal") -> Self:
        """Open the journal at `path`, which is made if there is none; `fresh` keeps an earlier one under another name.

        `sync="full"` makes each commit survive a power failure. Raises `JournalError` for a file that is not a journal,
        has another format, is damaged or cannot be written, and `JournalInUse` if another process works on it.
        """
        file = Path(path)
        if replaying:
            return cls(file, journal_file.open_to_read(file), None, replaying=True)
        lock = journal_file.lock_journal(file)
        try:
            if fresh:
                journal_file.rename_existing(file)
            database = journal_file.open_to_write(file, sync)
            try:
                with journal_errors(file, "written"):
                    journal_file.write_owner(database)
            except BaseException:
                database.close()
                raise
        except BaseException:
            lock.release()
            raise
        journal = cls(file, database, lock, replaying=False)
        journal._sync = sync
        return journal

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
            self._writer.broken = None  # there may be room again
            self.flush()
            with journal_errors(self.path, "written"):
                journal_file.clear_owner(self._database)
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
            opened = (
                journal_file.open_to_read if self.replaying else partial(journal_file.open_to_write, sync=self._sync)
            )
            self._writer.database = opened(self.path)

    # ---- runs

    def begin(self, items: int, command: Mapping[str, Any], ledger: Ledger | None = None) -> None:
        """A run begins, with so many items; `command` is what it was started with, as JSON values without secrets.

        Where it asks for the same as that of the last run, it is the same run, which goes on. What `ledger` counts is
        kept with the replies, and it is told what was spent before. The command of a benchmark that has a file is also
        kept in the user's state folder, which `karenina resume` takes it from.
        """
        last, written = self._last_run(), json.dumps(command, sort_keys=True)
        with self._writer.transaction():
            if last is not None and is_same_run(last.command, command):
                self.run_id, began = last.id, last.began
            else:
                self.run_id, began = (last.id if last is not None else 0) + 1, time.time()
            self._database.execute(_RUN, with_digest("runs", (self.run_id, began, None, items, None, written)))
            if ledger is not None:
                self._begin_session(ledger)
            id = self._own_id()
        if command.get("benchmark") is not None:
            user_state.store_command(id, self.path, command)

    def _own_id(self) -> str:
        """Return the journal's random id; a journal without one, and a copy of another journal, get a new one."""
        row = self._row("SELECT value FROM meta WHERE name = 'id'")
        if row and user_state.is_id(row[0]) and not user_state.belongs_to_other_journal(row[0], self.path):
            return str(row[0])
        id = user_state.new_id()
        self._database.execute("INSERT OR REPLACE INTO meta VALUES ('id', ?)", (id,))
        return id

    def note_targets(self, digests: Mapping[tuple[str, str], Sequence[bytes]]) -> None:
        """Note the identities of the run's models, by port and id: by them `rescore` finds their replies.

        There are two for an id that an answering model and a judge share.
        """
        rows = [(f"{_TARGET}{port} {id}", b"".join(found).hex()) for (port, id), found in digests.items()]
        with self._writer.transaction():
            self._database.execute("DELETE FROM meta WHERE name GLOB ?", (f"{_TARGET}*",))
            self._database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def targets(self) -> dict[tuple[str, str], list[bytes]]:
        """Return what `note_targets` has noted. What is not of its form is left out."""
        with journal_errors(self.path, "read"):
            query = "SELECT name, value FROM meta WHERE name GLOB ?"
            rows = self._database.execute(query, (f"{_TARGET}*",)).fetchall()
        found = {}
        for name, value in rows:
            port, _, id = str(name).removeprefix(_TARGET).partition(" ")
            if isinstance(value, str) and _DIGESTS.fullmatch(value):
                digests = bytes.fromhex(value)
                found[port, id] = [digests[at : at + 32] for at in range(0, len(digests), 32)]
        return found

    def _begin_session(self, ledger: Ledger) -> None:
        ledger.before = sum_ledger_lines(self.path, self._database.execute("SELECT * FROM spent").fetchall())
        (last,) = self._database.execute("SELECT max(id) FROM sessions").fetchone()
        self.session = (last or 0) + 1
        self._session = (self.session, self.run_id, time.time())
        self._database.execute(
            _SESSION, with_digest("sessions", (*self._session, json.dumps(ledger.prices.snapshot())))
        )
        self._ledger = ledger

    def last_command(self) -> Mapping[str, Any] | None:
        """Return what the last run was started with; None if there was none. Raises `JournalDamaged`."""
        last = self._last_run()
        return last.command if last is not None else None

    def _last_run(self) -> StoredRun | None:
        with journal_errors(self.path, "read"):
            return read_run_row(self.path, self._database.execute(LAST_RUN).fetchone())

    def end(self, tally: CallCounts, *, finished: bool) -> None:
        """Store that the run has ended, or was stopped, after those calls."""
        counts = {"made": tally.made, "kept": tally.cached, "failed": tally.failed}
        tokens = {"input_tokens": tally.used.input_tokens, "output_tokens": tally.used.output_tokens}
        self.flush()
        ledger, self._ledger = self._ledger, None
        with self._writer.transaction():
            if ledger is not None:  # a stage may have brought a model of its own
                prices = json.dumps(ledger.prices.snapshot())
                self._database.execute(_SESSION, with_digest("sessions", (*self._session, prices)))
            (row,) = self._database.execute("SELECT * FROM runs WHERE id = ?", (self.run_id,)).fetchall()
            id, began, _, items, _, command, _ = row
            ended = time.time() if finished else None
            tallied = json.dumps({**counts, **tokens})
            self._database.execute(_RUN, with_digest("runs", (id, began, ended, items, tallied, command)))

    # ---- replies

    @property
    def had_replies(self) -> bool:
        """Whether there was any reply when the journal was opened."""
        return self._had_replies

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """What was kept of such a call: a reply that may be used again, or None.

        While replaying, all that was kept, errors too; where nothing was, it raises `PortError`.
        """
        kept, damaged = self._looked_up(call)
        if not self.replaying:
            return kept.made if kept is not None and kept.reusable else None
        if kept is None:
            raise _missing(self.path, call, damaged=damaged)
        return kept.made

    def reply(self, call: CallRecord) -> StoredReply | None:
        """Return what the journal holds of the call, errors too, whether it may be used again or not."""
        return self._looked_up(call)[0]

    def _looked_up(self, call: CallRecord) -> tuple[StoredReply | None, bool]:
        """Return what the journal holds of the call, and whether that is damaged."""
        if self.broken is not None:
            raise self.broken
        if not self._may_hold(call.key):
            return None, False
        if call.key in self._keys:
            self.flush()
        row = self._row("SELECT * FROM replies WHERE key = ?", call.key)
        kept = read_reply_row(row, call.key) if row else None
        damaged = row is not None and kept is None
        if damaged:
            self.warn_of_damage(f"a reply of {call.endpoint.model.id!r} for question {call.info.question_id!r}")
        return kept, damaged

    async def store(self, call: CallRecord, made: CallOutcome) -> None:
        """Store what became of a call. When this returns it is in the file, whatever happens to the process.

        Raises `PortError` if no journal can hold the reply: then only its item has no reply.
        """
        try:
            stored = self._writer.write(_REPLY, make_reply_row(call, made))
            self._keys.add(call.key)
            if self._marks is not None:
                self._marks.add(call.key)
            await stored
        except (UnstorableRow, *ROW_ERRORS) as error:
            model = call.endpoint.model
            raise PortError(
                f"the reply of {model.id!r} ({model.display_string}) cannot be stored in the journal {self.path}, and "
                f"is not used: {describe_error(error)}; this is an error of the server or of the adapter for "
                f"{model.interface!r}",
                category=ErrorCategory.PERMANENT,
            ) from error

    def _row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        """Return the first row of a query; None if there is none, or `()` if a text is not UTF-8."""
        with journal_errors(self.path, "read"):
            return journal_file.read_first_row(self._database, query, values)

    def warn_of_damage(self, what: str) -> None:
        """Log that something in the file is damaged; the first time as a warning."""
        logger.log(
            logging.DEBUG if self._warned else logging.WARNING,
            "the journal %s is damaged: %s cannot be read, and is taken as if it were not there; `karenina journal "
            "repair %s` keeps what can be read",
            *(self.path, what, self.path),
        )
        self._warned = True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One look at the file while the block lasts, which costs half of one for each reply. Nothing is written."""
        with journal_errors(self.path, "read"):
            self._database.execute("BEGIN")
        try:
            yield
        finally:
            with journal_errors(self.path, "read"):
                self._database.execute("COMMIT")

    def leave(self, call: CallRecord) -> None:
        """Nothing is noted of calls that were not made."""

    def _may_hold(self, key: bytes) -> bool:
        """Whether a reply to a call with this key may be there: one to a new call, as most are, is not looked for."""
        return self._had_replies or self._marks is None or key in self._marks

    # ---- results

    @property
    def had_results(self) -> bool:
        """Whether there was any result when the journal was opened."""
        return self._had_results

    def result(self, item: ItemId, fingerprint: bytes) -> StoredResult | None:
        """The result that is kept for an item under this fingerprint, since before the run."""
        if not self._had_results:
            return None
        row = self._row(
            "SELECT rowid, * FROM results WHERE question_id = ? AND answering = ? AND judge = ? AND replicate = ? "
            "AND fingerprint = ?",
            *(*item, fingerprint),
        )
        if row is None:
            return None
        if not row or row[3:8] != (*item, fingerprint) or not is_intact("results", row[1:]):
            self.warn_of_damage(f"a result of question {item[0]!r}")
            return None
        return StoredResult(row[0], row[11], bool(row[9]), row[1], row[2])

    def wrote(self, file: Path) -> bool:
        """Return whether all lines of `file` but its header are results of the last run, so that none is lost."""
        with journal_errors(self.path, "read"):
            rows = self._database.execute("SELECT result FROM results WHERE run = (SELECT max(id) FROM runs)")
            known = {_digest(text.encode("utf-8", "replace")) for (text,) in rows if isinstance(text, str)}
        cut_off = b""
        with file.open("rb") as lines:
            for line in lines:
                if is_header(line):
                    continue
                if not line.endswith(b"\n"):
                    cut_off = line
                elif _digest(line[:-1]) not in known:
                    return False
        return not cut_off or self._begins_with(cut_off)

    def _begins_with(self, start: bytes) -> bool:
        """Return whether a result of the last run begins so: a process that was killed leaves half a line."""
        query = (
            "SELECT 1 FROM results WHERE run = (SELECT max(id) FROM runs) "
            "AND substr(CAST(result AS BLOB), 1, ?) = ? LIMIT 1"
        )
        return self._row(query, len(start), start) is not None

    def finish(
        self, place: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, *, again: bool
    ) -> Awaitable[None]:
        """Store the result of an item, as its JSON line. When the awaitable returns it is in the file.

        Raises `UnstorableRow`, also when it is awaited, and `JournalError`.
        """
        try:
            row = make_result_row(self.run_id, place, item, fingerprint, outcome, text, again)
        except ROW_ERRORS as error:
            raise UnstorableRow(f"the journal {self.path} cannot hold it: {describe_error(error)}") from error
        return self._writer.write(_RESULT, row)

    def add(self, finished: FinishedItem) -> None:
        """Keep a result that another process has found out. It is in the file after the next `flush`."""
        one = finished
        row = make_result_row(self.run_id, one.place, one.item, one.fingerprint, one.outcome, one.text, one.again)
        self._writer.add(_RESULT, row)

    def seen(self, place: int, kept: StoredResult) -> None:
        """Note that the run that is under way has a result that was kept, at this place of its matrix."""
        if (kept.run, kept.place) != (self.run_id, place):
            self._writer.add(_SEEN, (self.run_id, place, kept.row))

    # ---- writing

    def flush(self) -> None:
        """Commit what has gathered, now. Raises `JournalError`; what could not be written is kept for the next try."""
        self._writer.flush()

    def _spent_rows(self) -> tuple[str, list[tuple[Any, ...]]] | None:
        if self._ledger is None or not self._ledger.changed:
            return None
        return _SPENT, [make_spent_row(self.session, line) for line in self._ledger.changed.values()]

    def _committed(self) -> None:
        self._keys.clear()
        if self._ledger is not None:
            self._ledger.changed.clear()


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line).digest()[:16]


def _missing(path: Path, call: CallRecord, *, damaged: bool) -> NoRecordedReply:
    info, model = call.info, call.endpoint.model
    stage = f" of stage {info.stage}" if info.stage else ""
    who = f"{model.id!r} ({model.display_string})" if call.is_model_call else f"the service {model.id!r}"
    whose = f"{f' ({info.task})' if info.task else ''} for question {info.question_id!r}, replicate {info.replicate}"
    if damaged:
        return NoRecordedReply(
            f"the journal {path} is damaged: its reply of {who} to this call{stage}{whose} cannot be read; "
            f"`karenina journal repair {path}` keeps what can be read, and a run without --replay asks again"
        )
    return NoRecordedReply(
        f"the journal {path} holds no reply of {who} to this call{stage}{whose}, and "
        "a replay asks nobody: what is sent now was not sent then (another prompt, model, parameter or version), or "
        "the run did not get so far; run without --replay to ask"
    )
