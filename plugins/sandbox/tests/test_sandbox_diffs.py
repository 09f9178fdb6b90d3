"""Diffs as git and others write them: prefixes, line ends, moves, binary files and links."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from karenina_sandbox.capture.folders import compare_folders
from karenina_sandbox.diffs.applying import apply_diff
from karenina_sandbox.diffs.reading import DiffError, UnreadableDiff

NAME = "\u00fcn\u00ef \u00e9.txt"
BIG = b"".join(b"line %d\n" % number for number in range(200))
FILES = {
    "text.txt": b"a\nb\nc\n",
    "crlf.txt": b"a\r\nb\r\nc\r\n",
    "latin.txt": b"caf\xe9\nb\n",
    "a/plain.txt": b"a\nb\nc\n",
    NAME: b"x\ny\n",
    "run.sh": b"#!/bin/sh\n",
    "big.txt": BIG,
    "data.bin": bytes(range(256)) * 8,
    "sub/deep/one": b"1\n",
    "sub/two": b"2\n",
    "empty": b"",
}
PREFIXES = {"a": [], "mnemonic": ["-c", "diff.mnemonicPrefix=true"], "no": ["-c", "diff.noprefix=true"]}


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def swap(folder: Path) -> None:
    (folder / "big.txt").rename(folder / "other")
    (folder / "text.txt").rename(folder / "big.txt")
    (folder / "other").rename(folder / "text.txt")


def copy_and_edit(folder: Path) -> None:
    (folder / "copy.txt").write_bytes(BIG)
    (folder / "big.txt").write_bytes(BIG + b"more\n")


def rename_and_edit(folder: Path) -> None:
    (folder / "big.txt").rename(folder / "a/b g")
    (folder / "a/b g").write_bytes(BIG + b"more\n")


def make_file_of_folder(folder: Path) -> None:
    shutil.rmtree(folder / "sub")
    (folder / "sub").write_text("file\n")


def make_folder_of_file(folder: Path) -> None:
    (folder / "empty").unlink()
    (folder / "empty").mkdir()
    (folder / "empty/x").write_text("1\n")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a quoted name": write(NAME, b"x\nz\n"),
    "a mode of a quoted name": lambda folder: (folder / NAME).chmod(0o755),
    "a new file": write("a/new", b"1\n"),
    "a removed file": lambda folder: (folder / "a/plain.txt").unlink(),
    "a file in a folder a": write("a/plain.txt", b"a\nB\nc\n"),
    "bytes that are not UTF-8": write("latin.txt", b"caf\xe9\nc\n"),
    "a binary delta": write("data.bin", bytes(range(256)) * 7 + b"end"),
    "line ends": write("crlf.txt", b"a\nb\nc\n"),
    "a mode": lambda folder: (folder / "run.sh").chmod(0o755),
    "a rename": lambda folder: (folder / "big.txt").rename(folder / "a/b g"),
    "a rename with a change": rename_and_edit,
    "a swap": swap,
    "a copy": copy_and_edit,
    "a file in place of a folder": make_file_of_folder,
    "a folder in place of a file": make_folder_of_file,
    "a new link": lambda folder: (folder / "link").symlink_to("text.txt"),
}


def git(folder: Path, *words: str) -> bytes:
    options = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false")
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", *options, *words], cwd=folder, check=True, capture_output=True, env=environment
    ).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    git(folder, "init", "-q")
    git(folder, "add", "-Af")
    git(folder, "commit", "-qm", "x")
    return folder


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("prefixes", PREFIXES)
@pytest.mark.parametrize("change", CHANGES)
def test_diffs_of_git_are_applied(repository: Path, tmp_path: Path, change: str, prefixes: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for copy in (old, new):
        shutil.copytree(repository, copy)
    CHANGES[change](new)
    git(new, "add", "-Af")

    apply_diff(git(new, *PREFIXES[prefixes], "diff", "--cached", "--binary", "-M", "-C"), old)

    assert not compare_folders(new, old)


PATCH = b"--- a/f\n+++ b/f\n@@ -1,4 +1,5 @@\n a\n-b\n+B\n+B\n \n c\n"


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
@pytest.mark.parametrize("patch", [PATCH, PATCH.replace(b"\n", b"\r\n"), PATCH.replace(b"\n \n", b"\n\n")])
def test_a_patch_keeps_the_line_ends_of_the_file(tmp_path: Path, ends: bytes, patch: bytes) -> None:
    (tmp_path / "f").write_bytes(b"a\nb\n\nc\n".replace(b"\n", ends))
    apply_diff(patch, tmp_path)
    assert (tmp_path / "f").read_bytes() == b"a\nB\nB\n\nc\n".replace(b"\n", ends)


def test_a_patch_with_line_ends_only_in_its_text_fits(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nb\n\nc\n")
    head, at, body = PATCH.partition(b"@@\n")
    apply_diff(head + at + body.replace(b"\n", b"\r\n"), tmp_path)
    assert (tmp_path / "f").read_bytes() == b"a\nB\nB\n\nc\n"


def test_later_changes_of_a_file_follow_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    one, other = ("-a\n+A\n b\n", " A\n-b\n+B\n")
    apply_diff("".join(f"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n{body}" for body in (one, other)).encode(), tmp_path)
    assert (tmp_path / "f").read_text() == "A\nB\n"


FITS = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"
GIT_HEAD = "diff --git a/g b/g\nindex 1..2 100644\n"
NAMES = "--- a/g\n+++ b/g\n"
NEW = "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n"
BODY = "-x\n+y\n z\n"


@pytest.mark.parametrize("before", ["", FITS, f"diff --git a/f b/f\n{FITS}"])
@pytest.mark.parametrize("head", ["", GIT_HEAD])
@pytest.mark.parametrize(
    "hunk",
    [
        *("", BODY, f"@@\n{BODY}", f"@@ ... @@\n{BODY}", f"@@ def f():\n{BODY}", f" @@ -1,2 +1,2 @@\n{BODY}"),
        *(f"@@ -1,2 +1,2\n{BODY}", f"@@ -1,2 +1,2@@\n{BODY}", f"@ -1,2 +1,2 @\n{BODY}"),
        *(f"@@ -1,1 +1,1 @@\n{BODY}-z\n+Z\n", "@@ -1,1 +1,1 @@\n x\n-z\n", "@@ -1,1 +1,2 @@\n x\n+y\n+\n"),
        *(f"@@ -1,2 +1,2 @@\n{BODY}@@ -3,1 +3,1\n-c\n", f"@@ -1,2 +1,2 @@\n{BODY}--- a/h\n"),
    ],
)
def test_a_patch_with_a_damaged_change_is_refused_whole(tmp_path: Path, before: str, head: str, hunk: str) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    (tmp_path / "g").write_text("x\nz\n")
    with pytest.raises(DiffError, match=r"the patch for 'g' is damaged: .*(cut off|line numbers|hunk header)"):
        apply_diff((before + head + NAMES + hunk).encode(), tmp_path)
    assert (tmp_path / "f").read_text() == "a\nb\nc\n"


@pytest.mark.parametrize(
    "diff",
    [
        *(FITS + GIT_HEAD, f"{FITS}{GIT_HEAD}--- a/g\n", f"{GIT_HEAD}old mode 100644\n"),
        *(f"{NEW}@@\n+y\n", f"{NEW}+y\n"),
        f"diff --git a/g b/h\nrename from g\nrename to h\n--- a/g\n+++ b/h\n@@\n{BODY}",
        f"diff --git a/g b/g\nold mode 100644\nnew mode 100755\n{NAMES}@@ ... @@\n{BODY}",
    ],
)
def test_a_change_without_its_lines_is_refused(tmp_path: Path, diff: str) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    (tmp_path / "g").write_text("x\nz\n")
    with pytest.raises(DiffError, match="is damaged"):
        apply_diff(diff.encode(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "g"]


@pytest.mark.parametrize(
    "rest",
    [
        *("-- \n2.43.0\n", "--\n2.43.0\n", "---\n", "\nThis\n- corrects a\n+ and A\n", "```\n", " c\n", " c\n\n"),
        *("Only in b: x\n", f"{NEW}", "diff --git a/g b/g\nold mode 100644\nnew mode 100755\n"),
        "Index: g\n====\n--- g\t(revision 1)\n+++ g\t(working copy)\n\n"
        "Property changes on: g\n____\nAdded: svn:executable\n## -0,0 +1 ##\n+*\n\\ No newline at end of property\n",
    ],
)
def test_what_follows_a_complete_change_does_no_harm(tmp_path: Path, rest: str) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    (tmp_path / "g").write_text("x\nz\n")
    apply_diff((FITS + rest).encode(), tmp_path)
    assert (tmp_path / "f").read_text() == "A\nb\nc\n"


@pytest.mark.parametrize(
    "before",
    [
        "file 'f'\n",
        'link "f"\r\n',
        "The bug is in\nfile 'g'\n",
        "file 'g'\nIndex: f\n====\n",
        "deleted 'g'\ndiff -ru old/f new/f\n",
    ],
)
def test_diff_with_a_line_that_names_a_file_is_applied(tmp_path: Path, before: str) -> None:
    (tmp_path / "f").write_text("a\n")
    apply_diff(f"{before}--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n".encode(), tmp_path)
    assert (tmp_path / "f").read_text() == "b\n"


@pytest.mark.parametrize(
    "diff",
    [
        "diff --git a/f b/f\nindex 1..2 160000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a/f b/f\ndeleted file mode 120000\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        "diff --git a/f b/f\nBinary files a/f and b/f differ\n",
        "diff --cc f\nindex 1,2..3\n--- a/f\n+++ b/f\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n -b\n++c\n",
        "deleted 'f'\n",
        "file 'r.bin'\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        "file 'r.bin'\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+see diff --git a/x b/x\n",
    ],
)
def test_what_cannot_be_read_is_no_misfit(tmp_path: Path, diff: str) -> None:
    (tmp_path / "f").write_text("a\n")
    with pytest.raises(UnreadableDiff):
        apply_diff(diff.encode(), tmp_path)
