"""The results in a journal are compressed with a dictionary that is always in the file before it is needed."""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import sqlite3
import string
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_metadata import metadata

from karenina_core import Outcome, VerificationResult
from karenina_core.data.sections import VerificationResultTemplate
from karenina_engine.journal.compression import TextCompressor, TextReader
from karenina_engine.journal.file import JournalDamaged
from karenina_engine.journal.journal import Journal
from karenina_engine.journal.repair import repair
from karenina_engine.journal.view import JournalView
from karenina_engine.results.result_lines import dump_result

MANY = 60


def results(count: int = MANY, first: int = 0) -> list[VerificationResult]:
    """Return results that are as long as those of runs."""
    return [
        VerificationResult(
            metadata=metadata(f"question {number}"),
            outcome=Outcome.CORRECT,
            template=VerificationResultTemplate(
                raw_llm_response=f"answer {number}", field_results={f"field {field}": True for field in range(50)}
            ),
        )
        for number in range(first, first + count)
    ]


async def store(path: Path, some: Sequence[VerificationResult], first: int = 0) -> None:
    """Store results in a journal, in a run of their own or in the one that it has."""
    with Journal.open(path) as journal:
        journal.begin(MANY, {})
        for place, one in enumerate(some, first):
            await journal.finish(place, one.item, bytes(32), one.outcome.value, dump_result(one), again=False)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return a journal with results, most of which are compressed."""
    asyncio.run(store(tmp_path / "r.journal", results()))
    return tmp_path / "r.journal"


def texts(path: Path) -> list[str]:
    """Return the results in a journal."""
    with JournalView(path) as view:
        return list(view.results())


def kinds(path: Path) -> list[str]:
    """Return whether each result is stored as text or as a blob."""
    with closing(sqlite3.connect(path)) as database:
        return [kind for (kind,) in database.execute("SELECT typeof(result) FROM results ORDER BY rowid")]


def change(path: Path, statement: str) -> None:
    """Change a journal with SQL."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
        database.commit()


ONE_COPY = "UPDATE meta SET value = zeroblob(length(value)) WHERE name LIKE 'dictionary % 1'"
BOTH_COPIES = "UPDATE meta SET value = zeroblob(length(value)) WHERE name LIKE 'dictionary %'"


def test_results_after_the_first_ones_take_a_tenth(journal: Path) -> None:
    assert texts(journal) == [dump_result(one) for one in results()]
    stored = kinds(journal)
    assert stored == sorted(stored, reverse=True)
    assert stored.count("blob") > MANY // 2
    with closing(sqlite3.connect(journal)) as database:
        (longest,) = database.execute(
            "SELECT max(length(result)) FROM results WHERE typeof(result) = 'blob'"
        ).fetchone()
    assert longest < len(texts(journal)[0]) / 10


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=20), st.integers(1, 5_000))
def test_every_text_reads_back(some: list[str], repeated: int) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute("CREATE TABLE meta (name, value)")
        compressor = TextCompressor(lambda *fact: database.execute("INSERT INTO meta VALUES (?, ?)", fact) and None)
        reader = TextReader(lambda: database)
        for text in [*some, *(text * repeated for text in some), *some]:
            assert reader.read(compressor.compress(text)) == text


def test_texts_with_an_earlier_larger_window_read_back() -> None:
    words = random.Random(1)
    dictionary = "".join(words.choices(string.ascii_letters, k=1 << 14)).encode()
    text = dictionary[1000:3000].decode()  # a copy that only a window of 16 KiB reaches
    id = hashlib.sha256(dictionary).digest()[:8]
    deflate = zlib.compressobj(3, zlib.DEFLATED, -14, 7, zdict=dictionary)
    stored = id + deflate.compress(text.encode()) + deflate.flush()
    assert len(stored) < len(text) / 10
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute("CREATE TABLE meta (name, value)")
        database.execute("INSERT INTO meta VALUES (?, ?)", (f"dictionary {id.hex()} 1", dictionary))
        reader = TextReader(lambda: database)
        assert reader.read(stored) == text
        compressor = TextCompressor(lambda *_: None, dictionary)  # of a journal that an earlier version began
        assert reader.read(compressor.compress(text)) == text


def test_a_resumed_run_uses_the_dictionary_of_its_first_results(journal: Path) -> None:
    asyncio.run(store(journal, results(5, first=MANY), first=MANY))
    assert kinds(journal)[-5:] == ["blob"] * 5
    with closing(sqlite3.connect(journal)) as database:
        assert database.execute("SELECT count(*) FROM meta WHERE name LIKE 'dictionary %'").fetchone() == (2,)
    assert texts(journal)[-1] == dump_result(results(1, first=MANY + 4)[0])


def test_a_process_killed_at_any_result_loses_none(tmp_path: Path) -> None:
    path = tmp_path / "r.journal"

    async def run(kept: list[str]) -> None:
        journal = Journal.open(path)
        journal.begin(MANY, {})
        for place, one in enumerate(results(20)):
            await journal.finish(place, one.item, bytes(32), one.outcome.value, dump_result(one), again=False)
            kept.append(dump_result(one))
            copy = tmp_path / f"killed-{place}.journal"  # the file as a process that is killed now leaves it
            for ending in ("", "-wal"):
                shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
            assert texts(copy) == kept
        journal.close()

    asyncio.run(run([]))
    assert "blob" in kinds(path)


def test_one_damaged_copy_of_the_dictionary_loses_nothing(journal: Path) -> None:
    before = texts(journal)
    change(journal, ONE_COPY)
    assert texts(journal) == before
    assert repair(journal).repaired == journal
    assert texts(journal) == before
    with closing(sqlite3.connect(journal)) as database:
        copies = database.execute("SELECT DISTINCT value FROM meta WHERE name LIKE 'dictionary %'").fetchall()
    assert len(copies) == 1


def test_results_without_a_dictionary_are_damaged(journal: Path) -> None:
    text = kinds(journal).count("text")
    change(journal, BOTH_COPIES)
    with pytest.raises(JournalDamaged):
        texts(journal)
    report = repair(journal)
    assert (report.kept["results"], report.lost["results"]) == (text, MANY - text)
    assert texts(journal) == [dump_result(one) for one in results(text)]


@pytest.mark.parametrize("value", ["x'00'", "zeroblob(2000)", "randomblob(500)", "x''", "7"])
def test_a_damaged_result_is_reported_and_not_used(journal: Path, value: str) -> None:
    change(journal, f"UPDATE results SET result = {value} WHERE place = {MANY - 1}")
    with pytest.raises(JournalDamaged):
        texts(journal)
    last = results()[-1]
    with Journal.open(journal) as opened:
        assert opened.result(last.item, bytes(32)) is None
        assert opened.result(results()[-2].item, bytes(32)) is not None
    assert repair(journal).lost["results"] == 1


def test_a_blob_that_expands_beyond_the_limit_is_damaged(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina_engine.journal.compression.MAX_BYTES", 1000)
    monkeypatch.setattr("karenina_engine.journal.compression.max_file_bytes", lambda: 1000)
    with pytest.raises(JournalDamaged):
        texts(journal)
