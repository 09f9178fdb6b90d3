"""PrepareWorkspace: which folder an answer gets, what is refused, and what is removed."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agentic_models import question
from folders import nest_folders, write_files

from karenina_agentic.prepare_workspace import PrepareWorkspace
from karenina_core import ArtifactKeys as Keys
from karenina_core import Question
from karenina_core.data.rubrics import AgenticRubricTrait, LLMRubricTrait, Rubric
from karenina_testing import StageRun, run_stage
from karenina_toolkit.files.created_folders import CreatedFolder
from karenina_toolkit.files.workspace_copy import WorkspaceError, copy_folder

pytestmark = pytest.mark.alone


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace root with the folder of one question."""
    return write_files(tmp_path / "root", {"task/data/code.txt": "42"})


def prepare(root: Path | None, path: str | None = "task", **settings: Any) -> StageRun:
    asked = question(workspace_path=path)
    chosen = {"agentic_parsing": True, "workspace_root": root, **settings}
    return asyncio.run(run_stage(PrepareWorkspace, question=asked, **chosen))


def made(run: StageRun) -> Path:
    folder = run.artifact(Keys.WORKSPACE_PATH)
    assert run.error is None
    assert folder is not None
    return folder


def test_the_workspace_is_a_copy_beside_the_questions_folder(root: Path) -> None:
    folder = made(prepare(root))
    assert folder.parent == root
    assert re.fullmatch(rf"task_run_\d{{8}}T\d{{6}}_pid{os.getpid()}_[0-9a-f]{{8}}", folder.name)
    (folder / "data/code.txt").write_text("changed")
    assert (root / "task/data/code.txt").read_text() == "42"


def test_the_replicate_stands_in_the_name_where_there_are_several(root: Path) -> None:
    assert "_rep1_" in made(prepare(root, replicate_count=2)).name


def test_without_a_folder_the_workspace_is_empty(root: Path) -> None:
    asked = Question(question="Which?", id="urn:some/../id")
    run = asyncio.run(run_stage(PrepareWorkspace, question=asked, agentic_parsing=True, workspace_root=root))
    folder = made(run)
    assert (folder.parent, list(folder.iterdir())) == (root, [])
    assert folder.name.startswith("urn-some-..-id_run_")


def test_concurrent_answers_have_their_own_folders(root: Path) -> None:
    async def several() -> list[StageRun]:
        asked = question(workspace_path="task")
        one = {"question": asked, "agentic_parsing": True, "workspace_root": root}
        return await asyncio.gather(*(run_stage(PrepareWorkspace, **one) for _ in range(20)))

    folders = {made(run) for run in asyncio.run(several())}
    assert len(folders) == 20
    assert {(folder / "data/code.txt").read_text() for folder in folders} == {"42"}


def leaving(root: Path, target: str) -> None:
    (root / "task/data/link").symlink_to(target)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("absent", "the folder 'absent' does not exist"),
        ("task/data/code.txt", "code.txt' does not exist"),
        ("../root/task", "without '..'"),
        ("task/../../other", "without '..'"),
        ("/etc", "a path relative to the workspace root"),
        (".", "the workspace root itself"),
        ("", "the workspace root itself"),
        ("task\0", "without '..' or null characters"),
        ("out", "is a link that points outside the workspace root"),
        ("circle", "cannot be used"),
    ],
)
def test_a_missing_or_outside_folder_fails_the_item(root: Path, path: str, told: str) -> None:
    (root / "out").symlink_to(root.parent)
    (root / "circle").symlink_to("circle")
    run = prepare(root, path)
    assert run.error is not None
    assert told in run.error.message
    assert run.artifact(Keys.WORKSPACE_PATH) is None


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../../secret.txt", "../../.."])
def test_a_link_out_of_the_root_fails_the_item(root: Path, target: str, copied: bool) -> None:
    (root.parent / "secret.txt").write_text("secret")
    leaving(root, target)

    async def whole() -> StageRun:
        asked = question(workspace_path="task")
        run = await run_stage(
            PrepareWorkspace, question=asked, agentic_parsing=True, workspace_root=root, workspace_copy=copied
        )
        await run.end()
        return run

    run = asyncio.run(whole())
    assert run.error is not None
    assert "is a link that points outside the workspace root" in run.error.message
    assert [one.name for one in root.iterdir()] == ["task"]


def test_links_inside_the_root_are_replaced_by_copies(root: Path) -> None:
    (root / "shared").mkdir()
    (root / "shared/table.csv").write_text("1,2")
    (root / "task/file").symlink_to(root / "shared/table.csv")
    (root / "task/folder").symlink_to("../shared")
    (root / "task/nowhere").symlink_to("absent")
    folder = made(prepare(root))
    assert not (folder / "file").is_symlink()
    (folder / "file").write_text("changed")
    (folder / "folder/table.csv").write_text("changed")
    assert (root / "shared/table.csv").read_text() == "1,2"
    assert (folder / "nowhere").readlink() == Path("absent")


@pytest.mark.parametrize("target", ["../data", ".."])
def test_circular_links_are_an_error(root: Path, target: str) -> None:
    leaving(root, target)
    error = prepare(root).error
    assert error is not None
    assert "is a link to a folder that contains it" in error.message


def test_a_pipe_is_an_error_and_no_endless_wait(root: Path) -> None:
    os.mkfifo(root / "task/pipe")
    error = prepare(root).error
    assert error is not None
    assert "neither a file nor a folder" in error.message


def test_copies_of_other_answers_inside_the_folder_are_not_copied(root: Path) -> None:
    inner = made(prepare(root, "task/data"))
    outer = made(prepare(root, "task"))
    assert inner.parent == root / "task"
    assert sorted(one.name for one in outer.iterdir()) == ["data"]


@pytest.mark.parametrize(
    ("root_given", "told"), [(None, "set workspace_root"), ("absent", "is not a folder"), ("file", "is not a folder")]
)
def test_a_missing_root_fails_the_item(tmp_path: Path, root_given: str | None, told: str) -> None:
    (tmp_path / "file").write_text("")
    run = prepare(tmp_path / root_given if root_given else None)
    assert run.error is not None
    assert told in run.error.message


def test_no_workspace_is_needed_without_an_agent() -> None:
    run = prepare(None, None, agentic_judge_context="trace_only")
    assert (run.error, run.artifact(Keys.WORKSPACE_PATH)) == (None, None)
    assert Keys.WORKSPACE_PATH.name in run.state.artifacts


@pytest.mark.parametrize(
    ("settings", "path", "left"),
    [
        ({}, "task", False),
        ({}, None, False),
        ({"workspace_cleanup": False}, "task", True),
        ({"workspace_cleanup": False}, None, True),
        ({"workspace_copy": False}, "task", True),
        ({"workspace_copy": False, "workspace_cleanup": True}, "task", True),
        ({"workspace_copy": False}, None, False),
    ],
)
def test_only_a_copy_is_removed_and_only_if_wanted(
    root: Path, settings: dict[str, Any], path: str | None, left: bool
) -> None:
    async def whole() -> tuple[StageRun, bool]:
        run = await run_stage(
            PrepareWorkspace,
            question=question(workspace_path=path),
            **{"agentic_parsing": True, "workspace_root": root, **settings},
        )
        there = made(run).is_dir()
        await run.end()
        return run, there

    run, was_there = asyncio.run(whole())
    assert was_there
    assert made(run).exists() is left
    assert (root / "task/data/code.txt").read_text() == "42"


def test_without_a_copy_the_questions_folder_is_used(root: Path) -> None:
    assert made(prepare(root, workspace_copy=False)) == root / "task"


def test_a_removal_that_fails_is_a_warning(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def whole() -> None:
        run = await run_stage(
            PrepareWorkspace, question=question(workspace_path="task"), agentic_parsing=True, workspace_root=root
        )
        shutil.rmtree(made(run))
        made(run).write_text("in its place")
        await run.end()

    with caplog.at_level(logging.WARNING, "karenina"):
        asyncio.run(whole())
    assert [(one.levelname, "could not be removed" in one.message) for one in caplog.records] == [("WARNING", True)]


def test_a_workspace_that_is_gone_already_is_no_warning(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def whole() -> None:
        run = await run_stage(
            PrepareWorkspace, question=question(workspace_path="task"), agentic_parsing=True, workspace_root=root
        )
        shutil.rmtree(made(run))
        await run.end()

    with caplog.at_level(logging.WARNING, "karenina"):
        asyncio.run(whole())
    assert caplog.records == []


@pytest.mark.parametrize(
    ("points_at", "why"),
    [
        ("/etc/passwd", "is a link that points outside the workspace root"),
        ("link", "is a circular link"),
        (".", "is a link to a folder that contains it"),
        ("../..", "is a link to a folder that contains it"),
        (None, "is neither a file nor a folder"),
    ],
)
def test_a_judges_copy_skips_files_that_cannot_be_copied(root: Path, points_at: str | None, why: str) -> None:
    place = root / "task/data/link"
    if points_at is None:
        os.mkfifo(place)
    else:
        place.symlink_to(points_at)
    seen: list[tuple[Path, str]] = []
    copy_folder(root / "task", root / "copy", root, lambda *said: seen.append(said))
    assert [(one, why in reason) for one, reason in seen] == [(place, True)]
    assert [one.name for one in (root / "copy/data").iterdir()] == ["code.txt"]
    with pytest.raises(WorkspaceError, match=f"task/data/link .*{why}"):
        copy_folder(root / "task", root / "other", root)


@pytest.mark.parametrize(
    ("parsing", "trait", "included"),
    [
        (False, None, False),
        (True, None, True),
        (False, LLMRubricTrait(name="t"), False),
        (False, AgenticRubricTrait(name="t"), True),
    ],
)
def test_it_is_in_the_plan_where_an_agent_judges(
    root: Path, parsing: bool, trait: AgenticRubricTrait | LLMRubricTrait | None, included: bool
) -> None:
    from karenina_core import VerificationConfig

    config = VerificationConfig(agentic_parsing=parsing, workspace_root=root)
    asked = question(rubric=Rubric.of(trait) if trait is not None else None)
    assert bool(PrepareWorkspace().included(config, asked)) is included


def test_a_copy_is_bounded_in_depth_and_links(tmp_path: Path) -> None:
    from karenina_toolkit.files.workspace_copy import DEEPEST, MOST_LINKED

    source = tmp_path / "deep"
    own = CreatedFolder.make(source)
    nest_folders(source, 5000)
    left: list[str] = []
    copy_folder(source, tmp_path / "copy", tmp_path, lambda _place, why: left.append(why))
    assert left == [f"is nested in more than {DEEPEST} folders"]
    own.remove()
    assert not source.exists()

    many = tmp_path / "many"
    (many / "real").mkdir(parents=True)
    for number in range(MOST_LINKED + 3):
        (many / f"link{number}").symlink_to(many / "real")
    left.clear()
    copy_folder(many, tmp_path / "copied", tmp_path, lambda _place, why: left.append(why))
    assert len(left) == 3


def test_unreadable_files_are_skipped_and_named() -> None:
    """An agent could else spare its answer the judgement with `chmod 000`."""
    with tempfile.TemporaryDirectory() as made:
        top = Path(made)
        source = top / "work"
        (source / "closed").mkdir(parents=True)
        (source / "open.txt").write_text("open")
        (source / "secret.txt").write_text("closed")
        (source / "secret.txt").chmod(0)
        (source / "closed").chmod(0)
        top.chmod(0o777)
        left: dict[str, str] = {}
        with an_ordinary_user():
            copy_folder(source, top / "copy", top, lambda place, why: left.update({place.name: why}))
            copied = sorted(path.name for path in (top / "copy").iterdir())
        assert copied == ["open.txt"]
        assert left == {"closed": "cannot be opened", "secret.txt": "cannot be read"}


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """Run as a user for whom permissions apply: `nobody` for a while if the tests run as root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
