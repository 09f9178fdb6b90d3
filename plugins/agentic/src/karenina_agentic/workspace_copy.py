"""Workspace folders: found inside their root, and copied so that nothing leads out of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from karenina_agentic.workspace_paths import WorkspaceError, is_created_name, printable_path
from karenina_toolkit.nofollow_files import FOLDER, open_file_at, open_folder

DEEPEST: Final = 100
"""Folders in folders that a copy goes down to."""
MOST_LINKED: Final = 200
"""Links to folders that one copy follows."""
MOST_BYTES: Final = 10_000_000_000
"""Bytes of all files that one copy takes, as `workspace_max_bytes` has it if it is not set."""
MOST_ENTRIES: Final = 1_000_000
"""Files and folders that one copy takes."""
_CHUNK: Final = 2**20
_CHANGED: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EXDEV)
"""Errors of a path that is no longer what it was when it was looked at."""

OnSkipped = Callable[[Path, str], None]
"""Told of what is not copied, and why."""


def copy_folder(
    source: Path, target: Path, root: Path, left_out: OnSkipped | None = None, *, most_bytes: int = MOST_BYTES
) -> None:
    """Copy `source`, below `root`, to `target`, which must not exist or be empty. Links are replaced by their targets.

    So nothing in the copy leads to the original. Links that leave `root` or lead in a circle, and what is neither file
    nor folder, are passed to `left_out` and not copied; without it they raise `WorkspaceError`. Links that lead nowhere
    stay as they are, and workspaces that runs have made inside `source` are left out. A workspace with more than
    `most_bytes` raises `WorkspaceError`.
    """
    if not source.is_relative_to(root):
        raise WorkspaceError(f"the workspace {printable_path(source)} lies outside the workspace root {root}")
    try:
        target.mkdir(exist_ok=True)
        with open_folder(root, source) as opened:
            _Copying(root, left_out or _refuse, most_bytes).folder(opened, source, target, (source,))
    except OSError as error:
        raise WorkspaceError(f"the workspace {printable_path(source)} cannot be copied: {error}") from None


def check_links(folder: Path, root: Path) -> None:
    """Raise `WorkspaceError` for the first link below `folder` that leaves `root`."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            place = Path(parent, name)
            why = _find_link_problem(place, root, ()) if place.is_symlink() else None
            if why is not None:
                _refuse(place, why)


class _Copying:
    """One copy of a folder, bounded: a few links to folders that link on could else fill any disk.

    Folders and files are opened relative to the folder before them and never through a link, as an agent may still be
    at work in the original.
    """

    def __init__(self, root: Path, left_out: OnSkipped, most_bytes: int) -> None:
        self._root = root
        self._left_out = left_out
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries = 0
        self._followed = 0

    def folder(self, opened: int, source: Path, target: Path, inside: tuple[Path, ...]) -> None:
        """Copy `source`, a folder that is `opened` and has the folders `inside` above it, into the folder `target`."""
        with os.scandir(opened) as entries:
            for entry in entries:
                if not is_created_name(entry.name):
                    self._count_entry()
                    self._entry(opened, source / entry.name, target / entry.name, inside)
        # The copy must be one that can be worked in and removed, whatever the original allows.
        target.chmod(stat.S_IMODE(os.fstat(opened).st_mode) & 0o777 | stat.S_IRWXU)

    def _entry(self, parent: int, place: Path, copied: Path, inside: tuple[Path, ...]) -> None:
        try:
            found = os.stat(place.name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                self._link(place, copied, inside)
            else:
                self._copy(found, parent, place, place, copied, inside)
        except OSError as error:
            if error.errno not in _CHANGED:
                raise
            self._left_out(place, "was changed while it was copied")

    def _link(self, place: Path, copied: Path, inside: tuple[Path, ...]) -> None:
        why = _find_link_problem(place, self._root, inside)
        if why is not None:
            self._left_out(place, why)
            return
        real = place.resolve()
        if not real.exists():
            copied.symlink_to(place.readlink())
            return
        with open_folder(self._root, real.parent) as parent:
            found = os.stat(real.name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                self._followed += 1
                if self._followed > MOST_LINKED:
                    self._left_out(place, f"is a link beyond the {MOST_LINKED} links to folders that are followed")
                    return
            self._copy(found, parent, real, place, copied, inside)

    def _copy(
        self, found: os.stat_result, parent: int, real: Path, place: Path, copied: Path, inside: tuple[Path, ...]
    ) -> None:
        if stat.S_ISDIR(found.st_mode):
            self._folder(parent, real, place, copied, inside)
        elif stat.S_ISREG(found.st_mode):
            try:
                self._file(parent, real.name, copied)
            except PermissionError:
                self._left_out(place, "cannot be read")
        else:
            self._left_out(place, "is neither a file nor a folder")

    def _folder(self, parent: int, real: Path, place: Path, copied: Path, inside: tuple[Path, ...]) -> None:
        if len(inside) > DEEPEST:
            self._left_out(place, f"stands in more than {DEEPEST} folders")
            return
        try:
            opened = os.open(real.name, FOLDER, dir_fd=parent)
        except PermissionError:
            self._left_out(place, "cannot be opened")
            return
        try:
            copied.mkdir()
            self.folder(opened, place, copied, (*inside, real))
        finally:
            os.close(opened)

    def _file(self, parent: int, name: str, copied: Path) -> None:
        with open_file_at(name, parent) as source, copied.open("xb") as target:
            found = os.fstat(source.fileno())
            self._count_bytes(found.st_size)
            left = found.st_size  # a file that grows meanwhile is copied as it was
            while left and (chunk := source.read(min(left, _CHUNK))):
                target.write(chunk)
                left -= len(chunk)
            target.flush()
            os.fchmod(target.fileno(), found.st_mode & 0o777)
            os.utime(target.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))

    def _count_bytes(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise WorkspaceError(
                f"the workspace holds more than {self._most_bytes} bytes (workspace_max_bytes) and is not copied: "
                "remove what it need not hold, or raise workspace_max_bytes"
            )

    def _count_entry(self) -> None:
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            raise WorkspaceError(f"the workspace holds more than {MOST_ENTRIES} files and folders and is not copied")


def _find_link_problem(link: Path, root: Path, inside: tuple[Path, ...]) -> str | None:
    """Why a link cannot be followed from within the folders `inside`; None where it can."""
    try:
        target = link.resolve()
    except RuntimeError:
        return "is a link that leads in a circle"
    if not target.is_relative_to(root):
        return "leaves the workspace root"
    # Caught at the link: one folder later it would be an original of the user's that seems to be in the way.
    if any(folder.is_relative_to(target) for folder in inside):
        return "is a link that leads back to a folder that it is in"
    return None


def _refuse(place: Path, why: str) -> None:
    raise WorkspaceError(
        f"{printable_path(place)} {why} and cannot be copied: remove it, or replace it by an ordinary file or folder"
    )
