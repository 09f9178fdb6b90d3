"""Folders that this process made, and their removal: of these folders, and of nothing that took their place."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from karenina_toolkit.nofollow_files import FOLDER


class FolderReplaced(OSError):
    """What is found in the place of a folder is not the folder that was made."""


@dataclass(frozen=True, slots=True)
class CreatedFolder:
    """A folder that this process made, known by its device and inode.

    No name, link or file that somebody else can write decides what is removed: only what `make` made is, at the path
    where it was made.
    """

    path: Path
    device: int
    inode: int

    @classmethod
    def make(cls, path: Path) -> Self:
        """Make the folder. Raises `OSError`, also if there is something already."""
        path.mkdir()
        return cls._identify(path)

    @classmethod
    def temporary(cls, prefix: str) -> Self:
        """Make a folder among the system's temporary ones. Raises `OSError`."""
        return cls._identify(Path(tempfile.mkdtemp(prefix=prefix)))

    @classmethod
    def _identify(cls, path: Path) -> Self:
        found = path.lstat()
        return cls(path, found.st_dev, found.st_ino)

    def remove(self) -> None:
        """Remove the folder with all that is in it, and follow no link; one that is gone already is not an error.

        Raises `FolderReplaced` for a link or another folder in its place, and `OSError`.
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
            raise FolderReplaced("something else is in its place, and is left alone") from None
        try:
            found = os.fstat(folder)
            if (found.st_dev, found.st_ino) != (self.device, self.inode):
                raise FolderReplaced("another folder is in its place, and is left alone")
            _empty(folder)
        finally:
            os.close(folder)
        os.rmdir(self.path.name, dir_fd=parent)


def _empty(folder: int) -> None:
    """Remove all that is in an open folder.

    Folders further down are moved up before they are emptied: so no depth is too deep for a path or for recursion.
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
