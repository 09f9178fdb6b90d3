"""Comparison of strings that look the same but consist of different characters.

Examples are an accented letter as one character or two (Unicode Standard Annex #15), non-breaking hyphens and spaces
(#14), direction marks (#9), full-width letters (#11), and typographic apostrophes. To compare two strings, convert both
with `fold`. For searches, use `FoldedText`. Superscripts, circled numbers and fractions are not changed. The normalizer
`compatibility` handles those.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_INVISIBLE: Final = (
    0xAD,
    0x200B,
    0x2060,
    0xFEFF,
    0x61C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
"""Soft hyphen, zero-width space, word joiner, byte-order mark and direction marks.

U+200C and U+200D are not included, because they occur in Persian and Indian words and in emoji.
"""
_FULL_WIDTH: Final = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_ASCII_OF: Final = {
    "-": "\u2010\u2011\u2012\u2013\u2212",
    " ": "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "'": "\u2018\u2019\u201a\u201b\u2039\u203a\u02bc\u2032",
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033",
}
"""Hyphens, figure and en dash, minus, space separators (Zs), quotes, modifier apostrophe and primes."""
_TABLE: Final[dict[int, int | None]] = {
    **_FULL_WIDTH,
    **{ord(character): ord(plain) for plain, characters in _ASCII_OF.items() for character in characters},
    **dict.fromkeys(_INVISIBLE),
}
_DOTTED_I: Final = re.compile("\u0130\u0307*|i\u0307+")
_JOINS: Final = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff\U00016d63\U00016d67]")
"""Letters that join the preceding one, as combining marks do: vowels and finals of Hangul, and Kirat Rai."""
_LONGEST_RUN: Final = 256
_MARKS: Final = re.compile(rf"[^\w\s\x00-\x7f]{{{_LONGEST_RUN}}}")
"""A run of combining marks that is too long to spell anything. Normalizing it as a whole would take quadratic time."""


def with_ascii_digits(text: str) -> str:
    """Return `text` with ASCII digits for the decimal digits of other scripts, such as Arabic and Devanagari."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in text)


def fold(text: str) -> str:
    """Return `text` in a form in which spellings that look alike are equal, for comparing extracted values, ground
    truths and excerpts. Hyphens, dashes up to U+2013, the minus sign, spaces, quotes and full-width characters become
    ASCII, and invisible characters are removed. Case and accents stay.

    The result is in NFC. A dotted capital I becomes i. Folding is idempotent.
    """
    if text.isascii():
        return text
    text = _compose(text.translate(_TABLE))
    if "\u0130" in text or "\u0307" in text:
        text = _compose(_DOTTED_I.sub("i", text))
    return text


def _compose(text: str) -> str:
    """Return `text` in NFC, normalized a run of combining marks at a time."""
    parts: list[str] = []
    place = 0
    for run in _MARKS.finditer(text):
        parts.append(unicodedata.normalize("NFC", text[place : run.end()]))
        place = run.end()
    return "".join([*parts, unicodedata.normalize("NFC", text[place:])])


class FoldedText:
    """A folded string that knows the position of each character in the `original`."""

    def __init__(self, original: str) -> None:
        self.original = original
        self._starts: list[int] | None = None
        self._ends: list[int] = []
        if original.isascii():
            self.folded = original
            return
        self._starts = []
        parts: list[str] = []
        starts = _group_starts(original)
        for start, end in zip(starts, [*starts[1:], len(original)], strict=True):
            group = fold(original[start:end])
            parts.append(group)
            self._starts += [start] * len(group)
            self._ends += [end] * len(group)
        self.folded = "".join(parts)

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Convert a span of the folded text to a span of the original."""
        if self._starts is None:
            return start, end
        if end <= start:
            at = self._starts[start] if start < len(self._starts) else len(self.original)
            return at, at
        return self._starts[start], self._ends[end - 1]


def _group_starts(text: str) -> list[int]:
    """Return the start of each part of `text` that can be folded separately. A part is a character together with the
    characters that combine with it. An invisible character is a part too, unless a combining mark follows it.
    """
    starts: list[int] = []
    base = 0
    for place, character in enumerate(text):
        if place and character > "\x7f" and _joins(character):
            while starts[-1] > base:
                starts.pop()
            continue
        starts.append(place)
        if _TABLE.get(ord(character), "") is not None:
            base = place
    return starts


def _joins(character: str) -> bool:
    """Return whether a character combines with the preceding one."""
    return unicodedata.category(character)[0] == "M" or _JOINS.match(character) is not None
