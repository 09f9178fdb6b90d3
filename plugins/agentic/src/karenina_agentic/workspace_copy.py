"""Workspaces: their paths below the workspace root, names that no two runs share, and copies.

A copy contains no links that point to the original or outside the workspace root.
"""

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
from karenina_toolkit.files.safe_paths import FOLDER, open_file_at, open_folder, resolve_links

LONGEST_BASE: Final = 80
"""Maximum number of characters from a folder's name in the names of its copies."""

_CREATED_NAME = re.compile(r"_(run|judge)_\d{8}T\d{6}_pid\d+(_rep\d+)?_[0-9a-f]{8}(_trace_.*\.txt)?$")


class WorkspaceError(KareninaError, ValueError):
    """Raised when a workspace is unavailable or not allowed. The message says which one, why, and how to fix it."""


def resolve_root(root: Path | None) -> Path:
    """Return the workspace root.

    Raises `WorkspaceError` if the root is None, is not a folder, or has a link in its path. Links in the configured
    root were resolved when the run started, so a link found now was created later, perhaps by an attacker.
    """
    if root is None:
        raise WorkspaceError(
            "no workspace root is set; set workspace_root in the configuration, or benchmark.workspace_root"
        )
    try:
        resolved = resolve_links(root)
        exists = resolved.is_dir()
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"the workspace root {root} cannot be used: {error}") from None
    if resolved != root.absolute():
        raise WorkspaceError(
            f"the workspace root {root} resolves to {resolved}; set workspace_root to {resolved} directly"
        )
    if not exists:
        raise WorkspaceError(
            f"the workspace root {root} is not a folder; create the folder, or set workspace_root to a different folder"
        )
    return resolved


def resolve_folder(root: Path, path: str) -> Path:
    """Return the folder at `path` below `root`, with links resolved.

    Raises `WorkspaceError` if the path is not a folder, contains `..`, is absolute, is the root itself, or is a link
    that points outside the root.
    """
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts or "\0" in path:
        raise WorkspaceError(
            f"workspace_path must be a path relative to the workspace root, without '..' or null characters, "
            f"not {path!r}"
        )
    try:
        resolved = resolve_links(root / relative)
        exists = resolved.is_dir()
    except OSError as error:
        raise WorkspaceError(f"workspace_path {path!r} cannot be used: {error}") from None
    if not resolved.is_relative_to(root):
        raise WorkspaceError(
            f"workspace_path {path!r} was refused because it is a link that points outside the workspace root {root}"
        )
    if resolved == root:
        raise WorkspaceError(f"workspace_path {path!r} is the workspace root itself; use a folder inside it")
    if not exists:
        raise WorkspaceError(
            f"the folder {path!r} does not exist in the workspace root {root}; create it, or correct workspace_path"
        )
    return resolved


def unique_name(base: str, kind: Literal["run", "judge"], replicate: int | None) -> str:
    """Return a name that no other run uses: `{base}_{kind}_{time}_pid{pid}[_rep{n}]_{random}`.

    If `base` is itself such a name, only its own base is used. A long base is shortened.
    """
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    repetition = f"_rep{replicate}" if replicate is not None else ""
    own = _CREATED_NAME.sub("", base)[:LONGEST_BASE]
    return f"{own}_{kind}_{time}_pid{os.getpid()}{repetition}_{secrets.token_hex(4)}"


def is_created_name(name: str) -> bool:
    """Return whether a file or folder with this name was created by a run. Workspace copies omit such files."""
    return _CREATED_NAME.search(name) is not None


def make_slug(text: str) -> str:
    """Convert `text` to a folder name made of ASCII letters, digits, dots, dashes and underscores.

    A long string is shortened. If no allowed characters are left, the name is `question`.
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:LONGEST_BASE] or "question"


def printable_path(place: Path) -> str:
    """Return `place` as shown in messages, escaped if it contains unprintable characters such as line breaks."""
    return str(place) if str(place).isprintable() else ascii(str(place))


DEEPEST: Final = 100
"""Maximum depth of nested folders in a copy."""
MOST_LINKED: Final = 200
"""Maximum number of links to folders that are followed for one copy."""
MOST_BYTES: Final = 10_000_000_000
"""Default of `workspace_max_bytes`: the maximum total size of the files in one copy."""
MOST_ENTRIES: Final = 1_000_000
"""Maximum number of files and folders in one copy."""
_CHUNK: Final = 2**20
_CHANGED: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EXDEV)
"""Error numbers that mean that a path changed after its folder was listed."""

OnSkipped = Callable[[Path, str], None]
"""Called with the path of a file that is not copied, and the reason."""


def copy_folder(
    source: Path, target: Path, root: Path, left_out: OnSkipped | None = None, *, most_bytes: int = MOST_BYTES
) -> None:
    """Copy the folder `source`, which must be below `root`, to `target`, which must be empty or not exist.

    Links are replaced by their targets, so that the copy has no links to the original; broken links are copied as they
    are. Links that point outside `root`, circular links, unreadable files, and anything that is neither a file nor a
    folder are reported to `left_out` and not copied; without `left_out`, they raise `WorkspaceError`. Workspaces that
    runs created inside `source` are skipped without a report.

    Raises `WorkspaceError` if `source` is larger than `most_bytes`, contains too many files and folders, or cannot be
    copied.
    """
    if not source.is_relative_to(root):
        raise WorkspaceError(f"the workspace {printable_path(source)} is outside the workspace root {root}")
    try:
        target.mkdir(exist_ok=True)
        with open_folder(root, source) as opened:
            _Copying(root, left_out or _refuse, most_bytes).folder(opened, source, target, (source,))
    except OSError as error:
        raise WorkspaceError(f"the workspace {printable_path(source)} cannot be copied: {error}") from None


def check_links(folder: Path, root: Path) -> None:
    """Raise `WorkspaceError` for the first link below `folder` that points outside `root` or is circular."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            place = Path(parent, name)
            why = _find_link_problem(place, root, ()) if place.is_symlink() else None
            if why is not None:
                _refuse(place, why)


class _Copying:
    """One copy operation, with limits because a few links between folders could fill any disk.

    Folders and files are opened relative to their parent and never through a link, because an agent may still be
    changing the original.
    """

    def __init__(self, root: Path, left_out: OnSkipped, most_bytes: int) -> None:
        self._root = root
        self._left_out = left_out
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries = 0
        self._followed = 0

    def folder(self, opened: int, source: Path, target: Path, inside: tuple[Path, ...]) -> None:
        """Copy the folder `source` into the folder `target`.

        `opened` is the file descriptor of `source`, and `inside` lists the original folders that contain its contents.
        """
        with os.scandir(opened) as entries:
            for entry in entries:
                if not is_created_name(entry.name):
                    self._count_entry()
                    self._entry(opened, source / entry.name, target / entry.name, inside)
        # The copy must be writable and removable, whatever the permissions of the original.
        target.chmod(stat.S_IMODE(os.fstat(opened).st_mode) & 0o777 | stat.S_IRWXU)

    def _entry(self, parent: int, place: Path, copied: Path, inside: tuple[Path, ...]) -> None:
        """Copy one entry of an open folder, following a link. An entry that changes while it is copied is left out."""
        try:
            status = os.stat(place.name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                self._link(place, copied, inside)
            else:
                self._copy(status, parent, place, place, copied, inside)
        except OSError as error:
            if error.errno not in _CHANGED:
                raise
            self._left_out(place, "changed while it was copied")

    def _link(self, place: Path, copied: Path, inside: tuple[Path, ...]) -> None:
        """Copy the target of a link in place of the link. A broken link is copied as it is.

        A link that points outside the root, is circular, or exceeds the limit on links to folders is left out.
        """
        why = _find_link_problem(place, self._root, inside)
        if why is not None:
            self._left_out(place, why)
            return
        real = place.resolve()
        if not real.exists():
            copied.symlink_to(place.readlink())
            return
        with open_folder(self._root, real.parent) as parent:
            status = os.stat(real.name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                self._followed += 1
                if self._followed > MOST_LINKED:
                    self._left_out(place, f"exceeds the limit of {MOST_LINKED} links to folders")
                    return
            self._copy(status, parent, real, place, copied, inside)

    def _copy(
        self, status: os.stat_result, parent: int, real: Path, place: Path, copied: Path, inside: tuple[Path, ...]
    ) -> None:
        """Copy a file or folder that is not a link. Anything else is left out, and so are unreadable files.

        `real` is the file or folder in the open folder `parent`, `place` is its path in messages (a link to it, if
        there is one), and `copied` is the path of the copy.
        """
        if stat.S_ISDIR(status.st_mode):
            self._folder(parent, real, place, copied, inside)
        elif stat.S_ISREG(status.st_mode):
            try:
                self._file(parent, real.name, copied)
            except PermissionError:
                self._left_out(place, "cannot be read")
        else:
            self._left_out(place, "is neither a file nor a folder")

    def _folder(self, parent: int, real: Path, place: Path, copied: Path, inside: tuple[Path, ...]) -> None:
        """Copy a folder and its contents. The folder is left out if it is nested too deeply or cannot be opened."""
        if len(inside) > DEEPEST:
            self._left_out(place, f"is nested in more than {DEEPEST} folders")
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
        """Copy a file with its mode and times. Data appended to it during the copy is not included.

        Raises `WorkspaceError` if the size limit is exceeded.
        """
        with open_file_at(name, parent) as source, copied.open("xb") as target:
            status = os.fstat(source.fileno())
            self._count_bytes(status.st_size)
            left = status.st_size  # if the file grows meanwhile, the rest is not copied
            while left and (chunk := source.read(min(left, _CHUNK))):
                target.write(chunk)
                left -= len(chunk)
            target.flush()
            os.fchmod(target.fileno(), status.st_mode & 0o777)
            os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))

    def _count_bytes(self, size: int) -> None:
        """Add the size of a file to the total. Raises `WorkspaceError` if the total exceeds `workspace_max_bytes`."""
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise WorkspaceError(
                f"the workspace was not copied because it is larger than {self._most_bytes} bytes "
                "(workspace_max_bytes); remove unneeded files, or raise workspace_max_bytes"
            )

    def _count_entry(self) -> None:
        """Count a file or folder. Raises `WorkspaceError` if there are too many of them."""
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            raise WorkspaceError(
                f"the workspace was not copied because it contains more than {MOST_ENTRIES} files and "
                "folders; remove some of them"
            )


def _find_link_problem(link: Path, root: Path, inside: tuple[Path, ...]) -> str | None:
    """Return why a link inside the folders `inside` cannot be followed, or None if it can."""
    try:
        target = resolve_links(link)
    except OSError:
        return "is a circular link"
    if not target.is_relative_to(root):
        return "is a link that points outside the workspace root"
    # Checked at the link itself: one level further down, the error would name a path that is not the problem.
    if any(folder.is_relative_to(target) for folder in inside):
        return "is a link to a folder that contains it"
    return None


def _refuse(place: Path, why: str) -> None:
    """Raise `WorkspaceError` for a file or folder that cannot be copied.

    This is the default handler for such entries.
    """
    raise WorkspaceError(
        f"{printable_path(place)} {why} and cannot be copied; remove it, or replace it with an ordinary file or folder"
    )
