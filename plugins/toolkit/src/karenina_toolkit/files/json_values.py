"""JSON documents, paths to their rows, and limits on values.

The limits on nesting, digits and characters also apply to values from YAML and TOML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from karenina_toolkit.files import bounded_files
from karenina_toolkit.files.bounded_files import FileError
from karenina_toolkit.files.tables import CellLimit, Record
from karenina_toolkit.files.texts import decode
from karenina_toolkit.printable import shorten

MAX_DEPTH: Final = 200
"""The maximum nesting depth of lists and objects."""
MAX_DIGITS: Final = 4300
"""The maximum number of digits in an integer. Python does not convert longer integers to text."""
_LIMIT: Final = 10**MAX_DIGITS
_HALF: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
ANY: Final = "*"
_MOST_PATHS: Final = 3
_LOOKED_AT: Final = 20
"""The maximum number of items that are searched for rows in a list or object."""
_DEEPEST: Final = 8
_MOST_DIGITS: Final = 18
"""The maximum number of digits of a list index in a path."""
_BYTES_PER_VALUE: Final = 10
"""The minimum number of bytes per value. The limit on values is the size limit divided by this number.

An empty object of two bytes takes up 72 bytes in memory.
"""
_MIN_VALUE_LIMIT: Final = 100_000
_MARKS: Final = (",", "[", "{")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_SHOWN: Final = 200
"""The maximum number of characters of a path that a message shows."""


class ValueProblem(NamedTuple):
    """A problem with a value. `what` describes it, `cure` is the suggested fix, and `path` is the location.

    Text from the value is never quoted, because it may be an API key.
    """

    what: str
    cure: str
    path: tuple[str | int, ...] = ()

    @property
    def where(self) -> str:
        """The location of the problem, such as `metadata.x`. It is empty if the problem concerns the whole value."""
        return ".".join(str(part) for part in self.path)


def has_lone_surrogate(text: str) -> bool:
    """Return whether `text` contains an unpaired surrogate, which cannot be encoded."""
    return not text.isascii() and _HALF.search(text) is not None


def find_problem_in_json(text: str, value: object, *, halves: bool = True) -> ValueProblem | None:
    """Return a problem in `value`, which was parsed from the JSON string `text`, such as nesting that is too deep, or
    None. To be fast, the value is only searched if the text has many brackets or escaped surrogates.

    Set `halves` to False to allow unpaired surrogates.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH and not (halves and _ESCAPED_HALF.search(text)):
        return None
    return find_problem(value, halves=halves)


def find_problem(value: object, *, halves: bool = True) -> ValueProblem | None:
    """Return a problem in a value that consists of lists, mappings and scalars, or None: nesting that is too deep, an
    integer that is too large or, unless `halves` is False, an unpaired surrogate. If there are several, any of them may
    be returned.
    """
    if isinstance(value, str) and value.isascii():
        return None
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(value, ())]
    while waiting:
        current, path = waiting.pop()
        problem = _find_problem_at(current, path, halves)
        if problem is not None:
            return problem
        if isinstance(current, str | int | float):
            continue
        if isinstance(current, Mapping):
            for key in current:
                if halves and isinstance(key, str) and has_lone_surrogate(key):
                    return ValueProblem("a key contains an unpaired surrogate", "correct the key", path)
            waiting.extend((item, (*path, str(key))) for key, item in current.items())
        elif isinstance(current, list):
            waiting.extend((item, (*path, place)) for place, item in enumerate(current))
    return None


def _find_problem_at(value: object, path: tuple[str | int, ...], halves: bool) -> ValueProblem | None:
    """Return a problem with the value at `path`, or None. Values inside it are not checked. Set `halves` to False to
    allow unpaired surrogates.
    """
    if len(path) > MAX_DEPTH:
        return ValueProblem(f"the value is nested more than {MAX_DEPTH} levels deep", "reduce the nesting", path[:3])
    if isinstance(value, str):
        if not halves or not has_lone_surrogate(value):
            return None
        return ValueProblem(
            "a string contains an unpaired surrogate", "remove the surrogate, or write the complete character", path
        )
    if isinstance(value, int) and not -_LIMIT < value < _LIMIT:
        return ValueProblem(
            f"an integer has more than {MAX_DIGITS} digits", "use fewer digits, or write the number as a string", path
        )
    return None


class _DuplicateKey(ValueError):
    """Raised if an object has different values for the same key."""


def _check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert the entries of an object to a dict. Raises `_DuplicateKey` if a key has different values."""
    by_key = dict(pairs)
    if len(by_key) < len(pairs):
        for key, value in pairs:
            if by_key[key] is not value and by_key[key] != value:
                raise _DuplicateKey(f"the key {key!r} occurs more than once, with different values")
    return by_key


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_check_keys)


def read_json(path: Path, *, encoding: str | None = None, surrogates: bool = False) -> Any:
    """Read a JSON file or pipe. Raises `FileError` if it cannot be read or `parse_json` rejects its contents.
    `encoding` and `surrogates` have the same meaning as in `parse_json`.
    """
    return parse_json(bounded_files.read_bytes(path), path, encoding=encoding, surrogates=surrogates)


def parse_json(
    data: bytes | str, path: Path, where: str = "", *, encoding: str | None = None, surrogates: bool = False
) -> Any:
    """Return the value of JSON text from the file `path` (`where` is its place in the file, for messages). Raises
    `FileError` if it is invalid or exceeds a limit, if an object has different values for the same key, or for unpaired
    surrogates, unless `surrogates` is set. NaN and infinities are allowed.

    Bytes are decoded as UTF-8 or with `encoding`, unless there is a byte-order mark. The limits are those of nesting,
    ten million values (a tenth of the size limit in bytes), and thousands of digits in an integer.
    """
    text = decode(data, path, encoding, where) if isinstance(data, bytes) else data
    if len(text) > _MIN_VALUE_LIMIT:
        limit = max(_MIN_VALUE_LIMIT, bounded_files.max_file_bytes() // _BYTES_PER_VALUE)
        if len(text) > limit and _count_values(text, limit) > limit:
            cure = bounded_files.size_limit_cure(bounded_files.max_file_bytes())
            raise FileError(path, where, f"the JSON has more than {limit:,} values", cure)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = f"{where}, column {error.colno}" if where else f"line {error.lineno}, column {error.colno}"
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
            raise FileError(path, place, "the JSON is incomplete", "complete the JSON") from error
        raise FileError(path, place, f"the JSON is not valid: {error.msg}", "correct the JSON") from error
    except _DuplicateKey as error:
        raise FileError(path, where, str(error), "keep only one of them") from error
    except (ValueError, RecursionError) as error:
        raise FileError(path, where, f"the JSON cannot be parsed: {error}", "correct the JSON") from error
    problem = find_problem_in_json(text, value, halves=not surrogates)
    if problem is not None:
        raise FileError(path, where, problem.what, problem.cure)
    return value


def _count_values(text: str, limit: int) -> int:
    """Return an upper bound on the number of values in a JSON text. Punctuation inside strings is only excluded if the
    count would otherwise exceed `limit`.
    """
    count = sum(map(text.count, _MARKS))
    return count if count <= limit else sum(map(_TEXT.sub("", text).count, _MARKS))


def iter_rows(document: Any, rows: str | None, path: Path) -> Iterator[Record]:
    """Yield the rows of a JSON document, which `rows` leads to, such as `data.*.qas.*`. Without this path, the document
    must be a list. Raises `FileError` if it leads nowhere, or if the rows have too many cells.

    A path consists of names separated by dots. `*` stands for every item of a list or object. At the end of a path, it
    can be omitted for a list. A number is an index. The scalars of the objects along the path are the `outer` values of
    a row.
    """
    if not rows and not isinstance(document, list):
        paths = suggest_rows(document)
        cure = (
            f"specify the path to the rows, such as {' or '.join(paths)}"
            if paths
            else "use a file that contains a list of rows"
        )
        raise FileError(path, "", "the document is not a list of rows", cure)
    walk = _Walk(path, tuple(rows.split(".")) if rows else (ANY,))
    limit = CellLimit(path)
    if isinstance(document, list):
        CellLimit(path).count(None, "", len(document))  # checked before any row is read
    for number, record in enumerate(walk.rows(document, 0, (), (), None), 1):
        limit.count(record.value, record.where)
        yield Record(path, record.where, number, record.value, record.around, record.key)


Around = tuple[tuple[str, Mapping[str, Any]], ...]


class _Walk:
    """A walk through a JSON document along a path."""

    def __init__(self, path: Path, parts: tuple[str, ...]) -> None:
        self._path = path
        self._parts = parts

    def rows(self, value: Any, at: int, place: tuple[str, ...], around: Around, key: str | None) -> Iterator[Record]:
        """Yield the rows in `value`, which is reached after the first `at` parts of the path. Raises `FileError` if the
        rest of the path leads nowhere.

        `place` is the location so far, with indexes and keys in place of `*`. `around` contains the objects along the
        path, each with its own path. `key` is the last key that a `*` stood for.
        """
        if at == len(self._parts):
            if isinstance(value, list) and self._parts[-1] != ANY:
                for number, inner in enumerate(value):
                    yield Record(self._path, ".".join((*place, str(number))), 0, inner, around, key)
            else:
                yield Record(self._path, ".".join(place), 0, value, around, key)
            return
        part = self._parts[at]
        if isinstance(value, Mapping):
            around = (*around, (".".join(step for step in self._parts[:at] if step != ANY), value))
        if part == ANY and isinstance(value, Mapping):
            for name, inner in value.items():
                yield from self.rows(inner, at + 1, (*place, name), around, name)
        elif part == ANY and isinstance(value, list):
            for number, inner in enumerate(value):
                yield from self.rows(inner, at + 1, (*place, str(number)), around, key)
        elif isinstance(value, Mapping) and part in value:
            yield from self.rows(value[part], at + 1, (*place, part), around, key)
        elif isinstance(value, list) and part.isdecimal() and len(part) <= _MOST_DIGITS and int(part) < len(value):
            yield from self.rows(value[int(part)], at + 1, (*place, part), around, key)
        else:
            what = (
                f"the value has no entry {shorten(repr(part), _SHOWN)}"
                if part != ANY
                else "the value is neither a list nor an object"
            )
            full = shorten(".".join(self._parts), _SHOWN)
            raise FileError(
                self._path, ".".join(place), what, f"correct the file, or correct the path to the rows: {full}"
            )


def suggest_rows(document: Any) -> list[str]:
    """Return up to three paths to rows in a JSON document, starting with the path that has the most rows.

    Rows are objects in a list, or the values of an object if they are objects that share a key. Only the first items of
    each list or object are searched.
    """
    counts: dict[str, int] = {}
    _find_rows(document, (), counts)
    return sorted(counts, key=lambda path: -counts[path])[:_MOST_PATHS]


def _find_rows(value: Any, parts: tuple[str, ...], counts: dict[str, int]) -> None:
    """Add the number of rows at each path in `value` to `counts`. Rows are the objects in a list, or in a mapping whose
    values are alike; their path ends in `*`. `parts` is the path to `value`.
    """
    items = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else []
    objects = [item for item in items if isinstance(item, Mapping) and item]
    alike = isinstance(value, list) or (len(objects) > 1 and set.intersection(*map(set, objects[:_LOOKED_AT])))
    if objects and len(objects) == len(items) and alike:
        path = ".".join((*parts, ANY))
        counts[path] = counts.get(path, 0) + len(objects)
    if len(parts) >= _DEEPEST:
        return
    if isinstance(value, Mapping) and not (alike and objects):
        for name, inner in list(value.items())[:_LOOKED_AT]:
            _find_rows(inner, (*parts, name), counts)
    else:
        for inner in items[:_LOOKED_AT]:
            _find_rows(inner, (*parts, ANY), counts)
