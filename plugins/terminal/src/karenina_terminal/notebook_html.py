"""HTML for notebooks: tables and text of limited size, without scripts or external resources.

Objects with sections (see `sections_of`) are shown as text at the prompt and as HTML in notebooks. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from karenina_terminal.text_layout import Facts, Grid, Section, Title, format_repr
from karenina_toolkit.printable import clip, quantity, shorten

MAX_CELL: Final = 300
"""The maximum number of characters in a table cell."""
MAX_TEXT: Final = 2000
"""The maximum number of characters in a string outside tables."""
MAX_ROWS: Final = 20
"""The maximum number of rows in a table of results, questions or changes."""
_MAX_GRID: Final = 100

_LEFT: Final = "text-align: left; vertical-align: top"
_PLAIN: Final = {"style": _LEFT}
_KEEP_LINES: Final = {"style": "white-space: pre-wrap; overflow-wrap: anywhere"}

Cell = str | Element
Part = Element | None


def render_html(*parts: Part) -> str:
    """Return the parts as HTML. Parts that are None are skipped. The HTML prevents notebooks from rendering `$...$` as
    math, because text may contain dollar signs.
    """
    whole = Element("div", {"class": "karenina tex2jax_ignore mathjax_ignore"})
    whole.extend(part for part in parts if part is not None)
    return tostring(whole, encoding="unicode", method="html")


def make_note(text: str) -> Element:
    """Make a paragraph without line breaks. Its text is cut to `MAX_TEXT` characters."""
    element = Element("p")
    element.text = shorten(text, MAX_TEXT)
    return element


def make_heading(text: str) -> Element:
    """Return a bold paragraph. Its text is cut to `MAX_CELL` characters. It is not an HTML heading, which would appear
    in the notebook's table of contents.
    """
    element = Element("p")
    SubElement(element, "strong").text = shorten(text, MAX_CELL)
    return element


def make_text(text: str) -> Element:
    """Return a block of text that keeps its line breaks. The text is cut to `MAX_TEXT` characters, with a note about
    how much is missing.
    """
    element = Element("div", _KEEP_LINES)
    element.text = "".join(clip(text, MAX_TEXT))
    return element


def make_table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Element:
    """Return a table with the given headings and rows. Headings and strings are put on one line and cut to `MAX_CELL`
    characters.
    """
    table = Element("table")
    line = SubElement(SubElement(table, "thead"), "tr")
    for name in head:
        SubElement(line, "th", {"scope": "col", **_PLAIN}).text = shorten(name, MAX_CELL)
    body = SubElement(table, "tbody")
    for row in rows:
        line = SubElement(body, "tr")
        for cell in row:
            _fill(SubElement(line, "td", _PLAIN), cell)
    return table


def make_facts(rows: Iterable[tuple[str, Cell]]) -> Element | None:
    """Return a table of names and their contents, which are strings or elements, or None if there are no rows. Strings
    keep their line breaks and are cut to `MAX_TEXT` characters.
    """
    table = Element("table")
    body = SubElement(table, "tbody")
    for name, cell in rows:
        line = SubElement(body, "tr")
        SubElement(line, "th", {"scope": "row", **_PLAIN}).text = shorten(name, MAX_CELL)
        _fill(SubElement(line, "td", _PLAIN), cell if isinstance(cell, Element) else make_text(cell))
    return table if len(body) else None


def _fill(place: Element, cell: Cell) -> None:
    """Put an element or a string into the cell `place`. Strings are put on one line and cut to `MAX_CELL`
    characters.
    """
    if isinstance(cell, Element):
        place.append(cell)
    else:
        place.text = shorten(cell, MAX_CELL)


def sections_html(sections: Iterable[Section]) -> list[Part]:
    """Convert sections (see `karenina_terminal.text_layout`) to HTML parts, without indentation. Facts without rows
    become None. Tables are cut to 100 rows, with a note about how many were omitted.
    """
    return [_block_html(block) for section in sections for block in section]


def _block_html(block: Title | Facts | Grid) -> Part:
    """Convert a block to HTML. Facts without rows become None. Tables are cut to `_MAX_GRID` rows, followed by one with
    the number of those that were omitted.
    """
    if isinstance(block, Title):
        return make_heading(block.text)
    if isinstance(block, Facts):
        return make_facts(block.rows)
    head, *rows = block.rows
    missing = len(rows) - _MAX_GRID
    more = [[f"... {quantity(missing, 'more row')}", *[""] * (len(head) - 1)]] if missing > 0 else []
    return make_table(head, [*rows[:_MAX_GRID], *more])


@singledispatch
def sections_of(_value: object) -> Iterable[Section]:
    """Return the sections that represent a value. Register an implementation for each class that has sections."""
    return ()


class SectionsView:
    """A base class for objects that are shown as sections. Register the class with `sections_of`."""

    def __repr__(self) -> str:
        """Return the sections as text (see `format_repr`). If there are none, return Python's default."""
        return format_repr(sections_of(self)) or super().__repr__()

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str | None:
        """Return the sections as HTML. If there are none, return None so that notebooks show the text."""
        parts = sections_html(sections_of(self))
        return render_html(*parts) if parts else None
