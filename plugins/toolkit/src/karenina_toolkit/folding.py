"""Compare strings that look the same but differ in code points: `fold`, and `FoldedText` for searches.

Such differences are an accented letter as one character or two (annex 15 of the Unicode Standard), a non-breaking
hyphen or space (annex 14), a mark of writing direction (annex 9), a full-width ASCII character (annex 11), and a
typographic apostrophe. `fold` converts both strings to the same form. It keeps whatever distinguishes values:
superscripts, circled numbers and fractions are left to the normalizer `compatibility`.
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

U+200C and U+200D are not among them, because words in Persian and Indian languages, and emoji, contain them.
"""
_FULL_WIDTH: Final = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_ASCII_OF: Final = {
    "-": "\u2010\u2011\u2012\u2013\u2212",
    " ": "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "'": "\u2018\u2019\u201a\u201b\u2039\u203a\u02bc\u2032",
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033",
}
"""Hyphens, figure and en dash and minus; the space separators (Zs); quotes, the modifier apostrophe and primes."""
_TABLE: Final[dict[int, int | None]] = {
    **_FULL_WIDTH,
    **{ord(character): ord(plain) for plain, characters in _ASCII_OF.items() for character in characters},
    **dict.fromkeys(_INVISIBLE),
}
_DOTTED_I: Final = re.compile("\u0130\u0307*|i\u0307+")
_JOINS: Final = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff\U00016d63\U00016d67]")
"""Letters that join the preceding character, as marks do: those of Hangul (vowels and finals) and Kirat Rai."""
_LONGEST_RUN: Final = 256
_MARKS: Final = re.compile(rf"[^\w\s\x00-\x7f]{{{_LONGEST_RUN}}}")
"""A run of combining marks that is too long to spell anything. Normalizing it as a whole takes quadratic time."""


def fold(text: str) -> str:
    """Return `text` in the form used to compare extracted values, ground truths and excerpts.

    The form is NFC without invisible characters, with ASCII for hyphens, dashes up to U+2013, the minus, spaces, quotes
    and full-width characters, and with i for a dotted capital I. Folding twice changes nothing more.
    """
    if text.isascii():
        return text
    text = _compose(text.translate(_TABLE))
    if "\u0130" in text or "\u0307" in text:
        text = _compose(_DOTTED_I.sub("i", text))
    return text


def _compose(text: str) -> str:
    """Return `text` in NFC, normalizing long runs of combining marks in parts."""
    parts: list[str] = []
    place = 0
    for run in _MARKS.finditer(text):
        parts.append(unicodedata.normalize("NFC", text[place : run.end()]))
        place = run.end()
    return "".join([*parts, unicodedata.normalize("NFC", text[place:])])


class FoldedText:
    """A string in its folded form (`folded`), with the position of each of its characters in the `original`."""

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
        """Return the start and end, in the original, of the span from `start` to `end` of the folded text."""
        if self._starts is None:
            return start, end
        if end <= start:
            at = self._starts[start] if start < len(self._starts) else len(self.original)
            return at, at
        return self._starts[start], self._ends[end - 1]


def _group_starts(text: str) -> list[int]:
    """Return the start of each part of `text` that is folded independently: a character and whatever combines with it.

    An invisible character is a part of its own, unless it is followed by a combining mark, which combines with the
    preceding character.
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
    """Return whether a character combines with the one before it, as marks and some letters do."""
    return unicodedata.category(character)[0] == "M" or _JOINS.match(character) is not None
