"""Find the errors of all fields of a template that cannot be loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from karenina_template.templates.errors import TemplateError, UntrustedTemplate
from karenina_template.templates.loading import load_template


def find_errors(source: str, first: TemplateError) -> list[TemplateError]:
    """Return the errors of a source by line; `first` is the one with which it cannot be loaded.

    Each field is loaded without the others, and nothing is executed.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [first]
    answer = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Answer"), None)
    fields = [] if answer is None else [node for node in answer.body if isinstance(node, ast.AnnAssign)]
    found = {} if isinstance(first, UntrustedTemplate) else {(first.line, first.reason): first}
    for field in fields if len(fields) > 1 else ():
        assert answer is not None, "its fields were found"
        others = [node for node in answer.body if node is not field and isinstance(node, ast.AnnAssign | ast.ClassDef)]
        try:
            load_template(_without(source, others))
        except UntrustedTemplate:
            continue
        except TemplateError as error:
            found.setdefault((error.line, error.reason), error)
    return sorted(found.values(), key=lambda error: error.line or 0) or [first]


def _without(source: str, nodes: Iterable[ast.stmt]) -> str:
    """Return the source with the lines of some statements emptied, so that the other lines keep their numbers."""
    lines = source.split("\n")
    for node in nodes:
        for place in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[place] = ""
    return "\n".join(lines)
