"""`replace_file`, which replaces a file atomically."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BUFFER: Final = 1 << 18
_SHOWN: Final = 40
"""The maximum number of characters of a file's name to use in the name of its temporary file.

File names are limited to 255 bytes.
"""


def replace_file(
    path: str | Path,
    write: Callable[[BinaryIO], object],
    *,
    private: bool = False,
    follow: bool = False,
    sync: bool = True,
    dir_fd: int | None = None,
) -> None:
    """Replace a file atomically with a new one that `write` fills, so that readers see either the old or the new
    contents, but never a part of them. Raises `OSError` if this fails, or if the path is a link and `follow` is not
    set; the old file then stays. So it does if `write` raises an exception, which propagates.

    `write` is called with a new file in the same folder, which is renamed to `path` when it is complete. If anything
    fails before that, the old file stays and the new one is removed. If the process is killed, a file
    `.NAME.RANDOM.new` may remain, but it is never read. If several processes write at the same time, the last one wins.

    - `private`: only the owner can ever read or write the file. Otherwise, a new file gets the permissions allowed by
      the umask, and a replaced file keeps its permissions, except for set-user-ID and set-group-ID.
    - `follow`: if `path` is a link, replace its target. Otherwise, links are rejected: following a link would write to
      a location that the name does not show, and replacing it would detach the name from its target.
    - `sync`: wait until the contents and the name are on disk, so that they survive a power failure. Otherwise, they
      only survive the end of this process.
    - `dir_fd`: the descriptor of an open folder that contains the file. `path` must then be a bare name. Changes to
      parent folders cannot redirect the write to another location.

    Other hard links to the file keep the old contents. `path` is checked when the new file is complete, so `write` may
    rename an earlier file.

    Raises `OSError` with `path` as its `filename` if no file can be created in the folder, if `path` is read-only, a
    folder, a pipe, a device or a link, or if the disk is full. Errors raised by `write` are not changed, except that
    `path` is added to an `OSError` without a file name. Raises `ValueError` if `dir_fd` is used with `follow` or with
    anything but a bare name.
    """
    shown = os.fspath(path)
    if dir_fd is not None and (follow or Path(path).name != shown):
        raise ValueError("with `dir_fd`, the path must be a file name without folders, and `follow` must be false")
    if follow:
        path = os.path.realpath(path)
    folder, name = os.path.split(path)
    if not name:
        raise IsADirectoryError(errno.EISDIR, "the path is a folder", shown)
    temporary = os.fspath(Path(folder) / f".{name[:_SHOWN]}.{secrets.token_hex(8)}.new")
    mode = None
    with suppress(OSError):
        mode = stat.S_IMODE(os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode) & 0o666
    try:
        handle = os.open(temporary, _NEW, 0o600 if private else 0o666 if mode is None else mode, dir_fd=dir_fd)
    except OSError as error:
        raise _error(error, shown, "cannot create a file in the parent folder: ") from error
    try:
        with os.fdopen(handle, "wb", buffering=_BUFFER) as file:
            write(file)
            file.flush()
            mode = _mode_to_keep(path, dir_fd, shown)
            mode = 0o600 if private else mode
            if mode is not None:
                os.fchmod(handle, mode)
            if sync:
                os.fsync(handle)
        os.replace(temporary, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        if isinstance(error, OSError) and error.filename in (None, temporary):
            raise _error(error, shown) from error
        raise
    if sync:
        sync_folder(folder or "." if dir_fd is None else dir_fd)


def sync_folder(folder: int | str | Path) -> None:
    """Flush the entries of a folder to disk. Errors are ignored."""
    with suppress(OSError):
        handle = folder if isinstance(folder, int) else os.open(folder, _FOLDER)
        try:
            os.fsync(handle)
        finally:
            if handle is not folder:
                os.close(handle)


def _mode_to_keep(path: str | Path, dir_fd: int | None, shown: str) -> int | None:
    """Return the permissions of the file to replace, or None if there is no such file. Raises `OSError` unless it is a
    regular, writable file. `path` may be relative to `dir_fd`. `shown` is the path to show in the error.
    """
    try:
        mode = os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "the path is a link and was not replaced; use the path of its target", shown)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "the path is a folder", shown)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "the path is a pipe, socket or device, not a file", shown)
    if not os.access(path, os.W_OK, dir_fd=dir_fd):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), shown)
    return stat.S_IMODE(mode) & 0o777


def _error(error: OSError, path: str, before: str = "") -> OSError:
    """Return an exception about `path`, with `before` at the start of its message. The path is only added if the error
    has a number.
    """
    if error.errno is None:
        return OSError(f"{before}{error}")
    return OSError(error.errno, f"{before}{error.strerror}", path)
