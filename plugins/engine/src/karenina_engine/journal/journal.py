"""The journal of a run, in which every reply and every result is stored.

Replies are stored before they are used, so that no call is made twice. For the tables, see
`karenina_engine.journal.schema`.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Self
from unicodedata import normalize

from karenina_core.errors import describe_error
from karenina_core.models.ports import AgentReply, ErrorCategory, NoRecordedReply, PortError
from karenina_core.text import compose
from karenina_engine.calls.call import CallOutcome
from karenina_engine.calls.reply_json import Reply, is_empty
from karenina_engine.journal import file as journal_file
from karenina_engine.journal import output_check, user_state
from karenina_engine.journal.command import OWN_ONLY, is_same_run
from karenina_engine.journal.compression import TextCompressor, TextReader, dictionary_id
from karenina_engine.journal.file import ROW_ERRORS, JournalError, Sync, journal_errors
from karenina_engine.journal.rows import (
    BloomFilter,
    FinishedItem,
    StoredReply,
    StoredResult,
    StoredRun,
    UnstorableRow,
    dump_attachment,
    make_reply_row,
    make_result_row,
    read_reply_row,
    read_run_row,
    sum_ledger_lines,
)
from karenina_engine.journal.schema import (
    ATTACHMENT,
    KEEP_RESULT,
    KEEP_SEEN,
    LAST_RUN,
    MARK_SEEN,
    STORE_FACT,
    STORE_REPLY,
    STORE_RESULT,
    STORE_RUN,
    STORE_SESSION,
    is_intact,
    with_digest,
)
from karenina_engine.journal.writer import GATHERING, JournalWriter
from karenina_engine.results.result_file import digest_run

if TYPE_CHECKING:
    import sqlite3
    from types import TracebackType

    from filelock import BaseFileLock

    from karenina_core.data.result import ItemId
    from karenina_core.models.attachments import Attachment
    from karenina_engine.calls.call import CallCounts, CallRecord
    from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
    from karenina_engine.cost.ledger import Ledger

__all__ = ["GATHERING", "FinishedItem", "Journal", "JournalError", "StoredResult"]

_TARGET: Final = "target "
_DIGESTS: Final = re.compile(r"([0-9a-f]{64}){1,2}")

logger = logging.getLogger("karenina")


class Journal:
    """A journal, locked by this process from `open` to `close`.

    Only one event loop can use it at a time. Rows are collected and committed together. An awaitable returned by
    `store` or `finish` completes once its row is in the file. If `replaying` is set, calls are not allowed and a
    missing reply is an error.
    """

    def __init__(
        self,
        path: Path,
        database: sqlite3.Connection,
        lock: BaseFileLock | None,
        *,
        replaying: bool,
        limits: ConcurrencyLimits | None = None,
    ) -> None:
        self.path = path
        self.replaying = replaying
        self.run_id = 0
        self._continued = False
        """Whether the run has results of earlier sessions, which a result of this session may replace."""
        self._lock = lock
        self._writer = JournalWriter(path, database, limits)
        self._compressor = TextCompressor(self._store_fact)
        self._texts = TextReader(lambda: self._database)
        self._session: tuple[Any, ...] = ()
        self._sync: Sync = "normal"
        self._warned = False
        with journal_errors(path, "read"):
            self._had_results = database.execute("SELECT 1 FROM results LIMIT 1").fetchone() is not None
            self._had_replies = database.execute("SELECT 1 FROM replies LIMIT 1").fetchone() is not None
        self._known_keys = BloomFilter() if not replaying else None

    @property
    def broken(self) -> JournalError | None:
        """The error after which the file can no longer be written, or None if there was none."""
        return self._writer.broken

    @property
    def _database(self) -> sqlite3.Connection:
        """The writer's connection."""
        return self._writer.database

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        fresh: bool = False,
        replaying: bool = False,
        sync: Sync = "normal",
        limits: ConcurrencyLimits | None = None,
    ) -> Self:
        """Open the journal at `path`, creating it if necessary and locking it until `close`, or with `replaying` only
        for reading. With `fresh`, an existing one is renamed. Raises `JournalError` if the file is damaged, has another
        format, is not a journal, cannot be written or, with `replaying`, is missing, and `JournalInUse` if another
        process is using it.

        With `sync="full"`, commits survive a power failure. Rows are held back briefly so that several can be committed
        together, unless none of the calls in `limits` are in flight.
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
                journal_file.close_written(database)
                raise
        except BaseException:
            journal_file.unlock(lock)
            raise
        journal = cls(file, database, lock, replaying=False, limits=limits)
        journal._sync = sync
        return journal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the journal. If the `with` block raised an exception, a `JournalError` from closing is only logged."""
        try:
            self.close()
        except JournalError:
            if error is None:
                raise
            logger.debug("the journal could not be closed", exc_info=True)  # the block's own error is raised

    def close(self) -> None:
        """Write the remaining rows, close the file and release its lock, even if writing fails. Raises `JournalError`
        if the rows cannot be written.
        """
        lock, self._lock = self._lock, None
        if lock is None:
            self._database.close()
            return
        try:
            self._writer.broken = None  # the disk may have space again
            self.flush()
            with journal_errors(self.path, "written"):
                journal_file.clear_owner(self._database)
        finally:
            journal_file.close_written(self._database)
            journal_file.unlock(lock)

    @contextmanager
    def closed_for_fork(self) -> Iterator[None]:
        """Close the file during the `with` block, because SQLite connections must not be used after a fork. The journal
        stays locked. Raises `JournalError` if the collected rows cannot be written, or if the file cannot be reopened.
        """
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
        """Start a run of `items` items, or continue the last run if `command`, JSON-compatible data without secrets,
        asks for the same results. From now on, the counts in `ledger` are stored together with the replies, and its
        `before` contains the totals of earlier sessions. Raises `JournalError` if the file cannot be written.

        If the benchmark has a file, the command is also stored in the user's state folder, where `karenina resume`
        finds it.
        """
        label = {name: value for name, value in command.items() if name not in OWN_ONLY}
        last, written = self._last_run(), json.dumps(label, sort_keys=True)
        with self._writer.transaction():
            self._continued = last is not None and is_same_run(last.command, command)
            if last is not None and self._continued:
                self.run_id, began = last.id, last.began
            else:
                self.run_id, began = (last.id if last is not None else 0) + 1, time.time()
            self._database.execute(STORE_RUN, with_digest("runs", (self.run_id, began, None, items, None, written)))
            if ledger is not None:
                self._begin_session(ledger)
            id = self._own_id()
            self._compressor = TextCompressor(self._store_fact, self._dictionary_of_run())
        if command.get("benchmark") is not None:
            user_state.store_command(id, self.path, command)

    def store_rules(self, rules: Iterable[bytes]) -> None:
        """Store the field rules of the run's templates in the user's state folder, where `show` finds them."""
        row, run = self._row("SELECT value FROM meta WHERE name = 'id'"), self.run_digest()
        if row is not None and run is not None:
            user_state.store_rules(str(row[0]), run, rules)

    def _own_id(self) -> str:
        """Return the journal's random id. If the journal has no id or is a copy of another journal, a new id is created
        and stored.
        """
        row = self._row("SELECT value FROM meta WHERE name = 'id'")
        if row and user_state.is_id(row[0]) and not user_state.belongs_to_other_journal(row[0], self.path):
            return str(row[0])
        id = user_state.new_id()
        self._database.execute(STORE_FACT, ("id", id))
        return id

    def _dictionary_of_run(self) -> bytes | None:
        """Return the dictionary that compresses the run's results, or None if there is none yet."""
        query = "SELECT result FROM results WHERE run = ? AND typeof(result) = 'blob' LIMIT 1"
        row = self._row(query, self.run_id)
        return self._texts.dictionary(dictionary_id(row[0])) if row else None

    def _store_fact(self, name: str, value: bytes) -> None:
        """Add a row to `meta` in the next commit."""
        self._writer.add(STORE_FACT, (name, value))

    def store_endpoint_digests(self, digests: Mapping[tuple[str, str], Sequence[bytes]]) -> None:
        """Store the endpoint digests of the run's models, by port and model id, in place of all earlier ones.

        Rescoring uses them to find replies. If an answering model and a judge have the same id, there are two digests
        for that id.
        """
        rows = [(f"{_TARGET}{port} {id}", b"".join(parts).hex()) for (port, id), parts in digests.items()]
        with self._writer.transaction():
            self._database.execute("DELETE FROM meta WHERE name GLOB ?", (f"{_TARGET}*",))
            self._database.executemany(STORE_FACT, rows)

    def store_attachments(self, attachments: Mapping[str, Attachment]) -> None:
        """Store the media types, digests and sizes of attached files, by path as written in the benchmark, so that the
        run can be replayed when the files are gone.
        """
        if attachments:
            rows = [(f"{ATTACHMENT}{path}", dump_attachment(attachment)) for path, attachment in attachments.items()]
            with self._writer.transaction():
                self._database.executemany(STORE_FACT, rows)

    def endpoint_digests(self) -> dict[tuple[str, str], list[bytes]]:
        """Return the stored endpoint digests, by port and model id. Malformed digests are ignored. Raises
        `JournalError` if the file cannot be read.
        """
        with journal_errors(self.path, "read"):
            query = "SELECT name, value FROM meta WHERE name GLOB ?"
            rows = self._database.execute(query, (f"{_TARGET}*",)).fetchall()
        by_model = {}
        for name, value in rows:
            port, _, id = str(name).removeprefix(_TARGET).partition(" ")
            if isinstance(value, str) and _DIGESTS.fullmatch(value):
                digests = bytes.fromhex(value)
                by_model[port, id] = [digests[at : at + 32] for at in range(0, len(digests), 32)]
        return by_model

    def _begin_session(self, ledger: Ledger) -> None:
        """Start a session. From now on, each commit also writes the changed lines of `ledger`. Sets `ledger.before` to
        the totals of earlier sessions.
        """
        ledger.before = sum_ledger_lines(self.path, self._database.execute("SELECT * FROM spent").fetchall())
        (last,) = self._database.execute("SELECT max(id) FROM sessions").fetchone()
        self._writer.session, self._writer.ledger = (last or 0) + 1, ledger
        ledger.on_call = self._writer.commit_later
        self._session = (self._writer.session, self.run_id, time.time())
        self._database.execute(
            STORE_SESSION, with_digest("sessions", (*self._session, json.dumps(ledger.prices.snapshot())))
        )

    def run_digest(self) -> str | None:
        """Return the id of the run, as used in result files. Returns None if there is no run or the journal has no id.
        In a replay, this is the last run; otherwise it is the current one.
        """
        last = self._last_run() if self.replaying else None
        number = last.id if last is not None else self.run_id
        row = self._row("SELECT value FROM meta WHERE name = 'id'")
        return digest_run(row[0], number) if row and number else None

    def last_command(self) -> Mapping[str, Any] | None:
        """Return the last run's command, or None if there was no run. Raises `JournalDamaged` if its row is damaged."""
        last = self._last_run()
        return last.command if last is not None else None

    def _last_run(self) -> StoredRun | None:
        """Return the last run's row, or None if there was no run. Raises `JournalDamaged` if it is damaged."""
        with journal_errors(self.path, "read"):
            return read_run_row(self.path, self._database.execute(LAST_RUN).fetchone())

    def end(self, tally: CallCounts, *, finished: bool) -> None:
        """Commit the collected rows, and record the number of calls that the run made and, if it has `finished`, the
        end time. Raises `JournalError` if the file cannot be written. The ledger is no longer stored after this.
        """
        counts = {"made": tally.made, "kept": tally.cached, "failed": tally.failed}
        tokens = {"input_tokens": tally.used.input_tokens, "output_tokens": tally.used.output_tokens}
        self.flush()
        ledger, self._writer.ledger = self._writer.ledger, None
        with self._writer.transaction():
            if ledger is not None:  # store the prices again: a stage may have used a model of its own
                ledger.on_call = None
                prices = json.dumps(ledger.prices.snapshot())
                self._database.execute(STORE_SESSION, with_digest("sessions", (*self._session, prices)))
            (row,) = self._database.execute("SELECT * FROM runs WHERE id = ?", (self.run_id,)).fetchall()
            id, began, _, items, _, command, _ = row
            ended = time.time() if finished else None
            tallied = json.dumps({**counts, **tokens})
            self._database.execute(STORE_RUN, with_digest("runs", (id, began, ended, items, tallied, command)))

    # ---- replies

    @property
    def had_replies(self) -> bool:
        """Whether the journal contained any replies when it was opened."""
        return self._had_replies

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of an identical call, or None if none can be reused. A replay returns one even if
        it cannot be reused, or raises `PortError` if there is none. Raises `JournalError` if the file cannot be read,
        or if an earlier attempt to write it failed.
        """
        stored, damaged = self._look_up(call)
        if not self.replaying:
            return stored.outcome if stored is not None and stored.reusable else None
        if stored is None:
            raise _missing_reply_error(self.path, call, damaged=damaged)
        return stored.outcome

    def reply(self, call: CallRecord) -> StoredReply | None:
        """Return the stored reply or error of a call, even if it cannot be reused, or None if there is none, its row is
        damaged, or the reply is empty (except an agent's empty reply in a replay).
        """
        return self._look_up(call)[0]

    def _look_up(self, call: CallRecord) -> tuple[StoredReply | None, bool]:
        """Return the stored reply or error of a call, or None, and whether its row is damaged, which is logged. Empty
        replies count as missing (see `_is_missing`). Raises `JournalError` if the file cannot be read, or if an earlier
        attempt to write it failed.
        """
        if self.broken is not None:
            raise self.broken
        if not self._may_hold(call.key):
            return None, False
        if call.key in self._writer.unwritten_keys:
            self.flush()
        row = self._row("SELECT * FROM replies WHERE key = ?", call.key)
        stored = read_reply_row(row, call.key) if row else None
        damaged = row is not None and stored is None
        if stored is not None and call.is_model_call and _is_missing(stored.outcome.reply, replaying=self.replaying):
            return None, False
        if damaged:
            self.warn_of_damage(f"a reply from {call.endpoint.model.id!r} for question {call.info.question_id!r}")
        return stored, damaged

    async def store(self, call: CallRecord, outcome: CallOutcome) -> None:
        """Store the outcome of a call in place of any earlier one, and return once it is in the file. Raises
        `PortError` if the reply cannot be stored, so that only its own item fails, and `JournalError` if the file
        cannot be written.
        """
        try:
            stored = self._writer.write(STORE_REPLY, make_reply_row(call, outcome))
            self._writer.unwritten_keys.add(call.key)
            if self._known_keys is not None:
                self._known_keys.add(call.key)
            await stored
        except (UnstorableRow, *ROW_ERRORS) as error:
            model = call.endpoint.model
            raise PortError(
                f"the reply from {model.id!r} ({model.display_string}) could not be stored in the journal {self.path} "
                f"and was not used: {describe_error(error)}; this is an error in the server or in the adapter for "
                f"{model.interface!r}",
                category=ErrorCategory.PERMANENT,
            ) from error

    def _row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        """Return the first row that a query finds, or None if it finds none. Returns `()` if the row contains invalid
        UTF-8. Raises `JournalError` if the file cannot be read.
        """
        with journal_errors(self.path, "read"):
            return journal_file.read_first_row(self._database, query, values)

    def warn_of_damage(self, what: str) -> None:
        """Log that part of the file is damaged. Only the first time, this is a warning. `what` describes the damaged
        part.
        """
        logger.log(
            logging.DEBUG if self._warned else logging.WARNING,
            "the journal %s is damaged: %s cannot be read and is ignored. Run `karenina journal repair %s` to keep "
            "what can be read",
            *(self.path, what, quote(str(self.path))),
        )
        self._warned = True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run the `with` block in a single transaction. This makes reading faster. The block must not write
        anything.
        """
        with journal_errors(self.path, "read"):
            self._database.execute("BEGIN")
        try:
            yield
        finally:
            with journal_errors(self.path, "read"):
                self._database.execute("COMMIT")

    def leave(self, call: CallRecord) -> None:
        """Do nothing, because calls that were not made are not stored."""

    def _may_hold(self, key: bytes) -> bool:
        """Return False if there is certainly no reply with the given key."""
        return self._had_replies or self._known_keys is None or key in self._known_keys

    # ---- results

    @property
    def had_results(self) -> bool:
        """Whether the journal contained any results when it was opened."""
        return self._had_results

    def result(self, item: ItemId, fingerprint: bytes) -> StoredResult | None:
        """Return the item's result with the given fingerprint, or None. Results stored since the journal was opened are
        not found if it had none before, and damaged ones are ignored with a warning. The question's id is looked up as
        given and in both Unicode normal forms.
        """
        if not self._had_results:
            return None
        row = None
        for id in dict.fromkeys((item.question, compose(item.question), normalize("NFD", item.question))):
            item = item._replace(question=id)
            row = self._row(
                "SELECT rowid, * FROM results WHERE question_id = ? AND answering = ? AND judge = ? AND replicate = ? "
                "AND fingerprint = ?",
                *(*item, fingerprint),
            )
            if row is not None:
                break
        if row is None:
            return None
        read = self._with_text(row, 1) if row else ()
        if not read or read[3:8] != (*item, fingerprint) or not is_intact("results", read[1:]):
            self.warn_of_damage(f"a result for question {item[0]!r}")
            return None
        return StoredResult(read[0], read[11], bool(read[9]), read[1], read[2], read[11] is not row[11])

    def _with_text(self, row: Sequence[Any], start: int = 0) -> tuple[Any, ...]:
        """Return a row of `results` with its text decompressed. `start` is the index of the table's first column in the
        row.
        """
        with journal_errors(self.path, "read"):
            return self._texts.read_row(row, start)

    def holds_all_lines(self, file: Path) -> bool:
        """Return whether every result in `file` is also in the last run, so that the file can be replaced. If the last
        line is incomplete, it only has to match the start of a result.
        """
        with journal_errors(self.path, "read"):
            return output_check.holds_all_lines(self._database, self._texts, file)

    def finish(
        self, index: int, item: ItemId, fingerprint: bytes, outcome: str, text: str, *, again: bool
    ) -> Awaitable[None]:
        """Add an item's result to the next commit, and return an awaitable that completes when it is in the file. Set
        `again` if the item must run again. Raises `UnstorableRow`, either at once or when awaited, if the result cannot
        be stored, and `JournalError` if the file cannot be written. `text` is the result as written by `dump_result`,
        and `index` is the item's index in the run's matrix.
        """
        try:
            finished = FinishedItem(index, item, fingerprint, outcome, text, again)
            row = make_result_row(self.run_id, finished, self._compressor.compress)
        except ROW_ERRORS as error:
            raise UnstorableRow(f"the journal {self.path} cannot store the result: {describe_error(error)}") from error
        self._replace_earlier(KEEP_RESULT, index, fingerprint)
        return self._writer.write(STORE_RESULT, row)

    def add(self, finished: FinishedItem) -> None:
        """Add a result from another process. Call `flush` to write it to the file."""
        self._replace_earlier(KEEP_RESULT, finished.index, finished.fingerprint)
        self._writer.add(STORE_RESULT, make_result_row(self.run_id, finished, self._compressor.compress))

    def seen(self, index: int, stored: StoredResult) -> None:
        """Record that a stored result also belongs to this run, at `index` in the run's matrix."""
        if (stored.run, stored.index) != (self.run_id, index):
            self._replace_earlier(KEEP_SEEN, index, stored.row)
            self._writer.add(MARK_SEEN, (self.run_id, index, stored.row))

    def _replace_earlier(self, statement: str, index: int, kept: bytes | int) -> None:
        """Remove other results of the item at `index` from this run, in which its fingerprint was another, for example
        because a recording was corrected. They are not deleted. `kept` names the one that stays.
        """
        if self._continued:
            self._writer.add(statement, (self.run_id, index, kept))

    # ---- writing

    def flush(self) -> None:
        """Commit the collected rows now. Raises `JournalError` if this fails. The rows are then kept for another
        attempt.
        """
        self._writer.flush()


def _is_missing(reply: Reply | None, *, replaying: bool) -> bool:
    """Return whether a stored reply counts as missing because it is empty. In a replay, an agent's empty reply does not
    count as missing.
    """
    return reply is not None and is_empty(reply) and not (replaying and isinstance(reply, AgentReply))


REPLAY_CURE: Final = "; run without --replay to make the call"
"""The end of the error message for a missing reply. Rescoring removes it because it has no such option."""


def _missing_reply_error(path: Path, call: CallRecord, *, damaged: bool) -> NoRecordedReply:
    """Return the error for a call whose reply is missing or damaged in a replay."""
    info, model = call.info, call.endpoint.model
    stage = f" of stage {info.stage}" if info.stage else ""
    target = f"{model.id!r} ({model.display_string})" if call.is_model_call else f"the service {model.id!r}"
    purpose = f"{f' ({info.task})' if info.task else ''} for question {info.question_id!r}, replicate {info.replicate}"
    if damaged:
        return NoRecordedReply(
            f"the journal {path} is damaged: the reply from {target} to this call{stage}{purpose} cannot be read. Run "
            f"`karenina journal repair {quote(str(path))}` to keep what can be read, or run without --replay to make "
            "the call again"
        )
    return NoRecordedReply(
        f"the journal {path} contains no reply from {target} to this call{stage}{purpose}, and a replay makes no "
        "calls. Either the call has changed since the run (prompt, model, parameter or version), or the run ended "
        f"before the call{REPLAY_CURE}"
    )
