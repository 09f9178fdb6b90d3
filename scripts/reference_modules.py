"""The reference page for the source: every folder and module, with the first sentence of its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from markdown_text import code, page, prose, table

_ROOT = Path(__file__).parents[1]
_INTRODUCTION = """
Every folder and module of the source, with what it is for. Search this page for a word to find where something is
done; [Architecture](../explanation/architecture.md) explains how the parts work together.
"""


def modules() -> str:
    """Make the page, with a section for each folder and a table of its modules."""
    return page("Source files", _INTRODUCTION.strip(), *(_section(folder) for folder in _folders()))


def _folders() -> Iterator[Path]:
    for pattern in ("karenina*/src", "plugins/*/src", "adapters/*/src"):
        for source in sorted(_ROOT.glob(pattern)):
            yield from sorted(file.parent for file in source.rglob("__init__.py"))


def _section(folder: Path) -> str:
    rows = [(code(file.name), prose(_summary(file))) for file in sorted(folder.glob("*.py")) if file.stem != "__init__"]
    heading = f"## {code(folder.relative_to(_ROOT).as_posix())}\n\n{prose(_summary(folder / '__init__.py'))}"
    return f"{heading}\n\n{table(('module', 'contents'), rows)}" if rows else heading


def _summary(file: Path) -> str:
    """Return the first paragraph of a module's docstring."""
    return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").split("\n\n")[0]
