"""What checks do not use of an agent's changes: files that steer tests, modules in place of others, lost folders."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from karenina_sandbox.capture.folders import compare_folders
from karenina_sandbox.check_running import CheckRunner
from karenina_sandbox.fields import Check
from karenina_sandbox.limits.command_limiter import CommandLimiter
from karenina_sandbox.patch import Patch
from karenina_sandbox.providers.none import SANDBOX
from karenina_sandbox.sandbox import Policy
from karenina_sandbox.task_files import TaskFiles
from karenina_toolkit.files.workspace_copy import WorkspaceError

LIST = (
    "import json, pathlib; print(json.dumps({path.as_posix(): path.read_text() for path in "
    "sorted(pathlib.Path('.').rglob('*')) if path.is_file()}))"
)
SOURCE = {"program.py": "old", "tests/test_program.py": "tests", "tests/cases.json": "cases", "tests/more.json": "more"}
ADDED = {"hidden/test_hidden.py": "tests"}


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@dataclass
class Task:
    """A task whose check prints the files that it finds."""

    folder: Path
    source: Mapping[str, str] = field(default_factory=lambda: SOURCE)
    added: Mapping[str, str] = field(default_factory=lambda: ADDED)
    may_steer: list[str] = field(default_factory=list)

    def found(self, change: Callable[[Path], Any], **settings: Any) -> tuple[dict[str, str], list[str]]:
        """Return the files that the check finds after a change of the folder, and the changes that it did not use."""
        write(self.folder / "task", self.source)
        write(self.folder / "added", self.added)
        change(write(self.folder / "after", self.source))
        patch = compare_folders(self.folder / "task", self.folder / "after")
        check = Check.model_validate({"run": ["python", "-c", LIST], "add": "added", **settings})
        return asyncio.run(self._run(check, patch))

    async def _run(self, check: Check, patch: Patch) -> tuple[dict[str, str], list[str]]:
        files = TaskFiles(self.folder, self.folder / "task")
        policy = Policy(python=Path(sys.executable))
        runner = CheckRunner(files, SANDBOX, policy, CommandLimiter(1), files.digest())
        await runner.load(check)
        result = await runner.run(check, patch)
        self.may_steer = result.may_steer
        return json.loads(result.output or ""), result.not_used


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


STEERING = [
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"),
    *("conftest.py", "tests/conftest.py", "sub/sitecustomize/__init__.py", "sitecustomize.so", "x.pth"),
    *("cheat-1.0.dist-info/entry_points.txt", "Cheat.EGG-INFO/entry_points.txt", "src/cheat.egg-info/PKG-INFO"),
    *(".coveragerc", "noxfile.py", "jest.config.ts", "vitest.config.mjs", ".mocharc.yml", ".cargo/config.toml"),
]


def test_files_that_steer_tests_come_from_the_source(task: Task) -> None:
    found, unused = task.found(lambda after: write(after, dict.fromkeys([*STEERING, "new.py"], "")))

    assert set(found) == {*SOURCE, *ADDED, "new.py"}
    assert set(STEERING) <= set(unused)


SHADOWS = [
    *("pytest_timeout.py", "pluggy/__init__.py", "json.so", "cmath.pyc", "queue.cpython-311-x86_64-linux-gnu.so"),
    *("hidden/cmath.py", "tests/cmath.pyd", "hidden/test_hidden/__init__.py", "hidden/test_hidden.abi3.so"),
    *("tests/conftest/__init__.py", "src/xml/__init__.py"),
]
OWN = [
    "utils.py",
    "code/main.c",
    "app/logging.py",
    "app/__init__.py",
    "tests/helper.py",
    "tests/__init__.py",
    "data/json.txt",
]


def test_new_modules_never_take_the_place_of_others(tmp_path: Path) -> None:
    task = Task(tmp_path, {**SOURCE, "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n'})
    found, unused = task.found(lambda after: write(after, dict.fromkeys([*SHADOWS, *OWN], "")))

    assert set(found) - set(task.source) - set(ADDED) == set(OWN)
    assert set(SHADOWS) <= set(unused)


def test_a_link_to_a_package_takes_no_place_either(task: Task) -> None:
    def link(after: Path) -> None:
        write(after, {"own/__init__.py": ""})
        (after / "json").symlink_to("own")

    assert task.found(link)[1] == ["json"]


def test_modules_of_the_source_may_be_changed(tmp_path: Path) -> None:
    task = Task(tmp_path, {"colorsys.py": "old", "pytest_timeout/__init__.py": "old"})
    changed = {"colorsys.py": "new", "pytest_timeout/__init__.py": "new", "pytest_timeout/more.py": "new"}

    found, unused = task.found(lambda after: write(after, changed))
    assert (found, unused) == ({**changed, **ADDED}, [])


def replace_by_link(after: Path) -> None:
    (after / "tests").rename(after / "other")
    (after / "other" / "cases.json").write_text("changed")
    (after / "tests").symlink_to("other")


def delete(after: Path) -> None:
    rmtree(after / "tests")


def replace_by_file(after: Path) -> None:
    (after / "tests").rename(after / "other")
    (after / "tests").write_text("")


@pytest.mark.parametrize("restore", ["tests/cases.json", "./tests/cases.json", "tests/c*.json"])
@pytest.mark.parametrize("change", [replace_by_link, replace_by_file, delete])
def test_restored_files_come_back_in_real_folders(task: Task, change: Callable[[Path], Any], restore: str) -> None:
    found, unused = task.found(change, restore=[restore])

    assert found["tests/cases.json"] == "cases"
    assert "tests/more.json" not in found
    assert unused == ["tests/cases.json"]


def test_a_link_leads_to_no_restored_file(task: Task) -> None:
    def link(after: Path) -> None:
        write(after, {"own/Makefile": "mine"})
        (after / "given").symlink_to("own")

    found, unused = task.found(link, restore=["given/Makefile"])
    assert "given/Makefile" not in found
    assert unused == ["given"]


@pytest.mark.parametrize("restore", ["tests/case.json", "hidden/*.json", "added"])
def test_no_check_restores_what_does_not_exist(task: Task, restore: str) -> None:
    with pytest.raises(WorkspaceError, match="is neither in the folder"):
        task.found(delete, restore=[restore])


def test_lost_files_that_steer_tests_come_back(tmp_path: Path) -> None:
    task = Task(tmp_path, {**SOURCE, "tests/conftest.py": "strict"})
    found, unused = task.found(replace_by_link)
    assert (found["tests/conftest.py"], unused) == ("strict", ["other/conftest.py", "tests/conftest.py"])


BESIDE_TESTS = [
    *("pkg/tests/__init__.py", "pkg/tests/program.py", "pkg/tests/pkg/core.py", "pkg/tests/sub/__init__.pyc"),
    *("pkg/tests/core.so", "pkg/tests/more.json"),
]


def test_folders_of_hidden_tests_come_from_the_source(tmp_path: Path) -> None:
    source = {"pkg/__init__.py": "old", "pkg/core.py": "old", "pkg/tests/__init__.py": "old"}
    task = Task(tmp_path, source, {"pkg/tests/test_core.py": "tests"})
    work = {"pkg/__init__.py": "new", "pkg/core.py": "new", "pkg/more.py": "new"}

    found, unused = task.found(lambda after: write(after, {**work, **dict.fromkeys(BESIDE_TESTS, "new")}))
    assert found == {**work, "pkg/tests/__init__.py": "old", "pkg/tests/test_core.py": "tests"}
    assert unused == sorted(BESIDE_TESTS)
    assert task.may_steer == ["pkg/__init__.py"]


def test_a_package_that_contains_hidden_tests_is_work(tmp_path: Path) -> None:
    task = Task(tmp_path, {"program.py": "old"}, {"calc/test_add.py": "tests"})
    work = {"calc/__init__.py": "new", "calc/add.py": "new", "calc/data.json": "new"}

    found, unused = task.found(lambda after: write(after, {**work, "calc/program.py": "cheat"}))
    assert (set(found), unused) == ({*work, "program.py", "calc/test_add.py"}, ["calc/program.py"])
    assert task.may_steer == ["calc/__init__.py"]


def test_restored_tests_are_imported_as_the_source_has_it(tmp_path: Path) -> None:
    task = Task(tmp_path, {**SOURCE, "tests/__init__.py": "old"})
    assert task.found(delete, restore=["tests/test_*.py"])[1] == ["tests/__init__.py", "tests/test_program.py"]

    rmtree(tmp_path / "after")
    cheat = {"tests/__init__.py": "cheat", "tests/program.py": "cheat"}
    assert task.found(lambda after: write(after, cheat), restore=["tests/test_*.py"])[1] == sorted(cheat)
