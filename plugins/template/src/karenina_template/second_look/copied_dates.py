"""The second look of a small judge at dates with a year that the response does not have.

A small judge copies digits well, and errs when it converts a date: for *26 April 1986* it writes 2647-04-19. Then it
chooses among the dates that a program reads in the response. If the program reads none there, the judge is asked again,
and a date with such a year is refused, so that it is no wrong answer of the model.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from karenina_template.templates.primitives.date_parser import find_dates, read_dates
from karenina_template.templates.primitives.numbers_in_text import read_numbers

if TYPE_CHECKING:
    from karenina_template.templates import BaseAnswer

_FORMATS: Final = frozenset({"date", "date-time"})
_YEAR: Final = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")
_SHORT_YEAR: Final = re.compile(r"(?<![0-9])[0-9]{2}(?![0-9])")


def is_date_field(part: Mapping[str, Any]) -> bool:
    """Return whether a field, by its schema, is one date, with or without a time."""
    options = [one for one in part.get("anyOf", [part]) if one != {"type": "null"}]
    return len(options) == 1 and options[0].get("format") in _FORMATS


def date_choices(value: object, response: str) -> list[str]:
    """Return the dates of a response if it does not have the year of `value`, a date that a judge wrote; else none."""
    if not any(_is_invented(one.at.year, response) for one in read_dates(value)[:1]):
        return []
    return list(dict.fromkeys(one.isoformat() for one in find_dates(response)))


def check_years(answer: BaseAnswer, response: str) -> None:
    """Raise `ValueError` for a date with a year that the response does not have, if it has no date to choose."""
    for name in type(answer).model_fields:
        value = getattr(answer, name, None)
        if isinstance(value, date) and _is_invented(value.year, response) and not find_dates(response):
            what = f"the response has no year {value.year}, which the date in the field {name!r} has"
            raise ValueError(f"{what}: write the date that the response gives, or null if it gives none")


def _is_invented(year: int, response: str) -> bool:
    """Return whether a response has years, but not this one: in four digits, in two, or in English words.

    Those of a response that has none in four digits are not known: they may be of another calendar, or in other words.
    """
    text = unicodedata.normalize("NFKC", response)
    if not _YEAR.search(text) or f"{year:04}" in text or f"{year % 100:02}" in _SHORT_YEAR.findall(text):
        return False
    numbers = read_numbers(text)
    return numbers is not None and year not in numbers.known
