"""Making text from models and files printable."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category, combining, east_asian_width

_UNUSUAL: Final = re.compile(r"[^\n\t -~]")
_WITHOUT_WIDTH: Final = ("Mn", "Me", "Cf")
"""The Unicode categories of characters without width: marks and format characters."""
_SPACES: Final = 8
"""How many times the shown length to read from a string, because white space is then collapsed."""


def clean(text: str) -> str:
    r"""Replace unprintable characters in `text`, so that it cannot control the terminal.

    Tabs and line breaks stay. Other white space becomes a space, and any other character its code, such as `\x1b`.
    """
    return _UNUSUAL.sub(lambda match: match[0] if match[0].isprintable() else _visible(match[0]), text)


def in_one_line(text: str) -> str:
    """Return `text` on one line, with white space collapsed and unprintable characters replaced as in `clean`."""
    return " ".join(clean(text).split())


def shorten(text: str, most: int) -> str:
    """Return `text` on one line of at most `most` characters, with an ellipsis if it was cut off."""
    beginning = text[: most * _SPACES]
    line = in_one_line(beginning)
    return line if len(line) <= most and len(beginning) == len(text) else line[: most - 1].rstrip() + "…"


def cell_width(text: str) -> int:
    """Return the number of terminal columns that `text` needs.

    Wide characters such as ideographs need two, and combining marks and format characters none.
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(ch) or category(ch) in _WITHOUT_WIDTH else 2 if east_asian_width(ch) in "WF" else 1
        for ch in text
    )


def clip(text: str, most: int, way_on: str = "") -> tuple[str, str]:
    """Return the first `most` characters of `text`, and a note on how many were left out, if any.

    Line breaks stay; other unprintable characters are replaced as in `clean`. `way_on` says how to see the rest, and is
    added to the note.
    """
    if len(text) <= most:
        return clean(text), ""
    return clean(text[:most]), f" ... ({len(text) - most:,} more characters{way_on})"


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 item` or `2,000 items`.

    `noun` is the singular. Its plural must end in -s.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _visible(ch: str) -> str:
    """Return what to print instead of an unprintable character: a space or its code."""
    return " " if ch.isspace() else "" if ch == "\r" else f"\\x{ord(ch):02x}"
