"""Folders that a killed process has left: what a later run removes, and what it leaves alone."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from karenina_agentic.workspace_removal import remove_orphans
from karenina_toolkit.files.created_folders import CleanupList, CreatedFolder
from karenina_toolkit.files.workspace_copy import CLEANUP_LIST, unique_name

KILLED = """
import os, sys
from pathlib import Path
from karenina_toolkit.files.workspace_copy import unique_name
from karenina_toolkit.files.workspace_copy import create_folder
for name in sys.argv[2:]:
    folder = create_folder(Path(sys.argv[1]) / (name if name == "data" else unique_name(name, "run", None)))
    (folder.path / "inside").mkdir()
    print(folder.path, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the notes."""
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/workspaces"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "root").resolve()
    folder.mkdir()
    return folder


def killed(root: Path, *names: str) -> list[Path]:
    """The folders that a process has made before it was killed."""
    command = [sys.executable, "-c", KILLED, str(root), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


def test_folders_of_a_killed_process_are_removed_with_their_notes(root: Path, state: Path) -> None:
    first, second = killed(root, "one", "two")
    assert first.is_dir()
    assert second.is_dir()
    remove_orphans(root)
    assert list(root.iterdir()) == []
    assert list(state.iterdir()) == []


def test_folders_of_a_living_process_stay(root: Path, state: Path) -> None:
    folder = CreatedFolder.make(root / unique_name("one", "run", None))
    folders = CleanupList(CLEANUP_LIST.kind)  # that of the process may have folders of other tests
    folders.add(folder)
    try:
        remove_orphans(root)
        assert folder.path.is_dir()
    finally:
        folders.discard(folder)
    assert list(state.iterdir()) == []


def test_folders_of_a_forked_worker_are_noted_by_itself(root: Path, state: Path) -> None:
    mine = CreatedFolder.make(root / unique_name("one", "run", None))
    folders = CleanupList(CLEANUP_LIST.kind)
    folders.add(mine)
    worker = os.fork()
    if worker == 0:
        folders.add(CreatedFolder.make(root / unique_name("two", "run", None)))
        os.kill(os.getpid(), 9)
    os.waitpid(worker, 0)
    assert len(list(state.iterdir())) == 2
    remove_orphans(root)
    assert list(root.iterdir()) == [mine.path]
    folders.discard(mine)


def another_folder(left: Path) -> None:
    left.rename(left.with_name("moved"))
    left.mkdir()
    (left / "mine").touch()


def a_link(left: Path) -> None:
    another_folder(left)
    left.rename(left.with_name("mine"))
    left.symlink_to(left.with_name("mine"))


@pytest.mark.parametrize("replace", [another_folder, a_link])
def test_what_took_the_place_of_a_folder_stays(
    root: Path, state: Path, replace: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    (left,) = killed(root, "one")
    replace(left)
    with caplog.at_level(logging.WARNING, "karenina"):
        remove_orphans(root)
    assert (left / "mine").exists()
    assert f"{left} of a killed run was not removed" in caplog.text


def test_folders_outside_the_root_are_not_removed(root: Path, tmp_path: Path, state: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (inside,) = killed(root, "one")
    (outside,) = killed(tmp_path / "elsewhere", "one")
    remove_orphans(root)
    assert (inside.exists(), outside.exists()) == (False, True)
    remove_orphans(tmp_path.resolve())
    assert not outside.exists()


def test_a_folder_without_a_name_of_karenina_stays(root: Path, state: Path) -> None:
    (left,) = killed(root, "data")
    remove_orphans(root)
    assert left.exists()


def test_a_folder_that_is_named_alike_and_not_noted_stays(root: Path, state: Path) -> None:
    killed(root, "one")
    other = root / unique_name("two", "run", None)
    other.mkdir()
    remove_orphans(root)
    assert list(root.iterdir()) == [other]


@pytest.mark.parametrize("flaw", ["readable by others", "a link", "a second name"])
def test_a_note_that_others_may_have_written_is_not_used(
    root: Path, state: Path, tmp_path: Path, flaw: str, caplog: pytest.LogCaptureFixture
) -> None:
    (left,) = killed(root, "one")
    (note,) = state.iterdir()
    if flaw == "readable by others":
        note.chmod(0o644)
    elif flaw == "a link":
        note.rename(tmp_path / "note")
        note.symlink_to(tmp_path / "note")
    else:
        (tmp_path / "note").hardlink_to(note)
    with caplog.at_level(logging.WARNING, "karenina"):
        remove_orphans(root)
    assert left.exists()
    assert f"the workspaces listed in {note} could not be removed" in caplog.text


def test_a_state_folder_that_others_can_write_is_not_used(
    root: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (left,) = killed(root, "one")
    state.chmod(0o777)
    with caplog.at_level(logging.WARNING, "karenina"):
        remove_orphans(root)
    assert left.exists()
    assert "is writable by others" in caplog.text


def test_a_broken_note_is_passed_over(root: Path, state: Path) -> None:
    (left,) = killed(root, "one")
    (note,) = state.iterdir()
    good = note.read_text()
    note.write_text(f'no JSON\n[]\n{{"path": "relative", "device": 1, "inode": 1}}\n{good}{{"path": "/cut')
    remove_orphans(root)
    assert not left.exists()


def test_a_state_folder_that_cannot_be_written_costs_a_warning(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "file"))
    folder = CreatedFolder.make(root / unique_name("one", "run", None))
    notes = CleanupList("workspaces")
    with caplog.at_level(logging.WARNING, "karenina"):
        notes.add(folder)
        notes.discard(folder)
    assert "workspaces could not be recorded, so they will remain if the run is killed" in caplog.text
