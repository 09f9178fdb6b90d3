"""Dates that a judge invents: none are counted from a text without any date, and a small judge looks again at others.

A small judge copies digits well, and errs when it converts a date: for *26 April 1986* it writes 2647-04-19. Then it
chooses among the dates that a program reads in the response. If the program reads none there, the judge is asked again,
and a date with such a year is refused, so that it is no wrong answer of the model.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from karenina_template.templates.primitives.date_parser import find_dates, is_month, read_dates
from karenina_template.templates.primitives.numbers_in_text import read_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karenina_template.templates import BaseAnswer

_FORMATS: Final = frozenset({"date", "date-time"})
_YEAR: Final = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")
_SHORT_YEAR: Final = re.compile(r"(?<![0-9])[0-9]{2}(?![0-9])")
_ENGLISH_WORDS: Final = frozenset({"may", "march", "mar", "out", "set", "gen", "mag", "sty", "maj", "mars", "sep"})
"""Names of months that are words of English, or parts of names: they count with a capital letter."""
_TIMES: Final = re.compile(
    r"\b(?:(?-i:Day|Eve|Tag|Jour|Día)|"
    r"(?:this|that|same|next|previous|following|last|present) (?:day|week|weekend|month|year|night|morning|evening)|"
    r"(?:to|yester|birth|holi|dooms)days?|tonight|tomorrow|ago|century|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|"
    r"christmas|xmas|easter|halloween|thanksgiving|hanukkah|passover|ramadan|eid|diwali|equinox|solstice|ides|"
    r"pentecost|epiphany|[a-z]+(?:teenth|tieth)|"
    # German
    r"(?:vor)?gestern|heute|übermorgen|morgen|\w+tag|vorig\w+|weihnachten|ostern|silvester|neujahr|pfingsten|"
    r"zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|\w+zehn\w*|\w+zig\w*|\w*(?:hundert|tausend)\w*|"
    r"(?:erst|zweit|dritt|viert|fünft|sechst|siebt|acht|neunt|zehnt)e[nrs]|"
    # French
    r"aujourd|hier|demain|veille|lendemain|noël|pâques|pentecôte|toussaint|premier|première|\w+ième|mille?|"
    r"deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize|vingt|trente|"
    # Spanish
    r"hoy|ayer|mañana|anteayer|víspera|navidad|nochebuena|nochevieja|pascua|primero|"
    r"dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|doce|trece|catorce|dieci\w+|veint\w+|treinta|"
    r"mil|ciento|\w*cientos"
    r")\b",
    re.IGNORECASE,
)
"""Words that place something in time, and number words that `read_numbers` does not read, in four languages."""
_ROMAN: Final = re.compile(r"\b(?=[MDCLXVI]{2,}\b)M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})\b")
_EAST_ASIAN: Final = re.compile(
    "[〇零一二三四五六七八九十百千廿卅元壱壹弐貳参參曜節节祭昨今翌]|明[日天年]|去年|クリスマス|[년월]|어제|오늘|내일|성탄|설날|추석"
)
_READ: Final = ("LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "MICRO", "MASCULINE", "FEMININE")
"""How the names of letters begin whose words for dates are known; others may be a date."""


def is_date_field(part: Mapping[str, Any]) -> bool:
    """Return whether a field, by its schema, is one date, with or without a time."""
    options = [one for one in part.get("anyOf", [part]) if one != {"type": "null"}]
    return len(options) == 1 and options[0].get("format") in _FORMATS


def date_choices(value: object, response: str) -> list[str]:
    """Return the dates of a response if it does not have the year of `value`, a date that a judge wrote; else none."""
    if not any(_is_invented(one.at.year, response) for one in read_dates(value)[:1]):
        return []
    return list(dict.fromkeys(one.isoformat() for one in find_dates(response)))


def check_dates(answer: BaseAnswer, text: str, question: str) -> None:
    """Raise `ValueError` for a date in a template that was filled from `text`, if nothing there can be one.

    That is a text without digits, numbers or words for times, such as *I do not know*. A date that the question has may
    be meant by *yes*.
    """
    dates = list(_dates_of(answer))
    if not dates or _may_have_date(text):
        return
    asked = find_dates(question)
    for name, day in dates:
        if day not in asked and f"{day.year:04}" not in question:
            what = f"the field {name!r} has the date {day.isoformat()}, and the response has no date"
            raise ValueError(f"{what}: write the date that the response gives, or null if it gives none")


def _dates_of(answer: BaseAnswer) -> Iterator[tuple[str, date]]:
    """Yield the dates that a template contains, also as texts and in lists."""
    for name in type(answer).model_fields:
        value = getattr(answer, name, None)
        for one in value if isinstance(value, list | tuple | set | frozenset) else (value,):
            if isinstance(one, date):
                yield name, one.date() if isinstance(one, datetime) else one
            elif isinstance(one, str) and (found := read_dates(one)):
                yield name, found[0].at.date()


def _may_have_date(text: str) -> bool:
    text = unicodedata.normalize("NFKC", text)
    if any(char.isnumeric() for char in text) or _EAST_ASIAN.search(text) or _ROMAN.search(text):
        return True
    if any(not unicodedata.name(char, "?").startswith(_READ) for char in set(text) if char.isalpha()):
        return True
    for word in re.findall(r"[^\W\d_]+", text):
        if is_month(word) and (word.casefold() not in _ENGLISH_WORDS or word[0].isupper()):
            return True
    if _TIMES.search(text):
        return True
    numbers = read_numbers(text)
    return numbers is None or bool(numbers.known)


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
