"""Converts values to what primitives compare: strings, numbers, collections and hashable keys.

Values come from JSON or from a pydantic class: None, bool, int, float, Decimal, str, date, time, enum member, list,
tuple, set, dict, model. These functions never raise. Most return None if they cannot convert a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from enum import Enum
from typing import Annotated, Final

from pydantic import AllowInfNan, BaseModel, Strict

from karenina_toolkit.folding import fold
from karenina_toolkit.raising import raises

Number = Annotated[int, Strict()] | Annotated[float, Strict(), AllowInfNan(False)]
"""A finite number as a parameter. Bools and strings are not accepted."""

_PLAIN: Final = frozenset({str, int, float, bool, list, type(None)})
OTHER_WORDS: Final = ("something unrelated", "an entirely different matter", "zzz")
"""Strings that should not equal any reasonable ground truth."""
_LARGEST: Final = 400
_EXACT_FLOAT: Final = 2**53
_FARTHEST: Final = 10**15
"""The largest exponent of a number, chosen so that Decimal can still multiply two such numbers."""
_EMPHASIS: Final = re.compile(r"[*_`]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def plain(value: object) -> object:
    """Return an enum member's value, a model's fields as a dict, or any other value unchanged."""
    if type(value) in _PLAIN:
        return value
    while isinstance(value, Enum):
        value = value.value
    return value.model_dump() if isinstance(value, BaseModel) else value


def text_of(value: object) -> str | None:
    """Return a single value as a string. Numbers and bools look as in Python, and dates and times as in ISO 8601.
    Returns None for None, NaN, infinities, collections and other objects.
    """
    if type(value) is str:
        return value
    value = plain(value)
    match value:
        case str():
            return value
        case bool():
            return str(value)
        case int():
            return str(Decimal(value))  # str(int) is limited to 4300 digits
        case float() | Decimal():
            return None if number_of(value) is None else str(value)
        case date() | time():
            return value.isoformat()
        case _:
            return None


def number_of(value: object) -> Decimal | None:
    """Return `value` as a finite number, exactly as written, or None if it is not a number. Of strings, only plain ones
    in ASCII digits are numbers: "5", "-2.50" and "1e-3", but not "1,200", "5 mg" or "nan". Neither are bools.

    0.1 is one tenth, whether it is a float or a string, because a float stands for the shortest decimal that converts
    to it. Numbers with more than 10**15 digits before or after the decimal point are not supported. Strings are folded,
    and may have whitespace around the number.
    """
    value = plain(value)
    try:
        match value:
            case bool():
                return None
            case int() | Decimal():
                number = Decimal(value)
            case float():
                number = Decimal(repr(float(value)))
            case str():
                written = fold(value).strip()
                if not _NUMBER.fullmatch(written):
                    return None
                number = Decimal(written)
            case _:
                return None
    except InvalidOperation:  # the exponent is too large
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _FARTHEST else None


def stands_in(value: object, response: str) -> bool:
    """Return whether `value`, as text, occurs in `response` as whole words. For example, *iron* does not occur in
    *environment*. Case, spaces, Markdown's emphasis, and punctuation around the value are ignored.
    """
    words = _spaced(text_of(value) or "").strip(" .,;:!?\"'")
    return bool(words) and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", _spaced(response)) is not None


def _spaced(text: str) -> str:
    """Fold the text, and return it in lower case, without emphasis and with single spaces."""
    return " ".join(_EMPHASIS.sub("", fold(text)).casefold().split())


def exact(number: float) -> Decimal:
    """Return a finite float as a Decimal, exactly as written."""
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def another(value: object) -> object:
    """Return a different value of the same kind: the other bool, a higher number, the next day, or other words. A
    collection becomes a list with one more item. Returns None for other types.
    """
    value = plain(value)
    match value:
        case bool():
            return not value
        case int() | float() | Decimal():
            return above_by(value, Decimal(1))
        case datetime() | date():
            return another_day(value)
        case str():
            return OTHER_WORDS[value.strip().casefold() == OTHER_WORDS[0]]
        case list() | tuple() | set() | frozenset():
            items = list(value)
            foreign = next((changed for item in items if (changed := another(item)) is not None), OTHER_WORDS[0])
            return [*items, foreign]
        case _:
            return None


def above_by(value: object, distance: Decimal) -> int | float | Decimal | None:
    """Return a number that is more than `distance` above `value`, or below it if `distance` is negative, or None if
    `value` is not a number or the result has more than 400 digits. It is an integer if `value` is one.
    """
    start = number_of(value)
    if start is None:
        return None
    sign = -1 if distance < 0 else 1
    room = Context(prec=1000, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    target = room.add(start, room.add(distance, Decimal(sign)))
    if target.adjusted() > _LARGEST:
        return None
    rounding = ROUND_CEILING if sign > 0 else ROUND_FLOOR
    whole = int(target.to_integral_value(rounding, room))
    if isinstance(plain(value), int):
        return whole
    near = float(whole) if abs(whole) < _EXACT_FLOAT else None
    return whole if near is None else near


def another_day(value: date, days: int = 1) -> date | None:
    """Return the date or time `days` later, or earlier if that is out of range, or None if both are."""
    for step in (timedelta(days), timedelta(-days)):
        try:
            return value + step
        except OverflowError:
            continue
    return None


def items_of(value: object, *, ordered: bool = False) -> list[object] | None:
    """Return the items of a list, tuple or set as a list. Returns None for anything else. Sets are not accepted if
    `ordered` is set.
    """
    value = plain(value)
    if isinstance(value, list | tuple) or (isinstance(value, set | frozenset) and not ordered):
        return list(value)
    return None


def key_of(value: object, text: Callable[[str], str] = fold) -> Hashable:
    """Return a hashable key for `value`, so that equal values have equal keys: numbers by value (1 and 1.0), strings if
    `text` makes them equal (by default, if they look the same), sets and dicts in any order.

    A bool only equals a bool, and a string never equals a number. A date equals its ISO string, and a list equals a
    tuple. NaN and values that are nested too deeply equal nothing.
    """
    try:
        return _key(value, text)
    except RecursionError:
        return ("other", object())


def _key(value: object, text: Callable[[str], str]) -> Hashable:
    """Return a hashable key for a value, with `text` applied to the strings in it. See `key_of`. Raises
    `RecursionError` if the value is nested too deeply.
    """
    value = plain(value)
    match value:
        case None | bool():
            return ("constant", value)
        case str():
            return ("text", text(value))
        case date() | time():
            return ("text", text(value.isoformat()))
        case int() | float() | Decimal():
            number = number_of(value)
            return ("number", number) if number is not None else _odd_number(value)
        case list() | tuple():
            return ("list", tuple(_key(item, text) for item in value))
        case set() | frozenset():
            return ("set", frozenset(_key(item, text) for item in value))
        case Mapping():
            return ("dict", frozenset((_key(key, fold), _key(item, text)) for key, item in value.items()))
        case _:
            return ("other", type(value), object() if raises(TypeError, hash, value) else value)


def _odd_number(value: float | Decimal) -> Hashable:
    """Return the key for an infinity or NaN. The key of NaN never equals any other key."""
    not_a_number = value.is_nan() if isinstance(value, Decimal) else value != value
    return ("number", object()) if not_a_number else ("infinite", value > 0)
