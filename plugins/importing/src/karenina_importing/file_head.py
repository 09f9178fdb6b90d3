"""The beginning of a file, from which formats recognize it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import CheckpointError
from karenina_importing.source_files import bounded, read_json
from karenina_toolkit.files import bounded_files, read_records

_LINES: Final = 50
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"


def head_of(path: Path) -> FileHead:
    """Return the beginning of a file, which all formats that are asked about it share."""
    try:
        about = path.stat()
    except OSError:
        return FileHead(path)
    return _head_of(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=1)
def _head_of(path: Path, _changed: int, _size: int) -> FileHead:
    return FileHead(path)


@dataclass(frozen=True)
class FileHead:
    """The beginning of a file, read when it is needed."""

    path: Path

    @cached_property
    def start(self) -> bytes:
        """The first 512 bytes."""
        with bounded(self.path), bounded_files.open_file(self.path) as file:
            return file.read(512) or b""

    @cached_property
    def lines(self) -> list[Any]:
        """The JSON values of the first lines; empty unless each of them is one."""
        if not self.start.lstrip(_BLANK).startswith((b"{", b"[", b'"')):
            return []
        with (
            bounded(self.path),
            read_records(self.path, suffix=".jsonl", surrogates=True, keep_problems=True) as records,
        ):
            # A file cut within its first lines is still one of lines if the lines before are whole.
            whole = takewhile(lambda record: record.problem is None, records)
            return [record.value for record in islice(whole, _LINES)]

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """The first line, if it is a JSON object; else empty."""
        first = self.lines[0] if self.lines else None
        return first if isinstance(first, Mapping) else {}

    @cached_property
    def document(self) -> Any:
        """The whole file as one JSON value; None if it is not one."""
        if len(self.lines) > 1 or not self.start.lstrip(_BLANK).startswith((b"{", b"[")):
            return None
        try:
            return read_json(self.path)
        except CheckpointError:
            return None
