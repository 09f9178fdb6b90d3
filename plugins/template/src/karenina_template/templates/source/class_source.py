"""The template of a Python class, and its source text."""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import re
import sys
import textwrap
from types import FunctionType

from karenina_template.templates.base import AnswerKey, BaseAnswer
from karenina_template.templates.bound_template import Template
from karenina_template.templates.class_build_lock import CLASS_BUILD_LOCK
from karenina_template.templates.errors import TemplateError, UntrustedTemplate
from karenina_template.templates.primitives import Primitive
from karenina_template.templates.shapes.expressions import is_known
from karenina_template.templates.shapes.shape import Shape, shape_of_class
from karenina_template.templates.source.loading import load_template


def template_of_class(answer: type[BaseAnswer]) -> Template:
    """Return the template of a class, which is trusted as the caller's own code.

    Raises `TemplateError` if the class is not a valid template.
    """
    given: object = answer
    if not (isinstance(given, type) and issubclass(given, BaseAnswer)) or given is BaseAnswer:
        raise TemplateError(f"a template must be a subclass of BaseAnswer, not {given!r:.200}")
    shape = shape_of_class(answer)
    return Template.of_class(answer, shape, source_of(answer, shape, answer.answer_key()))


def source_of(answer: type[BaseAnswer], shape: Shape, key: AnswerKey) -> str | None:
    """Return the source of the class `answer`, renamed to `Answer`, or None if it would not define the same template.

    It would not if the file defines several classes with this name, or if the class uses names from outside. Imports of
    third-party primitives are added.
    """
    try:
        with CLASS_BUILD_LOCK:
            lines, start = inspect.getsourcelines(answer)
    except (OSError, TypeError, SyntaxError):
        return None
    source = _rename_to_answer(textwrap.dedent("".join(lines)), answer.__name__)
    if source is None:
        return None
    source = _import_primitives(source, answer.__module__)
    try:
        again = load_template(source)
    except UntrustedTemplate:
        inside = range(start, start + len(lines))
        return source if _is_standalone(source) and _methods_are_in(answer, inside) else None
    except TemplateError:
        return None
    return source if again.key == key and _has_schema(again, shape) else None


def _rename_to_answer(source: str, name: str) -> str | None:
    """Return the source with the class `name` renamed to `Answer`; None if the class refers to itself by name."""
    if name == "Answer":
        return source
    try:
        with CLASS_BUILD_LOCK:
            (cls,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(cls)):
        return None
    lines = source.split("\n")
    lines[cls.lineno - 1] = re.sub(rf"^class(\s+){name}\b", r"class\1Answer", lines[cls.lineno - 1])
    return "\n".join(lines)


def _import_primitives(source: str, module: str) -> str:
    """Return the source, preceded by imports of the third-party primitives that it uses from `module`."""
    around = vars(sys.modules[module])
    finder = _Names()
    with CLASS_BUILD_LOCK:
        finder.visit(ast.parse(source))
    used = {name: around.get(name) for name in sorted(finder.loaded)}
    lines = [
        f"from {one.full_name().rpartition('.')[0]} import {one.__name__}{f' as {name}' * (name != one.__name__)}"
        for name, one in used.items()
        if isinstance(one, type) and issubclass(one, Primitive) and "." in one.full_name()
    ]
    return "\n".join([*lines, "", "", source]) if lines else source


def _has_schema(again: Template, shape: Shape) -> bool:
    return json.dumps(again.judge_schema()) == shape.schema_json


def _methods_are_in(answer: type[BaseAnswer], lines: range) -> bool:
    own = [value for value in vars(answer).values() if isinstance(value, FunctionType)]
    found = [inner for value in own if (inner := inspect.unwrap(value)).__module__ == answer.__module__]
    return all(value.__code__.co_firstlineno in lines for value in found)


def _is_standalone(source: str) -> bool:
    with CLASS_BUILD_LOCK:
        tree = ast.parse(source)
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    finder = _Names()
    finder.visit(tree)
    return all(hasattr(builtins, name) or is_known(name) for name in finder.loaded - finder.stored - made)


class _Names(ast.NodeVisitor):
    """A visitor that collects the names used when the class is defined, but not those used in its methods."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.stored: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        """Collect the name as loaded or stored."""
        (self.loaded if isinstance(node.ctx, ast.Load) else self.stored).add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit a method's decorators and defaults, but not its body."""
        for part in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(part)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Ignore the body of a lambda."""
