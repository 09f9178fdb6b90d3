"""Workspace folders: found inside their root, and copied so that nothing leads out of it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from karenina_core.errors import KareninaError
from karenina_toolkit.nofollow_files import FOLDER, file_at, opened_folder

DEEPEST: Final = 100
"""Folders in folders that a copy goes down to."""
MOST_LINKED: Final = 200
"""Links to folders that one copy follows."""
MOST_BYTES: Final = 10_000_000_000
"""Bytes of all files that one copy takes, as `workspace_max_bytes` has it if it is not set."""
MOST_ENTRIES: Final = 1_000_000
"""Files and folders that one copy takes."""
LONGEST_BASE: Final = 80
"""Characters of a folder's own name that its copies keep."""

_CHUNK: Final = 2**20
_CHANGED: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EXDEV)
"""Errors of a path that is no longer what it was when it was looked at."""

_MADE_HERE = re.compile(r"_(run|judge)_\d{8}T\d{6}_pid\d+(_rep\d+)?_[0-9a-f]{8}(_trace_.*\.txt)?$")

LeftOut = Callable[[Path, str], None]
"""Told of what is not copied, and why."""


class WorkspaceError(KareninaError, ValueError):
    """A workspace that cannot be had. The message says which, why, and what to do."""


def existing_root(root: Path | None) -> Path:
    """The workspace root with its links resolved. Raises `WorkspaceError`."""
    if root is None:
        raise WorkspaceError(
            "there is no workspace root: set workspace_root in the configuration, or benchmark.workspace_root"
        )
    try:
        found = root.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise WorkspaceError(f"the workspace root {root} cannot be used: {error}") from None
    if not found.is_dir():
        raise WorkspaceError(f"the workspace root {root} is no folder: make it, or set workspace_root to another")
    return found


def folder_in(root: Path, path: str) -> Path:
    """The folder that `path` names below `root`, links resolved. Raises `WorkspaceError`.

    `..`, absolute paths, the root itself, and links that lead out of the root are refused.
    """
    wanted = PurePosixPath(path)
    if wanted.is_absolute() or ".." in wanted.parts or "\0" in path:
        raise WorkspaceError(f"workspace_path {path!r} is refused: give a path relative to the root, without '..'")
    try:
        found = (root / wanted).resolve()
        exists = found.is_dir()
    except (OSError, RuntimeError) as error:
        raise WorkspaceError(f"workspace_path {path!r} cannot be used: {error}") from None
    if not found.is_relative_to(root):
        raise WorkspaceError(f"workspace_path {path!r} is refused: it is a link that leaves the workspace root {root}")
    if found == root:
        raise WorkspaceError(f"workspace_path {path!r} is the workspace root itself: name a folder in it")
    if not exists:
        raise WorkspaceError(
            f"there is no folder {path!r} in the workspace root {root}: make it, or mend the question's workspace_path"
        )
    return found


def fresh_name(base: str, kind: Literal["run", "judge"], replicate: int | None) -> str:
    """A name that no other run, process, replicate or judge uses: `{base}_{kind}_{time}_pid{pid}[_rep{n}]_{random}`."""
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    repetition = f"_rep{replicate}" if replicate is not None else ""
    own = _MADE_HERE.sub("", base)[:LONGEST_BASE]
    return f"{own}_{kind}_{time}_pid{os.getpid()}{repetition}_{secrets.token_hex(4)}"


def is_made_here(name: str) -> bool:
    """Whether a file or folder of that name was made by a run, and belongs to no workspace that a copy is made of."""
    return _MADE_HERE.search(name) is not None


def slug(text: str) -> str:
    """`text` as the name of a folder: letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:LONGEST_BASE] or "question"


def copy_folder(
    source: Path, target: Path, root: Path, left_out: LeftOut | None = None, *, most_bytes: int = MOST_BYTES
) -> None:
    """Copy `source`, below `root`, to `target`, which must not exist or be empty. Links are replaced by their targets.

    So nothing in the copy leads to the original. Links that leave `root` or lead in a circle, and what is neither file
    nor folder, are passed to `left_out` and not copied; without it they raise `WorkspaceError`. Links that lead nowhere
    stay as they are, and workspaces that runs have made inside `source` are left out. A workspace with more than
    `most_bytes` raises `WorkspaceError`.
    """
    if not source.is_relative_to(root):
        raise WorkspaceError(f"the workspace {shown(source)} lies outside the workspace root {root}")
    try:
        target.mkdir(exist_ok=True)
        with opened_folder(root, source) as opened:
            _Copying(root, left_out or _refuse, most_bytes).folder(opened, source, target, (source,))
    except OSError as error:
        raise WorkspaceError(f"the workspace {shown(source)} cannot be copied: {error}") from None


def check_links(folder: Path, root: Path) -> None:
    """Raise `WorkspaceError` for the first link below `folder` that leaves `root`."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            place = Path(parent, name)
            why = _wrong_link(place, root, ()) if place.is_symlink() else None
            if why is not None:
                _refuse(place, why)


def shown(place: Path) -> str:
    """`place` for a message: quoted if it holds a line break or another character that cannot be printed."""
    return str(place) if str(place).isprintable() else ascii(str(place))


class _Copying:
    """One copy of a folder, bounded: a few links to folders that link on could else fill any disk.

    Folders and files are opened relative to the folder before them and never through a link, as an agent may still be
    at work in the original.
    """

    def __init__(self, root: Path, left_out: LeftOut, most_bytes: int) -> None:
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
                if not is_made_here(entry.name):
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
        why = _wrong_link(place, self._root, inside)
        if why is not None:
            self._left_out(place, why)
            return
        real = place.resolve()
        if not real.exists():
            copied.symlink_to(place.readlink())
            return
        with opened_folder(self._root, real.parent) as parent:
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
        with file_at(name, parent) as source, copied.open("xb") as target:
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


def _wrong_link(link: Path, root: Path, inside: tuple[Path, ...]) -> str | None:
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
        f"{shown(place)} {why} and cannot be copied: remove it, or replace it by an ordinary file or folder"
    )
