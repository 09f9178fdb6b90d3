"""Read JSON, lines of JSON and archives of other tools, within the bounds of all files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import CheckpointError
from karenina_importing.source_row import SourceRow
from karenina_toolkit import files
from karenina_toolkit.files import archives, bounded_files

_SIZE_OF_VALUE: Final = 8
"""The characters that a value counts for besides those of its text, fewer than it usually has in a file."""


class SizeLimit:
    """A limit on what values add up to, where a short reference can stand for a long text: that of files."""

    def __init__(self) -> None:
        self._left = bounded_files.max_file_bytes()

    def allows(self, value: Any) -> bool:
        """Count the characters of a JSON value; return whether all values together are within the limit."""
        waiting = [value]
        while waiting and self._left >= 0:
            one = waiting.pop()
            self._left -= _SIZE_OF_VALUE + (len(one) if isinstance(one, str) else 0)
            if isinstance(one, Mapping):
                waiting.extend(one.values())
            elif isinstance(one, list):
                waiting.extend(one)
        return self._left >= 0


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Convert the errors of reading `path` to `CheckpointError`."""
    try:
        yield
    except bounded_files.FileError as error:
        raise CheckpointError(error.path, error.where, error.what, error.cure) from error
    except OSError as error:
        raise CheckpointError(path, "", f"it cannot be read: {error.strerror or error}", "check the file") from error


def read_json(path: Path) -> Any:
    """Return the JSON value of a file. Raises `CheckpointError`."""
    with bounded(path):
        return files.read_json(path, surrogates=True)


def read_lines(path: Path) -> Iterator[SourceRow]:
    """Yield the JSON objects of a file with one on each line; a line that is none has a problem."""
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
    """Open a zip archive whose unpacked size is within the bounds of files. Raises `CheckpointError`."""
    extra = "karenina-importing[zstd]"
    with (
        bounded(path),
        bounded_files.open_file(path) as file,
        archives.open_archive(path, file, zstandard_extra=extra) as archive,
    ):
        yield archive


def read_entry(archive: archives.Archive, name: str, path: Path) -> Any:
    """Return the JSON value of a file in an archive. Raises `CheckpointError`."""
    with bounded(path):
        return files.parse_json(archive.read(name), path, name, surrogates=True)
