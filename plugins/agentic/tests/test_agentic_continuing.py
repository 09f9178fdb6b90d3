"""A run over workspaces goes on with what still holds: not where a file has changed since."""

from __future__ import annotations

from pathlib import Path

from karenina_core import Question, VerificationConfig
from karenina_core.run.sources import folder_digest, source_folder


def folder_of(root: Path, **settings: object) -> Path | None:
    config = VerificationConfig(workspace_root=root, **settings)
    return source_folder(config, Question(question="Which?", workspace_path="one"))


def test_what_agents_get_a_copy_of_decides_the_result(tmp_path: Path) -> None:
    (tmp_path / "one/data").mkdir(parents=True)
    (tmp_path / "one/data/table.csv").write_text("1")
    folder = folder_of(tmp_path)
    assert folder == tmp_path / "one"
    before = folder_digest(folder)

    (tmp_path / "one/data/table.csv").write_text("2")
    changed = folder_digest(folder)
    (tmp_path / "one/more").mkdir()
    assert len({before, changed, folder_digest(folder)}) == 3
    (tmp_path / "one/more").rmdir()
    (tmp_path / "one/data/table.csv").write_text("1")
    assert folder_digest(folder) == before


def test_copies_that_other_runs_make_beside_it_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    before = folder_digest(tmp_path / "one")
    (tmp_path / "one/inner_run_20260101T000000_pid7_0011aabb").mkdir()
    assert folder_digest(tmp_path / "one") == before


def test_a_folder_that_agents_change_themselves_is_not_compared(tmp_path: Path) -> None:
    assert folder_of(tmp_path, workspace_copy=False) is None
