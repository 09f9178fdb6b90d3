"""Loads templates from source text or a Python class."""

from __future__ import annotations

import ast
import builtins
import datetime
import decimal
import enum
import inspect
import json
import re
import sys
import textwrap
import typing
from collections.abc import Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

import pydantic

from karenina_core.data.trust import NO_TRUST, Trust, digest_of
from karenina_template.templates.base import AnswerKey, BaseAnswer
from karenina_template.templates.bound_template import Template, template_id
from karenina_template.templates.compose import AllOf, AnyOf, AtLeastN, FieldCheck
from karenina_template.templates.errors import TemplateError, UntrustedTemplate, missing_answer_class
from karenina_template.templates.field import CLASS_BUILD_LOCK, FieldRule, VerifiedField
from karenina_template.templates.normalize import SynonymMap
from karenina_template.templates.primitives import Primitive, known_primitives
from karenina_template.templates.shapes.declaration import Declaration
from karenina_template.templates.shapes.expressions import is_karenina_module, is_known, karenina_names, known_names
from karenina_template.templates.shapes.shape import Shape, get_shape, shape_of_class, shape_of_declaration
from karenina_template.templates.source.cache import add_template, find_template
from karenina_template.templates.source.literals import LiteralSplit, split_literals
from karenina_template.templates.source.reading import parse_source, read_declaration

_MODULES: Final = (typing, datetime, enum, decimal, pydantic)


def load_template(source: str, *, trust: Trust = NO_TRUST, name: str = "template") -> Template:
    """Return the template in `source`. Raises `TemplateError` if it is invalid, and `UntrustedTemplate`, before any of
    it runs, if it contains code that `trust` does not cover.

    A source that contains only declarations (a docstring, imports of known names, classes with annotated fields) is
    never executed, because the template can be built from them. Anything else is code. Error messages use `name` for
    the template, and state the line if it is known.
    """
    split = split_literals(source)
    template = find_template(split, source) if split is not None else None
    return template if template is not None else read_template(source, split, trust=trust, name=name)


def read_template(
    source: str, split: LiteralSplit | None = None, *, trust: Trust = NO_TRUST, name: str = "template"
) -> Template:
    """Return the template in `source`, without looking in the source cache. With `split`, the result of
    `split_literals`, a template without code is added to it. Raises `TemplateError` if it is invalid, and
    `UntrustedTemplate`, before any of it runs, if it contains code that `trust` does not cover.
    """
    try:
        tree = parse_source(source)
        try:
            declaration = read_declaration(tree, digest_of(source))
        except UntrustedTemplate:
            if not trust.covers(source):
                raise
            return _run_trusted(tree, source)
        template = _rebuild(declaration, source)
        if split is not None:
            add_template(split, source, tree, declaration, template)
    except TemplateError as error:
        raise error.at(template=name) from error.__cause__
    except RecursionError as error:
        raise TemplateError("the source is nested too deeply", template=name) from error
    return template


def _rebuild(declaration: Declaration, source: str) -> Template:
    """Return the template built from declarations. Raises `TemplateError`, with the line, if this fails."""
    answer = declaration.answer
    try:
        shape = shape_of_declaration(declaration)
    except TemplateError as error:
        raise error.at(answer.line) from error
    rules: dict[str, FieldRule] = {}
    for field in answer.fields.values():
        if field.rule is None:
            continue
        try:
            rules[field.name] = field.rule.with_coerced_truth(shape.coercer, field.name)
        except TemplateError as error:
            raise error.at(field.line) from error
    return Template(
        shape,
        AnswerKey(rules, answer.strategy),
        template_id(source),
        answer.docstring,
        source,
        declaration.descriptions(),
    )


def _run_trusted(tree: ast.Module, source: str) -> Template:
    """Execute a trusted source and return its template. Raises `TemplateError` if it fails or is invalid."""
    cls, shape = run_trusted_source(tree, digest_of(source), _make_namespace())
    return Template.of_class(cls, shape, source)


def _make_namespace() -> dict[str, object]:
    """Return the names that a source may use without importing them, with their values."""
    return {
        **{name: getattr(module, name) for module in _MODULES for name in known_names(module.__name__)},
        "BaseAnswer": BaseAnswer,
        "VerifiedField": VerifiedField,
        "AllOf": AllOf,
        "AnyOf": AnyOf,
        "AtLeastN": AtLeastN,
        "FieldCheck": FieldCheck,
        "SynonymMap": SynonymMap,
        **known_primitives(),
    }


def run_trusted_source(tree: ast.Module, digest: str, names: Mapping[str, object]) -> tuple[type[BaseAnswer], Shape]:
    """Execute the trusted source `tree` in this process, in a module that contains `names`, and return its answer class
    and shape. Raises `TemplateError`, with the line, if the source raises an exception or has no class `Answer`.

    A source with the same `digest` and `names` is executed only once, unless its shape has been dropped from the cache.
    As the names are there, it needs no imports.
    """
    shape = get_shape(("executed", digest, frozenset(names)), lambda: _execute(tree, digest, names))
    cls = shape.answer_class.__mro__[1]
    assert issubclass(cls, BaseAnswer)
    return cls, shape


def _execute(tree: ast.Module, digest: str, names: Mapping[str, object]) -> Shape:
    """Execute a source in its own module, and return the shape of its answer class. Raises `TemplateError`, with the
    line if known, if the source raises an exception or has no class `Answer`.
    """
    module = ModuleType(f"karenina_template_{digest[:16]}")
    space: dict[str, Any] = module.__dict__
    space.update(names)
    filename = f"<template {digest[:16]}>"
    with CLASS_BUILD_LOCK:
        sys.modules[module.__name__] = module  # pydantic looks there for the names in annotations
        try:
            exec(compile(_without_known_imports(tree, space, names), filename, "exec"), space)  # noqa: S102 - trusted
            cls = _find_answer_class(module)
            cls.model_rebuild()
            return shape_of_class(cls)
        except TemplateError as error:
            raise error.at(_find_line(error, filename)) from error
        except Exception as error:
            raise TemplateError(
                f"the trusted source raised an error: {type(error).__name__}: {error}", line=_find_line(error, filename)
            ) from error
        finally:
            sys.modules.pop(module.__name__, None)


def _without_known_imports(tree: ast.Module, space: dict[str, Any], names: Mapping[str, object]) -> ast.Module:
    """Return a copy of the source without its imports of known names from `karenina*`, and put these in `space`, with
    their values from `names`. Templates written for other versions of this project may import them from modules that do
    not exist here.
    """
    remaining: list[ast.stmt] = []
    ours = karenina_names()
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module and is_karenina_module(statement.module):
            imported = {alias.asname or alias.name: alias.name for alias in statement.names}
            if ours.issuperset(imported.values()):
                space.update({local: names[name] for local, name in imported.items()})
                continue
        remaining.append(statement)
    return ast.Module(remaining, tree.type_ignores)


def _find_answer_class(module: ModuleType) -> type[BaseAnswer]:
    """Return the module's class `Answer`. Raises `TemplateError` if it is not defined there."""
    classes = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, BaseAnswer) and value.__module__ == module.__name__
    }
    if "Answer" in classes:
        return classes["Answer"]
    raise missing_answer_class(sorted(classes))


def _find_line(error: BaseException, filename: str) -> int | None:
    """Return the innermost line of `filename` in the error's traceback, or None."""
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def find_errors(source: str, first: TemplateError) -> list[TemplateError]:
    """Return all errors in a source that could not be loaded, sorted by line, including those of single fields. Nothing
    is executed. `first` is the error that loading the source raised; if it only says that the source is not trusted, it
    is left out if there are others.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [first]
    answer = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Answer"), None)
    fields = [] if answer is None else [node for node in answer.body if isinstance(node, ast.AnnAssign)]
    errors = {} if isinstance(first, UntrustedTemplate) else {(first.line, first.reason): first}
    for field in fields if len(fields) > 1 else ():
        assert answer is not None, "its fields were found"
        others = [node for node in answer.body if node is not field and isinstance(node, ast.AnnAssign | ast.ClassDef)]
        try:
            load_template(_without(source, others))
        except UntrustedTemplate:
            continue
        except TemplateError as error:
            errors.setdefault((error.line, error.reason), error)
    return sorted(errors.values(), key=lambda error: error.line or 0) or [first]


def _without(source: str, nodes: Iterable[ast.stmt]) -> str:
    """Return the source with the lines of `nodes` emptied, so that all other lines keep their numbers."""
    lines = source.split("\n")
    for node in nodes:
        for place in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[place] = ""
    return "\n".join(lines)


def template_of_class(answer: type[BaseAnswer]) -> Template:
    """Return the template for a class, which is trusted because it is the caller's own code. Raises `TemplateError` if
    the class is not a valid template.
    """
    candidate: object = answer
    if not (isinstance(candidate, type) and issubclass(candidate, BaseAnswer)) or candidate is BaseAnswer:
        raise TemplateError(f"a template must be a subclass of BaseAnswer, not {candidate!r:.200}")
    shape = shape_of_class(answer)
    return Template.of_class(answer, shape, source_of(answer, shape, answer.answer_key()))


def source_of(answer: type[BaseAnswer], shape: Shape, key: AnswerKey) -> str | None:
    """Return the source of a class, renamed to `Answer`, or None if it would not, or might not, define the same
    template.

    This is the case if the source cannot be read, if it uses the class's own name or names defined elsewhere, or if the
    file has several classes with this name, so that `key` or the schema differ. A source that contains code is not
    executed to compare them, but it must have all methods of the class. Imports of third-party primitives are added.
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
    """Return the source with the class `name` renamed to `Answer`, or None if the class refers to itself by name."""
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
    """Return the source with imports of the third-party primitives that it uses. They are looked up in the imported
    `module`.
    """
    around = vars(sys.modules[module])
    finder = _Names()
    with CLASS_BUILD_LOCK:
        finder.visit(ast.parse(source))
    used = {name: around.get(name) for name in sorted(finder.loaded)}
    lines = [
        f"from {cls.full_name().rpartition('.')[0]} import {cls.__name__}{f' as {name}' * (name != cls.__name__)}"
        for name, cls in used.items()
        if isinstance(cls, type) and issubclass(cls, Primitive) and "." in cls.full_name()
    ]
    return "\n".join([*lines, "", "", source]) if lines else source


def _has_schema(again: Template, shape: Shape) -> bool:
    return json.dumps(again.judge_schema()) == shape.schema_json


def _methods_are_in(answer: type[BaseAnswer], lines: range) -> bool:
    """Return whether all methods of a class are on the given lines and none was added from elsewhere."""
    own = [value for value in vars(answer).values() if isinstance(value, FunctionType)]
    methods = [inner for value in own if (inner := inspect.unwrap(value)).__module__ == answer.__module__]
    return all(value.__code__.co_firstlineno in lines for value in methods)


def _is_standalone(source: str) -> bool:
    """Return whether a source only uses names that it defines or that need no import. Names used inside functions are
    not checked.
    """
    with CLASS_BUILD_LOCK:
        tree = ast.parse(source)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    finder = _Names()
    finder.visit(tree)
    return all(hasattr(builtins, name) or is_known(name) for name in finder.loaded - finder.stored - defined)


class _Names(ast.NodeVisitor):
    """Collects the names used to define a class, but not those in its methods."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.stored: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        """Record the name as loaded or stored."""
        (self.loaded if isinstance(node.ctx, ast.Load) else self.stored).add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit a method's decorators and defaults, but not its body."""
        for part in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(part)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Ignore the body of a lambda."""
