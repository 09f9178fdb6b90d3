"""Finds numbers in text, in digits and in English words: *1,200*, *two hundred and six*, *nineteen oh four*."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from text_to_num import alpha2digit, find_numbers

from karenina_toolkit.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGITS: Final = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.[0-9]{1,15})?"
"""A regular expression for a number in digits."""

_TOKEN: Final = lazy_pattern(r"[0-9]+(?:[.,][0-9]+)*|[^\W\d_]+|[^\w\s]")
_DIGITS: Final = lazy_pattern(DIGITS)
_MINUS: Final = lazy_pattern(r"\b(?:minus|negative)\s+\Z", re.IGNORECASE)
_RANGE: Final = lazy_pattern(r"\s*(?:-|to|or)\s*", re.IGNORECASE)
_LIST: Final = lazy_pattern(r"\s*(?:,|and)\s*", re.IGNORECASE)
_SCALES: Final = ("hundred", "thousand", "million", "billion")
_LETTER_O: Final = ("o", "oh")
_CENTURIES: Final = range(10, 21)
_UNREAD: Final = lazy_pattern(
    r"\b(?:half|halves|quarters?|thirds|fifths|dozens?|score|trillions?)\b|(?:hundred|thousand|million|billion)s\b",
    re.IGNORECASE,
)


class Numbers(NamedTuple):
    """The numbers in a string.

    `of_several_words` contains the numbers written in several words, such as *two hundred* and *3 million*, in order
    and without ordinals. `known` contains all numbers.
    """

    known: frozenset[int | float]
    of_several_words: Sequence[int | float]


class _Word(NamedTuple):
    """A word or sign with the space before it, as a token for the number-word library."""

    written: str
    start: int
    end: int
    space: str

    def text(self) -> str:
        """Return the word as written."""
        return self.written

    def nt_separated(self, previous: _Word) -> bool:
        """Return whether the word and `previous` are separated by more than a single space. Next to a hyphen, any space
        separates them.
        """
        return self.space not in (("",) if "-" in (self.written, previous.written) else ("", " "))

    def not_a_number_part(self) -> bool:
        """Return whether the word is the letter O (or "oh"), which the library would read as zero."""
        return self.written.lower() in _LETTER_O


class _Part(NamedTuple):
    """A number in a string, or part of a number, with its value, position and number of words."""

    value: int | float
    start: int
    end: int
    words: int
    """The number of words. It is 0 for a number in digits."""
    ordinal: bool = False


def read_numbers(text: str) -> Numbers | None:
    """Return the numbers in `text`, in digits and in English words (other languages are ignored), or None if any of
    them is written in an unsupported form, such as fractions in words, dozens, trillions, and ranges in words (*three
    to four million*). Years are read in pairs (*nineteen forty*, 1940), and digits together with the word after them
    (*3 thousand*, 3000).
    """
    if _UNREAD.search(text):
        return None
    text = text.encode("utf-8", "replace").decode()  # the library stops at a lone surrogate
    parts = _parts(text)
    values = {part.value for part in parts}
    joined: list[_Part] = []
    for part in parts:
        if part.ordinal:
            continue
        if not joined or not _may_be_one(joined[-1], part, text):
            joined.append(part)
        elif (whole := _join(joined[-1], part, text)) is not None:
            joined[-1] = whole
        else:
            return None
    several = [part.value for part in joined if part.words > 1]
    return Numbers(frozenset(values.union(several)), tuple(dict.fromkeys(several)))


def with_digits(text: str) -> str:
    """Return the text with digits for its English number words: *2 hours and 30 minutes*."""
    written: str = alpha2digit(text.encode("utf-8", "replace").decode(), "en", threshold=0)
    return written


def _parts(text: str) -> list[_Part]:
    """Return the numbers in `text` in order, in digits and in words. Some are split into several parts."""
    words: list[_Word] = []
    for match in _TOKEN.finditer(text):
        space = text[words[-1].end if words else 0 : match.start()]
        words.append(_Word(match.group(), *match.span(), space))
    for place in range(1, len(words) - 1):
        if words[place].written.lower() in _LETTER_O and _is_digit_after_century(words, place):
            words[place] = _Word("zero", words[place].start, words[place].end, words[place].space)
    parts = [
        _Part(_to_int_or_float(Decimal(word.written.replace(",", ""))), word.start, word.end, 0)
        for word in words
        if _DIGITS.fullmatch(word.written)
    ]
    for part in find_numbers(words, "en", 0.0):
        start, end = words[part.start].start, words[part.end - 1].end
        value = _to_int_or_float(Decimal(str(part.value)))
        value = -value if _MINUS.search(text, max(0, start - 20), start) else value
        count = sum(word.written.isalpha() for word in words[part.start : part.end])
        parts.append(_Part(value, start, end, count, part.is_ordinal))
    return sorted(parts, key=lambda part: part.start)


def _is_digit_after_century(words: Sequence[_Word], place: int) -> bool:
    """Return whether the word is between a century and a digit, like *oh* in *nineteen oh four*."""
    before = list(find_numbers(words[place - 1 : place], "en", 0.0))
    after = list(find_numbers(words[place + 1 : place + 2], "en", 0.0))
    return bool(before and after) and before[0].value in _CENTURIES and 0 < after[0].value < 10


def _may_be_one(first: _Part, second: _Part, text: str) -> bool:
    """Return whether two adjacent numbers, at least one of them in words, may be a single number, list or range."""
    between = text[first.end : second.start]
    if not first.words and not second.words:
        return False
    ends_with_scale = text[first.start : first.end].lower().endswith(_SCALES)
    return not between.strip() or bool(_RANGE.fullmatch(between) or (ends_with_scale and _LIST.fullmatch(between)))


def _join(first: _Part, second: _Part, text: str) -> _Part | None:
    """Return the number that both parts form together, or None if this is unclear."""
    last = text[second.start : second.end].lower()
    if text[first.end : second.start].strip():
        return None
    if last in _SCALES and (not first.words or not isinstance(first.value, int)):
        value = _to_int_or_float(Decimal(str(first.value)) * int(second.value))
    elif first.words == 1 and first.value in _CENTURIES and second.words and _ends_year(second.value, last):
        value = first.value * 100 + second.value
    else:
        return None
    return _Part(value, first.start, second.end, first.words + second.words + 1)


def _ends_year(value: float, written: str) -> bool:
    """Return whether a number can end a year: two digits, or one digit after *oh*, *o* or *zero*."""
    return 10 <= value <= 99 or (value < 10 and written.startswith(("oh", "o ", "zero")))


def _to_int_or_float(value: Decimal) -> int | float:
    return int(value) if value == int(value) else float(value)
