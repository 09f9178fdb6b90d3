"""The format of a journal: its tables, row digests, and the check that a file has exactly these tables.

A journal is one SQLite database (WAL). Format 3 has the tables below. Times are seconds since 1970, texts marked JSON
contain JSON, and nothing in a journal is ever executed or unpickled. A database with any other table, index, view or
trigger is not a journal.

- `meta(name, value)`: `karenina` (the version that created it), `created`, the random `id` under which a user's state
  folder contains the command, and `target PORT MODEL` for each model of the last run (a digest of everything except the
  prompt that decides its replies, by which `karenina rescore` finds them), `attachment PATH` for each attached file
  (JSON: its media type, digest and size, with which a run can be replayed without the file), and `dictionary ID COPY`
  for compressed texts. While a process is working on the journal, also its `pid` and `host`.
- `replies`: one row for each call. `key` is the digest of everything that decides the reply (`Call.key`). `port`
  (`service` if no model was called; `model` is then the service's name), `model` (the user's id), `interface`,
  `model_name`, `stage`, `task`, `question_id` and `replicate` describe the purpose of the call. `reply` is the reply as
  JSON, or the error if `failed` is 1; `reusable` is 1 if it can be reused for an identical call. The remaining columns
  are `finish_reason`, `input_tokens`, `output_tokens`, `calls` (0 for an agent's run whose turns have rows of their
  own; `turns` in its reply lists their keys), `seconds` (spent in requests), `retries` (JSON: failed requests by
  category), `waited` (seconds without a request) and `time`. A model's reply also contains `answered` (the seconds of
  the requests that were answered) and `cost` (in picodollars at the prices of the run that made the call, or null).
- `results`: one row for each item and `fingerprint` (a digest of everything that decides the result except the
  replies). `question_id`, `answering`, `judge` and `replicate` name the item. `run` is the last run that included it,
  or 0 if the item got another result when that run was continued, and `place` is its index in that run's matrix.
  `again` is 1 if the item must run again because one of its calls failed. `result` is the result as JSON without
  default values (`karenina_engine.results.result_lines`), as text or as a blob
  (`karenina_engine.journal.compression`).
- `sessions`: one row for each time that a process worked on a run: `id`, `run`, `began`, and `prices` (JSON: the price
  lists, and each model's price).
- `spent`: one row for each session, model, stage and judge (empty if it is for all judges): the calls that were made,
  their tokens, their `cost` in picodollars (10^-12 US dollars), and how many are `unpriced` (of unknown cost).
- `runs`: one row for each run: `id`, `began`, `ended`, `items`, the `tally` of its calls (JSON), and `command` (JSON:
  its command without secrets, which is a label and is never run).

The last column of all these tables except `meta`, `digest`, contains the first 16 bytes of the SHA-256 of the table's
name and the row's other columns. The digest of a result covers its uncompressed text. It leaves out `run` and `place`,
which change when another run includes the same item. A byte that changes on disk therefore makes a row count as
damaged; it never makes the row look like the reply to another call. Format 1 had no digests, and format 2 no compressed
texts; its results contain default values.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

if TYPE_CHECKING:
    import sqlite3

FORMAT: Final = 3
READABLE: Final = (2, 3)
"""The formats that can be read. A run that continues with a journal of format 2 upgrades it."""
APPLICATION: Final = 0x4B617231
"""The application id in the SQLite header of a journal."""

SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE replies (
    key BLOB NOT NULL, port TEXT NOT NULL, model TEXT NOT NULL, interface TEXT NOT NULL, model_name TEXT NOT NULL,
    stage TEXT NOT NULL, task TEXT NOT NULL, question_id TEXT NOT NULL, replicate INTEGER NOT NULL,
    failed INTEGER NOT NULL, reusable INTEGER NOT NULL, finish_reason TEXT, input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL, calls INTEGER NOT NULL, seconds REAL NOT NULL, retries TEXT NOT NULL,
    waited REAL NOT NULL, time REAL NOT NULL, reply TEXT NOT NULL, digest BLOB NOT NULL
);
CREATE UNIQUE INDEX replies_by_key ON replies (key);
CREATE TABLE results (
    run INTEGER NOT NULL, place INTEGER NOT NULL, question_id TEXT NOT NULL, answering TEXT NOT NULL,
    judge TEXT NOT NULL, replicate INTEGER NOT NULL, fingerprint BLOB NOT NULL, outcome TEXT NOT NULL,
    again INTEGER NOT NULL, time REAL NOT NULL, result TEXT NOT NULL, digest BLOB NOT NULL
);
CREATE UNIQUE INDEX results_by_item ON results (question_id, answering, judge, replicate, fingerprint);
CREATE INDEX results_by_place ON results (run, place);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL, began REAL NOT NULL, prices TEXT, digest BLOB NOT NULL
);
CREATE TABLE spent (
    session INTEGER NOT NULL, model TEXT NOT NULL, interface TEXT NOT NULL, model_name TEXT NOT NULL,
    stage TEXT NOT NULL, judge TEXT NOT NULL, calls INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, cache_write_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL, cost INTEGER NOT NULL, unpriced INTEGER NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (session, model, interface, model_name, stage, judge)
) WITHOUT ROWID;
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, began REAL NOT NULL, ended REAL, items INTEGER NOT NULL, tally TEXT, command TEXT NOT NULL,
    digest BLOB NOT NULL
);
"""
"""The SQL statements that create a journal's tables. Any change to them requires a new `FORMAT`."""

LAST_RUN: Final = "SELECT * FROM runs ORDER BY id DESC LIMIT 1"
STORE_REPLY: Final = (
    "INSERT INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET port = excluded.port, model = excluded.model, interface = excluded.interface, "
    "model_name = excluded.model_name, stage = excluded.stage, task = excluded.task, "
    "question_id = excluded.question_id, replicate = excluded.replicate, "
    "failed = excluded.failed, reusable = excluded.reusable, "
    "finish_reason = excluded.finish_reason, input_tokens = excluded.input_tokens, "
    "output_tokens = excluded.output_tokens, calls = excluded.calls, seconds = excluded.seconds, "
    "retries = excluded.retries, waited = excluded.waited, time = excluded.time, reply = excluded.reply, "
    "digest = excluded.digest"
)
STORE_RESULT: Final = (
    "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (question_id, answering, judge, replicate, fingerprint) DO UPDATE SET run = excluded.run, "
    "place = excluded.place, outcome = excluded.outcome, again = excluded.again, time = excluded.time, "
    "result = excluded.result, digest = excluded.digest"
)
MARK_SEEN: Final = "UPDATE results SET run = ?, place = ? WHERE rowid = ?"
KEEP_SEEN: Final = "UPDATE results SET run = 0 WHERE run = ? AND place = ? AND rowid <> ?"
KEEP_RESULT: Final = "UPDATE results SET run = 0 WHERE run = ? AND place = ? AND fingerprint <> ?"
ATTACHMENT: Final = "attachment "
"""The prefix of the names in `meta` under which attached files are described."""
STORE_FACT: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
STORE_RUN: Final = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)"
STORE_SESSION: Final = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)"
STORE_SPENT: Final = "INSERT OR REPLACE INTO spent VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_NOT_COVERED: Final = {"results": 2}
"""The number of leading columns that a row's digest does not cover, by table."""

_LONGEST_NAME: Final = 60


def create_tables(database: sqlite3.Connection) -> None:
    """Create a journal's tables in an empty database, and store the current version and time."""
    from karenina_core.catalog import __version__

    database.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA.split(";\n"):
        database.execute(statement)
    database.executemany("INSERT INTO meta VALUES (?, ?)", [("karenina", __version__), ("created", time.time())])
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute(f"PRAGMA user_version = {FORMAT}")
    database.execute("COMMIT")


def row_digest(table: str, values: Sequence[Any]) -> bytes:
    """Return the digest of a row: 16 bytes over the table's name and `values`, the row's columns in order without the
    digest. For a result, `run` and `place` are not covered.

    Raises `UnicodeEncodeError` if the last value contains a lone surrogate.
    """
    last = values[-1]
    digest = hashlib.sha256(to_json([table, *values[_NOT_COVERED.get(table, 0) : -1]], bytes_mode="hex"))
    digest.update(last.encode() if isinstance(last, str) else to_json(last, bytes_mode="hex"))
    return digest.digest()[:16]


def with_digest(table: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row's values followed by their digest."""
    return (*values, row_digest(table, values))


def is_intact(table: str, row: Sequence[Any]) -> bool:
    """Return whether a row of the given table matches its digest. `row` must contain all columns of the table, in
    order.
    """
    try:
        return bool(row_digest(table, row[:-1]) == row[-1])
    except (TypeError, ValueError):
        return False


def find_foreign_object(database: sqlite3.Connection) -> str | None:
    """Return a description of the first object in which a database's schema differs from a journal's, or None if they
    are equal.
    """
    ours, theirs = _objects_of_a_journal(), _objects(database)
    for name, (kind, _, sql) in theirs.items():
        if name not in ours:
            virtual = "virtual " if sql.upper().startswith("CREATE VIRTUAL") else ""
            return f"it contains {'an' if kind == 'index' else 'a'} {virtual}{kind} {_short(name)}"
        if theirs[name] != ours[name]:
            return f"its {kind} {_short(name)} differs from the one in a journal"
    missing = next((name for name in ours if name not in theirs), None)
    return f"it has no {ours[missing][0]} {missing!r}" if missing is not None else None


def _objects(database: sqlite3.Connection) -> dict[str, tuple[str, str, str]]:
    """Return the kind, table and definition of every object in the schema, by name."""
    rows = database.execute("SELECT name, type, tbl_name, sql FROM sqlite_master").fetchall()
    return {str(name): (str(kind), str(table), " ".join(str(sql).split())) for name, kind, table, sql in rows}


@cache
def _objects_of_a_journal() -> dict[str, tuple[str, str, str]]:
    """Return the tables and indexes of a valid journal, in the form that `_objects` returns."""
    objects: dict[str, tuple[str, str, str]] = {}
    for statement in SCHEMA.strip().removesuffix(";").split(";\n"):
        words = statement.split()
        kind = "table" if words[1] == "TABLE" else "index"
        name = words[words.index(kind.upper()) + 1].partition("(")[0]
        objects[name] = (kind, name if kind == "table" else words[words.index("ON") + 1], " ".join(words))
    return objects


def _short(name: str) -> str:
    """Quote a name. Names with more than `_LONGEST_NAME` characters are shortened."""
    return repr(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "...")
