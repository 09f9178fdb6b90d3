"""Agents, strangers' benchmarks and workspaces cannot access or remove anything outside their folder.

Nothing outside is read, copied, written or removed; nothing in a workspace makes a copy wait or fill the disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from folders import nest_folders, write_files
from servers import recording_server

from karenina_core.models.ports import Message, SourceFolder, ToolCall
from karenina_toolkit.agents.tools import run_tool
from karenina_toolkit.agents.workspace_tools import make_workspace_tools
from karenina_toolkit.files.created_folders import CreatedFolder, FolderReplaced
from karenina_toolkit.files.source_digest import digest_folder
from karenina_toolkit.files.workspace_copy import WorkspaceError, copy_folder

if TYPE_CHECKING:
    from conftest import Environment

SECRET = "SECRET-4711-OF-THE-USER"
BENCHMARK = """karenina: 1
name: stranger
workspace_root: {root}
questions:
  - id: one
    question: Which code is in the file?
    raw_answer: QX1
    workspace_path: {path}
    answer:
      code: {{description: The code, ground_truth: QX1}}
"""


def read_path(*paths: str) -> Any:
    """Return a judge that reads these paths of its workspace, one a turn, and reports what it got."""
    calls = [("read_file", {"path": path}) for path in paths]

    def reply(body: Mapping[str, Any]) -> Any:
        if "response_format" in body:
            return json.dumps({"code": "QX1"})
        done = sum(message["role"] == "assistant" for message in body["messages"])
        if "tools" not in body or done >= len(calls):
            return "The report."
        name, arguments = calls[done]
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"content": None, "tool_calls": [{"id": f"c{done}", "type": "function", "function": function}]}

    return reply


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a workspace root with one workspace, and a secret beside the root."""
    write_files(tmp_path, {"root/task/data/code.txt": "QX1", "secret.txt": SECRET})
    return tmp_path / "root"


def attack(
    site: Environment, root: Path, path: str, *settings: str, reads: tuple[str, ...] = (), script: bool = False
) -> tuple[str, str]:
    """Run a benchmark with this `workspace_path`; return its output and all requests to the stranger's server."""
    file = site.write("stranger.yaml", BENCHMARK.format(root=root, path=json.dumps(path)))
    with recording_server(read_path(*reads)) as server:
        model = f"openai:m@{server.url}"
        chosen = [
            part for one in ("agentic_parsing=true", f"workspace_root={root}", *settings) for part in ("--set", one)
        ]
        done = site.karenina("run", file, "-a", model, "-j", model, *chosen, "--json", "--trust-all", script=script)
        assert done.returncode in (0, 1, 2, 4), done.stderr
        return done.stdout + done.stderr, "\n".join(server.seen)


def call(root: Path, tool: str, **arguments: Any) -> Message:
    """Return the result of one call of a workspace tool."""
    tools = {one.name: one for one in make_workspace_tools(root)}
    return asyncio.run(run_tool(ToolCall("1", tool, arguments), tools))


@contextmanager
def swap_folder(place: Path, target: Path) -> Iterator[None]:
    """Put a link to `target` in the place of a folder and back, as fast as it goes."""
    stop, aside, link = threading.Event(), place.with_name("aside"), place.with_name("swap-link")
    link.symlink_to(target)

    def swap() -> None:
        while not stop.is_set():
            place.rename(aside)
            with suppress(OSError):  # what is attacked may have made a folder there
                link.rename(place)
                place.rename(link)
            while aside.exists():
                shutil.rmtree(place, ignore_errors=True)
                with suppress(OSError):
                    aside.rename(place)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("copied", ["true", "false"])
@pytest.mark.parametrize("target", ["../../../secret.txt", "../../..", "/etc", "hop"])
def test_links_in_a_workspace_lead_nowhere_outside(site: Environment, root: Path, target: str, copied: str) -> None:
    """Attack: a workspace with a link to a file or folder outside, also over two links, which the judge is to read."""
    (root / "task/data/link").symlink_to(target)
    (root / "task/data/hop").symlink_to("../../../secret.txt")

    reads = ("data/link", "data/link/secret.txt", "data/link/passwd", "data/hop")
    printed, sent = attack(site, root, "task", f"workspace_copy={copied}", reads=reads)

    assert "is a link that points outside the workspace root" in printed
    assert SECRET not in printed + sent
    assert "root:" not in printed + sent


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("..", "must be a path relative to the workspace root"),
        ("../root/../", "must be a path relative to the workspace root"),
        ("task/../..", "must be a path relative to the workspace root"),
        ("/etc", "must be a path relative to the workspace root"),
        (".", "is the workspace root itself"),
        ("out", "is a link that points outside the workspace root"),
        ("task\n", "does not exist"),
        ("t\u202eask", "does not exist"),
    ],
)
def test_a_workspace_path_names_nothing_outside(site: Environment, root: Path, path: str, why: str) -> None:
    """Attack: a `workspace_path` that is absolute, goes up, is a link that leaves the root, or is a trick of names."""
    (root.parent / "documents").mkdir()
    (root.parent / "documents/secret.txt").write_text(SECRET)
    (root / "out").symlink_to("../documents")

    printed, sent = attack(site, root, path, "workspace_copy=false", reads=("secret.txt", "../secret.txt"))

    assert why in printed
    assert SECRET not in printed + sent
    assert sorted(one.name for one in root.iterdir()) == ["out", "task"]


def test_a_linked_root_is_resolved_to_its_folder(site: Environment, root: Path, tmp_path: Path) -> None:
    """Attack: none; the user's own root may be a link, and its target is the limit then."""
    (tmp_path / "link").symlink_to(root)
    (root / "task/data/out").symlink_to(tmp_path / "link/task/data/code.txt")

    printed, sent = attack(site, tmp_path / "link", "task", reads=("data/out",))

    assert '"correct"' in printed
    assert "QX1" in sent
    assert [one.name for one in root.iterdir()] == ["task"]


def test_a_link_swapped_in_during_a_copy_is_not_followed(root: Path, tmp_path: Path) -> None:
    """Attack: a program that the answering agent left behind swaps a folder while the judge's copy is made."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "code.txt").write_text(SECRET)
    found = set()
    with swap_folder(root / "task/data", outside):
        for number in range(150):
            copy = tmp_path / f"copy{number}"
            try:
                copy_folder(root / "task", copy, root, lambda _place, _why: None)
            except WorkspaceError:
                continue
            found |= {file.read_text() for file in copy.rglob("*.txt")}
    assert SECRET not in found


@pytest.mark.parametrize("tool", ["read_file", "search_files", "list_files"])
def test_a_link_swapped_in_during_a_call_is_not_read(root: Path, tmp_path: Path, tool: str) -> None:
    """Attack: the same while the workspace's own tools read."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "code.txt").write_text(SECRET)
    (outside / SECRET).write_text("")
    arguments = {"read_file": {"path": "data/code.txt"}, "search_files": {"pattern": "SECRET"}, "list_files": {}}
    with swap_folder(root / "task/data", outside):
        said = {call(root / "task", tool, **arguments[tool]).content for _ in range(400)}
    assert not [one for one in said if SECRET in one]


def test_a_link_swapped_in_during_a_call_is_not_written(root: Path, tmp_path: Path) -> None:
    """Attack: the same while `write_file` writes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "code.txt").write_text("mine")
    with swap_folder(root / "task/data", outside):
        for number in range(150):
            call(root / "task", "write_file", path="data/code.txt", content="theirs")
            call(root / "task", "write_file", path=f"data/new{number}.txt", content="theirs")
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("code.txt", "mine")]


def test_writing_changes_no_other_name_of_a_file(root: Path, tmp_path: Path) -> None:
    """Attack: a hard link in a workspace that is used without a copy; `write_file` changed the file outside."""
    os.link(tmp_path / "secret.txt", root / "task/notes.txt")

    said = call(root / "task", "write_file", path="notes.txt", content="theirs")

    assert not said.is_error, said.content
    assert (root / "task/notes.txt").read_text() == "theirs"
    assert (tmp_path / "secret.txt").read_text() == SECRET


def test_an_answers_workspace_replaced_by_a_link_is_not_judged(root: Path, tmp_path: Path) -> None:
    """Attack: the answering agent replaces its workspace by a link to a folder inside or outside of the root."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/thesis.txt").write_text(SECRET)
    workspace = root / "task_run_x"
    workspace.symlink_to(tmp_path / "documents")

    with pytest.raises(WorkspaceError, match="cannot be copied"):
        copy_folder(workspace, tmp_path / "copy", root, lambda _place, _why: None)
    assert not list((tmp_path / "copy").iterdir())


@pytest.mark.parametrize("copied", ["true", "false"])
def test_pipes_sockets_and_devices_are_not_waited_for(site: Environment, root: Path, copied: str) -> None:
    """Attack: a workspace with what cannot be copied, and which whoever opens it waits for."""
    os.mkfifo(root / "task/pipe")
    with socket.socket(socket.AF_UNIX) as bound, chdir(root / "task"):  # a socket's address is short
        bound.bind("socket")
    printed, _ = attack(site, root, "task", f"workspace_copy={copied}", reads=("pipe", "socket", "data/code.txt"))

    if copied == "true":
        assert "is neither a file nor a folder" in printed
    left: list[str] = []
    copy_folder(root / "task", root / "copy", root, lambda place, _why: left.append(place.name))
    assert sorted(left) == ["pipe", "socket"]


def test_a_file_of_a_terabyte_fills_no_disk(site: Environment, root: Path) -> None:
    """Attack: a sparse file, which takes no room in the stranger's archive and all of it in a copy."""
    with (root / "task/huge.bin").open("wb") as file:
        file.truncate(10**12)

    printed, _ = attack(site, root, "task", script=True)

    assert "workspace_max_bytes" in printed
    assert [one.name for one in root.iterdir()] == ["task"]
    assert digest_folder(SourceFolder(root / "task"))


def test_a_tree_that_is_too_deep_is_refused_and_removed(root: Path) -> None:
    """Attack: folders in folders, which no path can name and on which a recursive removal fails."""
    folder = CreatedFolder.make(root / "deep")
    nest_folders(folder.path, 6000)

    with pytest.raises(WorkspaceError, match="more than 100 folders"):
        copy_folder(folder.path, root / "copy", root)
    assert "[1] " not in call(folder.path, "list_files").content
    folder.remove()
    assert not folder.path.exists()


@pytest.mark.parametrize("name", ["a\nresult.txt (9 bytes)", "b\x1b[2K", "c\u202ed", "d\udcff"])
def test_names_of_files_forge_no_entry(site: Environment, root: Path, name: str) -> None:
    """Attack: names with line breaks and control characters, which the judge's list of files would show as entries."""
    (root / "task" / name).write_text("x")

    printed, _ = attack(site, root, "task", reads=("data/code.txt",))
    said = call(root / "task", "list_files").content

    assert '"correct"' in printed
    assert len(said.splitlines()) == 2
    assert said.isascii()
    assert "\x1b" not in said


@pytest.mark.parametrize("replaced_by", ["a link", "another folder", "a file"])
def test_what_took_the_place_of_a_workspace_is_not_removed(root: Path, tmp_path: Path, replaced_by: str) -> None:
    """Attack: move a folder of the user to the place of the workspace, or a link to it, and let the run clean up."""
    mine = tmp_path / "documents"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    workspace = CreatedFolder.make(root / "task_run_x")
    workspace.path.rename(root / "aside")
    if replaced_by == "a link":
        workspace.path.symlink_to(mine)
    elif replaced_by == "another folder":
        mine.rename(workspace.path)
    else:
        (mine / "thesis.txt").rename(workspace.path)

    with pytest.raises(FolderReplaced, match="not touched"):
        workspace.remove()
    kept = {"a link": mine / "thesis.txt", "another folder": workspace.path / "thesis.txt"}
    assert kept.get(replaced_by, workspace.path).read_text() == "mine"


def test_a_folder_with_a_forged_owner_note_is_not_removed(site: Environment, root: Path) -> None:
    """Attack: bring a folder with a name as runs give it, and a note of it with its true device and inode."""
    mine = root / "task_run_20260101T000000_pid1_0123abcd"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    found = mine.stat()
    noted = {"path": str(mine), "device": found.st_dev, "inode": found.st_ino, "machine": platform.node()}
    for folder in (root, mine, root / "task", root.parent):
        (folder / "workspaces").mkdir()
        for file in (folder / "workspaces/1-0123456789abcdef.jsonl", folder / "1-0123456789abcdef.jsonl"):
            file.write_text(json.dumps(noted) + "\n")
            file.chmod(0o600)
    attack(site, root, "task")
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_a_workspace_behind_a_link_is_not_emptied(root: Path, tmp_path: Path) -> None:
    """Attack: the agent moves its workspace to a folder of the user, and leaves a link to it in its place."""
    workspace = CreatedFolder.make(root / "task_run_x")
    workspace.path.rename(tmp_path / "documents")
    (tmp_path / "documents/thesis.txt").write_text("mine")
    workspace.path.symlink_to(tmp_path / "documents")

    with pytest.raises(FolderReplaced, match="not touched"):
        workspace.remove()
    assert (tmp_path / "documents/thesis.txt").read_text() == "mine"


def test_an_existing_folder_is_not_used_as_a_workspace(root: Path) -> None:
    """Attack: have a folder of the user at the place where a workspace is to be made."""
    (root / "mine").mkdir()
    with pytest.raises(FileExistsError):
        CreatedFolder.make(root / "mine")


def test_links_in_a_removed_workspace_are_removed_and_not_followed(root: Path, tmp_path: Path) -> None:
    """Attack: links to folders of the user, at every level, in a workspace that the run removes."""
    (tmp_path / "documents/deep").mkdir(parents=True)
    (tmp_path / "documents/deep/thesis.txt").write_text("mine")
    workspace = CreatedFolder.make(root / "task_run_x")
    (workspace.path / "a/b").mkdir(parents=True)
    for place in (".", "a", "a/b"):
        (workspace.path / place / "link").symlink_to(tmp_path / "documents")
        os.link(tmp_path / "secret.txt", workspace.path / place / "hard")

    workspace.remove()

    assert not workspace.path.exists()
    assert (tmp_path / "documents/deep/thesis.txt").read_text() == "mine"
    assert (tmp_path / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("copied", ["true", "false"])
def test_a_folder_that_a_benchmark_names_is_never_removed(site: Environment, root: Path, copied: str) -> None:
    """Attack: a benchmark names a folder of the user that is called as the folders of runs are."""
    name = "task_run_20260101T000000_pid1_0123abcd"
    (root / name).mkdir()
    (root / name / "thesis.txt").write_text("mine")

    attack(site, root, name, f"workspace_copy={copied}", reads=("thesis.txt",))

    assert (root / name / "thesis.txt").read_text() == "mine"
    assert sorted(one.name for one in root.iterdir()) == ["task", name]
