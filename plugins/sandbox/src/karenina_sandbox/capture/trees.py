"""Reading and writing trees of files that programs left, which may be hostile.

Everything is opened relative to its folder and never through a link. Devices, sockets and FIFOs are never opened.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self

from karenina_toolkit.files.created_folders import empty_folder
from karenina_toolkit.files.safe_paths import FILE, FOLDER

DEEPEST: Final = 100
"""The maximum depth of nested folders. What is deeper is not part of a patch."""
PERMISSIONS: Final = 0o777
"""The part of a mode that patches keep: no set-user-ID, set-group-ID or sticky bit."""
OPAQUE: Final = "user.overlay.opaque"
"""The attribute of a folder in an upper layer that hides the contents of the folder below."""
_CHUNK: Final = 2**20

Kind = Literal["file", "link", "directory", "deleted", "special"]


def kind_of(status: os.stat_result) -> Kind:
    """Return the kind of a file by its status. A whiteout, by which an overlay marks a deleted file, is `deleted`."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISLNK(mode):
        return "link"
    return "deleted" if stat.S_ISCHR(mode) and status.st_rdev == 0 else "special"


def is_opaque(folder: int) -> bool:
    """Return whether an open folder of an upper layer hides the contents of the folder below. An error means no."""
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


@contextmanager
def opened(name: str | Path, flags: int = FOLDER, *, folder: int | None = None) -> Iterator[int]:
    """Open a file or folder and yield its descriptor, changing its mode meanwhile if the owner may not read it.
    Folders also become writable. Raises `OSError` if it does not exist or is owned by another user.
    """
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
        mode = None
    except PermissionError:
        descriptor, mode = _unlock(name, flags, folder)
    try:
        if mode is None and flags & os.O_DIRECTORY and not _is_writable(descriptor):
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            os.fchmod(descriptor, mode | stat.S_IRWXU)
        yield descriptor
    finally:
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.close(descriptor)


def _is_writable(folder: int) -> bool:
    """Return whether an open folder can be written to or is owned by another user."""
    status = os.fstat(folder)
    return os.geteuid() == 0 or status.st_uid != os.geteuid() or status.st_mode & stat.S_IRWXU == stat.S_IRWXU


def _unlock(name: str | Path, flags: int, folder: int | None) -> tuple[int, int]:
    """Make a file or folder, in an open folder or at the path `name`, readable for its owner, and open it with `flags`.
    Return the descriptor, and the mode to restore. Raises `OSError` if it belongs to another user.
    """
    entry = os.open(name, flags & ~os.O_NONBLOCK | os.O_PATH, dir_fd=folder)
    try:
        place = Path(f"/proc/self/fd/{entry}")  # fchmod refuses such a descriptor
        status = os.fstat(entry)
        needed = stat.S_IRWXU if stat.S_ISDIR(status.st_mode) else stat.S_IRUSR
        place.chmod(stat.S_IMODE(status.st_mode) | needed)
        return os.open(name, flags, dir_fd=folder), stat.S_IMODE(status.st_mode)
    finally:
        os.close(entry)


@contextmanager
def opened_file(name: str, folder: int) -> Iterator[int]:
    """Open a regular file in an open folder for reading, and yield its descriptor. Raises `OSError` if there is none,
    or if it is something else, such as a link.
    """
    with opened(name, FILE, folder=folder) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "the path is not a regular file")
        yield descriptor


def read_below(layers: Sequence[Path], path: str, limit: int) -> bytes | None:
    """Return the first `limit` bytes of the regular file at `path`, or None if there is none that can be read. `layers`
    are one folder, or the upper and the lower folder of an overlay. No part of the path may be a link.
    """
    parts = path.removeprefix("./").split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in path or len(parts) > DEEPEST:
        return None
    with suppress(OSError), ExitStack() as stack:
        here = [stack.enter_context(opened(layer)) for layer in layers]
        for number, part in enumerate(parts, start=1):
            below: list[int] = []
            for folder in here:
                try:
                    kind = kind_of(os.stat(part, dir_fd=folder, follow_symlinks=False))
                except FileNotFoundError:
                    continue
                if kind == "file" and number == len(parts) and not below:
                    file = stack.enter_context(opened_file(part, folder))
                    with open(file, "rb", closefd=False) as reader:
                        return reader.read(limit)
                if kind != "directory":
                    break
                below.append(stack.enter_context(opened(part, folder=folder)))
                if is_opaque(below[-1]):
                    break
            here = below
    return None


@dataclass(slots=True)
class TreeWriter:
    """A folder whose entries are replaced, whatever is in their place. Nothing is written through a link.

    With `lower`, `root` is the upper layer of an overlay on `lower`. New entries belong to `owner`, unless it is None.
    Modes of folders are set when the writer is closed, because they may forbid what is still to be written.
    """

    root: Path
    lower: Path | None = None
    owner: int | None = None
    _modes: dict[str, int] = field(default_factory=dict)
    _open: int | None = None
    """The folder that was written to last. It stays open for the next file."""
    _open_path: str = ""
    _opened: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for path, mode in sorted(self._modes.items(), reverse=True):
            with suppress(OSError), self._parent(path) as (folder, name), opened(name, folder=folder) as descriptor:
                os.fchmod(descriptor, mode)
        self._close()
        self._modes.clear()

    def remove(self, path: str) -> None:
        """Remove what is at `path`, if anything."""
        with self._parent(path) as (folder, name):
            _remove(name, folder)

    def directory(self, path: str, mode: int | None = None) -> None:
        """Create a folder, replacing anything else at `path`. Its `mode` is set when the writer is closed."""
        with self._parent(path) as (folder, name):
            self._make_folder(path, name, folder)
        if mode is not None:
            self._modes[path] = mode & PERMISSIONS

    def link(self, path: str, target: bytes) -> None:
        """Create a link, replacing whatever is at `path`."""
        with self._parent(path) as (folder, name):
            _remove(name, folder)
            os.symlink(target, os.fsencode(name), dir_fd=folder)
            self._own(name, folder)

    def file(self, path: str, content: bytes | int, mode: int, times: tuple[int, int] | None = None) -> None:
        """Create a file from bytes or from an open file, replacing whatever is at `path`. `times` are those of the last
        access and the last change, in nanoseconds.
        """
        with self._parent(path) as (folder, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                file = os.open(name, flags, 0o600, dir_fd=folder)
            except FileExistsError:
                _remove(name, folder)
                file = os.open(name, flags, 0o600, dir_fd=folder)
            try:
                if isinstance(content, bytes):
                    _write(file, content)
                else:
                    while chunk := os.read(content, _CHUNK):
                        _write(file, chunk)
                if self.owner is not None:
                    os.fchown(file, self.owner, self.owner)
                os.fchmod(file, mode & PERMISSIONS)
                if times is not None:
                    os.utime(file, ns=times)
            finally:
                os.close(file)

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the folder that contains `path`, creating it if needed, and yield its descriptor and the last part of
        `path`. The folder stays open until a path in another folder is written. Raises `ValueError` if the path leads
        out of the writer's folder or is nested too deeply.
        """
        parts = path.split("/")
        if not {"", ".", ".."}.isdisjoint(parts) or "\0" in path or len(parts) > DEEPEST:
            raise ValueError(f"the path {path!r} is outside the folder, or is nested too deeply")
        if self._open is not None and f"{self._open_path}/".startswith(f"{path}/"):
            self._close()  # it may be replaced
        above = "/".join(parts[:-1])
        if self._open is None or self._open_path != above:
            self._close()
            with ExitStack() as stack:
                self._open = stack.enter_context(opened(self.root))
                for number, part in enumerate(parts[:-1], start=1):
                    self._make_folder("/".join(parts[:number]), part, self._open)
                    self._open = stack.enter_context(opened(part, folder=self._open))
                self._open_path, self._opened = above, stack.pop_all()
        yield self._open, parts[-1]

    def _close(self) -> None:
        """Close the folder that was written to last."""
        self._opened.close()
        self._open = None

    def _make_folder(self, path: str, name: str, folder: int) -> None:
        """Ensure that there is a folder `name` in an open folder, replacing anything else of this name. In an overlay,
        a new folder gets the mode of the folder below it, or hides what is below if that is none or something was
        replaced.
        """
        try:
            kind = kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError:
            kind = None
        if kind == "directory":
            return
        if kind is not None:
            _remove(name, folder)
        mode, hides = 0o755, self.lower is not None
        if self.lower is not None and kind is None:
            mode, hides = self._below(path, mode)
        os.mkdir(name, 0o700, dir_fd=folder)
        self._own(name, folder)
        with opened(name, folder=folder) as created:
            os.fchmod(created, mode)
            if hides:
                os.setxattr(created, OPAQUE, b"y")

    def _below(self, path: str, usual: int) -> tuple[int, bool]:
        """Return the mode of a new folder at `path`, and whether it is marked as opaque: the mode of the lower layer's
        folder and False, or `usual` and True if there is no such folder.
        """
        assert self.lower is not None
        with suppress(OSError), ExitStack() as stack:
            here = stack.enter_context(opened(self.lower))
            for part in path.split("/"):
                here = stack.enter_context(opened(part, folder=here))
            return stat.S_IMODE(os.fstat(here).st_mode), False
        return usual, True

    def _own(self, name: str, folder: int) -> None:
        if self.owner is not None:
            os.chown(name, self.owner, self.owner, dir_fd=folder, follow_symlinks=False)


def _write(file: int, content: bytes) -> None:
    """Write bytes to an open file."""
    written = 0
    while written < len(content):
        written += os.write(file, content[written:] if written else content)


def copy_over(source: Path, writer: TreeWriter) -> list[str]:
    """Copy the files, folders and links in `source` to the folder of `writer`, over what is there. Links are copied as
    links. Returns a message for each entry that was not copied. Raises `OSError` if one cannot be read or written.
    """
    skipped: list[str] = []
    with opened(source) as folder:
        _copy_folder(folder, "", writer, skipped)
    return skipped


def _copy_folder(source: int, prefix: str, writer: TreeWriter, skipped: list[str]) -> None:
    """Copy what is in an open folder to the folder `prefix` of `writer`, and append what is not copied to `skipped`."""
    with os.scandir(source) as entries:
        for entry in entries:
            path = prefix + entry.name
            status = entry.stat(follow_symlinks=False)
            kind = kind_of(status)
            if path.count("/") + 1 >= DEEPEST:
                skipped.append(f"{path}: is nested in more than {DEEPEST} folders")
            elif kind == "directory":
                writer.directory(path, status.st_mode)
                with opened(entry.name, folder=source) as below:
                    _copy_folder(below, f"{path}/", writer, skipped)
            elif kind == "link":
                writer.link(path, os.readlink(os.fsencode(entry.name), dir_fd=source))
            elif kind == "file":
                with opened_file(entry.name, source) as file:
                    writer.file(path, file, status.st_mode, (status.st_atime_ns, status.st_mtime_ns))
            else:
                skipped.append(f"{path}: is neither a file, a folder nor a link")


def _remove(name: str, folder: int) -> None:
    """Remove the file, link or folder `name` with all its contents from an open folder, if it exists."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        with opened(name, folder=folder) as below:
            empty_folder(below)
        os.rmdir(name, dir_fd=folder)
