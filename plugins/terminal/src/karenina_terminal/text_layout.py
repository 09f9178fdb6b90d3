"""Laying out text for terminals, files and the Python prompt, without trailing spaces.

Titles, facts and tables are blocks. `karenina_terminal.notebook_html` converts them to HTML.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from karenina_toolkit.printable import cell_width, shorten

LEAST_WIDTH: Final = 40
_WIDEST: Final = 120
_GAP: Final = 2
_LEAST_COLUMN: Final = 12
"""The minimum width of a text column when columns are narrowed."""
_WHOLE_WORDS: Final = 24
"""The length of the longest words that are kept whole when columns are narrowed."""
_MOST_LINES: Final = 100
_MOST_OF_A_TITLE: Final = 200
_MOST_OF_A_FACT: Final = 2000
_MOST_OF_A_CELL: Final = 60


class Title(NamedTuple):
    """A line above other blocks, indented by `indent` spaces."""

    text: str
    indent: int = 0


class Facts(NamedTuple):
    """Names and their texts. A text with an empty name continues the previous text."""

    rows: Sequence[tuple[str, str]]
    indent: int = 0


class Grid(NamedTuple):
    """A table. Its first row and its first column contain headings.

    `texts` contains the indices of text columns. They are left-aligned, and wrapped if there is not enough room. All
    other columns contain numbers.
    """

    rows: Sequence[Sequence[str]]
    texts: Collection[int] = (0,)


Block = Title | Facts | Grid
Section = Sequence[Block]
"""Blocks that belong together. Sections are separated by empty lines."""


def format_sections(sections: Iterable[Section], width: int) -> Iterator[str]:
    """Yield the lines of the sections, separated by empty lines. The minimum `width` is 40."""
    for number, section in enumerate(sections):
        if number:
            yield ""
        for block in section:
            yield from _format_block(block, width)


def _format_block(block: Block, width: int) -> Iterator[str]:
    """Yield the lines of a block. Titles are cut to `_MOST_OF_A_TITLE` characters."""
    if isinstance(block, Title):
        room = max(width, LEAST_WIDTH) - block.indent
        yield from (" " * block.indent + line for line in wrap_text(shorten(block.text, _MOST_OF_A_TITLE), room))
    elif isinstance(block, Facts):
        yield from (" " * block.indent + line for line in format_facts(block.rows, width - block.indent))
    else:
        yield from format_table(block.rows, width, block.texts)


def format_repr(sections: Iterable[Section]) -> str:
    """Return sections as text for the Python prompt, as wide as the terminal, with at most 120 columns and 100 lines;
    if lines are omitted, it ends with `...`. Long strings are cut. Without sections, the text is empty.
    """
    width = min(shutil.get_terminal_size((100, 24)).columns, _WIDEST)
    lines = list(islice(format_sections(_bounded(sections), width), _MOST_LINES + 1))
    return "\n".join(lines[:_MOST_LINES] + (["..."] if len(lines) > _MOST_LINES else []))


def _bounded(sections: Iterable[Section]) -> Iterator[Section]:
    """Shorten long strings and tables in the sections, so that laying them out takes little time."""
    for section in sections:
        yield [_bounded_block(block) for block in section]


def _bounded_block(block: Block) -> Block:
    """Return a block with long strings shortened, and tables cut to `_MOST_LINES` rows."""
    if isinstance(block, Facts):
        return Facts([(name, shorten(text, _MOST_OF_A_FACT)) for name, text in block.rows], block.indent)
    if isinstance(block, Grid):
        return Grid([[shorten(cell, _MOST_OF_A_CELL) for cell in row] for row in block.rows[:_MOST_LINES]], block.texts)
    return block


def format_facts(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield lines with names and their texts. Long texts are wrapped and stay aligned next to the name. The minimum
    `width` is 40.
    """
    everything = list(rows)
    indent = max((cell_width(name) for name, _ in everything), default=0) + _GAP
    for name, text in everything:
        lines = wrap_text(text, max(width, LEAST_WIDTH) - indent)
        yield f"{_left(name, indent)}{lines[0]}".rstrip()
        yield from (" " * indent + line for line in lines[1:])


def format_table(rows: Sequence[Sequence[str]], width: int, texts: Collection[int] = (0,)) -> Iterator[str]:
    """Yield the lines of a table. Columns in `texts` are left-aligned, and all other columns are right-aligned. If
    there is not enough room (`width`, but at least 40), text columns are wrapped, and if that does not suffice, the
    table is split into parts, which repeat the text columns before the first number column.
    """
    if not rows:
        return
    room = max(width, LEAST_WIDTH)
    sizes = [max(_widest_line(row[at]) for row in rows) for at in range(len(rows[0]))]
    longest = min(_WHOLE_WORDS, (room - _GAP) // 2)
    words = [max(_LEAST_COLUMN, min(longest, _longest_word(row[at] for row in rows))) for at in range(len(sizes))]
    least = [min(size, words[at]) if at in texts else size for at, size in enumerate(sizes)]
    heads = list(range(next((at for at in range(len(sizes)) if at not in texts), len(sizes))))
    if not heads or _total([*(least[at] for at in heads), max(least[len(heads) :], default=room)]) > room:
        heads = [0]
    start, end = 0, 0
    while end < len(sizes):
        columns = heads[:start]
        end = start
        while end < len(sizes) and (
            end == start or len(columns) < 2 or _total([least[at] for at in [*columns, end]]) <= room
        ):
            columns.append(end)
            end += 1
        widths = _share_room([sizes[at] for at in columns], [least[at] for at in columns], room)
        for row in rows:
            yield from _row_lines([(row[at], size, at in texts) for at, size in zip(columns, widths, strict=True)])
        if end < len(sizes):
            yield ""
        start = end


def wrap_text(text: str, width: int) -> list[str]:
    """Wrap text to `width` terminal columns. Returns at least one line. Line breaks are kept, other white space becomes
    single spaces, and words that are too long are broken.
    """
    lines = [""]
    for paragraph in text.split("\n"):
        for word in paragraph.split():
            for piece in _pieces(word, width):
                joined = f"{lines[-1]} {piece}" if lines[-1] else piece
                if cell_width(joined) <= width:
                    lines[-1] = joined
                else:
                    lines.append(piece)
        lines.append("")
    return lines[:-1]


def _pieces(word: str, width: int) -> Iterator[str]:
    """Yield pieces of a word that fit into `width`. An empty word yields one piece."""
    piece = ""
    for ch in word:
        if piece and cell_width(piece + ch) > width:
            yield piece
            piece = ""
        piece += ch
    yield piece


def _widest_line(text: str) -> int:
    """Return the width of a string's widest line, in terminal columns."""
    return max(map(cell_width, text.split("\n")))


def _longest_word(texts: Iterable[str]) -> int:
    """Return the width of the longest word in the texts, or 0 if there are no words."""
    return max((cell_width(word) for text in texts for word in text.split()), default=0)


def _total(widths: Sequence[int]) -> int:
    """Return the width of a table with the given column widths, including the gaps between columns."""
    return sum(widths) + _GAP * (len(widths) - 1)


def _share_room(sizes: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return column widths between `least` and `sizes` that fit into `room`. If there is not enough room for `least`,
    it is returned unchanged.

    Narrow columns get their full size, and the other columns share the rest equally.
    """
    widths = list(least)
    while _total(widths) < room and widths != list(sizes):
        at = min((width, at) for at, width in enumerate(widths) if width < sizes[at])[1]
        widths[at] += 1
    return widths


def _row_lines(cells: Sequence[tuple[str, int, bool]]) -> Iterator[str]:
    """Yield the lines of a row. Each cell is a string, its column's width, and whether it is text, which is wrapped.
    Other cells are aligned to the right.
    """
    wrapped = [wrap_text(text, width) if is_text else [text] for text, width, is_text in cells]
    for number in range(max(map(len, wrapped))):
        parts = []
        for lines, (_, width, is_text) in zip(wrapped, cells, strict=True):
            part = lines[number] if number < len(lines) else ""
            parts.append(_left(part, width) if is_text else " " * (width - cell_width(part)) + part)
        yield (" " * _GAP).join(parts).rstrip()


def _left(text: str, width: int) -> str:
    """Pad a string on the right to `width` terminal columns."""
    return text + " " * (width - cell_width(text))
