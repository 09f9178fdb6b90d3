"""Detection of JSON files that contain rows with arbitrary keys instead of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import nearest_key, to_checkpoint_error
from karenina_benchmark.formats.yaml_format import QUESTION_KEYS
from karenina_core.namespaces import is_owned
from karenina_toolkit.files import LINES, bounded_files

_CHECKPOINT: Final = (b"dataFeedElement", b'"@context"', b'"@type"', b'"answer_template"', b'"global_rubric"')
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"
_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_LOOKED_AT: Final = 1 << 20


def has_rows(path: Path) -> bool:
    """Return whether a JSON file contains rows with arbitrary keys, as other programs write them.

    JSON lines are rows unless the first line has keys that only a benchmark has, such as a declared `answer`. A JSON
    document is a benchmark if it is an object with keys of a checkpoint, else it has rows. Raises `BenchmarkFileError`
    if the file cannot be read.
    """
    try:
        if path.suffix.lower() not in LINES:
            data = bounded_files.read_bytes(path)
            start = data.lstrip(_BLANK)[:1]
            is_json = bool(start) and path.suffix.lower() == ".json"
            return is_json and (start == b"[" or not any(map(data.count, _CHECKPOINT)))
        with bounded_files.open_file(path) as file:
            start = file.read(_LOOKED_AT) or b""
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error
    if start.startswith(_MARKS) or b"\0" in start[:4]:
        return True
    first = start.strip(_BLANK).partition(b"\n")[0]
    try:
        values = json.loads(first)
    except (ValueError, RecursionError):  # the benchmark reader reports the error with its location
        return False
    return isinstance(values, Mapping) and _is_row(values)


def _is_row(values: Mapping[str, Any]) -> bool:
    if "karenina" in values:
        return False
    answer = values.get("answer")
    if "question" not in values or (answer is not None and not isinstance(answer, Mapping)):
        return True
    known = [*QUESTION_KEYS, *(key for key in values if is_owned(key, "question_fields"))]
    unknown = [key for key, value in values.items() if key not in known and not isinstance(value, Mapping)]
    return any(nearest_key(key, QUESTION_KEYS) is None for key in unknown)
