"""JSON as files of questions hold it: no key twice, no NaN, and errors that name the place."""

from __future__ import annotations

import json
from collections import Counter
from math import isinf
from typing import TYPE_CHECKING, Any

from karenina_benchmark.errors import CheckpointError
from karenina_toolkit.value_limits import MAX_DIGITS, trouble_in_json

if TYPE_CHECKING:
    from pathlib import Path


def parse_object(text: str, path: Path, line: int | None = None, *, what: str = "a benchmark") -> dict[str, Any]:
    """The JSON object that `text` is. Raises `CheckpointError`.

    `line` is the line of the file that the text is, where it is one line of many; `what` says what the object stands
    for. A key that stands twice in one object is an error, and so are NaN and the infinities.
    """
    place = f"line {line}" if line is not None else ""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise CheckpointError(path, place, f"the key {twice!r} stands twice in one object", "remove one of the two")
        return found

    def no_constant(name: str) -> None:
        raise CheckpointError(path, place, f"{name} is no value of JSON", "write null or a number")

    def finite(number: str) -> float:
        found = float(number)
        if isinf(found):
            raise CheckpointError(path, place, f"the number {number:.40} is too large", "make it a text")
        return found

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_constant=no_constant, parse_float=finite)
    except CheckpointError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno if line is None else line}, column {error.colno}"
        raise CheckpointError(path, where, f"this is no JSON: {error.msg}", "correct it there") from error
    except ValueError as error:
        what = f"a whole number in the JSON has more than {MAX_DIGITS} digits"
        raise CheckpointError(path, place, what, "shorten it, or make it a text") from error
    except RecursionError as error:
        raise CheckpointError(path, place, f"the JSON is nested too deeply to be {what}", "check the file") from error
    trouble = trouble_in_json(text, data)
    if trouble is not None:
        within = f"{trouble.where}: " if trouble.where else ""
        raise CheckpointError(path, place, f"{within}{trouble.what}", trouble.cure)
    if not isinstance(data, dict):
        kind = type(data).__name__
        cure = "give a checkpoint" if line is None else "write one object a line"
        raise CheckpointError(path, place, f"it holds a JSON {kind}, not an object", cure)
    return data
