"""Attacks: someone with write access to a benchmark's folder replaces a file of rows after it was checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_benchmark.benchmark_files import load_benchmark
from karenina_core.data.trust import Trust

ROWS = {
    "rows.jsonl": '{"id": "a", "question": "WORD"}\n',
    "rows.json": '[{"id": "a", "question": "WORD"}]',
    "rows.csv": "id,question\na,WORD\n",
}


def given(folder: Path, name: str) -> Path:
    """Write a benchmark with rows, and a secret in a file with the same name outside of the folder."""
    for place, word in ((folder / "given/more", "harmless"), (folder / "secret", "SECRET-4711")):
        place.mkdir(parents=True)
        (place / name).write_text(ROWS[name].replace("WORD", word))
    answer = {"gene": {"description": "The gene", "ground_truth": "BCL2"}}
    rows = {"file": f"more/{name}", "columns": {"id": "id", "question": "question"}, "answer": answer}
    file = folder / "given/genes.yaml"
    file.write_text(json.dumps({"karenina": 1, "name": "G", "questions_from": rows}))
    return file


def exchange_file(folder: Path, name: str) -> None:
    (folder / "given/more" / name).unlink()
    (folder / "given/more" / name).symlink_to(folder / "secret" / name)


def exchange_folder(folder: Path, _name: str) -> None:
    shutil.rmtree(folder / "given/more")
    (folder / "given/more").symlink_to(folder / "secret")


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("exchange", [exchange_file, exchange_folder])
def test_a_file_exchanged_after_its_check_is_not_read(
    tmp_path: Path, name: str, exchange: Callable[[Path, str], None]
) -> None:
    file = given(tmp_path, name)

    def check(_file: Path, _names: Sequence[str]) -> None:
        exchange(tmp_path, name)

    with pytest.raises(BenchmarkFileError, match="the path is outside") as caught:
        load_benchmark(file, check)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("name", ROWS)
def test_links_within_the_folder_are_followed(tmp_path: Path, name: str) -> None:
    file = given(tmp_path, name)
    (tmp_path / "given/more").rename(tmp_path / "given/real")
    (tmp_path / "given/more").symlink_to("real")

    assert [question.question for question in Benchmark.load(file)] == ["harmless"]


def test_a_trusted_file_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    file = given(tmp_path, "rows.jsonl")
    exchange_file(tmp_path, "rows.jsonl")

    assert [question.question for question in Benchmark.load(file, Trust.all())] == ["SECRET-4711"]
