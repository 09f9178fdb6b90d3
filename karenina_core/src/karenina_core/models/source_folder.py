"""Folders outside of the benchmark that decide a result: stages name them, and the core compares what lies there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_READ: Final = 10_000_000_000
"""Bytes of a folder whose content is compared; of files beyond them, size and time of change are."""


def _nothing(_name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """A folder of the user's whose files decide what is found out about a question.

    `passes_over(name)` says of which files and folders in it nothing depends, such as copies that runs leave there.
    Links to files and folders count with what they point at as far as that lies in `within`; without it, in `path`.
    """

    path: Path
    within: Path | None = None
    passes_over: Callable[[str], bool] = _nothing

    def digest(self) -> str:
        """A digest of the names and contents of all that lies there, with what cannot be read left out.

        It does not depend on where the folder stands. A folder that several links point at is read once.
        """
        found = hashlib.sha256()
        bounds = (self.within or self.path).resolve()
        read = {self.path.resolve()}
        room = MOST_READ
        waiting = [(self.path, "")]
        while waiting:
            folder, name = waiting.pop()
            inner: list[tuple[Path, str]] = []
            for entry in sorted(_entries(folder), key=lambda entry: entry.name):
                if self.passes_over(entry.name):
                    continue
                path, said = Path(entry.path), name + entry.name
                found.update(f"{said!a} ".encode())
                if entry.is_symlink():
                    found.update(f"-> {str(path.readlink())!a} ".encode())
                    path = _target(path)
                    if not path.is_relative_to(bounds) or path in read:
                        continue
                if path.is_dir():
                    read.add(path)
                    inner.append((path, f"{said}/"))
                elif path.is_file():
                    content, room = _content(path, room)
                    found.update(content)
            waiting += reversed(inner)
        return found.hexdigest()


def digest_of(folders: Iterable[SourceFolder]) -> str:
    """A digest of all that lies in `folders`, in their order; empty without any."""
    return " ".join(folder.digest() for folder in folders)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _target(link: Path) -> Path:
    """What a link points at; the link itself where it leads in a circle."""
    try:
        return link.resolve()
    except (OSError, RuntimeError):
        return link


def _content(path: Path, room: int) -> tuple[bytes, int]:
    """What stands for a file's content, and the bytes of the folder that may still be read after it."""
    try:
        # O_NONBLOCK: it may have become a FIFO meanwhile.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size > room:
                return f"{found.st_size} {found.st_mtime_ns} ".encode(), 0
            return hashlib.file_digest(file, "sha256").digest(), room - found.st_size
    except OSError:
        return b"", room
