"""Files and folders are opened below a root without following a link, and without waiting for a pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from karenina_toolkit.files import replace_file
from karenina_toolkit.files.safe_paths import NotAFileError, open_file, open_file_at, open_folder

SECRET = b"SECRET-4711"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with a file, links out of it, and a pipe; the secret is outside."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_bytes(SECRET)
    folder = tmp_path / "root"
    (folder / "data").mkdir(parents=True)
    (folder / "data/code.txt").write_bytes(b"QX1")
    (folder / "out").symlink_to("../outside")
    (folder / "data/secret.txt").symlink_to("../../outside/secret.txt")
    os.mkfifo(folder / "data/pipe")
    return folder


def write(root: Path, file: Path) -> None:
    with open_folder(root, file.parent, make=True) as folder:
        replace_file(file.name, lambda new: new.write(b"theirs"), dir_fd=folder)


def test_a_file_in_a_new_folder_is_written(root: Path) -> None:
    write(root, root / "new/folder/code.txt")
    assert (root / "new/folder/code.txt").read_bytes() == b"theirs"


def test_a_plain_file_is_opened(root: Path) -> None:
    with open_file(root, root / "data/code.txt") as file:
        assert file.read() == b"QX1"


def test_a_link_to_a_folder_is_not_followed(root: Path) -> None:
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        open_file(root, root / "out/secret.txt")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        write(root, root / "out/secret.txt")
    assert (root.parent / "outside/secret.txt").read_bytes() == SECRET


def test_a_link_to_a_file_is_not_followed(root: Path) -> None:
    with pytest.raises(OSError, match="Too many levels"):
        open_file(root, root / "data/secret.txt")


def test_a_link_is_not_replaced(root: Path) -> None:
    with pytest.raises(OSError, match="the path is a link and was not replaced"):
        write(root, root / "data/secret.txt")
    assert (root / "data/secret.txt").is_symlink()
    assert (root.parent / "outside/secret.txt").read_bytes() == SECRET


def test_a_pipe_is_refused_without_waiting(root: Path) -> None:
    with open_folder(root, root / "data") as folder, pytest.raises(NotAFileError):
        open_file_at("pipe", folder)


def test_a_folder_outside_of_the_root_is_refused(root: Path) -> None:
    with pytest.raises(OSError, match="the path is outside"), open_folder(root, root.parent / "outside"):
        pass


def test_a_link_above_the_root_is_not_followed(root: Path) -> None:
    inner = root / "data"
    (root.parent / "beside").symlink_to(root, target_is_directory=True)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        open_file(root.parent / "beside/data", root.parent / "beside/data/code.txt")
    with open_file(inner, inner / "code.txt") as file:
        assert file.read() == b"QX1"


def test_a_folder_that_cannot_be_listed_is_passed_through(root: Path) -> None:
    root.chmod(0o711)
    with open_file(root / "data", root / "data/code.txt") as file:
        assert file.read() == b"QX1"
