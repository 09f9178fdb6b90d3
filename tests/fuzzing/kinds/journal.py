"""Journals: the bytes of the file, and the values in its tables."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from fuzzing.commands import command
from fuzzing.engine import HOME, Kind
from fuzzing.mutation import (
    NUMBERS,
    OPS,
    OUTSIDE,
    TEXT_OPS,
    TEXTS,
    Raw,
    apply_changes,
    broken,
    choose_weighted,
    dump_json,
    insert_path,
    parse_tree,
    parts,
)
from karenina import Benchmark
from karenina_core import plugins
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_core.plugins import Plugins
from karenina_engine.journal.file import JournalError
from karenina_engine.journal.journal import Journal
from karenina_engine.journal.schema import row_digest
from karenina_engine.journal.view import JournalView
from karenina_testing import ScriptedModels

_BENCHMARK: Final = """karenina: 1
name: Genes
questions:
  - {id: q1, question: Which gene is it, answer: {
      named: {description: It is named, ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}}}
  - {id: q2, question: Which other, answer: {gene: {description: The gene, ground_truth: BCL2}}}
"""
_ANSWERS: Final = '{"id": "q1", "response": "It is BCL2."}\n{"id": "q2", "response": "It is TP53."}\n'
_JUDGE: Final = ("--judge", "openai:j@http://127.0.0.1:9/v1", "--set", "retry_connection=0")
_COMMANDS: Final = (
    *(["status", "J"], ["status", "J", "--json"], ["export", "J"], ["export", "J", "--format", "recording", "-o", "o"]),
    *(
        ["rescore", "J"],
        ["rescore", "J", "--diff", "--json"],
        ["resume", "J"],
        ["resume", "J", "--json"],
        ["show", "J"],
    ),
    ["run", "genes.yaml", "--recordings", "answers.jsonl", *_JUDGE, "--journal", "J", "--json"],
    ["run", "genes.yaml", "--recordings", "answers.jsonl", *_JUDGE, "--journal", "J", "--dry-run"],
    ["run", "genes.yaml", "--recordings", "answers.jsonl", *_JUDGE, "--journal", "J", "--replay"],
)
_SQL: Final = (
    *("DROP TABLE {table}", "DELETE FROM {table}", "ALTER TABLE {table} RENAME TO other", "DROP INDEX results_by_item"),
    *("ALTER TABLE {table} ADD COLUMN extra", "ALTER TABLE {table} RENAME COLUMN {column} TO other", "VACUUM"),
    *(
        "PRAGMA user_version = 99",
        "PRAGMA user_version = -1",
        "PRAGMA application_id = 1",
        "PRAGMA encoding = 'UTF-16'",
    ),
    "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN UPDATE {table} SET {column} = 'correct'; END",
    "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN UPDATE results SET outcome = 'correct', result = '{{}}'; END",
    *("CREATE VIEW v AS SELECT load_extension('x')", "CREATE TABLE sqlean (x)", "CREATE VIRTUAL TABLE f USING fts5(x)"),
    "INSERT INTO {table} SELECT * FROM {table}",
    "UPDATE {table} SET {column} = NULL",
    "UPDATE {table} SET {column} = zeroblob(100)",
    "UPDATE {table} SET {column} = CAST(x'ff00fe' AS TEXT)",
    "UPDATE {table} SET {column} = randomblob(20)",
)
_PATHS: Final = (
    "output",
    "folder",
    "benchmark",
    "config_file",
    "journal",
    "questions",
    "trust_all",
    "config",
    "content",
)
SqlOp: TypeAlias = tuple[int, int, int, Any]


@cache
def _seeds() -> tuple[bytes, ...]:
    """Return a journal of the command with an unreachable judge, and one of Python with a judge that replied."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            Path("genes.yaml").write_text(_BENCHMARK, "utf-8")
            Path("answers.jsonl").write_text(_ANSWERS, "utf-8")
            command("run", "genes.yaml", "--recordings", "answers.jsonl", *_JUDGE, "--quiet")
            _scripted(Path("scripted.journal"))
            return Path("genes.journal").read_bytes(), Path("scripted.journal").read_bytes()
        finally:
            os.chdir(here)


def _scripted(journal: Path) -> None:
    models = ScriptedModels(say=_say, fill=lambda *_: {"gene": "BCL2"})
    room = Plugins.discover()
    room.register(models)
    with plugins.use_plugins(room):
        Benchmark.load("genes.yaml").run_verification(
            {"answering_models": [models.model("a")], "parsing_models": [models.model("j")], "retry_server": 0},
            journal=journal,
        )


def _say(_messages: object, info: Any) -> str:
    if info.question_id == "q1":
        raise PortError("the server is away", category=ErrorCategory.PERMANENT)
    return "It is BCL2."


def _by_bytes(seed: int, ops: list[tuple[int, int, int]], overwritten: list[tuple[int, bytes]]) -> bytes:
    data = bytearray(_seeds()[seed])
    for place, piece in overwritten:
        start = place % len(data)
        data[start : start + len(piece)] = piece
    return broken(bytes(data), ops)


def _by_sql(seed: int, ops: list[SqlOp], sealed: bool) -> bytes:
    """Return the journal after statements, of which those that SQLite refuses do nothing.

    If `sealed`, its author knew what the digests of rows are made of.
    """
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "j"
        file.write_bytes(_seeds()[seed])
        database = sqlite3.connect(file, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = DELETE")
            for op in ops:
                with contextlib.suppress(sqlite3.Error, OverflowError, ValueError, TypeError, RecursionError):
                    _execute(database, op)
            if sealed:
                _seal(database)
        finally:
            database.close()
        return file.read_bytes()


def _seal(database: sqlite3.Connection) -> None:
    """Give each row the digest that its values have now."""
    for table in ("replies", "results", "sessions", "spent", "runs"):
        with contextlib.suppress(sqlite3.Error, ValueError, TypeError):
            for row in database.execute(f"SELECT * FROM {table}").fetchall():
                digest = row_digest(table, row[:-1])
                database.execute(f"UPDATE {table} SET digest = ? WHERE digest = ?", (digest, row[-1]))


def _execute(database: sqlite3.Connection, op: SqlOp) -> None:
    what, where, which, changes = op
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    table = tables[where % len(tables)]
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    column = columns[where // 7 % len(columns)]
    if what == 0:
        database.execute(_SQL[which % len(_SQL)].format(table=table, column=column))
    elif what == 1:
        value = (*TEXTS, *NUMBERS)[which % (len(TEXTS) + len(NUMBERS))]
        given = value.text if isinstance(value, Raw) else value
        given = given.encode("utf-8", "surrogatepass") if isinstance(given, str) and which % 3 == 0 else given
        database.execute(f"UPDATE {table} SET {column} = ?", (placed_text(given),))
    elif what == 2:
        _change_json(database, which, changes)
    else:
        row = database.execute("SELECT command FROM runs").fetchone()
        values = json.loads(row[0])
        values[_PATHS[which % len(_PATHS)]] = (f"{OUTSIDE}/thesis.txt", OUTSIDE, "../secret.csv", None, True, [])[
            where % 6
        ]
        database.execute("UPDATE runs SET command = ?", (json.dumps(values),))


def placed_text(value: Any) -> Any:
    """Return the value, where SQLite has a type for it."""
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _change_json(database: sqlite3.Connection, which: int, changes: Any) -> None:
    table, column = (
        *(("runs", "command"), ("runs", "tally"), ("results", "result"), ("replies", "reply"), ("replies", "retries")),
        *(("sessions", "prices"), ("results", "result"), ("runs", "command")),
    )[which % 8]
    for rowid, text in database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()[:3]:
        tree = parse_tree(json.loads(text))
        written = dump_json(apply_changes(tree, changes, list(parts(tree))))
        database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (written, rowid))


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[bytes], bool]]:
    outside = str(folder.parent / "outside")
    here = Path.cwd()
    _seeds()

    def check(data: bytes) -> bool:
        os.chdir(folder)
        (folder / "genes.yaml").write_text(_BENCHMARK, "utf-8")
        (folder / "answers.jsonl").write_text(_ANSWERS, "utf-8")
        file = folder / "stranger.journal"
        file.write_bytes(insert_path(data, outside.ljust(len(OUTSIDE))))
        readable = _looked_at(file)
        words = _COMMANDS[zlib.crc32(data) % len(_COMMANDS)]
        command(*(word if word != "J" else file.name for word in words))
        _opened_to_write(file)
        os.chdir(folder)
        for entry in folder.iterdir():
            if entry.name != HOME:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        return readable

    try:
        yield check
    finally:
        os.chdir(here)


def _looked_at(file: Path) -> bool:
    try:
        with JournalView(file) as view:
            view.status()
            view.spent()
            view.command()
            list(view.results())
            list(view.recordings())
            view.count_results()
            view.count_reusable_calls({("q1", 1), ("q2", 1)})
            list(view.results_of(["q1"]))
    except JournalError as error:
        str(error).encode("utf-8")
        return False
    return True


def _opened_to_write(file: Path) -> None:
    try:
        with Journal.open(file) as journal:
            journal.last_command()
    except JournalError as error:
        str(error).encode("utf-8")


_FAR = st.integers(0, 10_000_000)
_SEED = st.integers(0, 1)
_SQL_OPS = st.lists(st.tuples(st.integers(0, 3), _FAR, _FAR, OPS), min_size=1, max_size=3)
_PIECE = st.tuples(_FAR, st.binary(min_size=1, max_size=64))
KIND: Final = Kind(
    "journal",
    choose_weighted(
        (2, st.builds(_by_sql, _SEED, _SQL_OPS, st.just(False))),
        (4, st.builds(_by_sql, _SEED, _SQL_OPS, st.just(True))),
        (2, st.builds(_by_bytes, _SEED, st.just([]), st.lists(_PIECE, min_size=1, max_size=6))),
        (1, st.builds(_by_bytes, _SEED, TEXT_OPS, st.just([]))),
    ),
    _opened,
    servers=True,
    seconds=4.0,
)
