"""Tables of terms, as SQLite databases: in memory or, for large files, in the user's state folder."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from karenina_core.text import did_you_mean
from karenina_terms.names import IDENTIFIER, NAME, RELATED, SYNONYM, identifier_keys, key_of, loose_key_of
from karenina_terms.ontologies import SUFFIXES, read_ontology
from karenina_toolkit.files.bounded_files import FileError, open_file
from karenina_toolkit.files.records import read_records
from karenina_toolkit.files.state_folder import UserStateError, make_own_folder, state_folder

logger = logging.getLogger("karenina")

LARGE: Final = 20_000_000
"""Size in bytes above which a table is read only once and then kept in the state folder. For ontologies, a quarter."""
MOST_OF_AN_ONTOLOGY: Final = 100_000_000
"""Size in bytes above which an ontology is refused: pronto needs 40 times as much memory."""
_PROGRAM: Final = """
import json, sys
path, arguments = json.loads(sys.argv[1])
sys.path[:] = path
from karenina_terms.term_table import write_database
from karenina_toolkit.files.bounded_files import FileError
try:
    write_database(*arguments)
except FileError as error:
    print(json.dumps([error.where, error.what, error.cure]))
    sys.exit(1)
"""
_VERSION: Final = 2
"""Changes if the same file would become another database."""
_TEXT_TABLES: Final = {".csv": ".csv", ".tsv": ".tsv", ".tab": ".tsv", ".txt": ".csv"}
_USUAL: Final = (
    ("name", "label", "symbol"),
    ("id", "identifier", "curie"),
    ("synonyms", "synonym", "aliases", "alias"),
)
_EMPTY: Final = frozenset(("", "-"))
_MOST_AT_ONCE: Final = 10_000
_SCHEMA: Final = """
CREATE TABLE names (key TEXT, loose TEXT, rank INTEGER, term TEXT, written TEXT);
CREATE TABLE done (entries INTEGER);
"""
_INDEXES: Final = """
CREATE INDEX by_key ON names (key);
CREATE INDEX by_loose ON names (loose);
"""
_OTHER_NAME: Final = """
SELECT written FROM names WHERE rank <= ? AND key NOT IN (SELECT key FROM names WHERE term = ?) LIMIT 1
"""
Entry = tuple[str, str, int, str, str]


class Columns(NamedTuple):
    """The columns of a text table with names and identifiers, and what separates several names in a cell."""

    names: tuple[str, ...] = ()
    separator: str = "|"


class TermTable:
    """Terms by name."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._lock = Lock()

    def terms(self, text: str) -> dict[str, int]:
        """Return the terms that a text names, each with its rank: `IDENTIFIER`, `NAME`, `SYNONYM` or `RELATED`. They
        are those of the first of these steps that finds any: exact names, names in another case (also after an exact
        synonym), identifiers, and names with other hyphens, spaces or accents.
        """
        found = self.exact_terms(text)
        if found and min(found.values()) <= NAME:
            return found
        if found := self.folded_terms(text):
            return found
        for key in identifier_keys(text):
            if found := {term: rank for term, rank in self._find("key", [key]).items() if rank == IDENTIFIER}:
                return found
        loose = loose_key_of(text)
        return self._find("loose", [loose]) if loose else {}

    def exact_terms(self, text: str) -> dict[str, int]:
        """Return the terms of which a text is a name in the same case."""
        with self._lock:
            query = "SELECT term, min(rank) FROM names WHERE key = ? AND written = ? GROUP BY term"
            return dict(self._database.execute(query, (key_of(text), text)).fetchall())

    def folded_terms(self, text: str) -> dict[str, int]:
        """Return the terms of which a text is a name in any case."""
        return self._find("key", [key_of(text)])

    def other_name(self, term: str) -> str | None:
        """Return a name of another term that is no name of this one, or None if there is none."""
        with self._lock:
            row = self._database.execute(_OTHER_NAME, (NAME, term)).fetchone()
        return row[0] if row is not None else None

    def _find(self, column: str, keys: Sequence[str]) -> dict[str, int]:
        """Return the terms with one of these keys."""
        query = f"SELECT term, min(rank) FROM names WHERE {column} = ? GROUP BY term"  # noqa: S608 - our own column
        with self._lock:
            return {term: rank for key in keys for term, rank in self._database.execute(query, (key,))}


def read_table(path: Path, columns: Columns, sha256: str | None) -> TermTable:
    """Return the table of terms in a file, read into memory or, if it is large, into a database in the state folder
    that later runs reuse. Raises `FileError` if that is not possible, or if the file does not have the digest `sha256`.
    """
    is_ontology = path.suffix.casefold() in SUFFIXES
    with open_file(path, any_size=True) as file:
        size = os.fstat(file.fileno()).st_size
        is_large = size > (LARGE // 4 if is_ontology else LARGE)
        digest = hashlib.file_digest(file, "sha256").hexdigest() if sha256 or is_large else ""  # type: ignore[arg-type]
    if sha256 and sha256 != digest:
        what = f"the file has changed: its SHA-256 is {digest}, and not {sha256}"
        raise FileError(
            path, "", what, "use the file that the benchmark was written for, or change `sha256` in the rule"
        )
    if is_ontology and size > MOST_OF_AN_ONTOLOGY:
        what = f"an ontology may have {MOST_OF_AN_ONTOLOGY:,} bytes, and this one has {size:,}"
        cure = "write the identifiers, names and synonyms that are needed into a CSV file (columns id, name, synonyms)"
        raise FileError(path, "", what, cure)
    if not is_large:
        return TermTable(_fill(_in_memory(), _entries(path, columns), path))
    return TermTable(_kept(path, columns, digest))


def write_database(path: str, columns: Sequence[str], separator: str, target: str) -> None:
    """Write the names in a file into an empty database. Raises `FileError` if it cannot be read or has no names."""
    entries = _entries(Path(path), Columns(tuple(columns), separator))
    _fill(sqlite3.connect(target), entries, Path(path)).close()


def _write_apart(path: Path, columns: Columns, target: str) -> None:
    """Write the terms in `path` to the database `target`, in a child process for an ontology, to free its memory.
    Raises `FileError` if the file cannot be read or the process fails.
    """
    arguments = [str(path.absolute()), columns.names, columns.separator, target]
    if path.suffix.casefold() not in SUFFIXES:
        write_database(str(path), columns.names, columns.separator, target)
        return
    command = [sys.executable, "-c", _PROGRAM, json.dumps([sys.path, arguments])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    if done.returncode:
        if done.stdout:
            raise FileError(path, *json.loads(done.stdout))
        lines = done.stderr.strip().splitlines()
        reason = f": {lines[-1][:300]}" if lines else ", probably for lack of memory"
        what = f"the process that reads the ontology ended with status {done.returncode}{reason}"
        raise FileError(path, "", what, "write the names that are needed into a CSV file")


def _in_memory() -> sqlite3.Connection:
    """Return an empty database in memory."""
    return sqlite3.connect(":memory:", check_same_thread=False)


def _kept(path: Path, columns: Columns, digest: str) -> sqlite3.Connection:
    """Return the database of a large file with this `digest`, read by `columns`, which is written to the state folder
    unless it is there already. If it cannot be kept there, a warning is logged and the database is in memory. Raises
    `FileError` if the file is invalid.
    """
    options = [_VERSION, digest, path.suffix.casefold(), columns.names, columns.separator]
    name = hashlib.sha256(json.dumps(options).encode()).hexdigest()
    try:
        folder = state_folder() / "terms"
        make_own_folder(folder)
        kept = folder / f"{name}.sqlite"
        if not kept.is_file():
            logger.info("reading %s once into %s", path, kept)
            descriptor, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
            os.close(descriptor)
            try:
                _write_apart(path, columns, temporary)
                Path(temporary).replace(kept)
            finally:
                with suppress(FileNotFoundError):
                    Path(temporary).unlink()
        return sqlite3.connect(f"{kept.as_uri()}?mode=ro", uri=True, check_same_thread=False)
    except (OSError, sqlite3.Error, UserStateError) as error:
        logger.warning("cannot keep the table of terms %s in the state folder, so it stays in memory: %s", path, error)
        with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
            _write_apart(path, columns, file.name)
            database = _in_memory()
            sqlite3.connect(file.name).backup(database)
        return database


def _fill(database: sqlite3.Connection, entries: Iterator[Entry], path: Path) -> sqlite3.Connection:
    """Write the entries into an empty database, and return it. Raises `FileError` if there are none."""
    database.executescript(_SCHEMA)
    waiting: list[Entry] = []
    count = 0
    for entry in entries:
        waiting.append(entry)
        if len(waiting) >= _MOST_AT_ONCE:
            database.executemany("INSERT INTO names VALUES (?, ?, ?, ?, ?)", waiting)
            count += len(waiting)
            waiting.clear()
    database.executemany("INSERT INTO names VALUES (?, ?, ?, ?, ?)", waiting)
    if not count + len(waiting):
        raise FileError(path, "", "the table contains no terms", "use a file with a row for each term")
    database.executescript(_INDEXES)
    database.commit()
    return database


def _entries(path: Path, columns: Columns) -> Iterator[Entry]:
    """Yield an entry for each name of each term in an ontology or text table. Raises `FileError` for invalid files."""
    suffix = path.suffix.casefold()
    if suffix in SUFFIXES:
        if columns.names:
            raise FileError(path, "", "an ontology has no columns", "remove `column` from the rule")
        for number, term in enumerate(read_ontology(path)):
            named = [*((name, IDENTIFIER) for name in term.identifiers), (term.name, NAME)]
            named += [*((name, SYNONYM) for name in term.synonyms), *((name, RELATED) for name in term.related)]
            yield from _of_term(term.identifiers[0] if term.identifiers else str(number), named)
        return
    if suffix not in _TEXT_TABLES:
        kinds = ", ".join((*_TEXT_TABLES, *SUFFIXES))
        raise FileError(path, "", f"the table has the file extension {path.suffix!r}", f"use one of {kinds}")
    ranks: dict[str, int] | None = None
    with read_records(path, suffix=_TEXT_TABLES[suffix], any_size=True) as records:
        for record in records:
            values = record.values
            if ranks is None:
                ranks = _ranks(path, list(values), columns.names)
            named = [
                (part, rank)
                for column, rank in ranks.items()
                for part in _parts(values[column], columns.separator if rank == SYNONYM else "")
            ]
            own = next((name for name, rank in named if rank == IDENTIFIER), f"row {record.number}")
            yield from _of_term(own, named)


def _of_term(term: str, named: Sequence[tuple[str, int]]) -> Iterator[Entry]:
    """Yield an entry for each name of a term, with its keys for lookup. `named` has tuples of a name and its rank.
    Names without letters or digits are skipped.
    """
    for name, rank in named:
        key = identifier_keys(name)[0] if rank == IDENTIFIER else key_of(name)
        if key:
            yield key, "" if rank == IDENTIFIER else loose_key_of(name), rank, term, name


def _parts(cell: object, separator: str) -> list[str]:
    """Return the names in a cell."""
    text = "" if cell is None else str(cell)
    parts = text.split(separator) if separator else [text]
    return [part.strip() for part in parts if part.strip() not in _EMPTY]


def _ranks(path: Path, header: Sequence[str], chosen: Sequence[str]) -> dict[str, int]:
    """Return the rank of each column with names (`NAME`, `IDENTIFIER` or `SYNONYM`): of those in `chosen`, or of those
    with usual titles. Raises `FileError` if a chosen column does not exist, or if none has a usual title for names.
    """
    folded = {column.casefold(): column for column in header}
    if chosen:
        unknown = [name for name in chosen if name.casefold() not in folded]
        if unknown:
            what = f"the table has no column {unknown[0]!r}{did_you_mean(unknown[0], header)}"
            raise FileError(path, "", what, f"its columns are {', '.join(header)[:500]}")
        names = [name for name in chosen if not _is_identifier(name)]
        return {
            folded[name.casefold()]: IDENTIFIER if _is_identifier(name) else NAME if name == names[0] else SYNONYM
            for name in chosen
        }
    found = {
        folded[name]: rank
        for names, rank in zip(_USUAL, (NAME, IDENTIFIER, SYNONYM), strict=True)
        for name in names
        if name in folded
    }
    if NAME not in found.values():
        what = f"no column of the table is called {', '.join(_USUAL[0])}"
        cure = (
            f"set `column` in the rule to the columns with names and identifiers; the columns are {', '.join(header)}"
        )
        raise FileError(path, "", what, cure[:700])
    return found


def _is_identifier(column: str) -> bool:
    """Return whether the name of a column says that it contains identifiers."""
    return column.casefold().endswith(("id", "identifier", "curie", "accession"))
