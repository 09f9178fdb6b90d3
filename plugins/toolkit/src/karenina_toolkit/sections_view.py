"""Objects that the Python prompt and notebooks show as sections of text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from karenina_toolkit.notebook_html import render_html, sections_html
from karenina_toolkit.text_layout import Section, format_repr


@singledispatch
def sections_of(_value: object) -> Iterable[Section]:
    """Return the sections that show a value: empty unless a module has registered its type."""
    return ()


class SectionsView:
    """A base class for objects that are shown as their sections, if these are registered with `sections_of`."""

    def __repr__(self) -> str:
        return format_repr(sections_of(self)) or super().__repr__()

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str | None:
        parts = sections_html(sections_of(self))
        return render_html(*parts) if parts else None
