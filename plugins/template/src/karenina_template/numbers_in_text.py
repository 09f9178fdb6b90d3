"""Numbers in a text, in digits and English words: *1,200*, *two hundred and six*, *nineteen oh four*, *3 thousand*."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from text_to_num import find_numbers

_TOKEN: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[^\w\s]")
_DIGITS: Final = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.[0-9]{1,15})?")
_NEGATIVE: Final = re.compile(r"(?:\b(?:minus|negative)\s+|(?<![\w.)])[-\u2212])\Z", re.IGNORECASE)
_SCALES: Final = frozenset({"hundred", "thousand", "million", "billion", "trillion"})
_CENTURIES: Final = range(10, 21)


@dataclass(frozen=True, slots=True)
class NumberInText:
    """A number, where it begins and ends in its text, and whether a word of it counts: *one* and *third* do not."""

    value: int | float
    start: int
    end: int
    in_words: bool


@dataclass(frozen=True, slots=True)
class _Word:
    """A word, as the library for number words reads it."""

    written: str
    start: int
    end: int

    def text(self) -> str:
        return "zero" if self.written.lower() == "oh" else self.written

    def nt_separated(self, previous: _Word) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return False


def find_text_numbers(text: str) -> list[NumberInText]:
    """Return the numbers of `text` in order. Fractions in words (*a half*) and words of other languages are not read.

    Years are read in pairs (*nineteen forty*, 1940), and digits with the word after them (*3 thousand*, 3000).
    """
    words = [_Word(match.group(), *match.span()) for match in _TOKEN.finditer(text)]
    found = [_in_digits(word, text) for word in words if _DIGITS.fullmatch(word.written)]
    for part in find_numbers(words, "en", 0.0):
        start, end = words[part.start].start, words[part.end - 1].end
        in_words = not part.is_ordinal and text[start:end].lower() != "one"
        found.append(NumberInText(_signed(part.value, text, start), start, end, in_words))
    joined: list[NumberInText] = []
    for number in sorted(found, key=lambda one: one.start):
        whole = _join(joined[-1], number, text) if joined else None
        joined[-1:] = [whole] if whole is not None else [*joined[-1:], number]
    return joined


def _in_digits(word: _Word, text: str) -> NumberInText:
    value = _signed(float(word.written.replace(",", "")), text, word.start)
    return NumberInText(value, word.start, word.end, in_words=False)


def _signed(value: float, text: str, start: int) -> int | float:
    """Return `value`, or the negative one if a minus sign is before `start`."""
    return _plain(-value if _NEGATIVE.search(text, max(0, start - 20), start) else value)


def _join(first: NumberInText, second: NumberInText, text: str) -> NumberInText | None:
    """Return the one number that both are, or None if they are two."""
    if text[first.end : second.start].strip(" -"):
        return None
    last = text[second.start : second.end].lower()
    if not first.in_words and last in _SCALES:
        value = first.value * second.value
    elif first.in_words and second.in_words and first.value in _CENTURIES and _ends_year(second.value, last):
        value = first.value * 100 + second.value
    else:
        return None
    return NumberInText(_plain(value), first.start, second.end, in_words=True)


def _ends_year(value: float, written: str) -> bool:
    return 10 <= value <= 99 or (value < 10 and written.startswith(("oh", "zero")))


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else value
