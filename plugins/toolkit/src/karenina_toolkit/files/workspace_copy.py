"""The folders in which agents work: their paths, their names, and how they are copied.

Names are unique across runs. A copy has no links that lead to the original or out of the workspace root.
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
from karenina_core.models.ports import SourceFolder
from karenina_toolkit.files.created_folders import CleanupList, CreatedFolder, printable_path
from karenina_toolkit.files.safe_paths import FOLDER, open_file_at, open_folder, resolve_links

CLEANUP_LIST: Final = CleanupList("workspaces")
"""The copies that this process has created. If it is killed, a later run removes them."""

LONGEST_BASE: Final = 80
"""The maximum number of characters of a folder's name that are used in the names of its copies."""

ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
"""The file name extensions of archives that can be workspaces."""

_CREATED_NAME = re.compile(r"_(run|judge)_\d{8}T\d{6}_pid\d+(_rep\d+)?_[0-9a-f]{8}(_trace_.*\.txt)?$")


class WorkspaceError(KareninaError, ValueError):
    """Raised if a workspace is not available or not allowed. The message includes a fix."""


def resolve_root(root: Path | None) -> Path:
    """Return the workspace root as an absolute path. Raises `WorkspaceError` if it is None, is not a folder, or has a
    link in its path. Links were resolved when the run started, so any link found now was created later, perhaps by an
    attacker.
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


def resolve_source(root: Path, path: str) -> Path:
    """Return the folder or tar archive at `path` below `root`, with links resolved. An archive may be named without its
    extension, unless there is a folder of this name. Raises `WorkspaceError` if the path is absolute or contains `..`,
    or leads to the root itself, out of it, or to nothing of this kind.
    """
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts or "\0" in path:
        raise WorkspaceError(
            f"workspace_path must be a path relative to the workspace root, without '..' or null characters, "
            f"not {path!r}"
        )
    names = ("", *(() if path.endswith(ARCHIVES) else ARCHIVES))
    try:
        found = next((place for end in names if os.path.lexists(place := root / f"{relative}{end}")), root / relative)
        resolved = resolve_links(found)
        exists = resolved.is_dir() or (found.name.endswith(ARCHIVES) and resolved.is_file())
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
            f"the folder {path!r} does not exist in the workspace root {root}, and there is no tar archive of this "
            "name; create one, or correct workspace_path"
        )
    return resolved


def unique_name(base: str, kind: Literal["run", "judge"], replicate: int | None) -> str:
    """Return a name that no other run uses: `{base}_{kind}_{time}_pid{pid}[_rep{n}]_{random}`. If `base` was created by
    this function, its own base is used. Long bases are shortened.
    """
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    repetition = f"_rep{replicate}" if replicate is not None else ""
    own = _CREATED_NAME.sub("", base)[:LONGEST_BASE]
    return f"{own}_{kind}_{time}_pid{os.getpid()}{repetition}_{secrets.token_hex(4)}"


def is_created_name(name: str) -> bool:
    """Return whether a run created the file or folder with the given name. Copies skip such entries."""
    return _CREATED_NAME.search(name) is not None


def source_folder(place: Path, root: Path) -> SourceFolder:
    """Return a folder or file below `root` as a folder whose content can be compared."""
    if place.is_dir():
        return SourceFolder(place, within=root, ignores=is_created_name)
    return SourceFolder(place.parent, within=root, ignores=lambda name: name != place.name)


def create_folder(path: Path, *, noted: bool = True) -> CreatedFolder:
    """Create a folder, which must not exist, and return it. If `noted` is true and this process is killed, a later run
    removes the folder. Raises `WorkspaceError` if the folder cannot be created.
    """
    try:
        folder = CreatedFolder.make(path)
    except OSError as error:
        raise WorkspaceError(f"the workspace {path} could not be created: {error.strerror}") from None
    if noted:
        CLEANUP_LIST.add(folder)
    return folder


def make_slug(text: str) -> str:
    """Convert text to a folder name that consists of ASCII letters, digits, dots, dashes and underscores. Long texts
    are shortened. If nothing remains, the name is `question`.
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:LONGEST_BASE] or "question"


DEEPEST: Final = 100
"""The maximum depth of nested folders in a copy."""
MOST_LINKED: Final = 200
"""The maximum number of links to folders that are followed in a copy."""
MOST_BYTES: Final = 10_000_000_000
"""The default value of `workspace_max_bytes`, the maximum total size of the files in a copy."""
MOST_ENTRIES: Final = 1_000_000
"""The maximum number of files and folders in a copy."""
_CHUNK: Final = 2**20
_CHANGED: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EXDEV)
"""The error numbers that indicate that a path has changed since its folder was listed."""

OnSkipped = Callable[[Path, str], None]
"""A function that is called with the path of each file that is not copied, and the reason."""


def copy_folder(
    source: Path, target: Path, root: Path, left_out: OnSkipped | None = None, *, most_bytes: int = MOST_BYTES
) -> None:
    """Copy the folder `source`, which must be below `root`, to `target`, which must be empty or not exist. Links are
    replaced with copies of their targets, and broken links copied unchanged. What cannot be copied is reported to
    `left_out` or, without it, raises `WorkspaceError`. A source of more than `most_bytes` always raises it.

    Files that cannot be read, special files, circular links, and links out of the root cannot be copied. Workspaces of
    earlier runs inside `source` are not copied. Too many files and folders also raise `WorkspaceError`.
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
    """Raise `WorkspaceError` if a link below `folder` leads out of `root` or is circular."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            place = Path(parent, name)
            why = _find_link_problem(place, root, ()) if place.is_symlink() else None
            if why is not None:
                _refuse(place, why)


class _Copying:
    """A copy in progress. It has limits, because a few links between folders could fill any disk.

    Files and folders are opened relative to their parent and never through a link, because an agent may still be
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
        """Copy the folder `source` into the existing folder `target`, without the workspaces that Karenina created in
        it. `opened` is the file descriptor of `source`. `inside` lists the original folders that contain it.
        """
        with os.scandir(opened) as entries:
            for entry in entries:
                if not is_created_name(entry.name):
                    self._count_entry()
                    self._entry(opened, source / entry.name, target / entry.name, inside)
        # The copy must be writable and removable, whatever the permissions of the original.
        target.chmod(stat.S_IMODE(os.fstat(opened).st_mode) & 0o777 | stat.S_IRWXU)

    def _entry(self, parent: int, place: Path, copied: Path, inside: tuple[Path, ...]) -> None:
        """Copy the entry `place` of the open folder `parent` to `copied`, following links. If it changes during the
        copy, it is reported as left out (which may raise `WorkspaceError`).
        """
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
        """Copy the target of the link `place` to `copied`. A broken link is copied unchanged. Links out of the root,
        circular links, and links to folders after the first `MOST_LINKED` are reported as left out. `inside` contains
        the folders that contain the link.
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
        """Copy the file or folder `real`, in the open folder `parent`, to `copied`. Anything else is reported as left
        out, and so are files that cannot be read, under the path `place`, which may be that of a link.
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
        """Copy the folder `real`, which is in the open folder `parent`, to the new folder `copied`. If it is nested too
        deeply or cannot be opened, it is reported as left out, with `place` as its path.
        """
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
        """Copy a file with its permissions and times to the new file `copied`. Data appended during the copy is
        ignored. Raises `WorkspaceError` if the size limit is exceeded.
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
        """Add the size of a file. Raises `WorkspaceError` if the total exceeds `workspace_max_bytes`."""
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise WorkspaceError(
                f"the workspace was not copied because it is larger than {self._most_bytes} bytes "
                "(workspace_max_bytes); remove unneeded files, or raise workspace_max_bytes"
            )

    def _count_entry(self) -> None:
        """Count a file or folder. Raises `WorkspaceError` if there have been too many."""
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            raise WorkspaceError(
                f"the workspace was not copied because it contains more than {MOST_ENTRIES} files and "
                "folders; remove some of them"
            )


def _find_link_problem(link: Path, root: Path, inside: tuple[Path, ...]) -> str | None:
    """Return why a link cannot be followed, or None: it is circular, leads out of `root`, or leads to a folder that
    contains one of `inside`, the folders that contain the link.
    """
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
    """Raise `WorkspaceError` for a file or folder that cannot be copied. This is the default handler."""
    raise WorkspaceError(
        f"{printable_path(place)} {why} and cannot be copied; remove it, or replace it with an ordinary file or folder"
    )
