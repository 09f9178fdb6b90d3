"""Removal of workspace folders that this process created, and of nothing else at their paths."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from karenina_toolkit.files.nofollow_files import FOLDER


class FolderReplaced(OSError):
    """Another file or folder is at the path of a folder that was created."""


@dataclass(frozen=True, slots=True)
class CreatedFolder:
    """A folder that this process created, identified by its device and inode.

    What is removed does not depend on names, links or files that other programs can write: only the folder that
    `make` created is removed, at the path where it was created.
    """

    path: Path
    device: int
    inode: int

    @classmethod
    def make(cls, path: Path) -> Self:
        """Create the folder. Raises `OSError`, also if the path exists already."""
        path.mkdir()
        return cls._identify(path)

    @classmethod
    def temporary(cls, prefix: str) -> Self:
        """Create a temporary folder. Raises `OSError`."""
        return cls._identify(Path(tempfile.mkdtemp(prefix=prefix)))

    @classmethod
    def _identify(cls, path: Path) -> Self:
        found = path.lstat()
        return cls(path, found.st_dev, found.st_ino)

    def remove(self) -> None:
        """Remove the folder and its content without following links; a folder that does not exist is not an error.

        Raises `FolderReplaced` if a link or another folder is at its path, and `OSError`.
        """
        with suppress(FileNotFoundError):
            parent = os.open(self.path.parent, FOLDER & ~os.O_NOFOLLOW)
            try:
                self._remove_from(parent)
            finally:
                os.close(parent)

    def _remove_from(self, parent: int) -> None:
        try:
            folder = os.open(self.path.name, FOLDER, dir_fd=parent)
        except NotADirectoryError:  # also for a link
            raise FolderReplaced("something else is at its path, and is left alone") from None
        try:
            found = os.fstat(folder)
            if (found.st_dev, found.st_ino) != (self.device, self.inode):
                raise FolderReplaced("another folder is at its path, and is left alone")
            _empty(folder)
        finally:
            os.close(folder)
        os.rmdir(self.path.name, dir_fd=parent)


def _empty(folder: int) -> None:
    """Remove the content of an open folder.

    Nested folders are moved up before they are emptied, so that neither paths nor recursion grow with the depth.
    """
    while names := _names(folder):
        for name in names:
            if not _is_folder(name, folder):
                os.unlink(name, dir_fd=folder)
                continue
            below = os.open(name, FOLDER, dir_fd=folder)
            try:
                for inner in _names(below):
                    if _is_folder(inner, below):
                        os.rename(inner, secrets.token_hex(16), src_dir_fd=below, dst_dir_fd=folder)
                    else:
                        os.unlink(inner, dir_fd=below)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=folder)


def _names(folder: int) -> list[str]:
    os.fchmod(folder, stat.S_IRWXU)
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
