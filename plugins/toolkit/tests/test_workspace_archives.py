"""Workspaces that are tar archives, also hostile ones."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from karenina_toolkit.files import workspace_archives
from karenina_toolkit.files.source_digest import digest_folder
from karenina_toolkit.files.workspace_archives import opened_source
from karenina_toolkit.files.workspace_copy import WorkspaceError, resolve_source, source_folder

MOST = 1_000_000


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def entry(name: str, kind: bytes = tarfile.REGTYPE, leads_to: str = "", content: bytes = b"") -> tuple[object, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, leads_to, len(content)
    return info, content


def pack(root: Path, *entries: tuple[object, bytes], name: str = "task.tar.gz") -> Path:
    mode: Any = f"w:{name.rpartition('.tar')[2].lstrip('.')}"
    with tarfile.open(root / name, mode) as archive:
        for info, content in entries:
            assert isinstance(info, tarfile.TarInfo)
            archive.addfile(info, io.BytesIO(content))
    return root / name


def files_in(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if not path.is_dir())


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.bz2", ".tar.xz"])
def test_an_archive_is_a_workspace_while_it_is_used(root: Path, suffix: str) -> None:
    content = [entry("a.txt", content=b"a"), entry("b/c.sh", content=b"c"), entry("d", tarfile.SYMTYPE, "b/c.sh")]
    archive = pack(root, *content, name=f"task{suffix}")
    assert resolve_source(root, "task") == resolve_source(root, f"task{suffix}") == archive

    with opened_source(archive, root, most_bytes=MOST) as folder, opened_source(archive, root, most_bytes=MOST) as same:
        assert list(files_in(folder)) == ["a.txt", "b/c.sh", "d"]
        assert (folder / "d").read_text() == "c"
        assert same == folder
    assert list(root.iterdir()) == [archive]


@pytest.mark.parametrize("first", ["repo-1f2e3d", "b"])
def test_a_single_folder_in_an_archive_is_the_workspace(root: Path, first: str) -> None:
    archive = pack(root, entry(f"./{first}/b/c", content=b"c"), entry(f"./{first}/b/d", content=b"d"))

    with opened_source(archive, root, most_bytes=MOST) as folder:
        assert list(files_in(folder)) == ["b/c", "b/d"]


def test_a_folder_comes_before_an_archive_of_its_name(root: Path) -> None:
    pack(root, entry("a"))
    (root / "task").mkdir()

    with opened_source(resolve_source(root, "task"), root, most_bytes=MOST) as folder:
        assert folder == root / "task"


def test_the_digest_of_an_archive_is_that_of_its_bytes(root: Path) -> None:
    digests = set()
    for content in (b"1", b"2", b"2"):
        archive = pack(root, entry("a", content=content), name="task.tar")
        (root / "other").write_bytes(content * 2)
        digests.add(digest_folder(source_folder(archive, root)))
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([entry("/etc/cron.d/job")], "absolute path"),
        ([entry("a/../../outside")], "points outside the archive"),
        ([entry("a", tarfile.SYMTYPE, "/etc")], "is a link that points outside the archive"),
        ([entry("a/b", tarfile.SYMTYPE, "../../outside")], "is a link that points outside the archive"),
        ([entry("a", tarfile.SYMTYPE, "b"), entry("a/c", content=b"x")], "would be written through a link"),
        ([entry("a", tarfile.SYMTYPE, "b"), entry("a", content=b"x")], "would be written through a link"),
        ([entry("a", tarfile.LNKTYPE, "/etc/passwd")], "absolute path"),
        ([entry("a", tarfile.LNKTYPE, "../outside")], "points outside the archive"),
        ([entry("a", tarfile.SYMTYPE, "b"), entry("c", tarfile.LNKTYPE, "a/d")], "would be written through a link"),
        ([entry("top/a", tarfile.SYMTYPE, "../b/c")], "points outside the workspace root"),
        ([entry("a", tarfile.CHRTYPE)], "is a device or another special file"),
        ([entry("a", tarfile.FIFOTYPE)], "is a device or another special file"),
        ([entry("a/" * 101 + "b")], "is nested in more than 100 folders"),
        ([entry("a", content=b"\0" * 600_000), entry("b", content=b"\0" * 600_000)], "workspace_max_bytes"),
    ],
)
def test_a_hostile_archive_is_refused(root: Path, entries: list[tuple[object, bytes]], why: str) -> None:
    archive = pack(root, *entries)

    with pytest.raises(WorkspaceError, match=why) as refused, opened_source(archive, root, most_bytes=MOST):
        pass
    assert str(archive) in str(refused.value)
    assert list(root.iterdir()) == [archive]
    assert [path.name for path in root.parent.iterdir()] == ["root"]


def test_an_archive_with_a_huge_header_is_refused(root: Path) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 10**9
    with gzip.open(root / "task.tar.gz", "wb") as file:
        file.write(info.tobuf() + b"\0" * 10_000)

    with (
        pytest.raises(WorkspaceError, match=r"a header of invalid size \(1,000,000,"),
        opened_source(root / "task.tar.gz", root, most_bytes=MOST),
    ):
        pass


def test_an_archive_with_too_many_files_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_archives, "MOST_ENTRIES", 2)
    archive = pack(root, entry("a"), entry("b"), entry("c"))

    with pytest.raises(WorkspaceError, match="more than 2 files"), opened_source(archive, root, most_bytes=MOST):
        pass


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "cannot be unpacked"),
        (b"no archive", "cannot be unpacked"),
        (gzip.compress(b"no archive"), "cannot be unpacked"),
        (gzip.compress(b"a" * 9000)[:20], "cannot be unpacked"),
        (b"version https://git-lfs.github.com/spec/v1\n", "because it is a Git LFS pointer"),
    ],
    ids=["empty", "no archive", "packed text", "cut", "pointer"],
)
def test_a_broken_archive_is_refused(root: Path, content: bytes, why: str) -> None:
    (root / "task.tar.gz").write_bytes(content)

    with (
        pytest.raises(WorkspaceError, match=why),
        opened_source(root / "task.tar.gz", root, most_bytes=MOST),
    ):
        pass
    assert [path.name for path in root.iterdir()] == ["task.tar.gz"]
