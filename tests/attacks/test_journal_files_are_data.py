"""A journal is data: any content of it, or any file beside it, can fail an item or cause an error message, no more.

No row decides what runs or which other file changes; no reply stops the run that waits for it to be stored; a byte that
changed never makes another answer; and a damaged file is named, with `karenina journal repair`, which keeps the rest.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from invalid_adapter import InvalidAdapterRuns

from karenina_engine.journal.repair import repair
from karenina_engine.journal.schema import row_digest

THESIS = "The thesis of three years.\n" * 40
RUN = ("run", "genes.yaml", "-a", "odd.m:fine", "-j", "odd.m:judge", "-o", "o.jsonl")
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": (*RUN, "--journal", "JOURNAL"),
    "replay": (*RUN, "--replay", "--journal", "JOURNAL"),
    "fresh": (*RUN, "--fresh", "--journal", "JOURNAL"),
    "resume": ("resume", "JOURNAL"),
    "rescore": ("rescore", "JOURNAL"),
    "status": ("status", "JOURNAL"),
    "export": ("export", "JOURNAL"),
    "recording": ("export", "JOURNAL", "--format", "recording"),
    "repair": ("journal", "repair", "JOURNAL"),
}
MUTATIONS = int(os.environ.get("TESTS_MUTATIONS", "20"))
"""Mutated journals; more of them for a longer test."""
WELL_BUT_Q2 = ["q1 llm", "q1 parser", "q3 llm", "q3 parser"]
WELL = [*WELL_BUT_Q2, "q2 llm", "q2 parser"]
READING = ("run", "replay", "resume", "rescore", "status", "export", "recording")
EVERY = pytest.mark.parametrize("every", [False, True], ids=["some commands", "every command"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run that has ended well."""
    place = InvalidAdapterRuns.make(tmp_path_factory.mktemp("finished"))
    assert place.run().code == 0
    return place.folder


@pytest.fixture
def place(finished: Path, tmp_path: Path) -> InvalidAdapterRuns:
    """Return a copy of that folder."""
    shutil.copytree(finished, tmp_path / "copy")
    return InvalidAdapterRuns(tmp_path / "copy")


@pytest.fixture
def thesis(tmp_path: Path) -> Path:
    """Return a file of the user's that has nothing to do with Karenina."""
    file = tmp_path / "thesis.txt"
    file.write_text(THESIS, "utf-8")
    return file


def given(command: str, journal: Path) -> list[str]:
    """Return the words of a command over this journal."""
    return [str(journal) if word == "JOURNAL" else word for word in COMMANDS[command]]


def outcomes(place: InvalidAdapterRuns) -> dict[str, str]:
    """Return the outcome of each question in the results."""
    lines = map(json.loads, (place.folder / "genes.jsonl").read_text("utf-8").splitlines())
    return {line["metadata"]["question_id"]: line["outcome"] for line in lines if "outcome" in line}


# ---- what an adapter hands in


@pytest.mark.parametrize(
    "kind",
    [
        *("tokens", "negative", "not-a-number", "text-for-a-count", "half-a-pair-as-finish", "list-as-finish", "bytes"),
        *("half-a-pair", "half-a-pair-as-model"),
    ],
)
def test_odd_reply_costs_at_most_its_item(tmp_path: Path, kind: str) -> None:
    place = InvalidAdapterRuns.make(tmp_path)
    first, second = place.together((*place.command(kind), "--set", "item_timeout=60"), place.command(kind))

    assert (first.code, second.code) == (0, 0), first.err
    assert "Traceback" not in first.err + second.err
    found = outcomes(place)
    assert (found["q1"], found["q3"]) == ("correct", "wrong")
    assert found["q2"] in ("correct", "model_error")
    calls = sorted(place.calls())
    if found["q2"] == "correct":
        assert calls == sorted(WELL)
    else:
        assert calls == sorted([*WELL_BUT_Q2, "q2 llm", "q2 llm"]), "what was stored is asked again"


@pytest.mark.parametrize("kilobytes", [44, 72], ids=["before the first call", "during the run"])
def test_full_disk_ends_the_run_with_a_message(tmp_path: Path, kilobytes: int) -> None:
    place = InvalidAdapterRuns.make(tmp_path)
    ended = place.run(before=("bash", "-c", f'ulimit -f {kilobytes}; trap "" XFSZ; exec "$@"', "bash"))

    assert ended.code == 70
    assert "Traceback" not in ended.err
    assert "genes.journal cannot be written" in ended.err
    assert "the same command continues the run" in ended.err
    assert place.run().code == 0


# ---- schemas


def changed_definition(database: sqlite3.Connection, old: str, new: str) -> None:
    """Change the text of a definition, as SQLite itself would refuse to."""
    database.execute("PRAGMA writable_schema = ON")
    database.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?)", (old, new))


FOREIGN: dict[str, tuple[Callable[[sqlite3.Connection], object], str]] = {
    "trigger": (
        lambda database: database.execute(
            "CREATE TRIGGER kind AFTER INSERT ON results BEGIN UPDATE results SET outcome = 'wrong'; END"
        ),
        "it contains a trigger 'kind'",
    ),
    "view": (lambda database: database.execute("CREATE VIEW more AS SELECT 1"), "it contains a view 'more'"),
    "table": (lambda database: database.execute("CREATE TABLE more (x)"), "it contains a table 'more'"),
    "virtual table": (
        lambda database: database.execute("CREATE VIRTUAL TABLE more USING fts5(x)"),
        "it contains a virtual table 'more'",
    ),
    "index on an expression": (
        lambda database: database.execute("CREATE INDEX more ON results (length(result))"),
        "it contains an index 'more'",
    ),
    "generated column": (
        lambda database: database.execute("ALTER TABLE runs ADD COLUMN more AS (abs(items))"),
        "its table 'runs' differs from the one in a journal",
    ),
    "check with a function": (
        lambda database: changed_definition(database, "run INTEGER NOT NULL,", "run INTEGER CHECK (random() > 0),"),
        "differs from the one in a journal",
    ),
    "default with a function": (
        lambda database: changed_definition(database, "tally TEXT", "tally TEXT DEFAULT (randomblob(1000000))"),
        "its table 'runs' differs from the one in a journal",
    ),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_schema_is_refused_by_every_command(place: InvalidAdapterRuns, what: str) -> None:
    change, words = FOREIGN[what]
    with closing(sqlite3.connect(place.journal)) as database:
        change(database)
        database.commit()
    before, calls = place.journal.read_bytes(), place.calls()

    for ended in place.together(*(given(command, place.journal) for command in READING)):
        assert ended.code == 2, ended.err
        assert "is not a Karenina journal: " in ended.err
        assert words in ended.err
    assert place.journal.read_bytes() == before
    assert place.calls() == calls


def test_trigger_in_the_write_ahead_log_is_refused(place: InvalidAdapterRuns) -> None:
    other = place.folder / "other.journal"
    shutil.copyfile(place.journal, other)
    with closing(sqlite3.connect(other, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TRIGGER kind AFTER INSERT ON results BEGIN UPDATE results SET outcome = 'wrong'; END")
        log = other.with_name("other.journal-wal").read_bytes()
    place.journal.with_name("genes.journal-wal").write_bytes(log)

    for ended in place.together(given("status", place.journal), given("run", place.journal)):
        assert ended.code == 2, ended.err
        assert "it contains a trigger 'kind'" in ended.err


def test_repair_leaves_a_foreign_schema_behind(place: InvalidAdapterRuns) -> None:
    with closing(sqlite3.connect(place.journal)) as database:
        FOREIGN["trigger"][0](database)
        database.commit()

    ended = place.karenina("journal", "repair", place.journal, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["kept"]["replies"], found["kept"]["results"], found["lost"]["replies"]) == (6, 3, 0)
    calls = place.calls()
    assert place.run().code == 0
    assert place.calls() == calls
    assert outcomes(place) == {"q1": "correct", "q2": "correct", "q3": "wrong"}


# ---- other files


def rollback_file(journal: Path, other: Path) -> None:
    """Write a rollback file that SQLite takes for one of several databases, which it deletes the list of: `other`."""
    magic = bytes.fromhex("d9d505f920a163d7")
    pages, name = journal.stat().st_size // 4096, str(other).encode()
    head = (magic + struct.pack(">5I", 0, 1, pages, 512, 4096)).ljust(512, b"\0")
    tail = struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    journal.with_name(journal.name + "-journal").write_bytes(head + tail)


def test_rollback_file_deletes_no_other_file(place: InvalidAdapterRuns, thesis: Path) -> None:
    rollback_file(place.journal, thesis)
    every = place.together(*(given(command, place.journal) for command in COMMANDS))

    assert thesis.read_text("utf-8") == THESIS
    for ended in every:
        assert ended.code == 2, ended.err
        assert "refers to another file, which SQLite would delete" in ended.err


def link_beside(ending: str) -> Callable[[Path, Path], object]:
    """Return what makes a link to another file beside a journal."""
    return lambda journal, thesis: journal.with_name(journal.name + ending).symlink_to(thesis)


def hard_link_beside(ending: str) -> Callable[[Path, Path], object]:
    """Return what makes another file one of those beside a journal."""
    return lambda journal, thesis: journal.with_name(journal.name + ending).hardlink_to(thesis)


def link_itself(journal: Path, thesis: Path) -> None:
    journal.unlink()
    journal.symlink_to(thesis)


def link_to_nothing(journal: Path, thesis: Path) -> None:
    journal.unlink()
    journal.symlink_to(thesis.with_name("new.txt"))


def pipe_itself(journal: Path, _thesis: Path) -> None:
    journal.unlink()
    os.mkfifo(journal)


def folder_itself(journal: Path, _thesis: Path) -> None:
    journal.unlink()
    journal.mkdir()


def device_itself(journal: Path, _thesis: Path) -> None:
    journal.unlink()
    journal.symlink_to("/dev/zero")


def repaired_is_a_link(journal: Path, thesis: Path) -> None:
    journal.with_name(journal.name + ".repaired").symlink_to(thesis)


PLACED: dict[str, Callable[[Path, Path], object]] = {
    "a link": link_itself,
    "a link to nothing": link_to_nothing,
    "a pipe": pipe_itself,
    "a folder": folder_itself,
    "a device": device_itself,
    "a link as write-ahead log": link_beside("-wal"),
    "a hard link as write-ahead log": hard_link_beside("-wal"),
    "a link as shared memory": link_beside("-shm"),
    "a link as rollback file": link_beside("-journal"),
    "a link as lock": link_beside(".lock"),
    "a hard link as lock": hard_link_beside(".lock"),
    "a pipe as write-ahead log": lambda journal, _: os.mkfifo(journal.with_name(journal.name + "-wal")),
    "a link as repaired journal": repaired_is_a_link,
}


@pytest.mark.parametrize("what", PLACED)
def test_links_pipes_and_devices_are_refused_and_nothing_waits(
    place: InvalidAdapterRuns, thesis: Path, what: str
) -> None:
    for file in place.folder.glob("genes.journal?*"):
        file.unlink()
    PLACED[what](place.journal, thesis)

    commands = ("run", "repair") if "repaired" in what else ("run", "status", "repair")
    for ended in place.together(*(given(command, place.journal) for command in commands)):
        assert ended.code == 2, ended.err
    assert thesis.read_text("utf-8") == THESIS
    assert not thesis.with_name("new.txt").exists()


@pytest.mark.parametrize("name", [".genes.journal.reading", ".genes.journal.repairing", "genes-1.journal"])
def test_repair_writes_through_no_link(place: InvalidAdapterRuns, thesis: Path, name: str) -> None:
    damage(place.journal, b"BCL2", b"BCL3")
    (place.folder / name).symlink_to(thesis if "-1" not in name else thesis.with_name("new.txt"))

    assert place.karenina("journal", "repair", place.journal).code == 0
    assert thesis.read_text("utf-8") == THESIS
    assert not thesis.with_name("new.txt").exists()


# ---- damage


def damage(journal: Path, old: bytes, new: bytes) -> None:
    """Replace bytes of a file at every place."""
    data = journal.read_bytes()
    assert old in data
    journal.write_bytes(data.replace(old, new))


def test_changed_byte_in_a_reply_is_no_other_answer(place: InvalidAdapterRuns) -> None:
    with closing(sqlite3.connect(place.journal)) as database:
        database.execute("DELETE FROM results")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("VACUUM")
    damage(place.journal, b'{\\"gene\\": \\"BCL2\\"}', b'{\\"gene\\": \\"BCL3\\"}')
    calls = place.calls()

    ended = place.run()
    assert ended.code == 0, ended.err
    warning = " ".join(ended.err.split())  # which lines it has depends on how long the path is
    assert "is damaged: a reply from 'judge'" in warning
    assert "karenina journal repair" in warning
    assert outcomes(place) == {"q1": "correct", "q2": "correct", "q3": "wrong"}
    assert sorted(place.calls()[len(calls) :]) == ["q1 parser", "q3 parser"]


def test_header_that_forbids_writing_is_damage_that_repair_mends(place: InvalidAdapterRuns) -> None:
    data = bytearray(place.journal.read_bytes())
    data[18] = 9  # SQLite's "file format write version"
    place.journal.write_bytes(data)
    calls = place.calls()

    refused = place.run()
    assert refused.code == 2
    assert "is damaged: its header forbids writing to it. Run `karenina journal repair" in refused.err
    assert place.karenina("journal", "repair", place.journal).code == 0
    assert place.run().code == 0
    assert place.calls() == calls


def test_changed_byte_in_a_result_is_no_other_result(place: InvalidAdapterRuns) -> None:
    answer = b'"raw_llm_response":"The answer is BCL2."'
    damage(place.journal, answer, answer.replace(b"BCL2", b"BCL9"))
    calls = place.calls()
    exported, run = place.together(("export", str(place.journal)), place.command())

    assert exported.code == 2
    assert "is damaged: row 1 in its table 'results'" in exported.err
    assert run.code == 0
    assert outcomes(place) == {"q1": "correct", "q2": "correct", "q3": "wrong"}
    assert "BCL9" not in (place.folder / "genes.jsonl").read_text("utf-8")
    assert place.calls() == calls


def tried(place: InvalidAdapterRuns, every: bool, *always: str) -> list[tuple[str, str, int, str]]:
    """Give commands over each journal in the folder `attacks`, in one process: `always`, and every one that reads, or
    one of these, which is another for the next journal.

    Return journal, command, exit code and errors of each; none may end with a traceback or another code than bad input.
    """
    journals = sorted(file.name for file in (place.folder / "attacks").iterdir())
    steps = []
    for number, journal in enumerate(journals):
        some = READING if every else [READING[number % len(READING)]]
        steps += [(journal, name) for name in dict.fromkeys((*some, *always))]
    ended = place.together(
        *(given(name, Path("m.journal")) for _, name in steps),
        before={at: {f"attacks/{journal}": "m.journal"} for at, (journal, _) in enumerate(steps)},
    )
    found = [(*step, one.code, one.err[-500:]) for step, one in zip(steps, ended, strict=True)]
    assert [one for one in found if "Traceback" in one[3] or one[2] not in (0, 2, 3, 4)] == []
    return found


@EVERY
def test_mutated_journals_give_messages_and_can_be_repaired(place: InvalidAdapterRuns, every: bool) -> None:
    whole, draw = place.journal.read_bytes(), random.Random(20260722)
    (place.folder / "attacks").mkdir()
    for number in range(MUTATIONS):
        data = bytearray(whole)
        for _ in range((1, 1, 2, 5, 40)[number % 5]):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (place.folder / "attacks" / str(number)).write_bytes(data)
    found = tried(place, every, "repair")

    assert [one for one in found if "repair" in one[1] and one[2]] == [], "a journal that was not repaired"
    noticed = {one[0] for one in found if "damaged" in one[3]}
    assert len(noticed) > MUTATIONS * (2 if every else 1) // 5, "each command reads a part of a journal"
    assert all("karenina journal repair" in one[3] for one in found if "damaged" in one[3])


# ---- what a stranger writes with digests that fit

REPLIES = {
    "number for a text": '{"text": 5, "usage": [1, 1, 0, 0, 1]}',
    "texts for counts": '{"text": "BCL2", "usage": ["a", "b", "c", "d", "e"]}',
    "a list": "[]",
    "no usage": '{"text": "BCL2"}',
    "deeply nested": "[" * 100_000,
    "long number": '{"text": "BCL2", "usage": [' + "9" * 5000 + ", 1, 0, 0, 1]}",
    "no JSON": "BCL2",
}


MODELS = '{"config": {"answering_models": 5}, "benchmark": "genes.yaml", "output": "o", "folder": "."}'


def reseal(journal: Path, table: str, column: str, value: object) -> None:
    """Change a column in all rows of a table, and the digests with it, as whoever wrote the file may."""
    with closing(sqlite3.connect(journal)) as database:
        names = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
        for id, *row in database.execute(f"SELECT rowid, * FROM {table}").fetchall():
            row[names.index(column)] = value
            assignments = ", ".join(f"{name} = ?" for name in names)
            row[-1] = row_digest(table, row[:-1])
            database.execute(f"UPDATE {table} SET {assignments} WHERE rowid = ?", (*row, id))
        database.commit()


def hostile_rows() -> Iterator[tuple[str, str, object]]:
    """Return table, column and value of each attack."""
    yield from (("replies", "reply", text) for text in REPLIES.values())
    yield from (("results", "result", text) for text in ("{}", "[]", "5", "[" * 100_000, '{"outcome": 5}'))
    yield from (
        ("results", "result", blob) for blob in (b"", b"a dictionary", bytes(8) + zlib.compress(b"{}", wbits=-14))
    )
    yield from (("runs", "command", text) for text in ("{}", "[]", "5", "[" * 100_000, '{"config": 5}', MODELS))
    yield from (("runs", column, value) for column, value in (("began", 1e300), ("items", "many"), ("ended", "then")))
    yield from (("replies", column, "many") for column in ("retries", "waited", "failed", "calls"))


@EVERY
def test_hostile_rows_with_fitting_digests_end_in_messages(place: InvalidAdapterRuns, every: bool) -> None:
    (place.folder / "attacks").mkdir()
    for number, (table, column, value) in enumerate(hostile_rows()):
        journal = place.folder / "attacks" / f"{number} {table} {column}"
        shutil.copyfile(place.journal, journal)
        reseal(journal, table, column, value)
        if table == "replies":
            with closing(sqlite3.connect(journal)) as database:
                database.execute("DELETE FROM results")
                database.commit()
        for beside in place.folder.glob("attacks/*-*"):
            beside.unlink()
    found = tried(place, every, "run", "resume")

    assert {one[2] for one in found if " replies reply" in one[0] and one[1] == "run"} == {0}, "not asked again"
    assert {one[2] for one in found if " runs command" in one[0] and one[1] == "resume"} == {2}


# ---- repair


def killed_at(journal: Path, moment: int) -> bool:
    """Repair in a process that kills itself before the n-th time that it opens, renames or removes a file.

    Return whether it came to its end.
    """
    pid = os.fork()
    if pid == 0:
        left = [moment]

        def count(event: str, _arguments: object) -> None:
            if event in ("open", "os.rename", "os.remove", "sqlite3.connect"):
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1

        sys.addaudithook(count)
        try:
            repair(journal)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return not os.WIFSIGNALED(status)


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.release)])
def test_repair_that_is_killed_at_any_moment_loses_nothing(
    place: InvalidAdapterRuns, tmp_path: Path, step: int
) -> None:
    damage(place.journal, b'{\\"year\\": 2016}', b'{\\"year\\": 2017}')
    damaged, ended, moment = place.journal.read_bytes(), False, 0
    while not ended:
        folder = tmp_path / str(moment)
        folder.mkdir()
        journal = folder / "genes.journal"
        journal.write_bytes(damaged)
        ended = killed_at(journal, moment)
        repair(journal)

        with closing(sqlite3.connect(journal)) as database:
            assert database.execute("SELECT count(*) FROM replies").fetchone() == (5,), moment
            assert database.execute("SELECT count(*) FROM results").fetchone()[0] >= 2, moment
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        kept = [file.read_bytes() for file in folder.glob("genes*.journal") if file != journal]
        assert damaged in kept, moment
        assert not [*folder.glob(".*"), *folder.glob("*.repaired")], moment
        moment += step
    assert moment > 10
