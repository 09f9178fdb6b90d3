"""The file of a journal: how it is made, opened and held, and what is said where that cannot be done.

A journal is one SQLite database (WAL). Format 1 has these tables; times are seconds since 1970, texts named JSON hold
JSON, and nothing in it is ever executed or unpickled:

- `meta(name, value)`: `karenina` (the version that made it), `created`, and while a process works on it `pid` and
  `host`.
- `replies`: one row a call. `key` is the digest of all that decides the reply (`Call.key`); `port` (`service` where no
  model was asked; a service's name stands for the model then), `model` (the user's id), `interface`, `model_name`,
  `stage`, `task`, `question_id`, `replicate` say what it was for; `reply` is JSON of the reply, or of the error where
  `failed` is 1; `reusable` is 1 where it may answer the same call again; then `finish_reason`, `input_tokens`,
  `output_tokens`, `calls` (tokens and calls are 0 for an agent's run whose turns have rows of their own), `seconds` (of
  the request that brought it), `retries` (JSON: failed requests that were made again, by category), `waited` (seconds
  between them) and `time`.
- `results`: one row for each item and `fingerprint` (a digest of all that decides what becomes of the replies):
  `question_id`, `answering`, `judge`, `replicate`; `run` and `place` are the last run that had it and the item's place
  in that run's matrix, from 0; `outcome`; `again` is 1 where the item has to run again (a call of it failed); `result`
  is the JSON line of the result.
- `sessions`: one row for each time that a process worked on a run: `id`, `run`, `began`, and `prices` (JSON: which
  lists of prices, and what each model costs).
- `spent`: what was spent, one row for each session, model, stage and judge (empty where it is for all judges): the
  calls that were made, their tokens, their `cost` in picodollars (10^-12 US dollars), and how many of them are
  `unpriced`, because their cost is not known.
- `runs`: one row a run: `id`, `began`, `ended`, `items`, `command` (JSON: what it was started with, for
  `karenina resume`, without secrets), and the JSON `tally` of its calls.
"""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_core.errors import RunError
from karenina_core.run.output import free_name

if TYPE_CHECKING:
    from filelock import BaseFileLock

FORMAT: Final = 1
APPLICATION: Final = 0x4B617231
"""What SQLite's header says of whose file it is."""

_MAGIC: Final = b"SQLite format 3\0"
_HEADER: Final = 100
"""Bytes of SQLite's header: a file with fewer says nothing about whose it is."""
_PATIENCE: Final = 0.3
"""Seconds to wait for the file: a look from outside holds it for an instant."""

_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE replies (
    key BLOB NOT NULL, port TEXT NOT NULL, model TEXT NOT NULL, interface TEXT NOT NULL, model_name TEXT NOT NULL,
    stage TEXT NOT NULL, task TEXT NOT NULL, question_id TEXT NOT NULL, replicate INTEGER NOT NULL,
    failed INTEGER NOT NULL, reusable INTEGER NOT NULL, finish_reason TEXT, input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL, calls INTEGER NOT NULL, seconds REAL NOT NULL, retries TEXT NOT NULL,
    waited REAL NOT NULL, time REAL NOT NULL, reply TEXT NOT NULL
);
CREATE UNIQUE INDEX replies_by_key ON replies (key);
CREATE TABLE results (
    question_id TEXT NOT NULL, answering TEXT NOT NULL, judge TEXT NOT NULL, replicate INTEGER NOT NULL,
    fingerprint BLOB NOT NULL, run INTEGER NOT NULL, place INTEGER NOT NULL, outcome TEXT NOT NULL,
    again INTEGER NOT NULL, time REAL NOT NULL, result TEXT NOT NULL
);
CREATE UNIQUE INDEX results_by_item ON results (question_id, answering, judge, replicate, fingerprint);
CREATE INDEX results_by_place ON results (run, place);
CREATE TABLE sessions (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, began REAL NOT NULL, prices TEXT);
CREATE TABLE spent (
    session INTEGER NOT NULL, model TEXT NOT NULL, interface TEXT NOT NULL, model_name TEXT NOT NULL,
    stage TEXT NOT NULL, judge TEXT NOT NULL, calls INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, cache_write_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL, cost INTEGER NOT NULL, unpriced INTEGER NOT NULL,
    PRIMARY KEY (session, model, interface, model_name, stage, judge)
) WITHOUT ROWID;
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, began REAL NOT NULL, ended REAL, items INTEGER NOT NULL, command TEXT NOT NULL, tally TEXT
);
"""


logger = logging.getLogger("karenina")


class JournalError(RunError):
    """A journal that cannot be opened, read or written: which one, why, and what to do."""


class JournalInUse(JournalError):
    """A journal that another process works on; `pid` is that process, where it is known."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


@contextmanager
def telling(path: Path, doing: str = "used") -> Iterator[None]:
    """Turn what SQLite and the system say about the file at `path` into a `JournalError` with a cure."""
    try:
        yield
    except sqlite3.Error as error:
        raise JournalError(f"the journal {path} cannot be {doing}: {_in_words(path, error)}") from error
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be {doing}: {error.strerror or error}") from error


def put_aside(path: Path) -> None:
    """Keep an earlier journal under another name. Its last changes stand in files beside it, which go with it.

    Raises `JournalError`.
    """
    if not path.exists():
        return
    with telling(path, "kept under another name"):
        other = free_name(path)
        for ending in ("-wal", "-shm"):
            beside = path.with_name(path.name + ending)
            if beside.exists():
                beside.rename(other.with_name(other.name + ending))
        path.rename(other)
    logger.warning("the earlier journal is kept in %s", other)


def open_to_write(path: Path) -> sqlite3.Connection:
    """The journal at `path`, made where there is none. Whoever opens it holds it already (`hold`)."""
    with telling(path, "opened"):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists() or path.stat().st_size == 0
        if not new:
            _look_at_head(path)
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
    try:
        with telling(path, "opened"):
            new = new or _is_empty(database)
            if not new:
                _check(path, database)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA busy_timeout = 5000")
            if new:
                _make(database)
    except BaseException:
        database.close()
        raise
    return database


def open_to_read(path: Path) -> sqlite3.Connection:
    """The journal at `path`, to look at; also while another process works on it, and on a disk that is read-only."""
    if not path.is_file():
        raise JournalError(f"there is no journal {path}: `karenina run` makes one beside its results")
    with telling(path, "read"):
        _look_at_head(path)
        for mode in ("mode=ro", "immutable=1"):
            database = sqlite3.connect(
                f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, check_same_thread=False
            )
            try:
                _check(path, database)
            except sqlite3.OperationalError:
                database.close()
                if mode == "immutable=1":
                    raise
            except BaseException:
                database.close()
                raise
            else:
                return database
    raise AssertionError("unreachable")


def hold(path: Path) -> BaseFileLock:
    """Take the journal at `path` for this process alone, until the lock is released or the process ends.

    The lock is the system's, on the file `<path>.lock`, so that none is left by a process that was killed. Raises
    `JournalInUse`.
    """
    from filelock import FileLock, Timeout

    with telling(path, "opened"):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(lock_file(path))
        try:
            lock.acquire(timeout=_PATIENCE, poll_interval=0.05)
        except Timeout:
            pid = worker(path)
            who = f"process {pid}" if pid is not None else "another process"
            raise JournalInUse(
                f"{who} is working on the journal {path}: wait until it has ended, or give --journal another name",
                pid,
            ) from None
    return lock


def lock_file(path: Path) -> Path:
    """The file on which the lock of the journal at `path` lies."""
    return path.with_name(path.name + ".lock")


def worker(path: Path) -> int | None:
    """The process that holds the journal now, as the journal names it; None where nobody does or it is not known."""
    try:
        database = open_to_read(path)
    except JournalError:
        return None
    try:
        row = database.execute("SELECT value FROM meta WHERE name = 'pid'").fetchone()
    except sqlite3.Error:
        return None
    finally:
        database.close()
    return int(row[0]) if row is not None else None


def is_held(path: Path) -> bool:
    """Whether a process works on the journal now. Changes nothing, also where the folder cannot be written."""
    from filelock import FileLock, Timeout

    if not lock_file(path).exists():
        return False
    lock = FileLock(lock_file(path))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def note_worker(database: sqlite3.Connection) -> None:
    """Write down which process works on the journal."""
    facts = {"pid": os.getpid(), "host": socket.gethostname()}
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items())


def forget_worker(database: sqlite3.Connection) -> None:
    """Write down that no process works on the journal any more."""
    database.execute("DELETE FROM meta WHERE name IN ('pid', 'host')")


def _make(database: sqlite3.Connection) -> None:
    from karenina_core import __version__

    database.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.split(";\n"):
        database.execute(statement)
    database.executemany("INSERT INTO meta VALUES (?, ?)", [("karenina", __version__), ("created", time.time())])
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute(f"PRAGMA user_version = {FORMAT}")
    database.execute("COMMIT")


def _look_at_head(path: Path) -> None:
    if path.is_dir():
        raise JournalError(f"the journal {path} is a folder: name a file")
    with path.open("rb") as file:
        head = file.read(_HEADER)
    if head and len(head) < _HEADER and head.startswith(_MAGIC[: len(head)]):
        raise JournalError(
            f"the journal {path} is damaged: it was cut off after {len(head)} bytes, and nothing of it is left; "
            "--fresh begins a new one and keeps this one under another name"
        )
    if head and not head.startswith(_MAGIC):
        raise JournalError(f"{path} is no journal, and is left as it is: give --journal another name")


def _is_empty(database: sqlite3.Connection) -> bool:
    """Whether nobody has written anything into it: so a process leaves it that is killed while it makes a journal."""
    application = database.execute("PRAGMA application_id").fetchone()[0]
    return not application and database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _check(path: Path, database: sqlite3.Connection) -> None:
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise JournalError(f"{path} is a database of another program, and no journal: give --journal another name")
    if version > FORMAT:
        raise JournalError(
            f"the journal {path} has format {version}, and this version of Karenina reads up to {FORMAT}: install the "
            "newer version that wrote it, or start another journal (--fresh keeps this one under another name)"
        )
    database.execute("SELECT count(*) FROM meta").fetchone()


def _in_words(path: Path, error: sqlite3.Error) -> str:
    """What is wrong and what to do about it, by SQLite's error code."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    kept = "what was stored is kept; the same command goes on from there"
    if code == sqlite3.SQLITE_FULL:
        return f"the disk is full; make room, {kept}"
    if code == sqlite3.SQLITE_IOERR:
        return f"the disk does not take it or give it ({error}); make room or mend it, {kept}"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"the file or its folder cannot be written ({error}); give --journal a place that can"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return (
            f"the file is damaged ({error}); --fresh begins a new one and keeps this one under another name, and "
            f"`sqlite3 {path.name} .recover` may get back what is in it"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another program holds the database; end it"
    return str(error)
