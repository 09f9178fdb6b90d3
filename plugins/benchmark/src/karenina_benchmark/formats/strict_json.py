"""Strict JSON: no duplicate keys, no NaN, and errors with their location."""

from __future__ import annotations

import json
from collections import Counter
from math import isinf
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_toolkit.files.json_values import MAX_DIGITS, find_problem_in_json

if TYPE_CHECKING:
    from pathlib import Path


class _RefusedError(Exception):
    """Raised for a value that JSON or Python's parser allows but a benchmark does not."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(what)
        self.what = what
        self.cure = cure


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert the pairs of a JSON object to a dict. Raises `_RefusedError` for a duplicate key."""
    values = dict(pairs)
    if len(values) < len(pairs):
        key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise _RefusedError(f"the key {key!r} appears more than once in an object", "remove all but one")
    return values


def _refuse_constant(name: str) -> None:
    """Raise `_RefusedError` for NaN or an infinity, which Python's parser accepts."""
    raise _RefusedError(f"{name} is not valid in JSON", "write null or a number")


def _parse_finite(number: str) -> float:
    """Parse a float. Raises `_RefusedError` if the number is too large."""
    value = float(number)
    if isinf(value):
        raise _RefusedError(f"the number {number:.40} is too large", "write the number as a string, in quotes")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_constant=_refuse_constant, parse_float=_parse_finite
)


def parse_object(text: str, path: Path, line: int | None = None, *, what: str = "a benchmark") -> dict[str, Any]:
    """Parse `text` as a JSON object. Raises `BenchmarkFileError` for invalid JSON and other values, and also for what
    Python's parser accepts: a byte-order mark, duplicate keys, NaN and infinities, lone surrogates, numbers that are
    too large, and deep nesting. Messages use `what` for the object.

    If the text is a single line of the file, `line` is its number.
    """
    place = f"line {line}" if line is not None else ""
    try:
        if text.startswith("\ufeff"):
            raise _RefusedError(
                "the text starts with a byte-order mark", "save the file as UTF-8 without a byte-order mark"
            )
        data = _DECODER.decode(text)
    except _RefusedError as error:
        raise BenchmarkFileError(path, place, error.what, error.cure) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno if line is None else line}, column {error.colno}"
        raise BenchmarkFileError(path, where, f"the JSON is not valid: {error.msg}", "correct the JSON") from error
    except ValueError as error:
        what = f"an integer in the JSON has more than {MAX_DIGITS} digits"
        raise BenchmarkFileError(
            path, place, what, "use fewer digits, or write the number as a string, in quotes"
        ) from error
    except RecursionError as error:
        raise BenchmarkFileError(path, place, f"the JSON is nested too deeply for {what}", "check the file") from error
    trouble = find_problem_in_json(text, data)
    if trouble is not None:
        within = f"{trouble.where}: " if trouble.where else ""
        raise BenchmarkFileError(path, place, f"{within}{trouble.what}", trouble.cure)
    if not isinstance(data, dict):
        kind = type(data).__name__
        cure = "pass a benchmark file" if line is None else "write one JSON object per line"
        raise BenchmarkFileError(path, place, f"expected a JSON object, got a value of type {kind}", cure)
    return data
