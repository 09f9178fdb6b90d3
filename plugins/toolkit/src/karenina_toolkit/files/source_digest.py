"""Digests of folders whose files affect results."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_core.errors import RunError, describe_error
from karenina_core.models.ports import SourceFolder

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.plan import Plan

MOST_READ: Final = 10_000_000_000
"""The maximum number of bytes to hash in a folder. After that, only sizes and modification times are used."""


def source_folders(plan: Plan, config: VerificationConfig, question: Question) -> tuple[SourceFolder, ...]:
    """Return the folders outside the benchmark that affect the result of `question`. Raises `RunError` if a stage fails
    to return its folders, because stored results cannot be checked without them.
    """
    folders: list[SourceFolder] = []
    for planned in plan.naming_folders:
        try:
            folders += planned.stage.source_folders(config, question)
        except Exception as error:
            raise RunError(
                f"{planned.name} of {planned.distribution} {planned.version} could not determine the folders on which "
                f"the result of question {question.id!r} depends: {describe_error(error)}"
            ) from error
    return tuple(folders)


def digest_folders(sources: Iterable[SourceFolder]) -> str:
    """Return the digests of all `sources` in order, separated by spaces."""
    return " ".join(digest_folder(source) for source in sources)


def digest_folder(source: SourceFolder) -> str:
    """Return a digest of the names and contents of all files below a folder, except those that `source` ignores,
    independent of its location. Only names of unreadable files are used, and after `MOST_READ` bytes only names, sizes
    and modification times. Links that lead out of `source.within` (by default, the folder) are not followed.

    A folder to which several links lead is only read once.
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
    """Return the entries of a folder. If the folder cannot be read, the list is empty."""
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
    """Return a file's digest, and how much of the `room` is left. If the file is larger than `room`, its size and
    modification time replace the digest, and no room is left. For an unreadable file, the digest is empty.
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
