"""Repair a journal: take out of a damaged file what can be read and is as it was written, into a new one.

The damaged file is only read, as a copy, and kept under another name. The new one takes its place when it is complete,
and not before: a process that is killed at any moment leaves either the file as it was, or one that the next repair
ends with.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from karenina_core.data.result import VerificationResult
from karenina_engine.journal.file import (
    JournalError,
    check_before_opening,
    connect,
    is_writable,
    journal_errors,
    lock_journal,
    repaired_path,
)
from karenina_engine.journal.rows import DECODE_ERRORS, read_reply_row, read_run_row
from karenina_engine.journal.schema import (
    APPLICATION,
    FORMAT,
    create_tables,
    find_foreign_object,
    is_intact,
    with_digest,
)
from karenina_engine.results.result_file import free_name

TABLES: Final = ("replies", "results", "runs", "sessions", "spent")
_UNREADABLE_FILE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
_PAGE: Final = 4096
_SMALLEST_ROW: Final = 40  # bytes: no journal has more rows than its size divided by this
_FAILURES_A_PAGE: Final = 20  # searches that fail, before what is left of a table is given up
_MOST_FAILURES: Final = 500_000
_KEY: Final = 32  # bytes of a SHA-256
_LONGEST_FACT: Final = 1000
_ROW_IDS: Final = {
    "replies": "SELECT rowid FROM replies INDEXED BY replies_by_key",
    "results": "SELECT rowid FROM results INDEXED BY results_by_place",
}
_PASSING: Final = frozenset({"pid", "host"})
"""What `meta` holds only while a process works on the journal."""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair has done. `kept` and `lost` count rows by table; `lost` is the least that is missing.

    `repaired` is the new journal, None if the file was not damaged and is left as it is. `kept_as` is the name under
    which the damaged file is kept, None if it has its own name still, or got another one in a repair that was cut off.
    """

    journal: Path
    repaired: Path | None
    kept_as: Path | None
    kept: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)


def repair(path: str | Path, output: str | Path | None = None) -> RepairReport:
    """Repair the journal at `path`, or with `output` write what can be read of it to a new journal there.

    Journals of an earlier format are brought to this one. Raises `JournalError`, and `JournalInUse` if a process works
    on it.
    """
    file = Path(path)
    lock = lock_journal(file, repairing=True)
    try:
        with journal_errors(file, "repaired"):
            return _repair(file, Path(output) if output is not None else None)
    finally:
        lock.release()


def _repair(path: Path, output: Path | None) -> RepairReport:
    ready = repaired_path(path)
    copy, new = (path.with_name(f".{path.name}.{name}") for name in ("reading", "repairing"))
    if output is None and ready.exists():
        check_before_opening(ready, writing=True)
        _put_in_place(ready, path)
        _remove(copy)
        return RepairReport(path, path, None)
    if not path.exists():
        raise JournalError(f"there is no journal {path}")
    if output is not None and (output.exists() or output.is_symlink()):
        raise JournalError(f"{output} exists already: give -o the name of a new file")
    try:
        whole, kept, lost = _read_into(path, copy, new)
        if whole and output is None:
            return RepairReport(path, None, None, kept, lost)
        if not any(kept.values()):
            raise JournalError(f"nothing can be read in {path}: it is not a journal, or it is damaged as a whole")
        shutil.copymode(path, new)
        if output is not None:
            new.rename(output)
            return RepairReport(path, output, None, kept, lost)
        aside = _kept_aside(path)
        new.rename(ready)  # from here on the repair ends with this file, whatever happens
        _put_in_place(ready, path)
    finally:
        _remove(copy)
        _remove(new)
    return RepairReport(path, path, aside, kept, lost)


def _kept_aside(path: Path) -> Path:
    """Give a file and what SQLite keeps beside it another name, too."""
    aside = free_name(path)
    for ending in ("-wal", ""):
        beside, other = (one.with_name(one.name + ending) for one in (path, aside))
        if beside.exists() and (beside.stat().st_size or not ending):
            _copy(beside, other)
            shutil.copystat(beside, other)
    return aside


def _copy(file: Path, other: Path) -> None:
    """Copy a file to a new one, and not through a link. Raises `FileExistsError`."""
    with file.open("rb") as source, other.open("xb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())


def _put_in_place(ready: Path, path: Path) -> None:
    for ending in ("-wal", "-shm", "-journal"):  # before: SQLite would apply them to the new file
        path.with_name(path.name + ending).unlink(missing_ok=True)
    ready.replace(path)
    with contextlib.suppress(OSError):  # not every system can
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _remove(file: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + ending).unlink(missing_ok=True)


def _read_into(path: Path, copy: Path, new: Path) -> tuple[bool, dict[str, int], dict[str, int]]:
    """Read all that can be read into a new journal. Return whether nothing is damaged, and the rows kept and lost."""
    _remove(copy)
    _remove(new)
    for ending in ("", "-wal"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            _copy(beside, copy.with_name(copy.name + ending))
    found, whole = _opened(copy)
    kept, lost = {}, {}
    with contextlib.closing(found), contextlib.closing(connect(str(new))) as made:
        made.execute("PRAGMA journal_mode = WAL")
        create_tables(made)
        sealed_already = _version(found) == FORMAT
        made.execute("BEGIN")
        _copy_facts(found, made)
        for table in TABLES:
            kept[table], lost[table] = _copy_rows(path, found, made, table, sealed_already=sealed_already)
        made.execute("COMMIT")
    with new.open("rb") as file:
        os.fsync(file.fileno())
    return whole and sealed_already and not any(lost.values()), kept, lost


def _opened(copy: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the copy; where its first page cannot be used, with that of a new journal, whose tables lie where its own
    do. Return whether it is whole, too."""
    database = connect(str(copy))
    try:
        if _version(database) == 1 and _application(database) == APPLICATION and _has_tables(database):
            return database, False
        if _version(database) == FORMAT and find_foreign_object(database) is None:
            whole = _application(database) == APPLICATION and is_writable(database)
            return database, whole and database.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
    except _UNREADABLE_FILE:
        pass
    for _ in range(2):  # the write-ahead log may have a page for the first one, too
        with contextlib.suppress(*_UNREADABLE_FILE):
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        _replace_first_page(copy)
        database = connect(str(copy))
    return database, False


def _has_tables(database: sqlite3.Connection) -> bool:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    return {name for (name,) in found} >= {*TABLES, "meta"}


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _application(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA application_id").fetchone()[0])


def _replace_first_page(file: Path) -> None:
    """Put the first page of a new journal, which has the header and the schema, in place of a file's own."""
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


def _copy_facts(found: sqlite3.Connection, made: sqlite3.Connection) -> None:
    with contextlib.suppress(*_UNREADABLE_FILE):
        for name, value in found.execute("SELECT name, value FROM meta"):
            short = isinstance(value, (int, float)) or (isinstance(value, str) and len(value) < _LONGEST_FACT)
            if isinstance(name, str) and len(name) < _LONGEST_FACT and short and name not in _PASSING:
                made.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def _copy_rows(
    path: Path, found: sqlite3.Connection, made: sqlite3.Connection, table: str, *, sealed_already: bool
) -> tuple[int, int]:
    """Copy the rows of a table that are right. Return how many were kept and lost."""
    columns = [name for _, name, *_ in made.execute(f"PRAGMA table_info({table})")]
    if not sealed_already:
        columns.remove("digest")
    bad = 0
    insert = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * (len(columns) + (not sealed_already)))})"  # noqa: S608
    for row in _rows(found, table, ", ".join(columns)):
        whole = row if row is None or sealed_already else _sealed(table, row)
        if whole is None or not _is_right(path, table, whole):
            bad += 1
        else:
            made.execute(insert, whole)
    (kept,) = made.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    return kept, max(bad, _count(found, table) - kept)


def _sealed(table: str, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    try:
        return with_digest(table, row)
    except DECODE_ERRORS:
        return None


def _count(database: sqlite3.Connection, table: str) -> int:
    """Count the rows of a table as its index has them; 0 if that cannot be read."""
    try:
        (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    except _UNREADABLE_FILE:
        return 0
    return int(count)


def _rows(database: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...] | None]:
    """Read the rows of a table, around what cannot be read; None stands for a row of which that is certain."""
    if table == "spent":
        yield from _rows_from_both_ends(database, columns)
        return
    query = f"SELECT rowid, {columns} FROM {table} WHERE rowid BETWEEN ? AND ? ORDER BY rowid"  # noqa: S608
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    most = pages * _PAGE // _SMALLEST_ROW + 1
    known = min(most, _last(database, table))
    parts, failures, beyond = [(known + 1, most), (1, known)], 0, False
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
                if first <= known or not beyond:
                    yield None
                beyond = beyond or first > known


def _last(database: sqlite3.Connection, table: str) -> int:
    """Return the greatest row id that the table or its index shows; 0 if neither can be read."""
    last = 0
    with contextlib.suppress(*_UNREADABLE_FILE):
        last = database.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0  # noqa: S608
    with contextlib.suppress(*_UNREADABLE_FILE):
        for (id,) in database.execute(_ROW_IDS.get(table, "SELECT 0")):
            last = max(last, id)
    return last


def _rows_from_both_ends(database: sqlite3.Connection, columns: str) -> Iterator[tuple[Any, ...] | None]:
    """Read `spent`, which has no row ids: from its beginning, and if that fails also from its end."""
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


def _is_right(path: Path, table: str, row: Sequence[Any]) -> bool:
    """Return whether a row is as it was written, and says what a row of its table says."""
    if not is_intact(table, row):
        return False
    try:
        if table == "replies":
            return isinstance(row[0], bytes) and len(row[0]) == _KEY and read_reply_row(row, row[0]) is not None
        if table == "results":
            result = VerificationResult.model_validate_json(row[10])
            counted = all(type(number) is int and number >= 0 for number in row[:2])
            return counted and (*result.item, result.outcome.value) == (*row[2:6], row[7])
        if table == "runs":
            return read_run_row(path, row) is not None
    except (JournalError, *DECODE_ERRORS):
        return False
    return all(type(number) is int for number in (row[:2] if table == "sessions" else (row[0], *row[6:-1])))
