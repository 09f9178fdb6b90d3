"""Digests of folders whose files affect results."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from karenina_core.models.source_folder import SourceFolder

MOST_READ: Final = 10_000_000_000
"""Maximum bytes to hash in a folder. Beyond it, only sizes and modification times are used."""


def digest_folders(sources: Iterable[SourceFolder]) -> str:
    """Return the digests of `sources` in order, separated by spaces."""
    return " ".join(digest_folder(source) for source in sources)


def digest_folder(source: SourceFolder) -> str:
    """Return a digest of the names and contents of the files in a folder, except those that `source` ignores.

    It does not depend on where the folder is. Only the names of unreadable files count, and after `MOST_READ` bytes
    only names, sizes and modification times. Links out of `source.within` (default: the folder) are not followed, and a
    folder with several links to it is read once.
    """
    digest = hashlib.sha256()
    bounds = (source.within or source.path).resolve()
    read = {source.path.resolve()}
    room = MOST_READ
    waiting = [(source.path, "")]
    while waiting:
        folder, name = waiting.pop()
        inner: list[tuple[Path, str]] = []
        for entry in sorted(_entries(folder), key=lambda entry: entry.name):
            if source.ignores(entry.name):
                continue
            path, relative = Path(entry.path), name + entry.name
            digest.update(f"{relative!a} ".encode())
            if entry.is_symlink():
                digest.update(f"-> {str(path.readlink())!a} ".encode())
                path = _target(path)
                if not path.is_relative_to(bounds) or path in read:
                    continue
            if path.is_dir():
                read.add(path)
                inner.append((path, f"{relative}/"))
            elif path.is_file():
                content, room = _content(path, room)
                digest.update(content)
        waiting += reversed(inner)
    return digest.hexdigest()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder. Empty if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _target(link: Path) -> Path:
    """Return the target of a link, or the link itself if it cannot be resolved."""
    try:
        return link.resolve()
    except (OSError, RuntimeError):
        return link


def _content(path: Path, room: int) -> tuple[bytes, int]:
    """Digest a file, and return how many bytes of the folder may still be read.

    If the file is larger than `room`, its size and modification time are used, and no bytes are left. The digest of an
    unreadable file is empty.
    """
    try:
        # O_NONBLOCK: it may have been replaced by a FIFO.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > room:
                return f"{status.st_size} {status.st_mtime_ns} ".encode(), 0
            return hashlib.file_digest(file, "sha256").digest(), room - status.st_size
    except OSError:
        return b"", room
