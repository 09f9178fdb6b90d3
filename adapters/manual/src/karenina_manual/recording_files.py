"""Files of recordings, read with errors that name file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from karenina_core.models.adapters import AdapterConfigError
from karenina_manual.recording_index import Recording, RecordingIndex, is_digest, parse_headings
from karenina_toolkit import bounded_files
from karenina_toolkit.value_limits import find_problem_in_json

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_manual.settings import ManualExtra

_LINES = (".jsonl", ".ndjson")


def read_recordings(path: Path, extra: ManualExtra) -> RecordingIndex:
    """Return the recordings of `path`, cached until the file changes. Raises `AdapterConfigError`."""
    try:
        about = path.stat()
    except OSError as error:
        raise AdapterConfigError(f"recordings {path}: {error.strerror or error}; see manual_traces") from None
    return _read_cached(path.absolute(), about.st_mtime_ns, about.st_size, extra)


@lru_cache(maxsize=8)
def _read_cached(path: Path, _changed: int, _size: int, extra: ManualExtra) -> RecordingIndex:
    index = RecordingIndex(str(path))
    try:
        if path.suffix.lower() in _LINES:
            for place, row in _lines(path):
                index.add_row(place, row, extra)
        elif path.suffix.lower() == ".json":
            _add_json(path, index, extra)
        else:
            raise AdapterConfigError(f"recordings {path}: the name must end in .json, .jsonl or .ndjson")
    except bounded_files.FileError as error:
        raise AdapterConfigError(f"recordings {error} (see manual_traces)") from None
    return index


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    with bounded_files.open_file(path) as file:
        for number, line in enumerate(bounded_files.iter_lines(file, path), 1):
            if line.strip():
                place = f"{path}, line {number}"
                yield place, _parse_json(line, place)


def _add_json(path: Path, index: RecordingIndex, extra: ManualExtra) -> None:
    data = _parse_json(bounded_files.read_bytes(path), str(path))
    if isinstance(data, list):
        for number, row in enumerate(data, 1):
            index.add_row(f"{path}, entry {number}", row, extra)
    elif isinstance(data, Mapping):
        for key, value in data.items():
            trace = parse_headings(value) if extra.delimited or is_digest(key) else value
            index.add(key, key, Recording(trace, f"{path}, key {key!r}"))
    else:
        raise AdapterConfigError(
            f"recordings {path}: the file must contain an object (id or question to recording) or a list of rows"
        )


def _parse_json(raw: bytes, place: str) -> Any:
    try:
        text = raw.decode("utf-8-sig")
        found = json.loads(text, object_pairs_hook=_check_keys)
    except UnicodeDecodeError as error:
        raise AdapterConfigError(f"recordings {place}: not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        what = (
            "is incomplete"
            if error.pos >= len(error.doc.rstrip())
            else f"is invalid ({error.msg}, column {error.colno})"
        )
        raise AdapterConfigError(f"recordings {place}: the JSON {what}; correct it there") from None
    except (ValueError, RecursionError) as error:
        raise AdapterConfigError(f"recordings {place}: the JSON is invalid ({error})") from None
    trouble = find_problem_in_json(text, found, halves=False)
    if trouble is not None:
        raise AdapterConfigError(f"recordings {place}: {trouble.what}; {trouble.cure}")
    return found


def _check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            if found[key] != value:
                raise ValueError(f"the key {key!r} occurs twice, with different values")
    return found
