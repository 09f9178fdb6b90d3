"""Workspaces that are tar archives: they are unpacked next to the archive while they are used.

An archive may come from a stranger. Besides the filter of `tarfile`, nothing is unpacked through a link, because some
versions of the filter can be deceived by links, and sizes are limited while it is read.
"""

from __future__ import annotations

import asyncio
import bz2
import gzip
import lzma
import os
import posixpath
import secrets
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from karenina_toolkit.files.bounded_files import is_pointer
from karenina_toolkit.files.created_folders import printable_path
from karenina_toolkit.files.safe_paths import open_file
from karenina_toolkit.files.workspace_copy import (
    ARCHIVES,
    CLEANUP_LIST,
    DEEPEST,
    MOST_ENTRIES,
    WorkspaceError,
    check_links,
    create_folder,
    unique_name,
)

if TYPE_CHECKING or sys.version_info >= (3, 11, 4):
    import tarfile
else:
    from backports import tarfile  # with filters

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_toolkit.files.created_folders import CreatedFolder

_READERS: Final[dict[str, Callable[[IO[bytes]], Any]]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
_LONGEST_READ: Final = 2**24
"""The maximum number of bytes that are read at once. Only an entry's header would need more."""
_BESIDES: Final = 2**30
"""The maximum number of bytes of an archive that are not contents of files."""


@dataclass(slots=True)
class _Use:
    """An unpacked archive, and the number of its users."""

    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    folder: CreatedFolder | None = None


_USES: Final[dict[tuple[Path, int, int], _Use]] = {}
_LOCK: Final = threading.Lock()
os.register_at_fork(after_in_child=_USES.clear)  # the folders are those of the parent


async def hold(context: VerificationContext, place: Path, root: Path, most_bytes: int) -> Path:
    """Return a question's folder: `place` itself or, if that is an archive, a folder next to it with its contents,
    which exists until the answer's last item has ended. Raises `WorkspaceError` if an archive cannot be unpacked.
    """
    if not place.name.endswith(ARCHIVES):
        return place
    stack = ExitStack()
    unpacking = asyncio.ensure_future(
        context.in_thread(stack.enter_context, opened_source(place, root, most_bytes=most_bytes))
    )

    async def release() -> None:
        await asyncio.wait([unpacking])
        await context.in_thread(stack.close)

    async def remove() -> None:
        """Release the archive, and wait for this even if cancelled."""
        releasing = asyncio.ensure_future(release())
        try:
            await asyncio.shield(releasing)
        except asyncio.CancelledError:
            await asyncio.wait([releasing])
            raise

    context.at_end(remove)
    return await asyncio.shield(unpacking)


@contextmanager
def opened_source(place: Path, root: Path, *, most_bytes: int) -> Iterator[Path]:
    """Yield a question's folder or, if it is an archive, a new folder with its contents, or those of the single folder
    that everything in it is in. All who use an archive at the same time share this folder, and it is removed when the
    last of them ends. Raises `WorkspaceError` if an archive cannot be unpacked.

    An archive that has more than `most_bytes`, or contains links out of it or special files, is not unpacked.
    """
    if place.is_dir():
        yield place
        return
    try:
        status = place.stat()
    except OSError as error:
        raise WorkspaceError(f"the archive {printable_path(place)} cannot be read: {error.strerror}") from None
    key = (place, status.st_size, status.st_mtime_ns)
    with _LOCK:
        use = _USES.setdefault(key, _Use())
        use.users += 1
    try:
        with use.lock:
            if use.folder is None:
                use.folder = _unpack(place, root, most_bytes)
        yield use.folder.path
    finally:
        with _LOCK:
            use.users -= 1
            last = use.users == 0
            if last:
                del _USES[key]
        if last and use.folder is not None:
            use.folder.remove()
            CLEANUP_LIST.discard(use.folder)


def _unpack(archive: Path, root: Path, most_bytes: int) -> CreatedFolder:
    """Unpack an archive below `root`, of at most `most_bytes` when unpacked, into a new folder next to it, and return
    the folder. If everything in it is in a single folder, only the contents of that one are kept. If this fails, the
    new folder is removed and `WorkspaceError` raised.
    """
    suffix = next((suffix for suffix in ARCHIVES if archive.name.endswith(suffix)), "")
    folder = create_folder(archive.parent / unique_name(archive.name.removesuffix(suffix), "run", None))
    named = f"the archive {printable_path(archive)}"
    try:
        with ExitStack() as stack:
            opened = stack.enter_context(open_file(root, archive))
            if is_pointer(opened):
                raise _Refused("is a Git LFS pointer, not the actual content; run `git lfs pull`")
            stream: IO[bytes] = opened
            reader = _READERS.get(suffix.rpartition(".")[2].replace("tgz", "gz"))
            if reader is not None:
                stream = stack.enter_context(reader(stream))
            packed = stack.enter_context(tarfile.open(fileobj=cast("IO[bytes]", _Bounded(stream)), mode="r:"))
            _extract(packed, stream, folder.path, most_bytes)
        _lift(folder.path)
        check_links(folder.path, folder.path)
    except BaseException as error:
        folder.remove()
        CLEANUP_LIST.discard(folder)
        if isinstance(error, _Refused):
            raise WorkspaceError(f"{named} was not unpacked because it {error}") from None
        if isinstance(error, WorkspaceError):
            raise WorkspaceError(f"{named} was not unpacked: {error}") from None
        if isinstance(error, tarfile.TarError | OSError | EOFError | ValueError | zlib.error | lzma.LZMAError):
            raise WorkspaceError(f"{named} cannot be unpacked: {error}; pack the folder again") from None
        raise
    return folder


class _Refused(Exception):
    """Raised if an archive is not unpacked. The message says what it contains."""


@dataclass(frozen=True, slots=True)
class _Bounded:
    """A stream from which only so much is read at once. `tarfile` would read a header of any size into memory."""

    stream: IO[bytes]

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_READ:
            raise _Refused(f"contains a header of invalid size ({size:,} bytes); pack the folder again")
        return self.stream.read(size)

    def seek(self, place: int) -> int:
        return self.stream.seek(place)

    def tell(self) -> int:
        return self.stream.tell()


def _extract(packed: tarfile.TarFile, stream: IO[bytes], folder: Path, most_bytes: int) -> None:
    """Unpack an open archive into a folder. Raises `_Refused` if an entry is unsafe or there are too many entries or
    bytes, and `tarfile.TarError` or `OSError` if it is damaged. What was unpacked until then remains.
    """
    size, links = 0, set[str]()
    for count, entry in enumerate(packed, 1):
        why = _why_refused(entry, links)
        if why is not None:
            raise _Refused(f"contains {entry.name!r:.200}, which {why}; pack the folder again without it")
        if entry.issym():
            links.add(posixpath.normpath(entry.name))
        size += entry.size
        if size > most_bytes or stream.tell() > most_bytes + _BESIDES:
            raise _Refused(
                f"contains more than {most_bytes} bytes; remove unneeded files, or raise workspace_max_bytes"
            )
        if count > MOST_ENTRIES:
            raise _Refused(f"contains more than {MOST_ENTRIES} files and folders; remove some of them")
        packed.extract(entry, folder, filter="data")


def _why_refused(entry: tarfile.TarInfo, links: set[str]) -> str | None:
    """Return why an entry of an archive is not unpacked, or None. `links` are the links that precede it."""
    paths = [entry.name, *([entry.linkname] if entry.islnk() else ())]
    if any(path.startswith("/") for path in paths):
        return "has an absolute path"
    if any(".." in path.split("/") for path in paths):
        return "points outside the archive"
    if entry.name.count("/") > DEEPEST:
        return f"is nested in more than {DEEPEST} folders"
    for path in map(posixpath.normpath, paths):
        if path in links or any(str(parent) in links for parent in Path(path).parents):
            return "would be written through a link"
    if entry.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), entry.linkname))
        return (
            "is a link that points outside the archive" if target.startswith(("/", "../")) or target == ".." else None
        )
    return None if entry.isreg() or entry.isdir() or entry.islnk() else "is a device or another special file"


def _lift(folder: Path) -> None:
    """If a folder contains nothing but another folder, move that one's contents up."""
    inner = list(folder.iterdir())
    if len(inner) != 1 or inner[0].is_symlink() or not inner[0].is_dir():
        return
    top = inner[0].rename(folder / secrets.token_hex(16))
    for place in list(top.iterdir()):
        place.rename(folder / place.name)
    top.rmdir()
