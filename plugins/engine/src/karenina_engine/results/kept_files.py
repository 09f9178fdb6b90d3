"""The files that items keep, in a folder next to the journal.

A file's name is the digest of its contents, so equal files are only stored once. Several processes may write to a
folder at the same time. Every file in the folder is complete.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from karenina_core.data.sections import KeptFile
from karenina_engine.results.result_file import default_journal
from karenina_toolkit.files import replace_file
from karenina_toolkit.files.bounded_files import format_size
from karenina_toolkit.files.safe_paths import FILE, FOLDER, open_file, open_file_at, resolve_links
from karenina_toolkit.kept_files import current_keeper, keeping_files, picture_type

MOST_OF_ITEM: Final = 100
"""The maximum number of files for an answer, and for each judge's item."""
MOST_OF_RUN: Final = 10_000
MOST_COMPARED: Final = 200_000_000
"""The maximum size, in bytes, of a file that is read. Results from elsewhere may name any file in their folder."""
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_RECOUNT: Final = 64
"""The number of stored files after which the folder is counted again, because other processes write to it too."""
_MOST_WARNINGS: Final = 10
_MOST_READ: Final = 20_000_000
"""The maximum size, in bytes, of a file whose digest is computed by a store that writes nothing."""
_NOWHERE: Final = (
    "the file would be stored next to the journal or the result file, but the run has neither; set one of them (in "
    "Python: journal, output)"
)

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

logger = logging.getLogger("karenina")


class FileLeftOut(Exception):
    """Raised if a file is not stored. The message gives the reason."""


def files_folder(journal: Path) -> Path:
    """Return the folder for a run's files: `<name>.files` next to the run's journal."""
    return journal.with_name(journal.name.removesuffix(".journal") + ".files")


@dataclass(slots=True)
class FileStore:
    """A store for the files of a run.

    `most` is the maximum size of a file in bytes, and `most_in_all` is the maximum size of the folder. Without a
    `folder`, no files are stored, and `absent` is the reason. Set `earlier` to the folder from which the files of
    stored replies are copied. If `writes` is False, digests are computed but nothing is stored.
    """

    folder: Path | None
    most: int
    most_in_all: int
    absent: str = _NOWHERE
    earlier: Path | None = None
    writes: bool = True
    _counted: tuple[int, int] | None = None
    _since: int = 0
    _warned: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def that_writes_nothing(cls) -> FileStore:
        """Return a store that only computes digests. It is for items whose results are not kept."""
        return cls(None, _MOST_READ, 0, writes=False)

    def add(self, name: str, data: bytes | Path, media_type: str, below: Path | None, whose: str) -> KeptFile:
        """Store a file, given as bytes or as a path, which must be inside the folder `below` if that is set and may be
        relative to it, and return its entry. If this fails, nothing is raised: a warning about the question `whose` is
        logged, and the entry contains the reason (`left_out`). If `data` is a path to an image, the media type is
        determined from the contents.
        """
        size = None if isinstance(data, Path) else len(data)
        try:
            content = self._read(data, below)
            size = len(content)
            digest = hashlib.sha256(content).hexdigest()
            if self.writes:
                with self._lock:
                    self._store(digest, content)
        except (FileLeftOut, OSError) as problem:
            why = str(problem) if isinstance(problem, FileLeftOut) else problem.strerror or str(problem)
            self._warn(whose, name, why)
            return KeptFile(name=name, media_type=media_type, size=size, left_out=why)
        kind = picture_type(content) if isinstance(data, Path) else None
        return KeptFile(name=name, media_type=kind or media_type, size=size, sha256=digest)

    def copy(self, kept: KeptFile, whose: str) -> KeptFile:
        """Copy a file that belongs to a stored reply from the folder `earlier`, and return its entry. It is returned
        unchanged if there is no such folder or the file was not stored and, with a warning, if copying fails.
        """
        if self.earlier is None or kept.sha256 is None:
            return kept
        stored = _find(kept, [self.earlier])
        if stored.problem is None:
            return self.add(kept.name, stored.content, kept.media_type, None, whose)
        self._warn(whose, kept.name, stored.problem)
        return kept

    def _read(self, data: bytes | Path, below: Path | None) -> bytes:
        """Return `data`, or the contents of the file at this path. Raises `FileLeftOut` or `OSError` if it is too
        large, is unreadable or is not inside `below`, or if the store has no folder.
        """
        if self.folder is None and self.writes:
            raise FileLeftOut(self.absent)
        if isinstance(data, Path):
            with _open_regular(data, below) as file:
                size = os.fstat(file.fileno()).st_size
                data = file.read(self.most + 1) if size <= self.most else b""
        else:
            size = len(data)
        if (size := max(size, len(data))) > self.most:
            limit = f"the limit is {format_size(self.most)} (kept_file_bytes)"
            raise FileLeftOut(f"the file size is {format_size(size)}, but {limit}")
        return data

    def _store(self, digest: str, content: bytes) -> None:
        """Store contents under their digest, unless they are already stored. Raises `FileLeftOut` if the folder is
        full, and `OSError` if the file cannot be written.
        """
        assert self.folder is not None
        with _open_store(self.folder) as folder:
            if _has(folder, digest, content):
                return
            files, used = self._count(folder)
            if used + len(content) > self.most_in_all:
                limit = format_size(self.most_in_all)
                raise FileLeftOut(f"the files of the run would exceed {limit} (kept_files_bytes)")
            if files >= MOST_OF_RUN:
                raise FileLeftOut(f"the run already has {MOST_OF_RUN:,} files, which is the limit")
            replace_file(digest, lambda file: file.write(content), private=True, dir_fd=folder)
            self._counted = files + 1, used + len(content)
            self._since += 1

    def _count(self, folder: int) -> tuple[int, int]:
        """Return the number of files in the folder and their total size in bytes. They are only counted from time to
        time, but every time if the folder is nearly full.
        """
        _, used = self._counted or (0, 0)
        if self._counted is None or self._since >= _RECOUNT or used > self.most_in_all * 0.9:
            with os.scandir(folder) as entries:
                files = [entry for entry in entries if _DIGEST.fullmatch(entry.name)]
                sizes = [entry.stat(follow_symlinks=False).st_size for entry in files]
            self._counted, self._since = (len(sizes), sum(sizes)), 0
        return self._counted

    def _warn(self, whose: str, name: str, why: str) -> None:
        """Log a warning about a file that was not stored, if this store writes files. After `_MOST_WARNINGS`, log
        nothing.
        """
        if not self.writes:
            return
        self._warned += 1
        if self._warned <= _MOST_WARNINGS:
            logger.warning("[%s] the file %r was left out: %s", whose, name, why)
        if self._warned == _MOST_WARNINGS:
            logger.warning("further files that were left out are listed only in the results")


class ItemFiles:
    """The files of an answer, of a judge's item, or of a call.

    For a judge's item, `before` contains the files of the answer, which are listed too. For a call, `of` is the item to
    which the call's files are added.
    """

    def __init__(
        self, store: FileStore, whose: str, *, of: ItemFiles | None = None, before: ItemFiles | None = None
    ) -> None:
        self._store = store
        self._whose = whose
        self._of = of
        self._before = before
        self._files: dict[tuple[str, str | None], KeptFile] = {}
        self._more = 0

    @property
    def files(self) -> tuple[KeptFile, ...]:
        """The files, in the order in which they were added."""
        return tuple(self._files.values())

    def keep(self, name: str, data: bytes | Path, media_type: str, below: Path | None) -> KeptFile:
        """Store a file, which must be inside the folder `below` if that is set, add its entry to the item, and return
        it. If it cannot be stored, a warning is logged, and the entry contains the reason. Files after the first
        `MOST_OF_ITEM` are only counted, with one warning.
        """
        if len(self._files) >= MOST_OF_ITEM:
            why = f"the item already has {MOST_OF_ITEM} files, which is the limit"
            if not self._more:
                logger.warning("[%s] the file %r and all later files were left out: %s", self._whose, name, why)
            self.count_more()
            return KeptFile(name=name, media_type=media_type, left_out=why)
        entry = self._store.add(name, data, media_type, below, self._whose)
        self.add(entry)
        return entry

    def add(self, kept: KeptFile) -> None:
        """Add a file that is already stored, for example because its call is not repeated, here and to the item of
        which this is a call. Files after the first `MOST_OF_ITEM` are only counted.
        """
        if len(self._files) < MOST_OF_ITEM or (kept.name, kept.sha256) in self._files:
            self._files[kept.name, kept.sha256] = kept
        else:
            self._more += 1
        if self._of is not None:
            self._of.add(kept)

    def add_copy(self, kept: KeptFile) -> None:
        """Add a file that belongs to a stored reply. It is copied if the store is in another folder."""
        self.add(self._store.copy(kept, self._whose))

    def count_more(self) -> None:
        """Count a file that exceeds the item's limit."""
        self._more += 1
        if self._of is not None:
            self._of.count_more()

    def for_call(self) -> ItemFiles:
        """Return a collection for the files of a call. Files added to it are also added to this object."""
        return ItemFiles(self._store, self._whose, of=self)

    def for_judge(self) -> ItemFiles:
        """Return a collection for an item that judges this answer."""
        return ItemFiles(self._store, self._whose, before=self)

    def list_in(self, result: VerificationResult) -> VerificationResult:
        """List these files and the answer's files in `result`, and return the result."""
        if files := self.listed():
            result.metadata.files = files
        return result

    def listed(self) -> list[KeptFile]:
        """Return these files and the answer's files, under unique names. If there were too many files, the last entry
        gives the number of files that were not stored.
        """
        sources = [source for source in (self._before, self) if source is not None and (source._files or source._more)]
        if not sources:
            return []
        files: dict[tuple[str, str | None], KeptFile] = {}
        more = 0
        for source in sources:
            files |= source._files
            more += source._more
        taken: set[str] = set()
        entries = []
        for file in files.values():
            name, number = file.name, 1
            while name in taken:
                number += 1
                stem, dot, suffix = file.name.rpartition(".")
                name = f"{stem}-{number}{dot}{suffix}" if stem else f"{file.name}-{number}"
            taken.add(name)
            entries.append(file if name == file.name else file.model_copy(update={"name": name}))
        if more:
            why = f"{more:,} more: at most {MOST_OF_ITEM} files are kept for an answer, and as many for its judgment"
            entries.append(KeptFile(name="(more files)", media_type="application/octet-stream", left_out=why))
        return entries


def collect_call_files() -> AbstractContextManager[ItemFiles | None]:
    """Collect the files that a call in the `with` block keeps. Outside of a run, the context manager yields None."""
    keeper = current_keeper()
    return keeping_files(keeper.for_call()) if isinstance(keeper, ItemFiles) else nullcontext()


def add_call_files(files: Iterable[KeptFile]) -> None:
    """Add the files of an earlier call, whose reply is reused, to the current item. Does nothing if no item keeps
    files.
    """
    keeper = current_keeper()
    if isinstance(keeper, ItemFiles):
        for file in files:
            keeper.add_copy(file)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A kept file: its `path` and contents, or a description of the `problem` with it."""

    path: Path | None = None
    content: bytes = b""
    problem: str | None = None


class KeptFiles:
    """The files named in a result file, in the folders next to it.

    `journal` is the journal that contains the results, or None if it is not known.
    """

    def __init__(self, results: Path, journal: Path | None = None) -> None:
        named = [files_folder(path) for path in (journal, default_journal(results)) if path is not None]
        self.own: Sequence[Path] = [fromkey for fromkey in dict.fromkeys(named) if fromkey.is_dir()]
        """The folders that are named after the result file or its journal."""
        try:
            others = sorted(results.parent.glob("*.files"))
        except OSError:
            others = []
        self.folders: Sequence[Path] = [
            *self.own,
            *(other for other in others if other.is_dir() and other not in self.own),
        ]

    def find(self, kept: KeptFile) -> FoundFile:
        """Return the kept file from the first folder that contains it unchanged, or an object that describes the
        problem. Names in results are not trusted, so the file's contents must match its digest.
        """
        return _find(kept, self.folders)


def _find(entry: KeptFile, folders: Iterable[Path]) -> FoundFile:
    """Return the file from the first folder that contains it unchanged, or a description of the problem. Files larger
    than `MOST_COMPARED` bytes are not read. This counts as a problem too.
    """
    if entry.sha256 is None or not _DIGEST.fullmatch(entry.sha256):
        return FoundFile(problem=entry.left_out or "the result does not contain the digest of the file")
    if (entry.size or 0) > MOST_COMPARED:
        return FoundFile(
            problem=f"the file size is {format_size(entry.size or 0)}, which is too large to compare with the digest"
        )
    problem = "the file is not in the folders next to the results"
    for folder in folders:
        try:
            with _open_store(folder, make=False) as opened, open_file_at(entry.sha256, opened) as file:
                if os.fstat(file.fileno()).st_size == entry.size:
                    content = file.read((entry.size or 0) + 1)
                    if hashlib.sha256(content).hexdigest() == entry.sha256:
                        return FoundFile(folder / entry.sha256, content)
            problem = "the content of the file has changed since the run"
        except FileNotFoundError:
            continue
        except OSError as error:
            problem = f"the file cannot be read: {error.strerror or error}"
    return FoundFile(problem=problem)


def _open_regular(path: Path, below: Path | None) -> IO[bytes]:
    """Open a file named by a stage or adapter for reading bytes. Raises `FileLeftOut` if it is not a regular file or,
    unless `below` is None, not inside this folder, out of which links are not followed. Raises `OSError` if it cannot
    be opened.
    """
    if below is not None:
        root = resolve_links(below)
        inside = Path(os.path.normpath(below / path))
        if not inside.is_relative_to(os.path.normpath(below)):
            raise FileLeftOut(f"{path} is not inside {below}")
        return open_file(root, root / inside.relative_to(os.path.normpath(below)))
    handle = os.open(path, FILE)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileLeftOut(f"{path} is not a regular file")
    return os.fdopen(handle, "rb")


@contextmanager
def _open_store(folder: Path, *, make: bool = True) -> Iterator[int]:
    """Open a store's folder and yield its file descriptor. If `make` is set, the folder is created if necessary. Raises
    `OSError` if the folder cannot be opened.
    """
    if make:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    handle = os.open(folder, FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def _has(folder: int, digest: str, content: bytes) -> bool:
    """Return whether the folder contains a readable file with the given name and contents."""
    try:
        with open_file_at(digest, folder) as file:
            return os.fstat(file.fileno()).st_size == len(content) and file.read() == content
    except OSError:
        return False
