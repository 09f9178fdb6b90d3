"""Execute the source of a template that the user trusts."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.class_build_lock import CLASS_BUILD_LOCK
from karenina_template.templates.errors import TemplateError, missing_answer_class
from karenina_template.templates.expressions import is_karenina_module, karenina_names
from karenina_template.templates.shape import Shape, get_shape, shape_of_class


def run_trusted_source(tree: ast.Module, digest: str, names: Mapping[str, object]) -> tuple[type[BaseAnswer], Shape]:
    """Return the answer class that the trusted source `tree` defines, and its shape; each source is executed once.

    The source runs in a module of its own that already contains `names`, so that sources without imports work. Raises
    `TemplateError`, with the line, if the source raises an error or does not define exactly one answer class.
    """
    shape = get_shape(("executed", digest, frozenset(names)), lambda: _execute(tree, digest, names))
    cls = shape.answer_class.__mro__[1]
    assert issubclass(cls, BaseAnswer)
    return cls, shape


def _execute(tree: ast.Module, digest: str, names: Mapping[str, object]) -> Shape:
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
                f"the trusted source fails: {type(error).__name__}: {error}", line=_find_line(error, filename)
            ) from error
        finally:
            sys.modules.pop(module.__name__, None)


def _without_known_imports(tree: ast.Module, space: dict[str, Any], names: Mapping[str, object]) -> ast.Module:
    """Return `tree` without imports from `karenina*`, whose names are bound in `space` instead.

    Templates written for other versions of this project may import from modules that do not exist here.
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
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, BaseAnswer) and value.__module__ == module.__name__
    }
    if "Answer" in found:
        return found["Answer"]
    raise missing_answer_class(sorted(found))


def _find_line(error: BaseException, filename: str) -> int | None:
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
