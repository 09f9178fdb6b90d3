"""Text layout for terminals and files: lines that fit a width, without padding and control characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

LEAST_WIDTH: Final = 40
_GAP: Final = 2


def clean(text: str) -> str:
    """Return `text` in one line, without control characters."""
    return " ".join("".join(ch if ch.isprintable() else " " for ch in text).split())


def shorten(text: str, most: int) -> str:
    """Return `text` in one line of at most `most` characters."""
    line = clean(text)
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


def format_facts(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield lines of names and texts; a long text is wrapped in its own column."""
    everything = list(rows)
    indent = max((len(name) for name, _ in everything), default=0) + _GAP
    for name, text in everything:
        lines = wrap(text, max(width, LEAST_WIDTH) - indent, break_on_hyphens=False) or [""]
        yield f"{name:<{indent}}{lines[0]}".rstrip()
        yield from (" " * indent + line for line in lines[1:])


def format_table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the lines of a table: the first column left-aligned, the others right-aligned.

    A table that is too wide is split into parts, which repeat the first column.
    """
    if not rows:
        return
    sizes = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    start = 1
    while start < len(sizes):
        end, used = start, sizes[0]
        while end < len(sizes) and (end == start or used + _GAP + sizes[end] <= max(width, LEAST_WIDTH)):
            used += _GAP + sizes[end]
            end += 1
        for row in rows:
            cells = [f"{row[at]:>{sizes[at]}}" for at in range(start, end)]
            yield (" " * _GAP).join([f"{row[0]:<{sizes[0]}}", *cells]).rstrip()
        if end < len(sizes):
            yield ""
        start = end
