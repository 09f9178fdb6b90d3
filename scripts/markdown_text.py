"""Write Markdown for generated pages: docstrings, tables, and the fields of settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from karenina_cli.output.field_listing import ListedField

_CODE_SPAN: Final = re.compile(r"(`+)(?:(?!\1).)+\1", re.DOTALL)
_CODE_LINE: Final = re.compile(r"^ {4}.*$", re.MULTILINE)


def prose(text: str) -> str:
    """Convert a docstring to Markdown. Special characters outside code and lists are escaped."""
    pieces, end = [], 0
    for line in _CODE_LINE.finditer(text):
        pieces += [_inline(text[end : line.start()]), line[0]]
        end = line.end()
    return "".join([*pieces, _inline(text[end:])])


def _inline(text: str) -> str:
    """Escape special characters outside code spans."""
    return _outside_code(text, _escaped)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to everything outside code spans."""
    pieces, end = [], 0
    for span in _CODE_SPAN.finditer(text):
        pieces += [change(text[end : span.start()]), span[0]]
        end = span.end()
    return "".join([*pieces, change(text[end:])])


def _escaped(text: str) -> str:
    """Escape the special characters of Markdown and HTML."""
    return re.sub(r"([*_\[\]])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def code(text: str) -> str:
    """Format a string as a code span. An empty string stays empty."""
    fence = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. The cells must already be Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    """Format a table cell on one line. Bars are escaped, except in code spans."""
    return _outside_code(" ".join(text.split()), lambda part: part.replace("|", "\\|"))


def field_table(fields: Iterable[ListedField]) -> str:
    """Make a table of the fields of a mapping, or return an empty string if there are none."""
    rows = [[code(one.name), prose(one.type), default(one.default), prose(one.meaning)] for one in fields]
    return table(["name", "type", "default", "meaning"], rows) if rows else ""


def default(value: str | None) -> str:
    """Convert a default value from JSON to Markdown. None means that there is no default."""
    return "required" if value is None else "" if value == "null" else code(value)


def as_json(value: Any) -> str:
    """Return a value as JSON on a single line."""
    return json.dumps(value, ensure_ascii=False)


def page(title: str, *parts: str) -> str:
    """Make a page with a title and parts."""
    return "\n\n".join([f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


def fenced(text: str, language: str = "text") -> str:
    """Return a fenced code block."""
    return f"```{language}\n{text.rstrip()}\n```"
