"""The folders behind a workspace, and what all sandboxes do with them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

from karenina_sandbox.capture.folders import compare_folders, compare_layers
from karenina_sandbox.capture.trees import PERMISSIONS, TreeWriter, copy_over, read_below
from karenina_sandbox.limits.cgroups import find_cgroups
from karenina_sandbox.limits.usage import measure_files
from karenina_sandbox.patch import Patch
from karenina_sandbox.sandbox import Policy, SandboxError
from karenina_toolkit.files import created_folders
from karenina_toolkit.files.created_folders import CleanupList, CreatedFolder

_LEAST_FREE: Final = 512 * 1024**2
"""The number of free bytes on the disk below which commands are ended, whoever filled it."""
_UNUSED: Final = range(64_000, 64_064)
"""User ids that no distribution assigns. `etc/passwd` has an entry for each."""
_RESERVED: Final[Counter[int]] = Counter()
_RESERVING: Final = threading.Lock()
_PREFIX: Final = "karenina-sandbox-"
_CLEANUP_LIST: Final = CleanupList("sandboxes")


_Opened = TypeVar("_Opened", bound="LayeredSandbox")


@dataclass(frozen=True, slots=True)
class Layers:
    """The folders behind a workspace.

    Only `source`: it is changed in place. With `upper`: a copy of the source in it is changed. With `work`, too, which
    the kernel uses: `upper` contains what differs from the source, as an overlay. `owner` owns the files of a copy.
    """

    source: Path
    upper: Path | None = None
    work: Path | None = None
    owner: int | None = None

    @property
    def changed(self) -> Path:
        """The folder in which commands change files."""
        return self.source if self.upper is None else self.upper

    @property
    def visible(self) -> tuple[Path, ...]:
        """The folders whose files commands see, the most recent first."""
        return (self.changed,) if self.work is None else (self.changed, self.source)

    def writer(self) -> TreeWriter:
        """Return a writer for files of the workspace."""
        return TreeWriter(self.changed, None if self.work is None else self.source, self.owner)

    def patch(self) -> Patch:
        """Return what has changed against the source, or no changes if commands work in the source itself."""
        if self.upper is None:
            return Patch()
        compare = compare_folders if self.work is None else compare_layers
        return compare(self.source, self.upper)


@dataclass(slots=True)
class LayeredSandbox:
    """A workspace in layers of folders. Subclasses run commands in it, one after another.

    `uid` is the reserved user id with which they run, if any.
    """

    policy: Policy
    layers: Layers
    uid: int | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _size: int | None = None

    async def overlay(self, folder: Path) -> None:
        """Copy the files in `folder` over the workspace. Raises `SandboxError` if any of them cannot be copied."""
        async with self.lock:
            try:
                skipped = await asyncio.to_thread(self._copy_over, folder)
            except (OSError, ValueError) as error:
                raise SandboxError(f"{folder} cannot be copied into the workspace: {error}") from error
        if skipped:
            raise SandboxError(f"{folder} cannot be copied into the workspace: {'; '.join(skipped)}")

    async def read(self, path: str, limit: int) -> bytes | None:
        """Return the content of a file of the workspace, or None if it is no regular file. Links are not followed.
        Raises `SandboxError` if it is larger than `limit` bytes.
        """
        content = await asyncio.to_thread(read_below, self.layers.visible, path, limit + 1)
        if content is not None and len(content) > limit:
            raise SandboxError(f"the file {path!r} is larger than {limit} bytes")
        return content

    async def patch(self) -> Patch:
        """Return what commands have changed in the workspace so far, once no command is running. Raises `SandboxError`
        if the changes cannot be read.
        """
        async with self.lock:
            try:
                return await asyncio.to_thread(self.layers.patch)
            except OSError as error:
                raise SandboxError(f"the changes in the workspace cannot be read: {error}") from error

    async def note_size(self) -> None:
        """Note what a copy of the workspace takes before the first command, which is not counted."""
        if self._size is None:
            self._size = 0 if self.layers.work is not None else await self._measure(sys.maxsize)

    async def exceeds_disk(self) -> bool:
        """Return whether commands have written more than they may. Raises `SandboxError` if the disk is nearly full."""
        if shutil.disk_usage(self.layers.changed).free < _LEAST_FREE:
            raise SandboxError(
                f"the disk that contains {self.layers.changed} is nearly full; free some space, or set TMPDIR to a "
                "folder on another disk"
            )
        most = self.policy.limits.disk + (self._size or 0)
        return await self._measure(most) > most

    def _copy_over(self, folder: Path) -> list[str]:
        with self.layers.writer() as writer:
            return copy_over(folder, writer)

    async def _measure(self, most: int) -> int:
        return await asyncio.to_thread(measure_files, [self.layers.changed], most)


def choose_uid(workspace: Path, *, in_place: bool) -> int:
    """Reserve and return a user id for a sandbox: that of the workspace's owner if it is one for sandboxes, or an
    unused one. With `in_place`, this user becomes the owner of the workspace folder.

    Each sandbox has its own, because the kernel counts the processes of a user. `release_uid` ends the reservation. All
    that work in a workspace at the same time have the same.
    """
    used = {owner for owner in _list_owners() if owner in _UNUSED}
    with _RESERVING:
        owner = workspace.stat().st_uid
        free = [uid for uid in _UNUSED if uid not in used and not _RESERVED[uid]]
        chosen = owner if owner in _UNUSED else free[os.getpid() % len(free)] if free else _UNUSED[0]
        if in_place:
            os.chown(workspace, chosen, chosen)
        _RESERVED[chosen] += 1
    return chosen


def release_uid(uid: int) -> None:
    """Make an unused user id available to other sandboxes."""
    with _RESERVING:
        _RESERVED[uid] -= 1


def _list_owners() -> Iterator[int]:
    """Yield the user id that owns each running process of this machine. An id may occur several times."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                yield process.stat().st_uid


@lru_cache(maxsize=1)
def _remove_orphans() -> None:
    """Remove the processes, folders and control groups left by killed processes. Later calls in the same process do
    nothing.
    """

    def is_own(path: Path) -> bool:
        """Return whether a folder is a sandbox's, and end the processes of bubblewrap that were started for it."""
        own = path.name.startswith(_PREFIX)
        if own:
            _end_orphans(path.name)
        return own

    created_folders.remove_orphans(_CLEANUP_LIST.kind, is_own)
    cgroups = find_cgroups()
    if cgroups is not None:
        cgroups.remove_orphans()


def _end_orphans(name: str) -> None:
    """Kill the processes of bubblewrap that were started for `name`, the folder of a killed process.

    There may be some if it was killed in the milliseconds in which bubblewrap creates the first process of a sandbox.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(f"{name}\0".encode()):
                os.kill(int(process.name), signal.SIGKILL)


def _create_scratch() -> CreatedFolder:
    """Create a temporary folder for the layers of a sandbox, after removing what killed processes left."""
    _remove_orphans()
    scratch = CreatedFolder.temporary(_PREFIX)
    _CLEANUP_LIST.add(scratch)
    return scratch


def _remove_scratch(scratch: CreatedFolder) -> None:
    """Remove the folder of a sandbox. Raises `SandboxError` if it cannot be removed."""
    try:
        scratch.remove()
    except OSError as error:
        raise SandboxError(f"the sandbox folder {scratch.path} cannot be removed: {error}") from error
    _CLEANUP_LIST.discard(scratch)


@asynccontextmanager
async def open_in_scratch(make: Callable[[Path], _Opened]) -> AsyncIterator[_Opened]:
    """Yield the sandbox that `make` returns for a new temporary folder, and remove the folder at the end. `make` is
    called in a thread, and its errors propagate. Raises `SandboxError` if the folder cannot be removed.
    """
    scratch = await asyncio.to_thread(_create_scratch)
    sandbox: _Opened | None = None
    try:
        sandbox = await asyncio.to_thread(make, scratch.path)
        yield sandbox
    finally:
        if sandbox is not None and sandbox.uid is not None:
            release_uid(sandbox.uid)
        await asyncio.to_thread(_remove_scratch, scratch)


def make_layers(workspace: Path, scratch: Path, uid: int | None, *, overlay: bool, in_place: bool) -> Layers:
    """Make the folders of a workspace in `scratch`: the layers of an overlay, or a copy; with `in_place`, commands
    change the workspace itself. `uid` becomes the owner of what commands may change. Raises `OSError` or `ValueError`
    if a file cannot be read or written.
    """
    if in_place:
        if uid is not None:
            give(workspace, uid)
        return Layers(workspace)
    upper = scratch / "files"
    upper.mkdir()
    if overlay:
        upper.chmod(workspace.stat().st_mode & PERMISSIONS)
        work = scratch / "overlay"
        work.mkdir()
        return Layers(workspace, upper, work)
    with TreeWriter(upper, owner=uid) as writer:
        copy_over(workspace, writer)
    if uid is not None:
        os.chown(upper, uid, uid)
    return Layers(workspace, upper, owner=uid)


def give(folder: Path, uid: int) -> None:
    """Make `uid` the owner and group of a folder and all that it contains, except files with several hard links."""
    for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        os.fchown(descriptor, uid, uid)
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if status.st_uid != uid and not (stat.S_ISREG(status.st_mode) and status.st_nlink > 1):
                os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)
