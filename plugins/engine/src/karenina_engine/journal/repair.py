"""Repairing a journal by copying everything that is still intact to a new file.

The damaged file is only read, through a copy, and is kept under another name. Once the new file is complete, it takes
the damaged file's place. If a repair is killed at any point, it can be repeated.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from karenina_core.data.result import VerificationResult
from karenina_engine.journal.compression import DICTIONARY, RESULT_COLUMN, TextReader, intact_dictionary
from karenina_engine.journal.file import (
    JournalError,
    check_before_opening,
    connect,
    is_writable,
    journal_errors,
    lock_journal,
    repaired_path,
    unlock,
)
from karenina_engine.journal.rows import DECODE_ERRORS, read_reply_row, read_run_row
from karenina_engine.journal.schema import (
    APPLICATION,
    FORMAT,
    READABLE,
    STORE_FACT,
    create_tables,
    find_foreign_object,
    is_intact,
    with_digest,
)
from karenina_engine.results.result_file import free_name
from karenina_toolkit.files import sync_folder

TABLES: Final = ("replies", "results", "runs", "sessions", "spent")
_UNREADABLE_FILE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
_NOTHING: Final = (
    "nothing in {path} could be read, and the file was not changed. Restore a copy of the file, or start over: the "
    "run command with --fresh keeps the file under another name"
)
_PAGE: Final = 4096
_SMALLEST_ROW: Final = 40  # bytes: a journal has at most its size divided by this many rows
_FAILURES_A_PAGE: Final = 20  # failed searches per page after which the rest of a table is given up
_MOST_FAILURES: Final = 500_000
_KEY: Final = 32  # bytes of a SHA-256
_LONGEST_FACT: Final = 1000
_ROW_IDS: Final = {
    "replies": "SELECT rowid FROM replies INDEXED BY replies_by_key",
    "results": "SELECT rowid FROM results INDEXED BY results_by_place",
}
_TEMPORARY_FACTS: Final = frozenset({"pid", "host"})
"""Names in `meta` that only exist while a process is using the journal."""

logger = logging.getLogger("karenina")


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The outcome of a repair.

    `kept` and `lost` are numbers of rows by table. More rows may be missing than `lost` counts. `repaired` is the path
    of the repaired journal, or None if there was nothing to repair. `kept_as` is the new name of the damaged file, or
    None if this repair did not rename it.
    """

    journal: Path
    repaired: Path | None
    kept_as: Path | None
    kept: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)


def repair(path: str | Path, output: str | Path | None = None) -> RepairReport:
    """Repair the journal at `path` in place if it is damaged or has an earlier format, keeping the old file under
    another name, or write everything that can be read to a new journal at `output`. Returns a report. Raises
    `JournalInUse` if a process is using the journal, and `JournalError` if nothing can be read or `output` exists.

    Without `output`, an interrupted repair is completed, and an undamaged journal is not changed.
    """
    file = Path(path)
    lock = lock_journal(file, repairing=True)
    try:
        with journal_errors(file, "repaired"):
            return _repair(file, Path(output) if output is not None else None)
    finally:
        unlock(lock)


def _repair(path: Path, output: Path | None) -> RepairReport:
    """Repair a journal that this process has locked, or complete an interrupted repair, and return a report. Without
    `output`, an undamaged journal is not changed. Raises `JournalError` if nothing can be read, or if `output` exists.
    """
    ready = repaired_path(path)
    copy, new = (path.with_name(f".{path.name}.{name}") for name in ("reading", "repairing"))
    if output is None and ready.exists():
        check_before_opening(ready, writing=True)
        _put_in_place(ready, path)
        _remove(copy)
        return RepairReport(path, path, None)
    if not path.exists():
        raise JournalError(f"there is no journal at {path}; specify the .journal file of a run")
    if output is not None and (output.exists() or output.is_symlink()):
        raise JournalError(f"{output} already exists; specify a new file with -o")
    try:
        try:
            whole, kept, lost = _read_into(path, copy, new)
        except _UNREADABLE_FILE as error:
            raise JournalError(_NOTHING.format(path=path)) from error
        if whole and output is None:
            return RepairReport(path, None, None, kept, lost)
        if not any(kept.values()):
            raise JournalError(_NOTHING.format(path=path))
        shutil.copymode(path, new)
        if output is not None:
            new.rename(output)
            return RepairReport(path, output, None, kept, lost)
        aside = _copy_aside(path)
        new.rename(ready)  # from here on, the next repair would finish with this file
        _put_in_place(ready, path)
    finally:
        _remove(copy)
        _remove(new)
    return RepairReport(path, path, aside, kept, lost)


def _copy_aside(path: Path) -> Path:
    """Copy a file and, if not empty, its write-ahead log to an unused name, and return the path of the copy."""
    aside = free_name(path)
    for ending in ("-wal", ""):
        beside, other = (file.with_name(file.name + ending) for file in (path, aside))
        if beside.exists() and (beside.stat().st_size or not ending):
            _copy(beside, other)
            shutil.copystat(beside, other)
    return aside


def _copy(file: Path, other: Path) -> None:
    """Copy a file to a new file and sync it to disk. Raises `FileExistsError` if the target exists, even as a link."""
    with file.open("rb") as source, other.open("xb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())


def _put_in_place(ready: Path, path: Path) -> None:
    """Move the repaired journal to `path`, and remove the files that SQLite keeps next to it."""
    for ending in ("-wal", "-shm", "-journal"):  # before the rename, since SQLite would apply them to the new file
        path.with_name(path.name + ending).unlink(missing_ok=True)
    ready.replace(path)
    sync_folder(path.parent)


def _remove(file: Path) -> None:
    """Remove a database and the files that SQLite keeps next to it."""
    for ending in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + ending).unlink(missing_ok=True)


def _read_into(path: Path, copy: Path, new: Path) -> tuple[bool, dict[str, int], dict[str, int]]:
    """Copy everything that is readable from `path` to a new journal at `new`, by way of a working file, `copy`. Return
    whether the journal was undamaged and in the current format, and the numbers of rows kept and lost in each table.
    """
    _remove(copy)
    _remove(new)
    for ending in ("", "-wal"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            _copy(beside, copy.with_name(copy.name + ending))
    source, whole = _open_copy(path, copy)
    kept, lost = {}, {}
    with contextlib.closing(source), contextlib.closing(connect(str(new))) as target:
        create_tables(target)
        has_digests = _version(source) in READABLE
        target.execute("BEGIN")
        whole = _copy_facts(source, target) and whole
        for table in TABLES:
            kept[table], lost[table] = _copy_rows(path, source, target, table, has_digests=has_digests)
        target.execute("COMMIT")
    with new.open("rb") as file:
        os.fsync(file.fileno())
    return whole and has_digests and not any(lost.values()), kept, lost


def _open_copy(path: Path, copy: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the copy of `path`, and return the connection with whether the copy is undamaged. If its first page is
    unusable, it is replaced in the file with the first page of a new journal, whose tables start at the same positions.
    A warning is logged if a later version may have written it.
    """
    database = connect(str(copy))
    try:
        if (version := _version(database)) > FORMAT and _application(database) == APPLICATION:
            logger.warning(
                "the journal %s has format %d, but this version of Karenina reads only up to %d. Unless this number is "
                "damaged, the repaired journal may lack what a later version stores; update Karenina "
                "(pip install -U karenina) and use the old file",
                *(path, version, FORMAT),
            )
        if version == 1 and _application(database) == APPLICATION and _has_tables(database):
            return database, False
        if version in READABLE and find_foreign_object(database) is None:
            whole = _application(database) == APPLICATION and is_writable(database)
            return database, whole and database.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
    except _UNREADABLE_FILE:
        pass
    for _ in range(2):  # the write-ahead log may hold the first page too
        with contextlib.suppress(*_UNREADABLE_FILE):
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        _replace_first_page(copy)
        database = connect(str(copy))
    return database, False


def _has_tables(database: sqlite3.Connection) -> bool:
    """Return whether a database has all the tables of a journal."""
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    return {name for (name,) in rows} >= {*TABLES, "meta"}


def _version(database: sqlite3.Connection) -> int:
    """Return the format number in a database's header."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _application(database: sqlite3.Connection) -> int:
    """Return the application id in a database's header."""
    return int(database.execute("PRAGMA application_id").fetchone()[0])


def _replace_first_page(file: Path) -> None:
    """Replace the first page of a file, with its header and schema, by the first page of a new journal."""
    template = file.with_name(f"{file.name}-page")
    _remove(template)
    try:
        with contextlib.closing(connect(str(template))) as database:
            database.execute("PRAGMA journal_mode = WAL")
            create_tables(database)
        page = bytearray(template.read_bytes()[:_PAGE])
    finally:
        _remove(template)
    with file.open("r+b") as target:
        pages = max(1, -(-target.seek(0, os.SEEK_END) // _PAGE))
        page[28:32] = pages.to_bytes(4, "big")
        page[32:40] = bytes(8)  # no list of free pages
        page[92:96] = page[24:28]
        target.truncate(pages * _PAGE)
        target.seek(0)
        target.write(page)


def _copy_facts(source: sqlite3.Connection, target: sqlite3.Connection) -> bool:
    """Copy the readable rows of `meta`, and return whether all dictionaries are intact. The owner is not copied, and
    long values only if they are dictionaries.
    """
    names: list[object] = []
    with contextlib.suppress(*_UNREADABLE_FILE):
        names.extend(name for (name,) in source.execute("SELECT name FROM meta"))
    whole = True
    for name in names:
        if not isinstance(name, str) or len(name) >= _LONGEST_FACT or name in _TEMPORARY_FACTS:
            continue
        value = None
        with contextlib.suppress(*_UNREADABLE_FILE):  # a long value is on pages of its own
            (value,) = source.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        short = isinstance(value, (int, float)) or (isinstance(value, str) and len(value) < _LONGEST_FACT)
        facts: dict[str, Any] = {name: value} if short else {**intact_dictionary(name, value)}
        target.executemany(STORE_FACT, facts.items())
        whole = whole and not (name.startswith(DICTIONARY) and not facts)
    return whole


def _copy_rows(
    path: Path, source: sqlite3.Connection, target: sqlite3.Connection, table: str, *, has_digests: bool
) -> tuple[int, int]:
    """Copy the valid rows of a table, and return the numbers of rows that were kept and lost. If the source has no
    digests, they are added.
    """
    columns = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})")]
    if not has_digests:
        columns.remove("digest")
    bad, texts = 0, TextReader(lambda: target)
    insert = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * (len(columns) + (not has_digests)))})"  # noqa: S608
    for row in _rows(source, table, ", ".join(columns)):
        whole = row if row is None or has_digests else _add_digest(table, row)
        if whole is None or not _is_valid(path, table, texts.read_row(whole) if table == "results" else whole):
            bad += 1
        else:
            target.execute(insert, whole)
    (kept,) = target.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    return kept, max(bad, _count(source, table) - kept)


def _add_digest(table: str, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Add the digest to a row from an old format. Returns None if the row cannot be stored."""
    try:
        return with_digest(table, row)
    except DECODE_ERRORS:
        return None


def _count(database: sqlite3.Connection, table: str) -> int:
    """Return the number of rows in a table, counted in its index if it has one, or 0 if it is unreadable."""
    try:
        (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    except _UNREADABLE_FILE:
        return 0
    return int(count)


def _rows(database: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...] | None]:
    """Yield the readable rows of a table, and None for each gap in which a row is known to be lost. After many
    unreadable parts, the search is given up, so more rows may be missing.
    """
    if table == "spent":
        yield from _rows_from_both_ends(database, columns)
        return
    query = f"SELECT rowid, {columns} FROM {table} WHERE rowid BETWEEN ? AND ? ORDER BY rowid"  # noqa: S608
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    most = pages * _PAGE // _SMALLEST_ROW + 1
    last_known = min(most, _last_row_id(database, table))
    parts, failures, beyond = [(last_known + 1, most), (1, last_known)], 0, False
    while parts and failures < min(_FAILURES_A_PAGE * pages, _MOST_FAILURES):
        first, last = parts.pop()
        reached = first - 1
        try:
            for row in database.execute(query, (first, last)):
                reached = row[0]
                yield row[1:]
        except _UNREADABLE_FILE:
            failures += 1
            if first <= reached < last:
                parts.append((reached + 1, last))
            elif reached < first < last:
                middle = (first + last) // 2
                parts += [(middle + 1, last), (first, middle)]
            elif reached < first:
                if first <= last_known or not beyond:
                    yield None
                beyond = beyond or first > last_known


def _last_row_id(database: sqlite3.Connection, table: str) -> int:
    """Return the highest row id in the table or its index, or 0 if neither can be read."""
    last = 0
    with contextlib.suppress(*_UNREADABLE_FILE):
        last = database.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0  # noqa: S608
    with contextlib.suppress(*_UNREADABLE_FILE):
        for (id,) in database.execute(_ROW_IDS.get(table, "SELECT 0")):
            last = max(last, id)
    return last


def _rows_from_both_ends(database: sqlite3.Connection, columns: str) -> Iterator[tuple[Any, ...] | None]:
    """Yield the rows of `spent` from the start and, if that fails, also from the end, without repeating one. The first
    six of `columns` must be those of the key, because the table has no row ids. If the last value yielded is None, rows
    in the middle may be lost.
    """
    key = "session, model, interface, model_name, stage, judge"
    seen: set[tuple[Any, ...]] = set()
    for order in (key, key.replace(",", " DESC,") + " DESC"):
        try:
            for row in database.execute(f"SELECT {columns} FROM spent ORDER BY {order}"):  # noqa: S608
                if row[:6] not in seen:
                    seen.add(row[:6])
                    yield row
        except _UNREADABLE_FILE:
            continue
        return
    yield None


def _is_valid(path: Path, table: str, row: Sequence[Any]) -> bool:
    """Return whether a row of `table`, one of the journal's tables, is valid and unchanged since it was written."""
    if not is_intact(table, row):
        return False
    try:
        if table == "replies":
            return isinstance(row[0], bytes) and len(row[0]) == _KEY and read_reply_row(row, row[0]) is not None
        if table == "results":
            result = VerificationResult.model_validate_json(row[RESULT_COLUMN])
            counted = all(type(number) is int and number >= 0 for number in row[:2])
            return counted and (*result.item, result.outcome.value) == (*row[2:6], row[7])
        if table == "runs":
            return read_run_row(path, row) is not None
    except (JournalError, *DECODE_ERRORS):
        return False
    return all(type(number) is int for number in (row[:2] if table == "sessions" else (row[0], *row[6:-1])))
