"""Files that hold decisions of one user, read so that no other user can have written them.

`karenina_toolkit.files.replace_file` replaces them, as `private`, under the lock of `locked`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK_SECONDS: Final = 20.0
"""The seconds that a writer waits for another one."""


def read_private(path: Path) -> str | None:
    """Return the text of a file of the user, or None if it does not exist.

    Raises `OSError` for a link, for anything that is not a regular file, and for a file or folder that another user
    owns or every user can write; and `UnicodeDecodeError`.
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

    Creates its folder. Raises `OSError` for a folder that others can write, and `TimeoutError` if another process holds
    the lock too long.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_folder(path.parent)
    lock = FileLock(path.with_name(path.name + ".lock"), mode=0o600)
    try:
        lock.acquire(timeout=LOCK_SECONDS, poll_interval=0.02)
    except Timeout:
        raise TimeoutError(f"another process has held its lock for {LOCK_SECONDS:g} s; try again") from None
    try:
        yield
    finally:
        lock.release()


def check_folder(folder: Path) -> None:
    """Raise `OSError` for a folder in which another user could replace files."""
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
    return OSError(f"{path} is a link; replace it by a file, or set KARENINA_CONFIG_HOME to the folder of the target")
