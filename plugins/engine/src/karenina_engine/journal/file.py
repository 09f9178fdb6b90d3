"""The journal file: opening, locking, and explaining errors.

For the tables, see `karenina_engine.journal.schema`. A journal may come from anyone. The file and the files that SQLite
keeps next to it are therefore checked before SQLite opens them, and the schema is checked afterwards.
"""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal

from karenina_core.errors import RunError
from karenina_engine.journal.schema import APPLICATION, FORMAT, READABLE, create_tables, find_foreign_object
from karenina_engine.results.result_file import free_name
from karenina_toolkit.files.bounded_files import MAX_BYTES, max_file_bytes

if TYPE_CHECKING:
    from filelock import BaseFileLock

Sync = Literal["normal", "full"]

_MAGIC: Final = b"SQLite format 3\0"
_LONGEST_ROW: Final = 2**31 - 1  # the largest limit that SQLite accepts
_HEADER: Final = 100
"""The length of SQLite's header, in bytes. Shorter files cannot be identified."""
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED_IF_READ: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
_NOT_UTF8: Final = "it contains text that is not UTF-8"
_COMPANIONS: Final = ("-wal", "-shm", "-journal", ".lock")
"""The suffixes of files next to a journal: SQLite's own files and the lock file."""
_ROLLBACK_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
"""The end of a rollback file that refers to another file. SQLite would delete that file."""
ROW_ERRORS: Final = (
    *(OverflowError, TypeError, ValueError, sqlite3.DataError, sqlite3.IntegrityError),
    *(sqlite3.InterfaceError, sqlite3.ProgrammingError),
)
"""Errors that concern a single row, regardless of the state of the disk."""
_LOCK_TIMEOUT: Final = 0.3
"""The number of seconds to wait for the lock. Another process's `is_locked` may hold it for a moment."""

_WAIT_FOR_READERS: Final = 1000
"""The number of milliseconds to wait, at the end of a run, for other processes to finish reading the journal."""

logger = logging.getLogger("karenina")


class JournalError(RunError):
    """Raised if a journal cannot be opened, read or written. The message gives the reason and advice."""


class JournalDamaged(JournalError):
    """Raised if part of a journal is unreadable or has changed since it was written."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"the journal {path} is damaged: {what}. Run `karenina journal repair {quote(str(path))}` to keep what "
            "can be read, or repeat the run command with --fresh to start a new journal and keep this one under "
            "another name"
        )


class JournalNotWritten(JournalError):
    """Raised if a journal cannot be written. Rows that have already been stored are safe."""


class JournalInUse(JournalError):
    """Raised if another process is using the journal. `pid` is that process's id, if known."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class journal_errors(AbstractContextManager[None, None]):  # noqa: N801 - used like a function
    """A context manager that converts errors from SQLite and the operating system to `JournalError`: `JournalDamaged`
    if the file is damaged, and `JournalNotWritten` if writing fails.

    `doing` is a past participle for the message "the journal ... cannot be `doing`". Each row that is read needs one,
    and a generator would be several times slower.
    """

    __slots__ = ("_doing", "_path")

    def __init__(self, path: Path, doing: str = "read") -> None:
        self._path = path
        self._doing = doing

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Raise a `JournalError` for an error of the `with` block from SQLite or the operating system, or a
        `UnicodeDecodeError`. Other errors are left as they are.
        """
        if error is None:
            return
        path, doing = self._path, self._doing
        if isinstance(error, sqlite3.Error):
            if _is_damage(error, reading=doing in ("read", "opened")):
                raise JournalDamaged(path, str(error) if _has_code(error) else _NOT_UTF8) from error
            if _is_forbidden_by_header(error, path):
                raise JournalDamaged(path, "its header forbids writing to it") from error
            raise _make_error(path, doing, _explain(error)) from error
        if isinstance(error, UnicodeDecodeError):  # an SQLite message that quotes the file
            raise JournalDamaged(path, _NOT_UTF8) from error
        if isinstance(error, OSError):
            raise _make_error(path, doing, error.strerror or str(error)) from error


def _make_error(path: Path, doing: str, why: str) -> JournalError:
    """Build the error for a journal that cannot be `doing`, a past participle. `why` is the reason."""
    kind = JournalNotWritten if doing == "written" else JournalError
    return kind(f"the journal {path} cannot be {doing}: {why}")


def _is_damage(error: sqlite3.Error, *, reading: bool) -> bool:
    """Return whether an SQLite error means that the file is damaged. Some errors only do if they are raised while
    `reading`, because a statement that writes may be their cause.
    """
    if not _has_code(error):  # raised by Python's module: text that is not UTF-8, or a wrong argument
        return isinstance(error, sqlite3.OperationalError)
    return error.sqlite_errorcode & 0xFF in (*_DAMAGED, *(_DAMAGED_IF_READ if reading else ()))


def _is_forbidden_by_header(error: sqlite3.Error, path: Path) -> bool:
    """Return whether SQLite refuses to write to a file that the operating system lets us write to."""
    forbidden = _has_code(error) and error.sqlite_errorcode == sqlite3.SQLITE_READONLY
    return forbidden and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def is_writable(database: sqlite3.Connection) -> bool:
    """Return whether SQLite can write to the journal. Nothing is changed. The journal's header may forbid writing.
    Raises `sqlite3.OperationalError` if the test fails for another reason.
    """
    try:
        database.execute("DELETE FROM meta WHERE FALSE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY:
            raise
        return False
    return True


def _has_code(error: sqlite3.Error) -> bool:
    """Return whether an error comes from SQLite itself rather than from Python's module."""
    return getattr(error, "sqlite_errorcode", None) is not None


def rename_existing(path: Path) -> None:
    """Rename an existing journal and its companion files to an unused name. The new name is logged. If there is no
    journal, nothing happens. Raises `JournalError` if a file cannot be renamed.
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
    logger.warning("the earlier journal was renamed to %s", other)


def open_to_write(path: Path, sync: Sync = "normal") -> sqlite3.Connection:
    """Open the journal for writing, creating it and its folder if necessary. The caller must hold the journal's lock.
    Raises `JournalError` if the file is damaged, has another format, is not a journal or cannot be opened. With
    `sync="full"`, commits survive a power failure. Journals in an earlier, compatible format are marked as current.
    """
    check_before_opening(path, writing=True)
    with journal_errors(path, "opened"):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists() or path.stat().st_size == 0
        if not new:
            _check_header(path, "name a new file, or the journal of an earlier run")
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
            elif database.execute("PRAGMA user_version").fetchone() != (FORMAT,):
                database.execute(f"PRAGMA user_version = {FORMAT}")
    except BaseException:
        database.close()
        raise
    return database


def close_written(database: sqlite3.Connection) -> None:
    """Close a connection opened with `open_to_write`, leaving a single file behind. If another process is reading the
    journal, its log file remains until the end of the next run.
    """
    try:
        with suppress(sqlite3.Error):
            database.execute(f"PRAGMA busy_timeout = {_WAIT_FOR_READERS}")
            database.execute("PRAGMA journal_mode = DELETE")
    finally:
        database.close()


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the journal for reading, even on a read-only disk or while another process is writing to it. Raises
    `JournalError` if the file is missing, is damaged, has another format or cannot be read.
    """
    check_before_opening(path, writing=False)
    if not path.is_file():
        raise JournalError(f"there is no journal at {path}; `karenina run` creates one alongside its results")
    with journal_errors(path, "read"):
        _check_header(path, "specify the .journal file of a run, which `karenina run` stores alongside its results")
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
    """Open the database `name`, or with `uri` the one at this `file:` URI, which others may have prepared. Its schema
    cannot call functions, no other files can be attached, and the length of rows is limited. Each statement is
    committed, and any thread may use the connection.
    """
    database = sqlite3.connect(name, uri=uri, isolation_level=None, check_same_thread=False, cached_statements=64)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(MAX_BYTES, max_file_bytes()), _LONGEST_ROW))
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    return database


def check_before_opening(path: Path, *, writing: bool) -> None:
    """Raise `JournalError` if opening the journal could affect other files, because it or a file that SQLite puts next
    to it is a link, pipe, device or folder. Files that SQLite may write to must not have other hard links, and a
    rollback file must not name another file. Set `writing` if the journal itself will be written to.
    """
    for ending in ("", *_COMPANIONS):
        beside = path.with_name(path.name + ending) if ending else path
        with journal_errors(path, "opened"):
            try:
                status = beside.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISREG(status.st_mode):
                problem = _hard_link_problem(status.st_nlink) if writing or ending else None
            else:
                problem = _file_type_problem(beside, status.st_mode)
            if problem is None and ending == "-journal" and _names_another_file(beside):
                problem = "refers to another file, which SQLite would delete"
        if problem is not None:
            subject = f"the journal {path}" if not ending else f"{beside}, next to the journal,"
            cure = "specify the path of a regular file" if not ending else "remove that file if it is not yours"
            raise JournalError(f"{subject} {problem}; {cure}")


def _hard_link_problem(names: int) -> str | None:
    """Return the reason why a file with `names` hard links must not be changed, or None if it has only one."""
    return f"has {names} names (hard links), and a change would affect all of them" if names > 1 else None


def _file_type_problem(path: Path, mode: int) -> str:
    """Describe the type of a file that is not a regular file, for a message."""
    if stat.S_ISLNK(mode):
        return f"is a link to {path.readlink()}"
    if stat.S_ISDIR(mode):
        return "is a folder"
    return "is a named pipe" if stat.S_ISFIFO(mode) else "is a device or a socket"


def _names_another_file(rollback: Path) -> bool:
    """Return whether a rollback file ends with the name of another file."""
    with rollback.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - len(_ROLLBACK_MAGIC)))
        return file.read() == _ROLLBACK_MAGIC and file.tell() > len(_ROLLBACK_MAGIC)


def read_first_row(database: sqlite3.Connection, query: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the first row that a query finds, or None if it finds none. Returns `()` if the row contains text that is
    not UTF-8. Raises `sqlite3.Error` if the query fails.
    """
    try:
        row: tuple[Any, ...] | None = database.execute(query, values).fetchone()
    except sqlite3.OperationalError as error:
        if _has_code(error):
            raise
        return ()
    return row


def repaired_path(path: Path) -> Path:
    """Return the path to which a repaired journal is written before it replaces the one at `path`."""
    return path.with_name(path.name + ".repaired")


def lock_journal(path: Path, *, repairing: bool = False) -> BaseFileLock:
    """Lock the journal, creating its folder if necessary, until `unlock` is called or the process ends. Raises
    `JournalInUse` if another process holds the lock for more than `_LOCK_TIMEOUT` seconds, and `JournalError` if the
    file cannot be locked, or if an earlier repair was interrupted and `repairing` is not set.

    The lock is held on the file `<path>.lock`. If the process is killed, that file remains but is no longer locked.
    """
    from filelock import FileLock, Timeout

    check_before_opening(path, writing=True)
    if not repairing and repaired_path(path).exists():
        raise JournalError(
            f"a repair of the journal {path} was interrupted; complete it with `karenina journal repair "
            f"{quote(str(path))}`"
        )
    with journal_errors(path, "opened"):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(lock_path(path))
        try:
            lock.acquire(timeout=_LOCK_TIMEOUT, poll_interval=0.05)
        except Timeout:
            pid = read_owner(path)
            owner = f"process {pid}" if pid is not None else "another process"
            raise JournalInUse(
                f"{owner} is using the journal {path}; wait until it has ended, or use another journal",
                pid,
            ) from None
    return lock


def unlock(lock: BaseFileLock) -> None:
    """Remove the lock file, then release the lock. In this order, a process that has the file open cannot lock it after
    it has disappeared.
    """
    with suppress(OSError):  # Windows cannot remove an open file, and the folder may be read-only
        Path(lock.lock_file).unlink()
    lock.release()


def lock_path(path: Path) -> Path:
    """Return the path of the lock file for the journal at `path`."""
    return path.with_name(path.name + ".lock")


def read_owner(path: Path) -> int | None:
    """Return the ID of the process that is writing to the journal, as stored in it, or None. The ID remains if that
    process was killed. None is also returned if the journal cannot be read.
    """
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
    """Return whether a process is using the journal. A lock file that a killed process has left is removed. Returns
    False if the folder does not permit the check.
    """
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
    unlock(lock)
    return False


def write_owner(database: sqlite3.Connection) -> None:
    """Record in the journal that this process is using it."""
    facts = {"pid": os.getpid(), "host": socket.gethostname()}
    database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items())


def clear_owner(database: sqlite3.Connection) -> None:
    """Record in the journal that no process is using it."""
    database.execute("DELETE FROM meta WHERE name IN ('pid', 'host')")


def _check_header(path: Path, cure: str) -> None:
    """Raise `JournalDamaged` if a file's header is incomplete, or `JournalError` if it is not that of an SQLite
    database. An empty file is allowed. `cure` is the advice for a file that is not a journal.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER)
    if head and len(head) < _HEADER and head.startswith(_MAGIC[: len(head)]):
        raise JournalDamaged(path, f"it ends after {len(head)} bytes, so nothing can be read")
    if head and not head.startswith(_MAGIC):
        raise JournalError(f"{path} is not a journal and was not changed; {cure}")


def _is_empty(database: sqlite3.Connection) -> bool:
    """Return whether nothing has been written to the file yet."""
    application = database.execute("PRAGMA application_id").fetchone()[0]
    return not application and database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _check(path: Path, database: sqlite3.Connection) -> None:
    """Raise `JournalError` if an open database is not a journal that this version can read. A journal must have exactly
    the expected tables and indexes.
    """
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise JournalError(
            f"{path} is another program's database, not a journal; choose another file (if it is a "
            f"damaged journal, `karenina journal repair {quote(str(path))}` keeps what can be read)"
        )
    if version > FORMAT:
        raise JournalError(
            f"the journal {path} has format {version}, but this version of Karenina reads only up to {FORMAT}; update "
            "Karenina (pip install -U karenina), or start a new journal (--fresh keeps this one under another name)"
        )
    if version not in READABLE:
        raise JournalError(
            f"the journal {path} has format {version}, from an earlier version of Karenina; `karenina journal repair "
            f"{quote(str(path))}` converts it to format {FORMAT} and keeps the old file under another name"
        )
    foreign = find_foreign_object(database)
    if foreign is not None:
        raise JournalError(
            f"{path} is not a Karenina journal: {foreign}. Its contents were ignored. If the file is yours, run "
            f"`karenina journal repair {quote(str(path))}` to copy its replies and results to a new journal"
        )


def _explain(error: sqlite3.Error) -> str:
    """Return SQLite's error message, or for a known kind of error an explanation with advice."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    next_step = "stored replies are kept, and the same command continues the run"
    if code == sqlite3.SQLITE_FULL:
        return f"the disk is full; free some space ({next_step})"
    if code == sqlite3.SQLITE_IOERR:
        return f"the disk failed ({error}); check the disk and its free space ({next_step})"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"the file or its folder is not writable ({error}); set --journal to a file in a writable folder"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another program has locked the database; end that program"
    return str(error)
