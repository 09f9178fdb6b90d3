"""`karenina new` refuses names that cannot work, and never replaces a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from karenina_cli.app import build_app
from karenina_core.catalog import install_command
from karenina_scaffold.rendering import Names, version_bounds


def new(folder: Path, kind: str, name: str) -> Result:
    """Return the result of the command in a folder."""
    return CliRunner().invoke(build_app(), ["new", kind, name, "--into", str(folder)])


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("stages word-count", "unknown plugin kind 'stages'; did you mean 'stage'?"),
        ("widget word-count", "available: adapter, check, command, executor"),
        ("stage 2nd", "'2nd' is not a valid package name; use letters, digits and hyphens"),
        ("stage ../evil", "is not a valid package name"),
        ("stage wörter", "is not a valid package name"),
        ("stage class", "'class' is a Python keyword"),
        ("stage match", "'match' is a Python keyword"),
        ("stage json", "'json' is a module in Python's standard library"),
        ("stage pytest", "'pytest' is an installed package"),
        ("stage karenina-core", "'karenina_core' is an installed package"),
        ("stage stage", "would need a class named 'Stage', but Karenina already uses that name"),
        ("trait rubric", "would need a class named 'RubricTrait', but Karenina already uses that name"),
        ("stage parse-template", "already provides the stage 'ParseTemplate'"),
        ("format jsonl", "already provides the format '.jsonl'"),
        ("command check", "already provides the command 'check'"),
        ("exporter recording", "already provides the exporter 'recording'"),
        ("import-format promptfoo", "already provides the import-format 'promptfoo'"),
        ("panel panel", "would need a class named 'Panel', but Karenina already uses that name"),
    ],
)
def test_a_name_that_cannot_work_is_refused(tmp_path: Path, named: str, problem: str) -> None:
    done = new(tmp_path, *named.split())

    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert problem in done.stderr


def test_an_existing_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "word-count").mkdir()

    done = new(tmp_path, "stage", "word-count")

    assert done.exit_code == 2
    assert "word-count already exists; choose another name, or another folder with --into" in done.stderr
    assert list((tmp_path / "word-count").iterdir()) == []


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "packages").write_text("")

    done = new(tmp_path / "packages", "stage", "word-count")

    assert done.exit_code == 2
    assert "cannot be written" in done.stderr


def test_the_next_steps_are_printed(tmp_path: Path) -> None:
    done = new(tmp_path / "new folder", "check", "WordCount")

    assert done.exit_code == 0
    folder = tmp_path / "new folder" / "word-count"
    assert f"cd '{folder}'\n    pip install -e '.[tests]'\n    pytest\n" in done.stdout
    assert "karenina plan --set word_count.enabled=true" in done.stdout


def test_what_the_tests_require_is_installed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "karenina_testing", None)  # as if it were not installed
    done = new(tmp_path, "stage", "word-count")

    assert f"Next:\n\n    {install_command('karenina-testing')}\n    cd {tmp_path / 'word-count'}\n" in done.stdout


@pytest.mark.parametrize("given", ["word-count", "word_count", "WordCount", "Word-Count"])
def test_any_spelling_of_a_name_gives_the_same_package(given: str) -> None:
    assert Names.of(given) == Names("word-count", "word_count", "WordCount", ".wordcount")


@pytest.mark.parametrize(
    ("version", "bounds"),
    [("0.1.0", ">=0.1,<0.2"), ("0.9.3", ">=0.9,<0.10"), ("1.4.0", ">=1.4,<2")],
)
def test_a_package_allows_compatible_versions(version: str, bounds: str) -> None:
    assert version_bounds(version) == bounds


def test_a_task_is_a_benchmark_with_hidden_tests(tmp_path: Path) -> None:
    done = new(tmp_path, "task", "median")

    assert done.exit_code == 0, done.stderr
    folder = tmp_path / "median"
    assert sorted(path.name for path in folder.iterdir()) == ["benchmark.yaml", "solution.patch", "tests", "workspace"]
    assert "name: median" in (folder / "benchmark.yaml").read_text("utf-8")
    assert f"karenina check {folder / 'benchmark.yaml'} --run-checks" in done.stdout
