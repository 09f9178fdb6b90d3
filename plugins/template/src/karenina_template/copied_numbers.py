"""The second look of a small judge at numbers that it misread: it chooses among those that a program reads.

A small judge copies digits well, and errs when it converts words: for *two thousand and three* it writes 203. And of a
quantity in two units, *0.49 ounces (14 grams)*, it may copy the wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from karenina_template.copied_dates import date_choices, is_date_field
from karenina_template.numbers_in_text import DIGITS, read_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNIT: Final = re.compile(r"\bin ([^\W\d_]+)")
_KINDS: Final = frozenset({"integer", "number"})
_LIMITS: Final = frozenset({"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_LEAST, _MOST = 10, 10**15
"""The bounds of numbers that may be misread: smaller ones are one word, and larger ones are not read."""


def choices_of(schema: Mapping[str, Any], values: Mapping[str, Any], response: str) -> dict[str, Any] | None:
    """Return `schema` with a choice for each value in `values` that the judge seems to have misread; None for none.

    A whole number seems misread if it is not in the response, and a number of several words there has the same first
    digit and at most one digit more or less; these numbers are the choices. Any number seems misread if the response
    gives it with another unit than the field's description names (*in grams*), and then in this unit in brackets. Of a
    date: see `date_choices`. Null is a choice, too.
    """
    changed = {}
    for name, part in schema["properties"].items():
        value = values.get(name)
        choices: Sequence[float | str] = ()
        if is_date_field(part):
            choices = date_choices(value, response)
        elif is_number_field(part) and isinstance(value, int | float) and not isinstance(value, bool):
            choices = _in_unit(value, part.get("description", ""), response) or _similar(value, response)
        if choices:
            changed[name] = {**part, "anyOf": [{"enum": [*choices, None]}]}
    return {**schema, "properties": {**schema["properties"], **changed}} if changed else None


def is_number_field(part: Mapping[str, Any]) -> bool:
    """Return whether a field, by its schema, is one number, which may have limits."""
    options = [one for one in part.get("anyOf", ()) if one != {"type": "null"}]
    return len(options) == 1 and options[0].get("type") in _KINDS and options[0].keys() <= _LIMITS


def _in_unit(value: float, description: str, response: str) -> list[float]:
    """Return the numbers in brackets after `value`, with a unit of the description; none if `value` has that unit."""
    found = []
    for unit in _UNIT.findall(description):
        pairs = rf"({DIGITS})\s*([^\W\d_]+)\s*\(({DIGITS})\s*{re.escape(unit)}\b"
        for first, other, second in re.findall(pairs, response, re.IGNORECASE):
            if _read(first) == value and other.lower() != unit.lower():
                found.append(_read(second))
    return list(dict.fromkeys(found))


def _similar(value: float, response: str) -> Sequence[float]:
    numbers = read_numbers(response) if _LEAST <= value < _MOST and value == int(value) else None
    if numbers is None or value in numbers.known:
        return ()
    digits = str(int(value))
    return [
        number
        for number in numbers.of_several_words
        if number == int(number) and (text := str(int(number)))[0] == digits[0] and abs(len(text) - len(digits)) <= 1
    ]


def _read(digits: str) -> float:
    return float(digits.replace(",", ""))
