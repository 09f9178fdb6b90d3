"""Folders that this process creates and removes, including those that killed processes left behind.

Each process keeps a list of its folders in a locked file in the user's state folder. Agents, workspaces and journals
cannot write to these lists, and a later process only removes folders on them. The path, device and inode must still
match. This requires a POSIX system.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import secrets
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from karenina_toolkit.files.safe_paths import FOLDER
from karenina_toolkit.files.state_folder import (
    MOST_BYTES,
    UserStateError,
    check_own_folder,
    find_file_flaw,
    make_own_folder,
    state_folder,
)


class FolderReplaced(OSError):
    """Raised if the path of a created folder now leads to something else."""


class CreatedFolder(NamedTuple):
    """A folder created by this process or a killed one, identified by its device and inode.

    Only this folder is ever removed, and only from the path at which it was created. Other programs therefore cannot
    redirect the removal with links or files.
    """

    path: Path
    device: int
    inode: int

    @classmethod
    def make(cls, path: Path) -> Self:
        """Create the folder. Raises `OSError` if it cannot be created or the path already exists."""
        path.mkdir()
        return cls._identify(path)

    @classmethod
    def temporary(cls, prefix: str) -> Self:
        """Create a temporary folder. Raises `OSError` if it cannot be created."""
        return cls._identify(Path(tempfile.mkdtemp(prefix=prefix)))

    @classmethod
    def _identify(cls, path: Path) -> Self:
        """Identify the folder that is currently at `path`. Raises `OSError` if there is none."""
        status = path.lstat()
        return cls(path, status.st_dev, status.st_ino)

    def remove(self) -> None:
        """Remove the folder and its contents, without following links. Does nothing if the folder no longer exists.
        Raises `FolderReplaced` if a link or another folder is in its place, and `OSError` if it cannot be removed.
        """
        with suppress(FileNotFoundError):
            parent = os.open(self.path.parent, FOLDER & ~os.O_NOFOLLOW)
            try:
                self._remove_from(parent)
            finally:
                os.close(parent)

    def _remove_from(self, parent: int) -> None:
        """Remove the folder and its contents from its open parent folder. Raises `FolderReplaced` if something else is
        in its place.
        """
        try:
            folder = os.open(self.path.name, FOLDER, dir_fd=parent)
        except NotADirectoryError:  # also for a link
            raise FolderReplaced("the folder was replaced by a file or link, which was not touched") from None
        try:
            status = os.fstat(folder)
            if (status.st_dev, status.st_ino) != (self.device, self.inode):
                raise FolderReplaced("the folder was replaced by a different one, which was not touched")
            empty_folder(folder)
        finally:
            os.close(folder)
        os.rmdir(self.path.name, dir_fd=parent)


def empty_folder(folder: int) -> None:
    """Remove the contents of an open folder, even those of folders that their owner may not read. Nested folders are
    moved up before they are emptied, so that any nesting depth works.
    """
    while names := _unlock_and_list(folder):
        for name in names:
            if not _is_folder(name, folder):
                os.unlink(name, dir_fd=folder)
                continue
            below = _open_locked(name, folder)
            try:
                for inner in _unlock_and_list(below):
                    if _is_folder(inner, below):
                        _unlock(inner, below)  # a folder that is moved must be writable
                        os.rename(inner, secrets.token_hex(16), src_dir_fd=below, dst_dir_fd=folder)
                    else:
                        os.unlink(inner, dir_fd=below)
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=folder)


def _open_locked(name: str, folder: int) -> int:
    """Open a folder in an open folder, and return its descriptor. If its owner may not read it, its permissions are
    changed first.
    """
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            raise
    entry = os.open(name, FOLDER | os.O_PATH, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{entry}").chmod(stat.S_IRWXU)  # fchmod refuses such a descriptor
    finally:
        os.close(entry)
    return os.open(name, FOLDER, dir_fd=folder)


def _unlock(name: str, folder: int) -> None:
    """Make a folder in an open folder readable and writable for its owner."""
    opened = _open_locked(name, folder)
    try:
        os.fchmod(opened, stat.S_IRWXU)
    finally:
        os.close(opened)


def _unlock_and_list(folder: int) -> list[str]:
    """Make an open folder readable and writable for its owner, and return the names in it."""
    os.fchmod(folder, stat.S_IRWXU)
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _is_folder(name: str, folder: int) -> bool:
    """Return whether `name` in an open folder is a folder. Links to folders do not count."""
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


_READ_AND_WRITE: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

logger = logging.getLogger("karenina")


def printable_path(place: Path) -> str:
    """Return a path for use in a message. It is escaped if it contains line breaks or other unprintable characters."""
    return str(place) if str(place).isprintable() else ascii(str(place))


class CleanupList:
    """The folders that this process has created and has to remove, listed in a file.

    `kind` is the name of the folder in the user's state folder in which all processes store such lists.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._reset()
        os.register_at_fork(after_in_child=self._reset_in_child)

    def add(self, folder: CreatedFolder) -> None:
        """Add a folder to the list. If the list's file cannot be written, a warning is logged once. A folder that is
        not listed will remain if the process is killed.
        """
        with self._lock:
            self._paths.add(folder.path)
            self._write(
                {
                    "path": os.fspath(folder.path),
                    "device": folder.device,
                    "inode": folder.inode,
                    "machine": platform.node(),
                }
            )

    def discard(self, folder: CreatedFolder) -> None:
        """Remove a deleted folder from the list. With its last folder, the file of the list is deleted."""
        with self._lock:
            if folder.path not in self._paths:
                return
            self._paths.discard(folder.path)
            if self._handle is None:
                return
            if self._paths:
                self._write({"removed": os.fspath(folder.path)})
            else:
                self._close()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._paths: set[Path] = set()
        self._handle: int | None = None
        self._file: Path | None = None
        self._warned = False

    def _reset_in_child(self) -> None:
        """Empty the list in a forked process, without affecting the parent's file and lock."""
        if self._handle is not None:
            os.close(self._handle)  # the lock stays with the parent
        self._reset()

    def _write(self, line: Mapping[str, Any]) -> None:
        """Append a line to the list's file, creating it if needed. If this fails, a warning is logged once."""
        try:
            if self._handle is None:
                self._open()
            assert self._handle is not None
            os.write(self._handle, (json.dumps(line) + "\n").encode())
        except (OSError, UserStateError) as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "this run's %s could not be recorded, so they will remain if the run is killed: %s",
                    self.kind,
                    error,
                )

    def _open(self) -> None:
        """Create the file that contains the list, and lock it before other processes can read it. Raises `OSError` or
        `UserStateError` if this fails.
        """
        folder = state_folder() / self.kind
        make_own_folder(folder)
        name = f"{os.getpid()}-{secrets.token_hex(8)}"
        file, new = folder / f"{name}.jsonl", folder / f"{name}.new"
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(file)  # other processes read it from now on
        except BaseException:
            os.close(handle)
            new.unlink(missing_ok=True)
            raise
        self._handle, self._file = handle, file

    def _close(self) -> None:
        """Delete this process's cleanup list, which unlocks it. The list must be open."""
        assert self._handle is not None
        assert self._file is not None
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = self._file = None


def remove_orphans(kind: str, is_own: Callable[[Path], bool]) -> None:
    """Remove the folders that killed processes left behind, according to the lists of this `kind`, except those for
    which `is_own` returns False. Nothing is raised: what cannot be removed is logged as a warning.
    """
    try:
        lists = state_folder() / kind
        check_own_folder(lists)
        files = sorted(lists.glob("*.jsonl"))
    except FileNotFoundError:
        return
    except (OSError, UserStateError) as error:
        logger.warning("the %s of killed runs could not be removed: %s", kind, error)
        return
    for file in files:
        try:
            _clean_up_list(file, is_own)
        except FileNotFoundError:
            continue  # its process has ended in the meantime
        except OSError as error:
            logger.warning("the %s listed in %s could not be removed: %s", kind, file, error)


def _clean_up_list(file: Path, is_own: Callable[[Path], bool]) -> None:
    """Remove the folders that a killed process listed in `file`, if `is_own` returns True for them, and delete the list
    if nothing is left in it. Does nothing if the process is still running. Raises `OSError` if the list cannot be read
    or trusted.
    """
    handle = os.open(file, _READ_AND_WRITE)
    with os.fdopen(handle, "r+b") as opened:
        flaw = find_file_flaw(os.fstat(handle))
        if flaw is not None:
            raise OSError(flaw)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # the process is still running
        lines = opened.read(MOST_BYTES).splitlines()
        left = [noted for noted in _read_entries(lines) if not _remove_orphan(noted, is_own)]
        if not left:
            file.unlink(missing_ok=True)
            return
        opened.seek(0)
        opened.truncate()
        opened.write("".join(json.dumps(noted) + "\n" for noted in left).encode())


def _read_entries(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the entries of a list for folders that have not been removed. Invalid or incomplete lines are ignored."""
    entries: dict[str, dict[str, Any]] = {}
    for line in lines:
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            noted = json.loads(line)
            if "removed" in noted:
                entries.pop(noted["removed"], None)
                continue
            path, numbers = noted["path"], (noted["device"], noted["inode"])
            if isinstance(path, str) and Path(path).is_absolute() and all(type(number) is int for number in numbers):
                entries[path] = noted
    return list(entries.values())


def _remove_orphan(noted: Mapping[str, Any], is_own: Callable[[Path], bool]) -> bool:
    """Remove a killed run's folder, which the entry `noted` describes, and return whether this entry can be deleted. It
    is kept if the folder is not `is_own`, is on another machine, or cannot be removed, in which case a warning is
    logged. If something else is in its place, that is not removed, but the entry can be deleted.
    """
    path = Path(noted["path"])
    if noted.get("machine") != platform.node():
        return False
    try:
        if not is_own(path):
            return False
        CreatedFolder(path, noted["device"], noted["inode"]).remove()
    except FolderReplaced as error:
        logger.warning("%s of a killed run was not removed: %s", printable_path(path), error)
    except (OSError, ValueError, RuntimeError) as error:
        logger.warning("%s of a killed run could not be removed: %s", printable_path(path), error)
        return False
    else:
        logger.info("removed %s of a killed run", printable_path(path))
    return True
