"""Result files and journals of earlier versions, which are in `data`, are read as they were written.

`first` is of commit 160d5548, and `second` of the last one before results were written without default values. Both
have a result file with all fields in each line, and a journal of format 2. `fields` has one result in which every field
has a value other than its default, and one in which every field has its default. `genes` is the run of a benchmark of
three questions with recorded answers.
"""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from result_metadata import metadata

from karenina_core import Outcome, VerificationResult
from karenina_engine.journal.journal import Journal
from karenina_engine.journal.repair import repair
from karenina_engine.journal.view import JournalView
from karenina_engine.results.result_file import is_header, recorded_answer, why_not_recorded
from karenina_engine.results.result_lines import dump_result
from karenina_engine.results.result_set import read_results

DATA = Path(__file__).with_name("data")
PAIRS = ("first/fields", "first/genes", "second/fields", "second/genes")


def lines_of(name: str) -> list[str]:
    """Return the lines of an earlier result file that contain results."""
    text = (DATA / f"{name}.jsonl").read_text("utf-8")
    return [line for line in text.split("\n") if line and not is_header(line.encode())]


def journal_of(name: str, folder: Path) -> Path:
    """Return a copy of an earlier journal."""
    path = folder / "earlier.journal"
    path.write_bytes(gzip.decompress((DATA / f"{name}.journal.gz").read_bytes()))
    return path


@pytest.mark.parametrize("name", PAIRS)
def test_every_field_of_an_earlier_result_file_is_read(name: str) -> None:
    found = list(read_results(DATA / f"{name}.jsonl"))
    assert [one.model_dump_json(exclude_unset=True) for one in found] == lines_of(name)


@pytest.mark.parametrize("name", PAIRS)
def test_every_field_of_an_earlier_journal_is_read(tmp_path: Path, name: str) -> None:
    path = journal_of(name, tmp_path)
    before = path.read_bytes()
    with JournalView(path) as view:
        assert list(view.results()) == lines_of(name)
        found = [VerificationResult.model_validate_json(line).model_dump() for line in view.results()]
        answers = [recorded_answer(result) for result in found if why_not_recorded(result) is None]
        assert list(view.recordings()) == answers
    assert path.read_bytes() == before


def test_an_earlier_journal_is_not_damaged(tmp_path: Path) -> None:
    assert repair(journal_of("first/genes", tmp_path)).repaired is None


@pytest.mark.parametrize("name", PAIRS)
def test_an_earlier_result_file_is_one_of_its_journal(tmp_path: Path, name: str) -> None:
    file = tmp_path / "file.jsonl"
    with Journal.open(journal_of(name, tmp_path)) as journal:
        for text in ("\n".join([*lines_of(name), ""]), lines_of(name)[0] + "\n" + lines_of(name)[1][:700]):
            file.write_text(text, "utf-8")
            assert journal.holds_all_lines(file)
        file.write_text(text.replace("gene", "drug").replace("no field", "a field"), "utf-8")
        assert not journal.holds_all_lines(file)


def test_a_run_continues_an_earlier_journal(tmp_path: Path) -> None:
    path = journal_of("first/fields", tmp_path)
    new = [
        VerificationResult(metadata=metadata(str(number)), outcome=Outcome.CORRECT, evaluation_input="text " * 200)
        for number in range(40)
    ]

    async def add_results() -> None:
        with Journal.open(path) as journal:
            journal.begin(42, {})
            for number, line in enumerate(lines_of("first/fields")):
                result = VerificationResult.model_validate_json(line)
                stored = journal.result(result.item, bytes([number]) * 32)
                assert stored is not None
                assert stored.text == line
            for number, result in enumerate(new, 2):
                await journal.finish(number, result.item, bytes(32), "correct", dump_result(result), again=False)

    asyncio.run(add_results())
    with JournalView(path) as view:
        assert list(view.results()) == [*lines_of("first/fields"), *map(dump_result, new)]
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (3,)
        assert {kind for (kind,) in database.execute("SELECT typeof(result) FROM results")} == {"text", "blob"}
