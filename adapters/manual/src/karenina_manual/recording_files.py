"""Reader for recording files, whose errors name the file and line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from karenina_core.models.adapters import AdapterConfigError
from karenina_manual.recording_index import Recording, RecordingIndex, is_digest, parse_headings, parse_text
from karenina_toolkit.files import LINES, FileError, read_json, read_records
from karenina_toolkit.files.bounded_files import open_only_below

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_manual.settings import ManualExtra


def read_recordings(path: Path, extra: ManualExtra, folder: Path | None = None) -> RecordingIndex:
    """Return the recordings in the file `path`, cached until the file changes. Raises `AdapterConfigError`.

    With a `folder`, links that lead out of it are not followed.
    """
    try:
        about = path.stat()
    except OSError as error:
        raise AdapterConfigError(f"recordings {path}: {error.strerror or error}; see manual_traces") from None
    return _read_cached(path.absolute(), about.st_mtime_ns, about.st_size, extra, folder)


@lru_cache(maxsize=8)
def _read_cached(path: Path, _changed: int, _size: int, extra: ManualExtra, folder: Path | None) -> RecordingIndex:
    index = RecordingIndex(str(path))
    try:
        with open_only_below(folder):
            if path.suffix.lower() in LINES:
                with read_records(path, surrogates=True) as records:
                    for record in records:
                        index.add_row(str(record), record.value, extra)
            elif path.suffix.lower() == ".json":
                _add_json(path, index, extra)
            else:
                raise AdapterConfigError(f"recordings {path}: the name must end in .json, .jsonl or .ndjson")
    except FileError as error:
        raise AdapterConfigError(f"recordings {error} (see manual_traces)") from None
    return index


def _add_json(path: Path, index: RecordingIndex, extra: ManualExtra) -> None:
    data = read_json(path, surrogates=True)
    if isinstance(data, list):
        for number, row in enumerate(data, 1):
            index.add_row(f"{path}, entry {number}", row, extra)
    elif isinstance(data, Mapping):
        for key, value in data.items():
            place = f"{path}, key {key!r}"
            trace = parse_headings(value) if is_digest(key) else parse_text(value, extra.delimited, place)
            index.add(key, key, Recording(trace, place))
    else:
        raise AdapterConfigError(
            f"recordings {path}: the file must contain an object (id or question to recording) or a list of rows"
        )
