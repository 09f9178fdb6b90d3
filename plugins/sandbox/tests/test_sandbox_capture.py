"""What changed in a workspace is found and made again, whatever a program left in it."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_sandbox.capture.folders import LEFT_OUT, apply_patch, compare_folders
from karenina_sandbox.capture.trees import DEEPEST, read_below
from karenina_sandbox.patch import Patch, PatchEntry
from karenina_sandbox.providers.bwrap import BwrapProvider
from karenina_sandbox.sandbox import Policy

pytestmark = pytest.mark.alone

Tree = Mapping[str, object]
WHY = BwrapProvider().unavailable()
NAMES = st.sampled_from(["a", "b", "line\nbreak", "not-utf8-\udcff", "-rf", "ä", " ", "x.pyc", "__pycache__"])
FILES = st.tuples(
    st.sampled_from([b"", b"a\n", b"a\nb\n", b"no end", b"\0\xff", b"x" * 70_000]),
    st.sampled_from([0o644, 0o755, 0o600, 0o000]),
)
LINKS = st.sampled_from(["a", "/etc/passwd", "../..", "missing"])
TREES = st.recursive(
    st.one_of(FILES, LINKS), lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
).filter(lambda tree: isinstance(tree, dict))


def write_tree(folder: Path, tree: Tree) -> None:
    """Create the files of a tree: contents with a mode, targets of links, or folders."""
    for name, value in tree.items():
        place = folder / name
        if isinstance(value, str):
            place.symlink_to(value)
        elif isinstance(value, tuple):
            place.write_bytes(value[0])
            place.chmod(value[1])
        else:
            assert isinstance(value, dict)
            place.mkdir()
            write_tree(place, value)


def read_locked(place: Path) -> bytes:
    """Return the content of a file that its owner may not read."""
    mode = place.stat().st_mode
    place.chmod(0o600)
    content = place.read_bytes()
    place.chmod(mode)
    return content


def read_tree(folder: Path) -> dict[str, object]:
    """Return all files of a folder with what patches keep of them."""
    found: dict[str, object] = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in {*folders, *files} - LEFT_OUT:
            place = Path(parent, name)
            mode = stat.S_IMODE(place.lstat().st_mode)
            key = os.path.relpath(place, folder)
            if place.is_symlink():
                found[key] = str(place.readlink())
            else:
                found[key] = (mode, read_locked(place) if place.is_file() else None)
    return found


@given(TREES, TREES)
def test_a_patch_makes_the_same_tree_again(tmp_path_factory: pytest.TempPathFactory, before: Tree, after: Tree) -> None:
    folder = tmp_path_factory.mktemp("trees")
    for name, tree in (("source", before), ("again", before), ("changed", after)):
        (folder / name).mkdir()
        write_tree(folder / name, tree)
    patch = compare_folders(folder / "source", folder / "changed")
    apply_patch(Patch.from_json(patch.to_json()), folder / "again")
    assert read_tree(folder / "again") == read_tree(folder / "changed")
    assert not compare_folders(folder / "again", folder / "changed")


@pytest.mark.skipif(WHY is not None, reason=str(WHY))
@given(TREES, TREES)
def test_overlay_and_copy_give_the_same_patch(
    tmp_path_factory: pytest.TempPathFactory, before: Tree, after: Tree
) -> None:
    folder = tmp_path_factory.mktemp("layers")
    for name, tree in (("source", before), ("changed", after)):
        (folder / name).mkdir()
        write_tree(folder / name, tree)
    patches = [asyncio.run(replace_files(folder / "source", folder / "changed", way)) for way in ("overlay", "copy")]
    expected = compare_folders(folder / "source", folder / "changed")
    assert [patch.digest for patch in patches] == [expected.digest] * 2
    assert patches[0] == patches[1] == expected


def pack_files(folder: Path) -> bytes:
    """Return an archive of a folder, also of files that their owner may not read."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                place = Path(parent, name)
                entry = archive.gettarinfo(place, os.path.relpath(place, folder))
                archive.addfile(entry, io.BytesIO(read_locked(place)) if entry.isreg() else None)
    return packed.getvalue()


async def replace_files(source: Path, changed: Path, layers: Literal["overlay", "copy"]) -> Patch:
    """Return the patch of a sandbox in which all files were replaced by those in `changed`."""
    async with BwrapProvider(layers=layers).open(source, Policy()) as sandbox:
        command = ["sh", "-c", "find . -mindepth 1 -delete && tar -xp --no-same-owner && touch -d @0 ."]
        result = await sandbox.run(command, stdin=pack_files(changed))
        assert result.exit == 0, result.error_output
        return await sandbox.patch()


async def run_in_sandbox(source: Path, script: str, layers: Literal["overlay", "copy"] | None = None) -> Patch:
    """Return the patch after a shell script."""
    async with BwrapProvider(layers=layers).open(source, Policy()) as sandbox:
        result = await sandbox.run(["sh", "-c", script])
        assert result.exit == 0, result.error_output
        return await sandbox.patch()


@pytest.mark.skipif(WHY is not None, reason=str(WHY))
@pytest.mark.parametrize("layers", ["overlay", "copy"])
@pytest.mark.parametrize(
    ("script", "changes"),
    [
        ("rm file", {"file": "deleted"}),
        ("rm -r folder", {"folder": "deleted"}),
        ("rm -r folder && echo x > folder", {"folder": "file"}),
        ("rm file && mkdir file && echo x > file/x", {"file": "directory", "file/x": "file"}),
        ("rm -r folder && mkdir folder && echo y > folder/y", {"folder/x": "deleted", "folder/y": "file"}),
        ("rm file && mkdir file && rmdir file && printf content > file", {}),
        ("mv folder moved", {"folder": "deleted", "moved": "directory", "moved/x": "file"}),
        ("chmod 700 file folder", {"file": "file", "folder": "directory"}),
        ("ln -sf folder/x file", {"file": "link"}),
        ("ln folder/x hard", {"hard": "file"}),
        (": > file", {"file": "file"}),
        ("touch file", {}),
        ("mkdir -p .git __pycache__ && echo x > .git/x && echo x > __pycache__/y", {}),
        ("chmod 000 folder", {"folder": "directory"}),
    ],
)
def test_each_change_has_its_entry(tmp_path: Path, script: str, changes: dict[str, str], layers: Any) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("content")
    (tmp_path / "folder" / "x").write_text("x")
    patch = asyncio.run(run_in_sandbox(tmp_path, script, layers))
    assert {entry.path: entry.kind for entry in patch.entries} == changes
    assert not patch.left_out


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder with what must not be opened, followed or read to the end."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(folder / "socket"))
    with (folder / "sparse").open("wb") as file:
        file.truncate(10 * 2**30)
    (folder / "loop").symlink_to("loop")
    (folder / "out").symlink_to("/")
    if os.geteuid() == 0:
        os.mknod(folder / "device", stat.S_IFBLK | 0o600, os.makedev(8, 0))
    place = folder
    for _ in range(DEEPEST + 20):
        place = place / "d"
        place.mkdir()
    return folder


def test_hostile_files_are_left_out_with_a_reason(hostile: Path, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    patch = compare_folders(tmp_path / "source", hostile)
    reasons = dict(line.split(": ", 1) for line in patch.left_out)
    assert {"fifo", "socket", "sparse"} < reasons.keys()
    assert any("nested in more than" in reason for reason in reasons.values())
    assert {entry.path for entry in patch.entries if entry.kind == "link"} == {"loop", "out"}


def test_a_file_that_becomes_a_pipe_is_deleted(tmp_path: Path) -> None:
    for name in ("source", "changed"):
        (tmp_path / name).mkdir()
    (tmp_path / "source" / "x").touch()
    os.mkfifo(tmp_path / "changed" / "x")
    patch = compare_folders(tmp_path / "source", tmp_path / "changed")
    assert patch.entries == (PatchEntry("x", "deleted"),)
    assert patch.left_out == ("x: is neither a file, a folder nor a link",)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "", "a//b", "nul\0", "d/" * 200 + "x"])
def test_a_patch_never_writes_outside_its_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "inside").mkdir()
    for entry in (PatchEntry(path, "file", 0o644, content=b"x"), PatchEntry(path, "deleted")):
        with pytest.raises(ValueError, match="outside the folder"):
            apply_patch(Patch((entry,)), tmp_path / "inside")
    assert [place.name for place in tmp_path.iterdir()] == ["inside"]


def test_a_patch_replaces_links_and_follows_none(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "file").symlink_to(tmp_path / "outside" / "target")
    entries = (PatchEntry("file", "file", 0o4755, content=b"x"), PatchEntry("link/x", "file", 0o644, content=b"x"))
    apply_patch(Patch(entries), tmp_path / "inside")
    assert not list((tmp_path / "outside").iterdir())
    assert (tmp_path / "inside" / "link" / "x").read_bytes() == b"x"
    assert stat.S_IMODE((tmp_path / "inside" / "file").stat().st_mode) == 0o755


def test_reading_follows_no_link_and_opens_files_only(hostile: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (hostile / "up").symlink_to(tmp_path)
    (hostile / "plain").write_text("plain")
    paths = ["up/secret", "../secret", "fifo", "socket", "loop", "d", "out/etc/passwd", "/etc/passwd", "missing/x"]
    assert [read_below([hostile], path, 100) for path in paths] == [None] * len(paths)
    assert read_below([hostile], "plain", 100) == b"plain"


def test_a_large_diff_takes_linear_time(tmp_path: Path) -> None:
    for name, text in (("source", "a\nb\n" * 20_000), ("changed", "b\na\n" * 20_000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("same\n" + text + "end\n")
    (entry,) = compare_folders(tmp_path / "source", tmp_path / "changed").entries
    assert entry.diff is not None
    lines = entry.diff.splitlines()
    assert sum(line[0] == "-" for line in lines) == sum(line[0] == "+" for line in lines) > 39_000
    assert "\n-same" not in entry.diff


@pytest.mark.release
def test_many_files_are_captured_in_seconds(tmp_path: Path) -> None:
    for name in ("source", "changed"):
        (tmp_path / name).mkdir()
    for number in range(100_000):
        (tmp_path / "changed" / str(number)).touch()
    patch = compare_folders(tmp_path / "source", tmp_path / "changed")
    assert len(patch.entries) == 100_000


@pytest.mark.skipif(WHY is not None, reason=str(WHY))
@pytest.mark.parametrize("layers", ["overlay", "copy"])
def test_hidden_files_replace_whatever_is_in_their_place(tmp_path: Path, layers: Any) -> None:
    source, hidden = tmp_path / "source", tmp_path / "hidden"
    for folder in (source / "tests", source / "other", hidden / "tests" / "inner", hidden / "other"):
        folder.mkdir(parents=True)
    (source / "other" / "kept").write_text("kept")
    (hidden / "tests" / "inner" / "test_x.py").write_text("hidden")
    (hidden / "other" / "y").write_text("hidden")

    async def lay_over() -> bytes:
        async with BwrapProvider(layers=layers).open(source, Policy()) as sandbox:
            await sandbox.run(["sh", "-c", "rm -r tests other/kept; ln -s / tests; mkdir -p other/y; chmod 500 other"])
            await sandbox.overlay(hidden)
            result = await sandbox.run(["sh", "-c", "find . -type f | sort; cat tests/inner/test_x.py other/y"])
            assert await sandbox.read("tests/inner/test_x.py", 100) == b"hidden"
            return result.output

    assert asyncio.run(lay_over()) == b"./other/y\n./tests/inner/test_x.py\nhiddenhidden"
