"""Rows of SWE-bench: imported, checked with their solution, and judged with recorded patches."""

from __future__ import annotations

import json
import shutil
import tarfile
import venv
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina
from folders import write_files

from karenina_core.plugins import Plugins

CALC = "def add(a, b):\n    return a - b\n"
TESTS = "from calc import add\n\n\ndef test_zero():\n    assert add(1, 0) == 1\n"
SOLUTION = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
ROW: dict[str, Any] = {
    "repo": "acme/calc",
    "instance_id": "acme__calc-1",
    "base_commit": "1f2e3d",
    "problem_statement": "add subtracts.",
    "patch": SOLUTION,
    "test_patch": """diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -4,2 +4,6 @@
 def test_zero():
     assert add(1, 0) == 1
+
+
+def test_one():
+    assert add(1, 1) == 2
""",
    "FAIL_TO_PASS": '["tests/test_calc.py::test_one"]',
    "PASS_TO_PASS": '["tests/test_calc.py::test_zero"]',
}


def karenina(*arguments: str) -> CommandResult:
    return run_karenina(*arguments, plugins=Plugins.discover())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path / "repos/acme__calc-1", {"calc.py": CALC, "tests/test_calc.py": TESTS})
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return an interpreter with pytest, but none of its plugins, with which it starts ten times as slowly."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    for name in ("_pytest", "iniconfig", "packaging", "pluggy", "py.py", "pygments", "pytest"):
        place = Path(pytest.__file__).parents[1] / name
        (packages / name).symlink_to(place, target_is_directory=place.is_dir())
    return tmp_path / "venv" / "bin" / "python"


def import_rows(folder: Path, *rows: dict[str, Any]) -> str:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = karenina("import", "rows.jsonl", "-o", "swe.yaml")
    if done.code == 0:
        text = Path("swe.yaml").read_text().replace("questions:\n", "workspace_root: repos\nquestions:\n", 1)
        Path("swe.yaml").write_text(text)
    return done.err


def test_the_files_of_all_tests_that_must_pass_are_run(folder: Path) -> None:
    kept = json.dumps(["tests/test_calc.py::test_zero", "tests/test_other.py::test_it"])

    import_rows(folder, {**ROW, "PASS_TO_PASS": kept})

    text = Path("swe.yaml").read_text()
    assert "- tests/test_calc.py\n" in text.partition("report:")[0]
    assert "- tests/test_other.py\n" in text.partition("report:")[0]


def test_a_missing_workspace_root_is_one_error(folder: Path) -> None:
    (folder / "rows.jsonl").write_text("".join(json.dumps({**ROW, "instance_id": f"a-{n}"}) + "\n" for n in range(3)))
    karenina("import", "rows.jsonl", "-o", "swe.yaml")
    checked = karenina("check", "swe.yaml", "--sandbox", "none", "--trust-all", "--run-checks")
    assert checked.code != 0
    errors = [line for line in (checked.out + checked.err).splitlines() if "Error" in line or line.startswith("✗")]
    assert len(errors) == 1
    assert "no workspace root is set" in errors[0]


def test_tasks_decide_by_their_tests(folder: Path, python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = ("--sandbox", "none", "--trust-all", "--set", f"sandbox_python={python}")
    monkeypatch.setattr("karenina_cli.commands.check_command._EVERY", 0.01)
    told = import_rows(folder, ROW)
    assert "at its base_commit, in a folder or tar archive with the name of the task" in told

    checked = karenina("check", "swe.yaml", "--run-checks", *allowed)
    assert checked.code == 0, checked.err
    assert "acme__calc-1: on the untouched folder, wrong: resolved" in checked.err
    assert "acme__calc-1: with the solution, all fields with checks are right" in checked.err
    progress = [line for line in checked.err.splitlines() if line.startswith("Checking")]
    assert "Checking swe.yaml: 0 of 1 question rehearsed" in progress
    assert len(set(progress)) == len(progress)

    with tarfile.open("repos/acme__calc-1.tar.gz", "w:gz") as archive:
        archive.add("repos/acme__calc-1", "calc-1f2e3d")
    shutil.rmtree("repos/acme__calc-1")
    for patch, outcome in ((SOLUTION, "correct"), (SOLUTION.replace("a + b", "a * b"), "wrong")):
        (folder / "predictions.jsonl").write_text(json.dumps({"instance_id": "acme__calc-1", "model_patch": patch}))
        recorded = ("--recordings", "predictions.jsonl", *allowed, "-o", f"{outcome}.jsonl")
        karenina("run", "swe.yaml", *recorded)
        assert f'"outcome":"{outcome}"' in Path(f"{outcome}.jsonl").read_text()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"FAIL_TO_PASS": '["test_it (app.tests.Case)"]'},
            "of unittest, whose runners write no JUnit report",
        ),
        ({"PASS_TO_PASS": '["Sums are right"]'}, "is no test of pytest"),
        ({"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS is empty"),
        ({"PASS_TO_PASS": "all"}, "PASS_TO_PASS must be a list"),
        ({"instance_id": "../other"}, "`instance_id`, a file name"),
    ],
)
def test_tasks_whose_tests_cannot_run_are_reported(folder: Path, change: dict[str, Any], problem: str) -> None:
    told = import_rows(folder, ROW, {**ROW, "instance_id": "acme__calc-2", **change})

    assert problem in told
    assert "Correct these rows, or use --partial to leave these rows out" in " ".join(told.split())


def test_without_a_usable_task_no_mapping_is_suggested(folder: Path) -> None:
    told = " ".join(import_rows(folder, {**ROW, "FAIL_TO_PASS": '["test_it (app.tests.Case)"]'}).split())

    assert "no row could be converted; check the file" in told
    assert "--map" not in told


def test_partial_leaves_out_tasks_of_other_runners(folder: Path) -> None:
    rows = [ROW, {**ROW, "instance_id": "acme__calc-2", "FAIL_TO_PASS": '["test_it (app.tests.Case)"]'}]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert karenina("import", "rows.jsonl", "--partial", "-o", "swe.yaml").code == 0
    assert "acme__calc-2" not in Path("swe.yaml").read_text()
