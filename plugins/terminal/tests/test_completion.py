"""Completion of words and files in a shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from karenina_terminal.completion import benchmark_files, complete_files, journal_files, matching, result_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with files of each kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "old").mkdir(parents=True)
    for name in ("genes.YAML", "genes.journal", "notes.txt", ".hidden.yaml", "runs/old/genes.parquet"):
        (tmp_path / name).touch()
    return tmp_path


def test_words_that_a_shell_could_evaluate_are_left_out() -> None:
    assert matching(["q1", "q2", "q1", "q$(id)", "other"], "q") == ["q1", "q2"]


def test_files_of_the_right_kind_are_listed_with_folders() -> None:
    assert benchmark_files("") == ["genes.YAML", "runs/"]
    assert journal_files("g") == ["genes.journal"]
    assert result_files("x") == []


def test_hidden_files_are_listed_when_asked_for() -> None:
    assert benchmark_files(".") == [".hidden.yaml"]


def test_the_only_folder_is_opened() -> None:
    assert result_files("ru") == ["runs/old/"]
    assert complete_files("runs/old", (".parquet",)) == ["runs/old/genes.parquet"]


def test_a_folder_that_cannot_be_read_completes_nothing() -> None:
    assert complete_files("~nobody-of-this-name/", (".yaml",)) == []
    assert complete_files("absent/", (".yaml",)) == []
