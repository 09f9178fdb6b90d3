"""The second look of a small judge at numbers: those that it wrote must be numbers of the response.

A small judge copies digits well, and errs when it converts words: for *two thousand and three* it writes 203. So a
program reads the words, and the judge chooses among the numbers of the response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from karenina_template.numbers_in_text import find_text_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_template.numbers_in_text import NumberInText

_PARTS: Final = re.compile(r"\b(?:half|halves|quarters?|dozens?|couple|score)\b", re.IGNORECASE)
"""Words for numbers that are not found."""
_UNIT: Final = re.compile(r"\bin ([^\W\d_]+)")
_KINDS: Final = frozenset({"integer", "number"})


def choices_of(schema: Mapping[str, Any], values: Mapping[str, Any], response: str) -> dict[str, Any] | None:
    """Return `schema` with a choice for each number in `values` that the response does not have; None if it has all.

    The choices are the numbers of the response, and null. A number is in doubt if it is not in the response and the
    response writes one in words; or if it has not the unit that the field's description names (*in grams*) and other
    numbers have.
    """
    numbers: Sequence[NumberInText] | None = None
    changed = {}
    for name, part in schema["properties"].items():
        kind, value = _kind(part), values.get(name)
        if kind is None or not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if numbers is None:
            numbers = [] if _PARTS.search(response) else find_text_numbers(response)
        fitting = [one for one in numbers if kind == "number" or isinstance(one.value, int)]
        choices = _choices(value, fitting, response, part.get("description", ""))
        if choices:
            changed[name] = {**part, "anyOf": [{"enum": [*choices, None]}]}
    return {**schema, "properties": {**schema["properties"], **changed}} if changed else None


def _kind(part: Mapping[str, Any]) -> str | None:
    """Return "integer" or "number" for a field of that kind without further limits."""
    options = [one for one in part.get("anyOf", ()) if one != {"type": "null"}]
    kinds = [one["type"] for one in options if one.keys() == {"type"} and one["type"] in _KINDS]
    return kinds[0] if len(kinds) == len(options) == 1 else None


def _choices(value: float, numbers: Sequence[NumberInText], response: str, description: str) -> list[int | float]:
    unit = _UNIT.search(description)
    if unit is not None:
        follows = re.compile(rf"\s*{re.escape(unit.group(1))}\b", re.IGNORECASE)
        in_unit = [one.value for one in numbers if follows.match(response, one.end)]
        if in_unit:
            return [] if _has(in_unit, value) else list(dict.fromkeys(in_unit))
    known = [one.value for one in numbers]
    if _has(known, value) or not any(one.in_words for one in numbers):
        return []
    return list(dict.fromkeys(known))


def _has(numbers: Sequence[float], value: float) -> bool:
    return value in numbers or -value in numbers
