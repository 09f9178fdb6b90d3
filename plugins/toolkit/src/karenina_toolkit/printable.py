"""Making text from models and files printable."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category, combining, east_asian_width

INVISIBLE: Final = (
    r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
"""Characters without a glyph, for a character class of a pattern that also contains `\\s`.

These are control characters, the default-ignorable code points of Unicode (such as zero-width and direction marks,
variation selectors, tags and Hangul fillers), annotation marks, and signs that are drawn blank (Braille and others).
"""
NOT_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Matches a character that XML does not allow, and so neither does a cell of Excel."""
_BLANK: Final = re.compile(rf"[\s{INVISIBLE}]*")
_UNUSUAL: Final = re.compile(r"[^\n\t -~]")
_WITHOUT_WIDTH: Final = ("Mn", "Me", "Cf")
"""The Unicode categories of zero-width characters: marks and format characters."""
_SPACES: Final = 8
"""The number of characters to read for each shown one, to allow for collapsed whitespace."""


def is_blank(text: str) -> bool:
    """Return whether `text` has no visible character."""
    return _BLANK.fullmatch(text) is not None


def clean(text: str) -> str:
    r"""Return `text` with unprintable characters replaced, so that it cannot control the terminal. Tabs and line breaks
    are kept, other whitespace becomes a space, and anything else its code, such as `\x1b`.
    """
    if text.isprintable():  # much faster than the pattern
        return text
    return _UNUSUAL.sub(lambda match: match[0] if match[0].isprintable() else _visible(match[0]), text)


def xml_text(text: str) -> str:
    """Return `text` with the characters that XML does not allow replaced by U+FFFD."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def in_one_line(text: str) -> str:
    """Return `text` on one line, with whitespace collapsed and unprintable characters replaced as in `clean`."""
    return " ".join(clean(text).split())


def shorten(text: str, most: int) -> str:
    """Return `text` on one line of at most `most` characters. If it is cut off, it ends in an ellipsis."""
    beginning = text[: most * _SPACES]
    line = in_one_line(beginning)
    return line if len(line) <= most and len(beginning) == len(text) else line[: most - 1].rstrip() + "…"


def cell_width(text: str) -> int:
    """Return the number of terminal columns that `text` occupies. Wide characters such as ideographs occupy two
    columns. Combining marks and format characters occupy none.
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(ch) or category(ch) in _WITHOUT_WIDTH else 2 if east_asian_width(ch) in "WF" else 1
        for ch in text
    )


def clip(text: str, most: int, way_on: str = "") -> tuple[str, str]:
    """Return the first `most` characters of `text`, and a note that ends in `way_on` on how many were cut off, which is
    empty if none were. Line breaks are kept, and other unprintable characters are replaced as in `clean`.

    `way_on` tells the reader how to see the rest.
    """
    if len(text) <= most:
        return clean(text), ""
    return clean(text[:most]), f" ... ({len(text) - most:,} more characters{way_on})"


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 item` or `2,000 items`. `noun` is the singular form, whose plural is
    formed by the usual rules: patches, replies, keys.
    """
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and not noun.endswith(("ay", "ey", "oy", "uy")):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def _visible(ch: str) -> str:
    """Return the replacement for an unprintable character: a space or its code."""
    return " " if ch.isspace() else "" if ch == "\r" else f"\\x{ord(ch):02x}"
