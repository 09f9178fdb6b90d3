"""Reading a value as what a primitive compares: a text, a number, a collection, or something that can be looked up.

Values come from JSON or from a pydantic class: None, bool, int, float, Decimal, str, date, time, enum, list, tuple,
set, dict, model. Each reader answers None for what it cannot read; none raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from datetime import date, time
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Annotated, Final

from pydantic import AllowInfNan, BaseModel, Strict

Number = Annotated[int, Strict()] | Annotated[float, Strict(), AllowInfNan(False)]
"""A parameter that is a finite number. A bool or a text is none."""

_PLAIN: Final = frozenset({str, int, float, bool, list, type(None)})
_FARTHEST: Final = 10**15
"""The largest power of ten of a number: products of two still have an exponent that Decimal can hold."""
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def plain(value: object) -> object:
    """`value`, or what an enum's member stands for, or the fields of a model as a dict."""
    if type(value) in _PLAIN:
        return value
    while isinstance(value, Enum):
        value = value.value
    return value.model_dump() if isinstance(value, BaseModel) else value


def text_of(value: object) -> str | None:
    """Return the text of a single value: a str as it is, a number, bool or date as Python and ISO 8601 write them.

    None, NaN, infinities, collections and other objects have no text.
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
            return str(Decimal(value))  # str of an int stops at 4300 digits
        case float() | Decimal():
            return None if number_of(value) is None else str(value)
        case date() | time():
            return value.isoformat()
        case _:
            return None


def number_of(value: object) -> Decimal | None:
    """Return the finite number that `value` is, exactly as it is written (0.1 is one tenth, as a float and as a text).

    A float is the shortest decimal that reads back as it: 1e23 is ten to the 23rd. A number of more than 10**15 digits
    before or after its point is none.

    A text counts only where it is a plain number in ASCII digits, white space around it aside: "5", "-2.50", "1e-3".
    "1,200", "3.5 %", "5 mg", "1_000", "nan" and "inf" are no numbers, and neither is a bool.
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
                if not _NUMBER.fullmatch(value.strip()):
                    return None
                number = Decimal(value.strip())
            case _:
                return None
    except InvalidOperation:  # an exponent beyond all bounds
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _FARTHEST else None


def exact(number: float) -> Decimal:
    """Return a finite parameter as it is written."""
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def items_of(value: object, *, ordered: bool = False) -> list[object] | None:
    """Return the items of a list or tuple, and of a set unless `ordered`. A text or a dict is no collection here."""
    value = plain(value)
    if isinstance(value, list | tuple) or (isinstance(value, set | frozenset) and not ordered):
        return list(value)
    return None


def key_of(value: object, text: Callable[[str], str] = str) -> Hashable:
    """Something to look `value` up by: two keys are equal where the values are.

    Texts are compared after `text`; numbers as numbers (1 is 1.0), but a bool only with a bool, and a text never with a
    number; a date with its ISO text; a list with a tuple; sets and dicts without order. NaN equals nothing, nor does
    what is nested too deep to look into.
    """
    try:
        return _key(value, text)
    except RecursionError:
        return ("other", object())


def _key(value: object, text: Callable[[str], str]) -> Hashable:
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
            return ("dict", frozenset((_key(key, str), _key(item, text)) for key, item in value.items()))
        case _:
            return ("other", type(value), value if _hashable(value) else object())


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _odd_number(value: float | Decimal) -> Hashable:
    not_a_number = value.is_nan() if isinstance(value, Decimal) else value != value
    return ("number", object()) if not_a_number else ("infinite", value > 0)
