"""Styled text and tables in a grid of names and contents.

The layout is the same as that of rich's `Table` at a hundredth of the cost, because commands may print ten thousand
items. rich measures the characters and provides the style codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

Part = tuple[str, str]
"""A string and its style, which is `bold`, `dim red` or similar. The style may be empty."""
Line = Sequence[Part]

_INDENT: Final = 2
_GAP: Final = 2
_TAB: Final = 8
_WIDEST: Final = 2
"""The number of columns of the widest characters."""
_NARROWEST: Final = 28
"""The minimum width. Lines are never made narrower than this."""
_WORD: Final = re.compile(r"\s*\S+\s*")
_text_of: Final = itemgetter(0)


class StyledText:
    """Text in several styles. `style` is the style of the spaces that pad its lines in a grid."""

    __slots__ = ("_parts", "_style", "_whole", "width")

    def __init__(self, parts: Line, style: str = "") -> None:
        self._parts = parts
        self._style = style
        plain = parts[0][0] if len(parts) == 1 else "".join([text for text, _ in parts])
        self._whole = "\n" not in plain and "\t" not in plain
        self.width = _width(plain) if self._whole else max(map(cell_len, plain.split("\n")))
        """The width of the widest line."""

    def lines(self, width: int) -> list[Line]:
        """Return the text's lines, wrapped at white space and padded with spaces to `width`."""
        if not self._whole or self.width > width:
            return [_pad(line, width, self._style) for line in wrap_parts(self._parts, width)]
        *others, (text, style) = self._parts
        if style == self._style:
            return [[*others, (text + " " * (width - self.width), style)]]
        return [[*self._parts, (" " * (width - self.width), self._style)]]


class StyledTable:
    """A table without borders and with dim headings."""

    __slots__ = ("_cells", "_widths", "width")

    def __init__(self, heading: Sequence[str], rows: Iterable[Sequence[StyledText]]) -> None:
        self._cells = [[StyledText([(name, "dim")], "dim") for name in heading], *rows]
        self._widths = [max([cell.width for cell in column]) + _GAP for column in zip(*self._cells, strict=True)]
        self.width = sum(self._widths)
        """The width that the table needs if no text is wrapped."""

    def lines(self, width: int) -> list[Line]:
        """Return the table's lines, padded to `width`. If the table is too wide, its widest columns are wrapped."""
        widths = _narrow(self._widths, width)
        rest = width - sum(widths)
        lines: list[Line] = []
        for number, row in enumerate(self._cells):
            style = "" if number else "dim"
            columns = [
                [[*line, (" " * _GAP, style)] for line in cell.lines(size - _GAP)]
                for cell, size in zip(row, widths, strict=True)
            ]
            height = max(map(len, columns))
            for column, size in zip(columns, widths, strict=True):
                blank: list[list[Part]] = [[(" " * size, style)]] * (height - len(column))
                column[:] = [*column, *blank] if number else [*blank, *column]
            lines += [[*chain.from_iterable(parts), (" " * rest, "")] for parts in zip(*columns, strict=True)]
        return lines


Content = Sequence[StyledText | StyledTable]
"""The content next to a name: texts and tables, one below the other."""


def lay_out_grid(rows: Sequence[tuple[str, Content]], width: int) -> Iterator[Line]:
    """Yield the lines of an indented grid with names in bold, next to their contents. Lines have the given width, but
    at least 28 columns. Raises `ValueError` if there are no rows or no contents. A name without contents has no line,
    and the contents of an empty name continue those of the previous one.
    """
    width = max(width, _NARROWEST) - _INDENT
    first = max([len(name) for name, _ in rows])
    needed = max([block.width for _, content in rows for block in content])
    second = min(max(needed, 1), width - first - _GAP)
    indent, gap = (" " * _INDENT, ""), (" " * _GAP, "bold")
    beside, after = (" " * (first + _GAP), "bold"), (" " * (width - first - _GAP - second), "")
    for name, content in rows:
        start: Line = (indent, (name.ljust(first), "bold"), gap)
        for block in content:
            for line in block.lines(second):
                yield [*start, *line, after]
                start = (indent, beside)


def _narrow(widths: list[int], room: int) -> list[int]:
    """Return the column widths, with the widest reduced to equal widths until all columns fit into `room`."""
    widths = [min(width, room) for width in widths]
    while (excess := sum(widths) - room) > 0:
        widest = max(widths)
        step = widest - max((width for width in widths if width != widest), default=0)
        most, left = min(excess, step), widths.count(widest)
        narrowed = []
        for width in widths:
            if width == widest:
                less = min(most, round(excess / left))
                excess, left = excess - less, left - 1
                width -= less
            narrowed.append(width)
        widths = narrowed
    return widths


def wrap_parts(parts: Line, width: int) -> list[Line]:
    """Return the lines of styled text, wrapped at white space to `width`. Words that are too long are broken, and tabs
    become spaces.
    """
    plain = "".join(text for text, _ in parts)
    if "\n" not in plain and "\t" not in plain and (_WIDEST * len(plain) <= width or cell_len(plain) <= width):
        return [parts]
    wrapped: list[Line] = []
    for line in _split_lines(parts):
        if any("\t" in text for text, _ in line):
            line = _expand_tabs(line)
        plain = "".join(text for text, _ in line)
        start = 0
        for end in (*_find_breaks(plain, width), len(plain)):
            piece = plain[start:end]
            excess = len(piece) - width
            if excess > 0:
                piece = piece[: max(len(piece) - excess, len(piece.rstrip()))]
            cut = _slice(line, start, start + len(piece))
            wrapped.append(cut if cell_len(piece) <= width else _crop(cut, piece, width))
            start = end
    return wrapped


def _split_lines(parts: Line) -> list[Line]:
    """Return the lines of styled text as lists of parts."""
    lines: list[list[Part]] = [[]]
    for text, style in parts:
        first, *others = text.split("\n")
        lines[-1].append((first, style))
        lines += [[(other, style)] for other in others]
    return [*lines]


def _expand_tabs(parts: Line) -> Line:
    """Return a line with spaces up to the next tab stop in place of each tab."""
    position = 0
    expanded = []
    for text, style in parts:
        *pieces, last = text.split("\t")
        for piece in pieces:
            position += cell_len(piece) + 1
            spaces = -position % _TAB
            position += spaces
            expanded.append((piece + " " * (spaces + 1), style))
        position += cell_len(last)
        expanded.append((last, style))
    return expanded


def _find_breaks(line: str, width: int) -> Iterator[int]:
    """Yield the positions at which to break a line so that it fits `width`. White space at the end does not count."""
    if cell_len(line) <= width:
        return
    used, start = 0, 0
    while (match := _WORD.match(line, start)) is not None:
        word, end = match[0], match.end()
        needed = cell_len(word.rstrip())
        if needed <= width - used:
            used += cell_len(word)
        elif needed > width:
            pieces = chop_cells(word, width)
            for piece in pieces:
                if start:
                    yield start
                start += len(piece)
            used = cell_len(pieces[-1])
        elif used and start:
            yield start
            used = cell_len(word)
        start = end


def _slice(parts: Line, start: int, end: int) -> Line:
    """Return the parts of styled text from position `start` to `end`."""
    cut = []
    for text, style in parts:
        if end > 0 and start < len(text):
            cut.append((text[max(start, 0) : end], style))
        start, end = start - len(text), end - len(text)
    return cut


def _crop(parts: Line, plain: str, width: int) -> Line:
    """Return a line cut to `width`. If this cuts a wide character in half, a space takes its place. `plain` is the line
    without styles.
    """
    text = set_cell_size(plain, width)
    kept = [*_slice(parts, 0, len(text))]
    if kept and not plain.startswith(text):
        kept[-1] = kept[-1][0][:-1] + text[-1], kept[-1][1]
    return kept


def _width(text: str) -> int:
    """Return the number of columns that a text on one line occupies. Printable ASCII is not measured by rich."""
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def _pad(line: Line, width: int, style: str) -> Line:
    """Return a line padded to `width` with spaces in the given style. A longer line is returned unchanged."""
    missing = width - sum(cell_len(text) for text, _ in line)
    if missing <= 0:
        return line
    if line and line[-1][1] == style:
        return [*line[:-1], (line[-1][0] + " " * missing, style)]
    return [*line, (" " * missing, style)]


class WholeText(NamedTuple):
    """Lines that rich prints unchanged."""

    lines: Sequence[str]

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> Iterator[Segment]:
        yield Segment("\n".join(self.lines))


class LineWriter:
    """Writes lines to a console. On a terminal, they include style codes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._codes: dict[str, tuple[str, str]] = {"": ("", "")}

    def write(self, lines: Iterable[Line]) -> None:
        """Print the lines in one call, with style codes on a terminal, and as plain text elsewhere."""
        if self._console.is_terminal:
            texts = ["".join([self._paint(part) for part in line if part[0]]) for line in lines]
        else:
            texts = ["".join(map(_text_of, line)) for line in lines]
        self._console.print(WholeText([*texts, ""]), crop=False)

    def _paint(self, part: Part) -> str:
        """Return a part's text between the terminal's codes for its style."""
        text, style = part
        if style not in self._codes:
            with self._console.capture() as captured:
                self._console.print("x", style=style, end="", markup=False, highlight=False)
            before, _, after = captured.get().partition("x")
            self._codes[style] = before, after
        before, after = self._codes[style]
        return f"{before}{text}{after}"
