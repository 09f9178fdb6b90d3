"""What `karenina check` finds in workspaces that agents should not see. Nothing is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_karenina
from folders import write_files

from karenina_core.plugins import Plugins

TEST = "def test_total():\n    assert total() == 42\n"
PROGRAM = "print('total:', 41 + 0)\n"
SOLUTION = "--- a/program.py\n+++ b/program.py\n@@ -1 +1 @@\n-print('total:', 41 + 0)\n+print('total:', 41 + 1)\n"
NEW_TEST = f"--- /dev/null\n+++ b/tests/test_new.py\n@@ -0,0 +1,2 @@\n+{'+'.join(TEST.splitlines(keepends=True))}"


def question(**changes: Any) -> dict[str, Any]:
    return {
        "id": "sum",
        "question": "Correct the sum.",
        "workspace_path": "task",
        "solution": SOLUTION,
        "checks": {"prints": {"run": ["python", "program.py"], "add": "hidden"}},
        "answer": {
            "total": {"from": "checks.prints.output", "ground_truth": "total: 42", "verify_with": "ExactMatch"},
            "cause": {"description": "What is wrong", "ground_truth": "an off by one error"},
            "name": {"description": "Which function", "ground_truth": "total"},
        },
        **changes,
    }


def check(folder: Path, files: dict[str, str], *arguments: str, root: str = "root", **changes: Any) -> str:
    """Return what the command prints, in one line."""
    given = {"task/program.py": PROGRAM, "task/tests/__init__.py": "", "hidden/tests/__init__.py": ""}
    write_files(folder / root, {**given, "hidden/tests/test_sum.py": TEST, **files})
    file = folder / "tasks.yaml"
    file.write_text(
        json.dumps({"karenina": 1, "name": "t", "workspace_root": root, "questions": [question(**changes)]})
    )
    done = run_karenina("check", str(file), *arguments, plugins=Plugins.discover())
    return " ".join((done.out + done.err).split())


def test_a_workspace_without_leaks_is_silent(tmp_path: Path) -> None:
    files = {"task/tests/test_sum.py": "# another test\n", "task/notes.md": "an off by one errors, subtotal: 421\n"}

    printed = check(tmp_path, files, "--trust-all")
    assert "1 question read: 0 errors, 0 warnings." in printed
    assert "not searched" not in printed


@pytest.mark.parametrize(
    ("files", "changes", "leak"),
    [
        (
            {"task/tests/test_sum.py": TEST},
            {},
            "sees tests/test_sum.py in the workspace, which the check 'prints' adds",
        ),
        ({"task/old/test_sum.py": TEST}, {}, "sees old/test_sum.py in the workspace, which the check 'prints' adds"),
        ({"task/README.md": "It prints TOTAL: 42.\n"}, {}, "field 'total', 'total: 42', in README.md"),
        ({"task/a/b.txt": "There is an off by one error"}, {}, "field 'cause', 'an off by one error', in a/b.txt"),
        ({"task/program.py": PROGRAM.replace("+ 0", "+ 1")}, {}, "sees program.py in the workspace, which belongs to"),
        (
            {"task/tests/test_new.py": TEST},
            {"checks": {"prints": {"run": ["python", "program.py"], "add": NEW_TEST}}},
            "sees tests/test_new.py in the workspace, which the check 'prints' adds",
        ),
        ({"task/fix.patch": SOLUTION, "fix.patch": SOLUTION}, {"solution": "fix.patch"}, "sees fix.patch in"),
        (
            {"task/fix.patch": SOLUTION},
            {"solution": "task/fix.patch"},
            "where the agent can see it; move it next to that folder",
        ),
        (
            {"task/hidden/test_sum.py": TEST},
            {"checks": {"prints": {"run": ["python", "program.py"], "add": "task/hidden"}}},
            "where the agent can see it; move it next to that folder",
        ),
    ],
)
def test_what_agents_should_not_see_is_reported(
    tmp_path: Path, files: dict[str, str], changes: dict[str, Any], leak: str
) -> None:
    assert leak in check(tmp_path, files, "--trust-all", **changes)


def test_hidden_tests_behind_a_link_are_reported(tmp_path: Path) -> None:
    (tmp_path / "root/task").mkdir(parents=True)
    (tmp_path / "root/task/more").symlink_to("../hidden")

    assert "sees more/tests/test_sum.py in the workspace" in check(tmp_path, {})


def test_files_that_are_not_searched_are_counted(tmp_path: Path) -> None:
    printed = check(tmp_path, {"task/large.txt": "total: 42" + " " * 1_000_000})

    assert "task/large.txt was not searched for hidden tests and ground truths" in printed
    assert "ground truth of field 'total'" not in printed


def test_a_workspace_that_is_missing_is_named(tmp_path: Path) -> None:
    printed = check(tmp_path, {}, workspace_path="tsk")

    assert (
        "the workspaces of 1 question were not searched for hidden tests and ground truths: the folder 'tsk'" in printed
    )


def test_workspaces_outside_the_folder_need_trust(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    write_files(tmp_path / "root", {"task/README.md": "total: 42"})
    (tmp_path / "own/root").symlink_to("../root")

    assert "the workspaces were not read, as it is not trusted" in check(tmp_path / "own", {})
    assert "ground truth of field 'total'" in check(tmp_path / "own", {}, "--trust-all")
