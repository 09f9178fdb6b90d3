"""Read values from the text of an answer, without a model: numbers, dates, and yes or no."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Final

from karenina_template.templates.normalize import normalize
from karenina_template.templates.primitives.date_parser import read_date

_NUMBER: Final = re.compile(
    r"(?<![\w.])[+\-\u2212]?(?:[0-9]{1,3}(?:[,\u202f\u00a0][0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
)
_YES: Final = frozenset(("yes", "true"))
_NO: Final = frozenset(("no", "false"))
_WORDS: Final = ("lowercase", "remove_punctuation", "collapse_whitespace")

_SHORT_MONTH: Final = 3


def plain_words(text: str) -> str:
    """Return the text in lower case without punctuation and repeated spaces; without change of case if that is all."""
    return normalize(text, _WORDS) or text.strip().casefold()


def numbers_in(text: str) -> list[Decimal]:
    """Return the numbers in a text, in their order; commas between groups of three digits are ignored."""
    found = (re.sub(r"[,\u202f\u00a0]", "", one).replace("\u2212", "-") for one in _NUMBER.findall(text))
    return [Decimal(one) for one in found]


def boolean_in(text: str) -> bool | None:
    """Return whether a text begins with yes (True) or no (False); None if with neither."""
    first, _, _ = plain_words(text).partition(" ")
    return True if first in _YES else False if first in _NO else None


def date_of(text: str) -> date | None:
    """Return the date that the whole text states; None if it states none."""
    found = read_date(text)
    return found.at.date() if found is not None else None


def contains_date(text: str, day: date) -> bool:
    """Return whether a text states the year, the day and the month (by name or number) of a date."""
    if date_of(text) == day or day.isoformat() in text:
        return True
    words = re.findall(r"[0-9]+|[^\W\d_]+", text.casefold())
    month = day.strftime("%B").casefold()
    named = any(len(word) >= _SHORT_MONTH and month.startswith(word) for word in words)
    numbers = [int(word) for word in words if word.isdecimal()]
    return {day.year, day.day} <= set(numbers) and (named or day.month in numbers)


def contains_words(text: str, part: str) -> bool:
    """Return whether `text` contains all of `part` as whole words, apart from case and punctuation."""
    return f" {plain_words(part)} " in f" {plain_words(text)} "
