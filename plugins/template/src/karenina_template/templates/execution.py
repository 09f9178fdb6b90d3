"""Run the source of a template that its user trusts."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.building import BUILDING
from karenina_template.templates.errors import TemplateError, no_answer
from karenina_template.templates.shape import Shape, shape_of_class, shared
from karenina_template.templates.syntax import is_ours, names_of_karenina


def executed(tree: ast.Module, digest: str, names: Mapping[str, object]) -> tuple[type[BaseAnswer], Shape]:
    """The answer class that the trusted source `tree` makes, and its shape; one source is run once.

    It runs in a module of its own that holds `names` already, so that sources without imports work. Raises
    `TemplateError` with the line for whatever the source raises, and where there is no single answer class.
    """
    shape = shared(("executed", digest, frozenset(names)), lambda: _run(tree, digest, names))
    cls = shape.answer_class.__mro__[1]
    assert issubclass(cls, BaseAnswer)
    return cls, shape


def _run(tree: ast.Module, digest: str, names: Mapping[str, object]) -> Shape:
    module = ModuleType(f"karenina_template_{digest[:16]}")
    space: dict[str, Any] = module.__dict__
    space.update(names)
    filename = f"<template {digest[:16]}>"
    with BUILDING:
        sys.modules[module.__name__] = module  # pydantic looks there for the names in annotations
        try:
            exec(compile(_without_known_imports(tree, space, names), filename, "exec"), space)  # noqa: S102 - trusted
            cls = _answer(module)
            cls.model_rebuild()
            return shape_of_class(cls)
        except TemplateError as error:
            raise error.at(_line(error, filename)) from error
        except Exception as error:
            raise TemplateError(
                f"the trusted source fails: {type(error).__name__}: {error}", line=_line(error, filename)
            ) from error
        finally:
            sys.modules.pop(module.__name__, None)


def _without_known_imports(tree: ast.Module, space: dict[str, Any], names: Mapping[str, object]) -> ast.Module:
    """Templates may import from packages of other versions of this project: known names are bound, not imported."""
    kept: list[ast.stmt] = []
    ours = names_of_karenina()
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module and is_ours(statement.module):
            imported = {alias.asname or alias.name: alias.name for alias in statement.names}
            if ours.issuperset(imported.values()):
                space.update({local: names[name] for local, name in imported.items()})
                continue
        kept.append(statement)
    return ast.Module(kept, tree.type_ignores)


def _answer(module: ModuleType) -> type[BaseAnswer]:
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, BaseAnswer) and value.__module__ == module.__name__
    }
    if "Answer" in found:
        return found["Answer"]
    raise no_answer(sorted(found))


def _line(error: BaseException, filename: str) -> int | None:
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
