"""Tables with so many rows that their questions are stored in a file: they read as those of small tables."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_benchmark.formats.stored_questions import LARGE
from karenina_template.question_template import template_of

SOON = 2_000
"""As many rows are a large table in most of these tests."""


def write_table(file: Path, rows: Iterable[tuple[str, str, str]]) -> Path:
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([("id", "question", "answer"), *rows])
    return file


@pytest.fixture(autouse=True)
def _smaller_tables_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the questions of tables with fewer rows too; the table of `large`, which is loaded before, has so many."""
    monkeypatch.setattr("karenina_benchmark.formats.table_format.LARGE", SOON)


def make_rows(count: int) -> list[tuple[str, str, str]]:
    return [(f"é{number}", f"What is gene\n#{number}?", f"G{number}") for number in range(count)]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Return the benchmark of a table that is removed after it is loaded."""
    file = write_table(tmp_path_factory.mktemp("large") / "genes.csv", make_rows(LARGE))
    benchmark = Benchmark.load(file)
    file.unlink()
    return benchmark


def test_questions_of_a_large_table_equal_those_of_a_small_one(large: Benchmark, tmp_path: Path) -> None:
    small = Benchmark.load(write_table(tmp_path / "genes.csv", make_rows(50)))
    assert (small.streamed, large.streamed) == (False, True)
    assert len(large) == LARGE
    for question in small:
        again = large.get(question.id)
        assert again == question
        assert template_of(again) == template_of(question)
        places = [benchmark.place_of(question.id) for benchmark in (small, large)]
        assert len({place.where() for place in places if place is not None}) == 1
    assert large.place_of("é1").where() == "line 5"  # type: ignore[union-attr]  # a missing place fails here
    assert list(large.texts(["é7"])) == [("é7", "What is gene\n#7?")]
    assert len(large.made_templates) == LARGE


def test_a_question_of_a_large_table_can_be_replaced_and_removed(tmp_path: Path) -> None:
    benchmark = Benchmark.load(write_table(tmp_path / "genes.csv", make_rows(SOON)))
    assert benchmark.streamed
    benchmark.replace(benchmark.get("é3").changed(question="Which?"))
    benchmark.remove("é4")
    assert benchmark.get("é3").question == "Which?"
    assert list(benchmark.texts(["é3"])) == [("é3", "Which?")]
    assert "é4" not in benchmark
    assert len(benchmark) == SOON - 1
    assert benchmark.get("é5").question == "What is gene\n#5?"


def test_a_repeated_id_in_a_large_table_names_both_lines(tmp_path: Path) -> None:
    rows = make_rows(SOON)
    rows[-1] = ("é9", "What else?", "G")
    with pytest.raises(BenchmarkFileError, match=f"line {2 * SOON}: the question in line 21 has the same id 'é9'"):
        Benchmark.load(write_table(tmp_path / "genes.csv", rows))


def test_the_table_may_change_after_it_is_loaded(large: Benchmark) -> None:
    assert large.get(f"é{LARGE - 1}").raw_answer == f"G{LARGE - 1}"


@pytest.mark.forks
def test_processes_read_stored_questions_at_the_same_time(tmp_path: Path) -> None:
    table = Benchmark.load(write_table(tmp_path / "genes.csv", make_rows(SOON)))
    assert table.streamed
    children = []
    for first in range(4):
        child = os.fork()
        if not child:
            ids = list(table.ids)[first::4]
            os._exit(any(table.get(id).raw_answer != f"G{id[1:]}" for id in ids))
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4


@pytest.mark.filterwarnings("error")  # of a file that cannot be closed
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_full_disk_is_an_error_with_its_cure(tmp_path: Path) -> None:
    import resource

    table = write_table(tmp_path / "genes.csv", make_rows(SOON))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(BenchmarkFileError, match=r"temporary file: File too large; .* set TMPDIR"):
            Benchmark.load(table)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
