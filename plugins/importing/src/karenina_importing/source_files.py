"""Reads files of other tools: JSON, JSON lines and archives.

The usual file size limit applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_core.errors import ConfigError
from karenina_toolkit import files
from karenina_toolkit.files import archives, bounded_files, read_records

_SIZE_OF_VALUE: Final = 8
"""The number of characters that are counted for each value in addition to its text. In a file, there are usually more.
"""
_LINES: Final = 50
_BLANK: Final = b" \t\r\n\xef\xbb\xbf\xff\xfe\0"
"""Blanks, and the bytes of byte-order marks and of characters in UTF-16 and UTF-32."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a source, with its location (such as `line 3`) and its values.

    If a row cannot be read, `problem` is the reason and the row has no values.

    If a format contains more than a correct answer, it sets `question` to keys of a question in a YAML benchmark
    (`answer`, `strategy`, `rubric`, `keywords`, `metadata`, ...). These replace mapped keys, but metadata is merged and
    traits are combined, and an answer type that the user chooses overrides `answer`. Rows without an ID are different
    questions if these keys differ.

    `recordings` replaces the mapped response. Each recording has a `response`, and may have a `model`, a `replicate`, a
    `finish_reason`, and a `label`, which is a person's verdict as in a label file. `left_out` lists what is not used,
    by type. `notes` contains messages about the source, each of which is shown only once. `files` are the contents of
    the question's attachments, by path relative to the benchmark.
    """

    place: str
    values: Mapping[str, Any]
    problem: str = ""
    question: Mapping[str, Any] = field(default_factory=dict)
    recordings: Sequence[Mapping[str, Any]] | None = None
    left_out: Sequence[str] = ()
    notes: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


class SizeLimit:
    """Applies the file size limit to values, because references can repeat long texts."""

    def __init__(self) -> None:
        self._left = bounded_files.max_file_bytes()

    def allows(self, value: Any) -> bool:
        """Count the characters of a JSON value. Returns False if all values together exceed the limit. Each value
        counts a few more characters, so that many small values reach the limit as well.
        """
        waiting = [value]
        while waiting and self._left >= 0:
            item = waiting.pop()
            self._left -= _SIZE_OF_VALUE + (len(item) if isinstance(item, str) else 0)
            if isinstance(item, Mapping):
                waiting.extend(item.values())
            elif isinstance(item, list):
                waiting.extend(item)
        return self._left >= 0

    def require(self, value: Any, place: str, what: str) -> None:
        """Count a value, and raise `ConfigError` if the limit is exceeded: what is written could not be read again.
        Messages use `what` for the values, such as "questions".
        """
        if not self.allows(value):
            most = bounded_files.max_file_bytes()
            shown = (
                f"{place}: the {what} up to this point are larger than {bounded_files.format_size(most)}, so "
                "the imported"
            )
            cure = bounded_files.size_limit_cure(most)
            raise ConfigError([f"{shown} files could not be read; import fewer rows with --limit, or {cure}"])


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Convert errors raised in the block while `path` is read to `BenchmarkFileError`."""
    try:
        yield
    except bounded_files.FileError as error:
        raise BenchmarkFileError(error.path, error.where, error.what, error.cure) from error
    except OSError as error:
        raise BenchmarkFileError(
            path, "", f"the file cannot be read: {error.strerror or error}", "check the file"
        ) from error


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises `BenchmarkFileError` if this fails."""
    with bounded(path):
        return files.read_json(path, surrogates=True)


def read_lines(path: Path) -> Iterator[SourceRow]:
    """Yield the objects in a file of JSON lines. If a line is not an object, its row has a problem. Raises
    `BenchmarkFileError` if the file cannot be read.
    """
    with bounded(path), files.read_records(path, suffix=".jsonl", surrogates=True, keep_problems=True) as records:
        for record in records:
            if record.problem is not None:
                yield SourceRow(record.where, {}, record.problem.what)
            elif isinstance(record.value, Mapping):
                yield SourceRow(record.where, record.value)
            else:
                yield SourceRow(record.where, {}, "the line is not a JSON object")


@contextmanager
def open_archive(path: Path) -> Iterator[archives.Archive]:
    """Open a zip archive for the `with` block. The file size limit applies to its unpacked content. Raises
    `BenchmarkFileError` if the archive cannot be read or is too large.
    """
    extra = "karenina-importing[zstd]"
    with (
        bounded(path),
        bounded_files.open_file(path) as file,
        archives.open_archive(path, file, zstandard_extra=extra) as archive,
    ):
        yield archive


def read_entry(archive: archives.Archive, name: str, path: Path) -> Any:
    """Return the parsed JSON of a file in an archive. Raises `BenchmarkFileError` if it is missing or invalid."""
    with bounded(path):
        return files.parse_json(archive.read(name), path, name, surrogates=True)


def head_of(path: Path) -> FileHead:
    """Return the start of a file, from which formats detect it. Nothing is read yet, and no error is raised. The last
    one is cached, so that all formats that look at the same file share it.
    """
    try:
        about = path.stat()
    except OSError:
        return FileHead(path)
    return _head_of(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)
def _head_of(path: Path, _changed: int, _size: int) -> FileHead:
    """Return the start of a file. The other arguments make sure that changed files are read again."""
    return FileHead(path)


@dataclass(frozen=True)
class FileHead:
    """The start of a file, which is read when it is first needed."""

    path: Path

    @cached_property
    def start(self) -> bytes:
        """The first 512 bytes."""
        with bounded(self.path), bounded_files.open_file(self.path) as file:
            return file.read(512) or b""

    def text(self, size: int = 1 << 16) -> str:
        """Decode the first `size` bytes as UTF-8. Invalid bytes are replaced. Raises `BenchmarkFileError` if the file
        cannot be read.
        """
        with bounded(self.path), bounded_files.open_file(self.path) as file:
            return (file.read(size) or b"").decode("utf-8", "replace")

    @property
    def is_json(self) -> bool:
        """Whether the file starts like a JSON object or array."""
        return self._first in (b"{", b"[")

    @property
    def _first(self) -> bytes:
        """The first character that is not blank, also of UTF-16 and UTF-32 with a byte-order mark."""
        return self.start.lstrip(_BLANK)[:1]

    @cached_property
    def lines(self) -> list[Any]:
        """Return the JSON values in the first 50 lines, up to the first line that is not JSON. There are none if the
        file does not begin with an object, list or string.
        """
        if self._first not in (b"{", b"[", b'"'):
            return []
        with (
            bounded(self.path),
            read_records(self.path, suffix=".jsonl", surrogates=True, keep_problems=True) as records,
        ):
            # A file that was cut off in its first lines still counts as JSON lines if the lines before are complete.
            whole = takewhile(lambda record: record.problem is None, records)
            return [record.value for record in islice(whole, _LINES)]

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """The first line if it is a JSON object, or else an empty mapping."""
        first = self.lines[0] if self.lines else None
        return first if isinstance(first, Mapping) else {}

    @cached_property
    def document(self) -> Any:
        """The content if the whole file is a single JSON value, or else None."""
        if len(self.lines) > 1 or not self.is_json:
            return None
        try:
            return read_json(self.path)
        except BenchmarkFileError:
            return None
