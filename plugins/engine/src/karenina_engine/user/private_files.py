"""Files that hold one user's decisions, read so that no other user can have written them.

To change such a file, hold its lock (`locked`) and replace it with
`karenina_toolkit.files.replace_file(..., private=True)`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK_SECONDS: Final = 20.0
"""Seconds to wait while another process holds the lock."""


def read_private(path: Path) -> str | None:
    """Return the text of one of the user's private files, or None if it does not exist.

    Raises `OSError` if the path is a link or not a regular file, or if the file or its folder is owned by another user
    or writable by every user; raises `UnicodeDecodeError` if it is not UTF-8.
    """
    # O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if path.is_symlink():
        raise _link(path)
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is not a regular file; remove it")
        check_folder(path.parent)
        _check_owner(path, found)
        return file.read().decode("utf-8")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a private file, so that its content does not change between reading and replacing it.

    Creates the file's folder. Raises `OSError` if other users can write to the folder, and `TimeoutError` if another
    process holds the lock for longer than `LOCK_SECONDS`.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_folder(path.parent)
    lock = FileLock(path.with_name(path.name + ".lock"), mode=0o600)
    try:
        lock.acquire(timeout=LOCK_SECONDS, poll_interval=0.02)
    except Timeout:
        raise TimeoutError(f"another process has held the lock for {LOCK_SECONDS:g} s; try again") from None
    try:
        yield
    finally:
        lock.release()


def check_folder(folder: Path) -> None:
    """Raise `OSError` if another user could replace files in `folder`."""
    found = folder.stat()
    _check_owner(folder, found, sticky_is_fine=True)


def _check_owner(place: Path, found: os.stat_result, *, sticky_is_fine: bool = False) -> None:
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid not in (os.geteuid(), 0):
        raise OSError(
            f"{place} belongs to another user (uid {found.st_uid}), so its content cannot be trusted; "
            "set KARENINA_CONFIG_HOME to a folder of your own"
        )
    if found.st_mode & stat.S_IWOTH and not (sticky_is_fine and found.st_mode & stat.S_ISVTX):
        raise OSError(f"{place} can be written by every user; check its content, then run: chmod o-w {place}")


def _link(path: Path) -> OSError:
    return OSError(f"{path} is a link; replace it with a file, or set KARENINA_CONFIG_HOME to the folder of the target")
