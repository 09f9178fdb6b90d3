"""The journal file: opening it, locking it, and reporting errors with what to do about them.

`karenina_engine.journal.schema` describes the tables. A journal may come from a stranger, with any files alongside it.
Therefore the journal and the files that SQLite keeps next to it are checked before SQLite opens them, and the schema is
checked afterwards.
"""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
"""The length of SQLite's header in bytes; a shorter file cannot be identified."""
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED_IF_READ: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
_NOT_UTF8: Final = "it contains text that is not UTF-8"
_COMPANIONS: Final = ("-wal", "-shm", "-journal", ".lock")
"""Suffixes of the files beside a journal: SQLite's own files, and the lock file."""
_ROLLBACK_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a rollback file that names another file; SQLite would delete that file."""
ROW_ERRORS: Final = (
    *(OverflowError, TypeError, ValueError, sqlite3.DataError, sqlite3.IntegrityError),
    *(sqlite3.InterfaceError, sqlite3.ProgrammingError),
)
"""Errors that mean that one row cannot be stored, whatever the state of the disk."""
_LOCK_TIMEOUT: Final = 0.3
"""Seconds to wait for the lock, since `is_locked` in another process holds it for an instant."""

_WAIT_FOR_READERS: Final = 1000
"""Milliseconds to wait, at the end of a run, for another process to finish reading the journal."""

logger = logging.getLogger("karenina")


class JournalError(RunError):
    """Raised when a journal cannot be opened, read or written. The message states the path, the reason and the cure."""


class JournalDamaged(JournalError):
    """Raised when part of a journal cannot be read, or has changed since it was written."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"the journal {path} is damaged: {what}. Run `karenina journal repair {quote(str(path))}` to keep what "
            "can be read, or repeat the run command with --fresh to start a new journal and keep this one under "
            "another name"
        )


class JournalNotWritten(JournalError):
    """Raised when a journal cannot be written. Rows that were already stored are kept."""


class JournalInUse(JournalError):
    """Raised when another process is using the journal. `pid` is the id of that process, or None if it is unknown."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


@contextmanager
def journal_errors(path: Path, doing: str = "read") -> Iterator[None]:
    """Convert SQLite and operating system errors concerning the file at `path` to a `JournalError`.

    `doing` is the past participle used in the message: "the journal ... cannot be `doing`". With "written", the error
    is a `JournalNotWritten`. If the file is damaged, it is a `JournalDamaged`; with "read" and "opened", more SQLite
    errors are taken to mean this.
    """
    try:
        yield
    except sqlite3.Error as error:
        if _is_damage(error, reading=doing in ("read", "opened")):
            raise JournalDamaged(path, str(error) if _has_code(error) else _NOT_UTF8) from error
        if _is_forbidden_by_header(error, path):
            raise JournalDamaged(path, "its header forbids writing to it") from error
        raise _make_error(path, doing, _explain(error)) from error
    except UnicodeDecodeError as error:  # an SQLite message that quotes the file
        raise JournalDamaged(path, _NOT_UTF8) from error
    except OSError as error:
        raise _make_error(path, doing, error.strerror or str(error)) from error


def _make_error(path: Path, doing: str, why: str) -> JournalError:
    """Return the error for a journal that cannot be `doing` (a past participle), including the reason `why`.

    It is a `JournalNotWritten` if `doing` is "written".
    """
    kind = JournalNotWritten if doing == "written" else JournalError
    return kind(f"the journal {path} cannot be {doing}: {why}")


def _is_damage(error: sqlite3.Error, *, reading: bool) -> bool:
    """Return whether an SQLite error means that the file is damaged.

    More errors indicate damage when reading than when writing, since a failing write may be the statement's own fault.
    """
    if not _has_code(error):  # raised by Python's module: text that is not UTF-8, or a wrong argument
        return isinstance(error, sqlite3.OperationalError)
    return error.sqlite_errorcode & 0xFF in (*_DAMAGED, *(_DAMAGED_IF_READ if reading else ()))


def _is_forbidden_by_header(error: sqlite3.Error, path: Path) -> bool:
    """Return whether SQLite refuses to write to a file although the operating system lets this process write to it."""
    forbidden = _has_code(error) and error.sqlite_errorcode == sqlite3.SQLITE_READONLY
    return forbidden and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def is_writable(database: sqlite3.Connection) -> bool:
    """Return whether SQLite can write to the journal, which its header may forbid. Nothing is changed.

    Raises `sqlite3.OperationalError` if the attempt fails for any other reason.
    """
    try:
        database.execute("DELETE FROM meta WHERE FALSE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY:
            raise
        return False
    return True


def _has_code(error: sqlite3.Error) -> bool:
    """Return whether the error was reported by SQLite itself, rather than by Python's module."""
    return getattr(error, "sqlite_errorcode", None) is not None


def rename_existing(path: Path) -> None:
    """Rename an existing journal, and the accompanying files that contain its latest changes, to an unused name.

    The new name is logged. Does nothing if there is no journal at `path`. Raises `JournalError` if a file cannot be
    renamed.
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
    """Open the journal at `path`, creating it and its folder if they do not exist. The caller must hold its lock
    (`lock_journal`).

    With `sync="full"`, each commit waits until it is stored on disk, so that a power failure does not lose any commits.
    An earlier format that can be read is marked as the current one. Raises `JournalError` if the file is not a journal,
    has another format, is damaged or cannot be opened.
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
    """Close a connection returned by `open_to_write`, so that the journal is a single file again.

    In write-ahead-log mode, each later reader would create a log file and leave it behind. If another process is
    reading the journal now, it stays in that mode until the next run ends.
    """
    try:
        with suppress(sqlite3.Error):
            database.execute(f"PRAGMA busy_timeout = {_WAIT_FOR_READERS}")
            database.execute("PRAGMA journal_mode = DELETE")
    finally:
        database.close()


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the journal at `path` for reading, even while another process writes to it, or on a read-only disk.

    Raises `JournalError` if there is no journal, or if it has another format, is damaged or cannot be read.
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
    """Open a database that may come from a stranger. The connection commits each statement, and any thread may use it.

    Its schema cannot call functions, no other files can be attached, and the length of rows is limited. With `uri`,
    `name` is a `file:` URI.
    """
    database = sqlite3.connect(name, uri=uri, isolation_level=None, check_same_thread=False, cached_statements=64)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(MAX_BYTES, max_file_bytes()), _LONGEST_ROW))
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    return database


def check_before_opening(path: Path, *, writing: bool) -> None:
    """Raise `JournalError` for a journal that would make SQLite change another file or wait for one.

    The journal and the files alongside it must not be links, pipes, devices or folders. A file to which SQLite may
    write (the journal itself only if `writing`) must have no other hard links, and a rollback file must not name
    another file.
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
                problem = "names another file, which SQLite would delete"
        if problem is not None:
            subject = f"the journal {path}" if not ending else f"{beside}, next to the journal,"
            cure = "specify the path of a regular file" if not ending else "remove that file if it is not yours"
            raise JournalError(f"{subject} {problem}; {cure}")


def _hard_link_problem(names: int) -> str | None:
    """Return why a file with this number of hard links must not be changed, or None if it has only one."""
    return f"has {names} names (hard links), and a change would affect all of them" if names > 1 else None


def _file_type_problem(path: Path, mode: int) -> str:
    """Return a description, for use in a message, of a file that is not a regular file."""
    if stat.S_ISLNK(mode):
        return f"is a link to {path.readlink()}"
    if stat.S_ISDIR(mode):
        return "is a folder"
    return "is a named pipe" if stat.S_ISFIFO(mode) else "is a device or a socket"


def _names_another_file(rollback: Path) -> bool:
    """Return whether a rollback file ends in the mark that precedes another file's name."""
    with rollback.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - len(_ROLLBACK_MAGIC)))
        return file.read() == _ROLLBACK_MAGIC and file.tell() > len(_ROLLBACK_MAGIC)


def read_first_row(database: sqlite3.Connection, query: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the first row of a query, None if there is no row, or `()` if the row contains text that is not UTF-8."""
    try:
        row: tuple[Any, ...] | None = database.execute(query, values).fetchone()
    except sqlite3.OperationalError as error:
        if _has_code(error):
            raise
        return ()
    return row


def repaired_path(path: Path) -> Path:
    """Return the path where a repaired journal is completed before it replaces the journal at `path`."""
    return path.with_name(path.name + ".repaired")


def lock_journal(path: Path, *, repairing: bool = False) -> BaseFileLock:
    """Lock the journal at `path` until the lock is released with `unlock` or the process ends.

    This uses the operating system's lock on `<path>.lock`: a killed process leaves the file behind, but not the lock.
    The folder is created if it does not exist. Raises `JournalInUse` if another process still holds the lock after
    `_LOCK_TIMEOUT` seconds, and `JournalError` if the file cannot be locked or if an earlier repair was interrupted and
    this is not a repair (`repairing`).
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
                f"{owner} is using the journal {path}; wait until it has ended, or set --journal to another file",
                pid,
            ) from None
    return lock


def unlock(lock: BaseFileLock) -> None:
    """Remove the lock file and release the lock.

    The file is removed first, so that a process that already has it open does not lock a file that others cannot see.
    """
    with suppress(OSError):  # Windows cannot remove an open file, and the folder may be read-only
        Path(lock.lock_file).unlink()
    lock.release()


def lock_path(path: Path) -> Path:
    """Return the path of the lock file for the journal at `path`."""
    return path.with_name(path.name + ".lock")


def read_owner(path: Path) -> int | None:
    """Return the id of the process named in the journal as its user.

    Returns None if no process is named or the journal cannot be read.
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
    """Return whether a process is using the journal.

    Removes the lock file left by a killed process. Returns False if the folder does not allow this.
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
    """Raise `JournalDamaged` for a journal that is cut off within its header, and `JournalError` if the file is not a
    journal.

    An empty file is accepted. `cure` states what to do about a file that is not a journal.
    """
    with path.open("rb") as file:
        head = file.read(_HEADER)
    if head and len(head) < _HEADER and head.startswith(_MAGIC[: len(head)]):
        raise JournalDamaged(path, f"it ends after {len(head)} bytes, so nothing can be read")
    if head and not head.startswith(_MAGIC):
        raise JournalError(f"{path} is not a journal and was not changed; {cure}")


def _is_empty(database: sqlite3.Connection) -> bool:
    """Return whether nothing has been written yet, for example because the process that created the file was killed."""
    application = database.execute("PRAGMA application_id").fetchone()[0]
    return not application and database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _check(path: Path, database: sqlite3.Connection) -> None:
    """Raise `JournalError` if an open database is not a journal in a format that this version reads.

    Its schema must contain exactly the tables and indexes of a journal.
    """
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise JournalError(
            f"{path} is another program's database, not a journal; set --journal to another file (if it is a "
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
            f"{path}` converts it to format {FORMAT} and keeps the old file under another name"
        )
    foreign = find_foreign_object(database)
    if foreign is not None:
        raise JournalError(
            f"{path} is not a Karenina journal: {foreign}. Its contents were ignored. If the file is yours, run "
            f"`karenina journal repair {path}` to copy its replies and results to a new journal"
        )


def _explain(error: sqlite3.Error) -> str:
    """Return an explanation of an SQLite error and what to do about it."""
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
