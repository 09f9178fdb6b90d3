"""A run over workspaces goes on with what still holds: the stage says which folder decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from karenina_agentic.prepare_workspace import PrepareWorkspace
from karenina_core import Question, VerificationConfig
from karenina_core.models.ports import SourceFolder
from karenina_toolkit.files.source_digest import digest_folder
from karenina_toolkit.files.workspace_copy import unique_name


def folders_of(root: Path, path: str = "one", **settings: object) -> list[SourceFolder]:
    config = VerificationConfig(workspace_root=root, **settings)
    return list(PrepareWorkspace().source_folders(config, Question(question="Which?", workspace_path=path)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    return tmp_path


def test_what_agents_get_a_copy_of_decides_the_result(root: Path) -> None:
    (source,) = folders_of(root)
    assert source.path == root / "one"


def test_a_linked_folder_beside_it_decides_the_result_too(root: Path) -> None:
    (root / "shared").mkdir()
    (root / "one/data").symlink_to("../shared")
    (source,) = folders_of(root)
    before = digest_folder(source)
    (root / "shared/table.csv").write_text("1")
    assert digest_folder(source) != before


@pytest.mark.parametrize("kind", ["run", "judge"])
def test_copies_that_other_runs_make_in_it_change_nothing(root: Path, kind: str) -> None:
    (source,) = folders_of(root)
    before = digest_folder(source)
    (root / "one" / unique_name("inner", kind, 1)).mkdir()  # type: ignore[arg-type]  # a table of its two values
    assert digest_folder(source) == before


def test_a_folder_that_agents_change_themselves_is_not_compared(root: Path) -> None:
    assert folders_of(root, workspace_copy=False) == []


@pytest.mark.parametrize("path", ["absent", "../one", "/etc"])
def test_a_folder_that_no_agent_will_see_is_not_read(root: Path, path: str) -> None:
    assert folders_of(root, path) == []
