"""Opening of files below a folder without following links, so that nothing swapped in after a check leads out of it.

A path is resolved and checked first, and then opened component by component, each relative to the folder before it.
This requires a POSIX system.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a folder."""
# O_NONBLOCK: opening a FIFO would otherwise wait for a writer before its type can be checked.
FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a file to read."""


class NotAFileError(OSError):
    """Raised when something that was opened is not a regular file."""


@contextmanager
def open_folder(root: Path, folder: Path, *, make: bool = False) -> Iterator[int]:
    """Yield a descriptor of `folder`, which is `root` or lies below it; with `make`, missing folders are created.

    `root` must be a resolved path. Raises `OSError`, also for a link in the path, that of `root` included.
    """
    if not folder.is_relative_to(root):
        raise OSError(errno.EXDEV, f"it does not lie in {root}")
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
    if not hasattr(os, "O_PATH"):  # macOS refuses links anywhere in a path if it is asked to
        return os.open(root, FOLDER | getattr(os, "O_NOFOLLOW_ANY", 0))
    # O_PATH: to pass through a folder, the permission to list it is not needed.
    *above, last = root.absolute().parts
    here = os.open(above[0] if above else last, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part, flags in [*((one, FOLDER | os.O_PATH) for one in above[1:]), (last if above else ".", FOLDER)]:
        try:
            below = os.open(part, flags, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def open_file(root: Path, file: Path) -> IO[bytes]:
    """Open a regular file below `root` to read. Raises `OSError`, also for a link in the path and for a FIFO."""
    with open_folder(root, file.parent) as folder:
        return open_file_at(file.name, folder)


def open_file_at(name: str, folder: int) -> IO[bytes]:
    """Open a regular file in an open folder to read. Raises `OSError`, also for a link and for a FIFO."""
    handle = os.open(name, FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotAFileError("it is not a file")
    return os.fdopen(handle, "rb")
