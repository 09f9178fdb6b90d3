"""Writing to a journal. Rows are collected and committed together."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karenina_core.errors import describe_error
from karenina_engine.journal.file import ROW_ERRORS, JournalError, JournalNotWritten, journal_errors
from karenina_engine.journal.rows import UnstorableRow, make_spent_row
from karenina_engine.journal.schema import STORE_SPENT

if TYPE_CHECKING:
    import sqlite3

    from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
    from karenina_engine.cost.ledger import Ledger

GATHERING: Final = 0.04
"""The minimum number of seconds between two commits while models are answering.

Rows that arrive in between are committed together. Their items then also continue together, which is faster: compared
with half of this interval, a question takes a fifth less time. With a longer interval, a server that allows few
concurrent calls is idle between commits (`benchmarks/efficiency.py`).
"""
_LEDGER_DELAY: Final = 1.0
"""The maximum number of seconds until the ledger lines of a call are committed, if no rows are committed before."""

logger = logging.getLogger("karenina")


@dataclass(slots=True)
class _Row:
    statement: str
    values: tuple[Any, ...]
    stored: asyncio.Future[None] | None = None

    def end(self, error: Exception | None) -> None:
        """Resolve the row's future, if a task waits for it: with `error`, or with None if the row is in the file."""
        stored = self.stored
        if stored is None or stored.done():
            return
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)
            stored.exception()  # retrieve it, since the task that waited may have been cancelled


class JournalWriter:
    """Collects the rows of a journal and commits them together.

    `write` returns a future that resolves when the row has been committed. It fails with `UnstorableRow` if the row
    cannot be stored, or with `JournalError` if the file cannot be written. After that, every write fails. Each commit
    also writes the changed lines of `ledger` for the session `session`. `unwritten_keys` contains the keys of replies
    that are not in the file yet. If none of the calls in `limits` are in flight, rows are committed without delay.
    """

    def __init__(self, path: Path, database: sqlite3.Connection, limits: ConcurrencyLimits | None = None) -> None:
        self.path = path
        self.database = database
        self.broken: JournalError | None = None
        self.ledger: Ledger | None = None
        self.session = 0
        self.unwritten_keys: set[bytes] = set()
        self._limits = limits
        self._rows: list[_Row] = []
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._last = self._due = 0.0
        self._place, self._file = path.absolute(), path.stat()
        self._is_gone = False

    def write(self, statement: str, values: tuple[Any, ...]) -> asyncio.Future[None]:
        """Add a row, which the SQL `statement` stores with `values`, to the next commit, and return a future that
        resolves when it has been committed. This must be called in an event loop. Raises `JournalError` if an earlier
        commit failed.
        """
        if self.broken is not None:
            raise self.broken
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        self._add_row(_Row(statement, values, stored), loop)
        return stored

    def add(self, statement: str, values: tuple[Any, ...]) -> None:
        """Add a row to the next commit. If it cannot be stored, a warning is logged. This must be called in an event
        loop.
        """
        self._add_row(_Row(statement, values), asyncio.get_running_loop())

    def commit_later(self) -> None:
        """Commit the ledger's changed lines with the next rows, or after `_LEDGER_DELAY` seconds. A failed call that
        waits for its next attempt has no row yet. This must be called in an event loop.
        """
        if self._timer is None and self.broken is None:
            loop = asyncio.get_running_loop()
            self._due = loop.time() + _LEDGER_DELAY
            self._timer = loop.call_at(self._due, self._tick)

    def flush(self) -> None:
        """Commit the collected rows and the changed ledger lines now. Rows that cannot be stored are skipped, and their
        futures fail. If the file cannot be written, all futures fail, the rows are kept for another attempt, and
        `JournalError` is raised.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._rows = self._rows, []
        try:
            refused = self._commit(rows)
        except Exception as error:
            self._rows[:0] = rows
            self.broken = broken = error if isinstance(error, JournalError) else self._not_written(error)
            for row in rows:
                row.end(broken)
            raise broken from error.__cause__
        except BaseException:  # such as Ctrl-C: the next commit writes these rows
            self._rows[:0] = rows
            raise
        self.unwritten_keys.clear()
        if self.ledger is not None:
            self.ledger.changed.clear()
        for row in rows:
            row.end(refused.get(id(row)))
        self._check_place()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the `with` block as a transaction. It is rolled back if an exception is raised. Errors from SQLite and
        the operating system are raised as `JournalError`.
        """
        database = self.database
        with journal_errors(self.path, "written"):
            try:
                if database.in_transaction:  # Ctrl-C interrupted an earlier transaction
                    database.execute("ROLLBACK")
                database.execute("BEGIN IMMEDIATE")
                yield
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def _check_place(self) -> None:
        """Log a warning, once, if the path no longer leads to the file that is written."""
        if self._is_gone:
            return
        try:
            self._is_gone = not os.path.samestat(self._file, self._place.stat())
        except FileNotFoundError:
            self._is_gone = True
        except OSError:
            return  # unknown, for example because the folder can no longer be read
        if self._is_gone:
            logger.warning(
                "another program removed, renamed or replaced the journal %s; the run continues, but its replies and "
                "results are not stored there, so another run cannot continue from them",
                self.path,
            )

    def _not_written(self, error: Exception) -> JournalError:
        """Return the error for a journal that cannot be written."""
        return JournalNotWritten(
            f"the journal {self.path} cannot be written: {describe_error(error)}; stored replies are kept, and the "
            "same command continues the run"
        )

    def _commit(self, rows: Sequence[_Row]) -> dict[int, UnstorableRow]:
        """Write the rows and the changed ledger lines, and return the errors for rows that cannot be stored, keyed by
        the row's `id()`. Raises `JournalError` if the file cannot be written at all, in which case nothing is stored.
        """
        changed = self.ledger.changed.values() if self.ledger is not None else ()
        spent = [make_spent_row(self.session, line) for line in changed]
        if not rows and not spent:
            return {}
        by_statement: dict[str, list[tuple[Any, ...]]] = {}
        for row in rows:
            by_statement.setdefault(row.statement, []).append(row.values)
        try:
            with self.transaction():
                for statement, values in by_statement.items():
                    self.database.executemany(statement, values)
                self.database.executemany(STORE_SPENT, spent)
        except ROW_ERRORS:
            return self._commit_one_by_one(rows, spent)
        except JournalError as error:
            if not isinstance(error.__cause__, ROW_ERRORS):
                raise
            return self._commit_one_by_one(rows, spent)
        return {}

    def _commit_one_by_one(self, rows: Sequence[_Row], spent: Sequence[tuple[Any, ...]]) -> dict[int, UnstorableRow]:
        """Write the rows one at a time, because one of them could not be stored, and then `spent`. Returns the errors,
        keyed by the row's `id()`. Errors of rows that no caller waits for are logged as warnings.
        """
        refused: dict[int, UnstorableRow] = {}
        with self.transaction():
            for row in rows:
                try:
                    self.database.execute(row.statement, row.values)
                except ROW_ERRORS as error:
                    problem = describe_error(error)
                    refused[id(row)] = UnstorableRow(f"the journal {self.path} cannot store a row: {problem}")
                    if row.stored is None:
                        logger.warning("the journal %s cannot store a result: %s", self.path, problem)
            self.database.executemany(STORE_SPENT, spent)
        return refused

    def _add_row(self, row: _Row, loop: asyncio.AbstractEventLoop) -> None:
        """Add a row to the next commit, and schedule that commit. It takes place `GATHERING` seconds after the previous
        commit. If no calls are in flight, it takes place at once.
        """
        self._rows.append(row)
        due = self._last + GATHERING if self._limits is None or self._limits.answering else 0.0
        if self._timer is None or due < self._due:
            if self._timer is not None:
                self._timer.cancel()
            rest, self._due = due - loop.time(), due
            self._timer = loop.call_later(rest, self._tick) if rest > 0 else loop.call_soon(self._tick)

    def _tick(self) -> None:
        """Commit the collected rows. Errors are passed on to the tasks that are waiting for the rows."""
        self._timer = None
        try:
            self.flush()
        except JournalError:
            logger.debug("the journal could not be written", exc_info=True)  # waiting tasks get the error
        self._last = asyncio.get_running_loop().time()
