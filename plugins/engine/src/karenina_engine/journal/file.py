"""The file of a journal: how it is opened and held, and what is said if that cannot be done.

Its tables are described in `karenina_engine.journal.schema`. A journal may come from a stranger, with any files
beside it, so it and the files that SQLite keeps beside it are looked at before SQLite opens them, and its schema
afterwards.
"""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from karenina_core.errors import RunError
from karenina_engine.journal.schema import APPLICATION, FORMAT, create_tables, find_foreign_object
from karenina_engine.results.result_file import free_name
from karenina_toolkit.bounded_files import MAX_BYTES, max_file_bytes

if TYPE_CHECKING:
    from filelock import BaseFileLock

Sync = Literal["normal", "full"]

_MAGIC: Final = b"SQLite format 3\0"
_LONGEST_ROW: Final = 2**31 - 1  # what SQLite can be asked for
_HEADER: Final = 100
"""Bytes of SQLite's header: a file with fewer says nothing about whose it is."""
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED_IF_READ: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
_NOT_UTF8: Final = "a text in it is not UTF-8"
_BESIDE: Final = ("-wal", "-shm", "-journal", ".lock")
"""The endings of the files beside a journal: SQLite's own, and the one on which the lock lies."""
_ROLLBACK_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a rollback file that names another file. SQLite deletes that file, whatever it is."""
ROW_ERRORS: Final = (
    *(OverflowError, TypeError, ValueError, sqlite3.DataError, sqlite3.IntegrityError),
    *(sqlite3.InterfaceError, sqlite3.ProgrammingError),
)
"""What says that one row cannot be stored, whatever the disk does."""
_PATIENCE: Final = 0.3
"""Seconds to wait for the file: a look from outside holds it for an instant."""

logger = logging.getLogger("karenina")


class JournalError(RunError):
    """A journal that cannot be opened, read or written: which one, why, and what to do."""


class JournalDamaged(JournalError):
    """A journal in which something cannot be read, or is not what was written there."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"the journal {path} is damaged: {what}; `karenina journal repair {path}` keeps what can be read, and "
            "--fresh begins a new one and keeps this one under another name"
        )


class JournalNotWritten(JournalError):
    """A journal to which a run could not write: what was stored before is there."""


class JournalInUse(JournalError):
    """A journal that another process works on; `pid` is that process, where it is known."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


@contextmanager
def journal_errors(path: Path, doing: str = "read") -> Iterator[None]:
    """Turn errors of SQLite and of the system about the file at `path` into a `JournalError` with a cure."""
    try:
        yield
    except sqlite3.Error as error:
        if _means_damage(error, reading=doing in ("read", "opened")):
            raise JournalDamaged(path, str(error) if _has_code(error) else _NOT_UTF8) from error
        if _forbidden_by_its_header(error, path):
            raise JournalDamaged(path, "its header forbids writing to it") from error
        raise _failed(path, doing, _in_words(error)) from error
    except UnicodeDecodeError as error:  # of a message of SQLite's that repeats what is in the file
        raise JournalDamaged(path, _NOT_UTF8) from error
    except OSError as error:
        raise _failed(path, doing, error.strerror or str(error)) from error


def _failed(path: Path, doing: str, why: str) -> JournalError:
    kind = JournalNotWritten if doing == "written" else JournalError
    return kind(f"the journal {path} cannot be {doing}: {why}")


def _means_damage(error: sqlite3.Error, *, reading: bool) -> bool:
    if not _has_code(error):  # an error of Python's module: a text that is not UTF-8, or an argument
        return isinstance(error, sqlite3.OperationalError)
    return error.sqlite_errorcode & 0xFF in (*_DAMAGED, *(_DAMAGED_IF_READ if reading else ()))


def _forbidden_by_its_header(error: sqlite3.Error, path: Path) -> bool:
    """Return whether SQLite does not write to a file to which the system would let this process write."""
    forbidden = _has_code(error) and error.sqlite_errorcode == sqlite3.SQLITE_READONLY
    return forbidden and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def is_writable(database: sqlite3.Connection) -> bool:
    """Return whether SQLite writes to the journal: a version in its header can forbid that. Changes nothing."""
    try:
        database.execute("DELETE FROM meta WHERE FALSE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY:
            raise
        return False
    return True


def _has_code(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) is not None


def rename_existing(path: Path) -> None:
    """Keep an earlier journal under another name. Its last changes stand in files beside it, which go with it.

    Raises `JournalError`.
    """
    if not path.exists():
        return
    with journal_errors(path, "kept under another name"):
        other = free_name(path)
        for ending in ("-wal", "-shm", "-journal"):
            beside = path.with_name(path.name + ending)
            if beside.exists():
                beside.rename(other.with_name(other.name + ending))
        path.rename(other)
    logger.warning("the earlier journal is kept in %s", other)


def open_to_write(path: Path, sync: Sync = "normal") -> sqlite3.Connection:
    """Open the journal at `path`, which is made if there is none. The caller holds it already (`lock_journal`).

    With `sync="full"` each commit waits until the disk has it, so that a power failure loses none.
    """
    check_before_opening(path, writing=True)
    with journal_errors(path, "opened"):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists() or path.stat().st_size == 0
        if not new:
            _look_at_head(path)
        database = connect(str(path))
    try:
        with journal_errors(path, "opened"):
            new = new or _is_empty(database)
            if not new:
                _check(path, database)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")
            database.execute("PRAGMA busy_timeout = 5000")
            if new:
                create_tables(database)
    except BaseException:
        database.close()
        raise
    return database


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the journal at `path` to look at, also while another process writes to it, and on a read-only disk."""
    check_before_opening(path, writing=False)
    if not path.is_file():
        raise JournalError(f"there is no journal {path}: `karenina run` makes one beside its results")
    with journal_errors(path, "read"):
        _look_at_head(path)
        for mode in ("mode=ro", "immutable=1"):
            database = connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
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


def connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    """Open a database that may come from a stranger: its schema calls no function, it reaches no other file, and the
    length of a row has a bound."""
    database = sqlite3.connect(name, uri=uri, isolation_level=None, check_same_thread=False, cached_statements=64)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(MAX_BYTES, max_file_bytes()), _LONGEST_ROW))
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    return database


def check_before_opening(path: Path, *, writing: bool) -> None:
    """Refuse a journal, or a file beside it, through which SQLite would change or wait for some other file.

    Raises `JournalError` for links, pipes, devices and folders, and for a rollback file that names another file.
    """
    for ending in ("", *_BESIDE):
        beside = path.with_name(path.name + ending) if ending else path
        with journal_errors(path, "opened"):
            try:
                found = beside.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISREG(found.st_mode):
                problem = _linked(found.st_nlink) if writing or ending else None
            else:
                problem = _kind(beside, found.st_mode)
            if problem is None and ending == "-journal" and _names_another_file(beside):
                problem = "names another file, which SQLite would delete"
        if problem is not None:
            what = f"the journal {path}" if not ending else f"{beside}, beside the journal,"
            cure = "give the path of a regular file" if not ending else "move it away if it is not your own"
            raise JournalError(f"{what} {problem}: {cure}")


def _linked(names: int) -> str | None:
    return f"has {names} names (hard links), and a change would be one to all of them" if names > 1 else None


def _kind(path: Path, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return f"is a link to {path.readlink()}"
    if stat.S_ISDIR(mode):
        return "is a folder"
    return "is a named pipe" if stat.S_ISFIFO(mode) else "is a device or a socket"


def _names_another_file(rollback: Path) -> bool:
    with rollback.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - len(_ROLLBACK_MAGIC)))
        return file.read() == _ROLLBACK_MAGIC and file.tell() > len(_ROLLBACK_MAGIC)


def read_first_row(database: sqlite3.Connection, query: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the first row of a query, None if there is none, or `()` if it holds a text that is not UTF-8."""
    try:
        row: tuple[Any, ...] | None = database.execute(query, values).fetchone()
    except sqlite3.OperationalError as error:
        if _has_code(error):
            raise
        return ()
    return row


def repaired_path(path: Path) -> Path:
    """Return the name of the repaired journal that is about to take the place of the one at `path`."""
    return path.with_name(path.name + ".repaired")


def lock_journal(path: Path, *, repairing: bool = False) -> BaseFileLock:
    """Take the journal at `path` for this process alone, until the lock is released or the process ends.

    The lock is the system's, on the file `<path>.lock`, so that none is left by a process that was killed. Raises
    `JournalInUse`, and `JournalError` if a repair of it was cut off, unless this is one (`repairing`).
    """
    from filelock import FileLock, Timeout

    check_before_opening(path, writing=True)
    if not repairing and repaired_path(path).exists():
        raise JournalError(f"a repair of the journal {path} was cut off: `karenina journal repair {path}` ends it")
    with journal_errors(path, "opened"):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(lock_path(path))
        try:
            lock.acquire(timeout=_PATIENCE, poll_interval=0.05)
        except Timeout:
            pid = read_owner(path)
            who = f"process {pid}" if pid is not None else "another process"
            raise JournalInUse(
                f"{who} is working on the journal {path}: wait until it has ended, or give --journal another name",
                pid,
            ) from None
    return lock


def lock_path(path: Path) -> Path:
    """The file on which the lock of the journal at `path` lies."""
    return path.with_name(path.name + ".lock")


def read_owner(path: Path) -> int | None:
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
    try:
        return int(row[0]) if row is not None else None
    except (TypeError, ValueError):
        return None


def is_locked(path: Path) -> bool:
    """Whether a process works on the journal now. Changes nothing, also where the folder cannot be written."""
    from filelock import FileLock, Timeout

    if not lock_path(path).exists():
        return False
    lock = FileLock(lock_path(path))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def write_owner(database: sqlite3.Connection) -> None:
    """Write down which process works on the journal."""
    facts = {"pid": os.getpid(), "host": socket.gethostname()}
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items())


def clear_owner(database: sqlite3.Connection) -> None:
    """Write down that no process works on the journal any more."""
    database.execute("DELETE FROM meta WHERE name IN ('pid', 'host')")


def _look_at_head(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(_HEADER)
    if head and len(head) < _HEADER and head.startswith(_MAGIC[: len(head)]):
        raise JournalDamaged(path, f"it was cut off after {len(head)} bytes, and nothing of it is left")
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
        raise JournalError(
            f"{path} is a database of another program, and no journal: give --journal another name "
            f"(if it was a journal, and is damaged, `karenina journal repair {path}` keeps what can be read)"
        )
    if version > FORMAT:
        raise JournalError(
            f"the journal {path} has format {version}, and this version of Karenina reads up to {FORMAT}: install the "
            "newer version that wrote it, or start another journal (--fresh keeps this one under another name)"
        )
    if version < FORMAT:
        raise JournalError(
            f"the journal {path} has format {version}, of an earlier version of Karenina: `karenina journal repair "
            f"{path}` brings it to format {FORMAT} and keeps the old file under another name"
        )
    foreign = find_foreign_object(database)
    if foreign is not None:
        raise JournalError(
            f"{path} is not a journal of Karenina: {foreign}; nothing in it was used. If it was one of your own, "
            f"`karenina journal repair {path}` takes its replies and results out of it"
        )


def _in_words(error: sqlite3.Error) -> str:
    """Return what is wrong and what to do about it, by SQLite's error code."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    kept = "what was stored is kept; the same command goes on from there"
    if code == sqlite3.SQLITE_FULL:
        return f"the disk is full; make room, {kept}"
    if code == sqlite3.SQLITE_IOERR:
        return f"the disk does not take it or give it ({error}); make room or mend it, {kept}"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"the file or its folder cannot be written ({error}); give --journal a place that can"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another program holds the database; end it"
    return str(error)
