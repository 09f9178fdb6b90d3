"""Paths that stay inside a folder, and opening files without following links.

A path is resolved and checked, then opened component by component, so that nothing swapped in after the check can lead
out of the folder. This requires a POSIX system.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from io import BufferedReader

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags for opening a folder."""
# O_NONBLOCK: opening a FIFO would otherwise wait for a writer before its type can be checked.
FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags for opening a file for reading."""


class NotAFileError(OSError):
    """Raised if something that was opened is not a regular file."""


def is_plain_name(text: str) -> bool:
    """Return whether `text` is a single word, which cannot be a path. It must consist of letters, digits and `._-`, and
    start with a letter or digit.
    """
    return _PLAIN_NAME.fullmatch(text) is not None


def stays_below(folder: Path, name: str) -> bool:
    """Return whether `name`, relative to `folder`, is still inside the folder after resolving links. The path need not
    exist. Returns False if the name is invalid or its links form a loop.
    """
    try:
        return resolve_links(folder / name).is_relative_to(resolve_links(folder))
    except (OSError, ValueError):  # a symlink loop, a NUL byte
        return False


def resolve_links(path: Path) -> Path:
    """Return `path`, which need not exist, with all links resolved. Raises `OSError` if the links form a loop. Unlike
    `Path.resolve`, this behaves the same in all Python versions.
    """
    try:
        return Path(os.path.realpath(path, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
        return Path(os.path.realpath(path))


def describe_repeated(files: Iterable[Path]) -> str | None:
    """Return a message if two of the `files` are the same file, possibly under different names, or None."""
    seen: dict[Path, Path] = {}
    for file in files:
        try:
            real = resolve_links(file)
        except OSError:  # reading it reports the loop
            continue
        if real in seen:
            return (
                f"{file} was given more than once" if seen[real] == file else f"{file} is the same file as {seen[real]}"
            )
        seen[real] = file
    return None


@contextmanager
def open_folder(root: Path, folder: Path, *, make: bool = False) -> Iterator[int]:
    """Open `folder`, which must be `root` or a folder below it, and yield its descriptor. With `make`, missing folders
    are created. `root` must be resolved. Raises `OSError` if the folder cannot be opened, or if any part of its path,
    including that of `root`, is a link.
    """
    if not folder.is_relative_to(root):
        raise OSError(errno.EXDEV, f"the path is outside {root}")
    here = _open_root(root)
    try:
        for part in folder.relative_to(root).parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            below = os.open(part, FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _open_root(root: Path) -> int:
    """Open the folder `root`, and return its descriptor. Raises `OSError` if any part of its path is a link."""
    if not hasattr(os, "O_PATH"):  # macOS refuses links anywhere in a path if it is asked to
        return os.open(root, FOLDER | getattr(os, "O_NOFOLLOW_ANY", 0))
    # O_PATH: to pass through a folder, the permission to list it is not needed.
    *above, last = root.absolute().parts
    here = os.open(above[0] if above else last, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part, flags in [*((name, FOLDER | os.O_PATH) for name in above[1:]), (last if above else ".", FOLDER)]:
        try:
            below = os.open(part, flags, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def open_file(root: Path, file: Path) -> BufferedReader:
    """Open a regular file below `root` for reading in binary mode. Raises `OSError` if the file cannot be opened or its
    path contains a link, and `NotAFileError` for folders, FIFOs and devices.
    """
    with open_folder(root, file.parent) as folder:
        return open_file_at(file.name, folder)


def open_file_at(name: str, folder: int) -> BufferedReader:
    """Open a regular file for reading in binary mode. `folder` is the descriptor of the folder that contains it. Raises
    `OSError` if the file cannot be opened or is a link, and `NotAFileError` for folders, FIFOs and devices.
    """
    handle = os.open(name, FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotAFileError("the path is not a regular file")
    return os.fdopen(handle, "rb")
