"""Limits on plain JSON, YAML and TOML values: nesting depth, digits of whole numbers, and text that can be encoded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

MAX_DEPTH: Final = 200
"""Maximum nesting of lists and objects."""
MAX_DIGITS: Final = 4300
"""Maximum number of decimal digits of a whole number; Python does not convert longer ones to text."""
_LIMIT: Final = 10**MAX_DIGITS
_HALF: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")


class ValueProblem(NamedTuple):
    """Why a value cannot be used: `what` is wrong, `cure` is how to fix it, and `path` leads to it in the value.

    It shows no text from the value, which may be an API key.
    """

    what: str
    cure: str
    path: tuple[str | int, ...] = ()

    @property
    def where(self) -> str:
        """The place in the value, such as `metadata.x`; empty for the whole value."""
        return ".".join(str(part) for part in self.path)


def has_lone_surrogate(text: str) -> bool:
    """Return whether `text` contains half of a surrogate pair, which cannot be encoded in a file or a request."""
    return not text.isascii() and _HALF.search(text) is not None


def find_problem_in_json(text: str, value: object, *, halves: bool = True) -> ValueProblem | None:
    """Return the first problem in `value`, which was parsed from the JSON `text`; None if there is none.

    The value is only searched if the text shows that there may be a problem.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH and not (halves and _ESCAPED_HALF.search(text)):
        return None
    return find_problem(value, halves=halves)


def find_problem(value: object, *, halves: bool = True) -> ValueProblem | None:
    """Return the first problem in a value made of lists, mappings and scalars; None if there is none.

    Without `halves`, texts are not searched for halves of surrogate pairs.
    """
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(value, ())]
    while waiting:
        one, path = waiting.pop()
        found = _trouble_at(one, path, halves)
        if found is not None:
            return found
        if isinstance(one, Mapping):
            for key in one:
                if halves and isinstance(key, str) and has_lone_surrogate(key):
                    return ValueProblem("a key holds half of a character", "correct that key", path)
            waiting.extend((item, (*path, str(key))) for key, item in one.items())
        elif isinstance(one, list):
            waiting.extend((item, (*path, place)) for place, item in enumerate(one))
    return None


def _trouble_at(value: object, path: tuple[str | int, ...], halves: bool) -> ValueProblem | None:
    if len(path) > MAX_DEPTH:
        return ValueProblem(f"it is nested more than {MAX_DEPTH} levels deep", "check the file", path[:3])
    if isinstance(value, str):
        if not halves or not has_lone_surrogate(value):
            return None
        return ValueProblem("a text holds half of a character", "remove it, or write the whole character", path)
    if isinstance(value, int) and not -_LIMIT < value < _LIMIT:
        return ValueProblem(f"a whole number has more than {MAX_DIGITS} digits", "shorten it, or make it a text", path)
    return None
