"""HTML for notebooks: tables and text of limited size, without scripts or external resources.

Objects whose sections are registered with `sections_of` are shown as text at the prompt and as HTML in notebooks.

The HTML is serialized from elements, so all text is escaped. It contains no scripts, links or style sheets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from karenina_terminal.text_layout import Facts, Grid, Section, Title, format_repr
from karenina_toolkit.printable import clip, shorten

MAX_CELL: Final = 300
"""The maximum number of characters in a table cell."""
MAX_TEXT: Final = 2000
"""The maximum number of characters in text outside tables."""
MAX_ROWS: Final = 20
"""The maximum number of rows in a table of results, questions or changes."""
_MAX_GRID: Final = 100

_LEFT: Final = "text-align: left; vertical-align: top"
_PLAIN: Final = {"style": _LEFT}
_KEEP_LINES: Final = {"style": "white-space: pre-wrap; overflow-wrap: anywhere"}

Cell = str | Element
Part = Element | None


def render_html(*parts: Part) -> str:
    """Return the parts as HTML, skipping parts that are None.

    The HTML is marked so that notebooks do not render `$...$` as math, because text may contain dollar signs.
    """
    whole = Element("div", {"class": "karenina tex2jax_ignore mathjax_ignore"})
    whole.extend(part for part in parts if part is not None)
    return tostring(whole, encoding="unicode", method="html")


def make_note(text: str) -> Element:
    """Return a paragraph with its line breaks removed. Text of more than `MAX_TEXT` characters is truncated."""
    element = Element("p")
    element.text = shorten(text, MAX_TEXT)
    return element


def make_heading(text: str) -> Element:
    """Return a bold paragraph, truncated to `MAX_CELL` characters.

    An HTML heading would appear in the notebook's table of contents.
    """
    element = Element("p")
    SubElement(element, "strong").text = shorten(text, MAX_CELL)
    return element


def make_text(text: str) -> Element:
    """Return text with its line breaks. Text of more than `MAX_TEXT` characters is truncated, with a note about how
    much is missing.
    """
    element = Element("div", _KEEP_LINES)
    element.text = "".join(clip(text, MAX_TEXT))
    return element


def make_table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Element:
    """Return a table with these headings and all of the rows. Headings and strings in cells are put on one line and
    truncated to `MAX_CELL` characters.
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
    """Return a table with a row for each name and its text or element, or None if there are no rows.

    Text keeps its line breaks and is truncated to `MAX_TEXT` characters.
    """
    table = Element("table")
    body = SubElement(table, "tbody")
    for name, cell in rows:
        line = SubElement(body, "tr")
        SubElement(line, "th", {"scope": "row", **_PLAIN}).text = shorten(name, MAX_CELL)
        _fill(SubElement(line, "td", _PLAIN), cell if isinstance(cell, Element) else make_text(cell))
    return table if len(body) else None


def _fill(place: Element, cell: Cell) -> None:
    """Put an element, or a string truncated to `MAX_CELL` characters, into a table cell."""
    if isinstance(cell, Element):
        place.append(cell)
    else:
        place.text = shorten(cell, MAX_CELL)


def sections_html(sections: Iterable[Section]) -> list[Part]:
    """Return the blocks of sections (see `karenina_terminal.text_layout`) as HTML parts, without their indentation.

    Facts without rows become None. Only the first 100 rows of a table are kept.
    """
    return [_block_html(block) for section in sections for block in section]


def _block_html(block: Title | Facts | Grid) -> Part:
    """Return a block as HTML, or None for facts without rows.

    If the block is a table, only the headings and the first `_MAX_GRID` rows are kept.
    """
    if isinstance(block, Title):
        return make_heading(block.text)
    if isinstance(block, Facts):
        return make_facts(block.rows)
    head, *rows = block.rows
    return make_table(head, rows[:_MAX_GRID])


@singledispatch
def sections_of(_value: object) -> Iterable[Section]:
    """Return the sections that represent a value. Empty if the value's class is not registered."""
    return ()


class SectionsView:
    """Base class for objects that are displayed as sections if their class is registered with `sections_of`."""

    def __repr__(self) -> str:
        """Return the sections as text (see `format_repr`), or Python's default representation if there are none."""
        return format_repr(sections_of(self)) or super().__repr__()

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str | None:
        """Return the sections as HTML, or None if there are none, in which case a notebook shows the text."""
        parts = sections_html(sections_of(self))
        return render_html(*parts) if parts else None
