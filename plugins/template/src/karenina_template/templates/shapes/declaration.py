"""The declarations in a template's source, as plain data."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

from karenina_core.text import did_you_mean
from karenina_template.templates.compose import Tree
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import CLASS_BUILD_LOCK, FieldRule
from karenina_template.templates.shapes.expressions import Scope, read_value, shorten_source

SIMPLE: Final = frozenset(
    {"str", "int", "float", "bool", "date", "datetime", "time", "timedelta", "Decimal", "Any", "object", "None"}
)
_CONTAINERS: Final = {
    "list": "list",
    "List": "list",
    "dict": "dict",
    "Dict": "dict",
    "set": "set",
    "Set": "set",
    "frozenset": "frozenset",
    "FrozenSet": "frozenset",
    "tuple": "tuple",
    "Tuple": "tuple",
}
_ARGUMENTS: Final = {"list": 1, "set": 1, "frozenset": 1, "dict": 2}


class _NoDefault:
    """The type of `NO_DEFAULT`, which stands for a missing default."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


class Annotation(NamedTuple):
    """A type as hashable data. `kind` is a simple type, a container, "literal", "union", "class" or "...".

    `values` contains a literal's options with the names of their types, because 1 equals True. `name` is the name of a
    class in the same source.
    """

    kind: str
    parts: tuple[Annotation, ...] = ()
    values: tuple[tuple[str, object], ...] = ()
    name: str = ""

    def classes(self) -> set[str]:
        """Return the names of the source's own classes in the annotation."""
        return {self.name} if self.kind == "class" else {name for part in self.parts for name in part.classes()}


NONE: Final = Annotation("None")


def read_annotation(node: ast.expr, scope: Scope) -> Annotation:
    """Return the annotation in a syntax node, which may also be a string. Raises `TemplateError` if the annotation is
    unknown or invalid, and `UntrustedTemplate` if it is code.
    """
    match node:
        case ast.Constant(value=None):
            return NONE
        case ast.Constant(value=str() as text):
            return read_annotation(_parse_string(text, node), scope)
        case ast.Name(id=name) if name in scope.classes:
            return Annotation("class", name=name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union((read_annotation(left, scope), read_annotation(right, scope)))
        case ast.Subscript(value=base, slice=inner):
            return _subscript(node, base, inner, scope)
        case ast.Name() | ast.Attribute():
            meaning = scope.meaning(node)
            if meaning in SIMPLE:
                return Annotation(meaning)
            if meaning in _CONTAINERS:
                return Annotation(_CONTAINERS[meaning])
            if meaning is None and isinstance(node, ast.Name):
                names = [*SIMPLE, *_CONTAINERS, "Literal", "Optional", "Union", *scope.classes]
                raise TemplateError(f"unknown annotation {node.id!r}{did_you_mean(node.id, names)}", line=node.lineno)
    shown = shorten_source(node)
    raise scope.code(
        node, f"the annotation `{shown}` does not consist of built-in types, Literal, unions and classes in this file"
    )


def _subscript(node: ast.Subscript, base: ast.expr, inner: ast.expr, scope: Scope) -> Annotation:
    """Return the annotation for a type `base[inner]`, such as `list[str]`, `Literal[...]` or `Optional[...]`. Raises
    `TemplateError` for an unknown name or a wrong number of types, and `UntrustedTemplate` for all other types.
    """
    items = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    meaning = scope.meaning(base)
    if meaning == "Literal":
        return Annotation("literal", values=tuple(_option(item, scope) for item in items))
    if meaning == "Optional" and len(items) == 1:
        return _union((read_annotation(items[0], scope), NONE))
    if meaning == "Union":
        return _union(tuple(read_annotation(item, scope) for item in items))
    kind = _CONTAINERS.get(meaning or "")
    if kind is None:
        if meaning is None and isinstance(base, ast.Name) and base.id not in scope.classes:
            hint = did_you_mean(base.id, [*_CONTAINERS, "Literal", "Optional", "Union"])
            raise TemplateError(f"unknown annotation {base.id!r}{hint}", line=node.lineno)
        raise scope.code(node, f"the annotation `{shorten_source(node)}` has an unknown type")
    if kind == "tuple" and len(items) == 2 and isinstance(items[1], ast.Constant) and items[1].value is ...:
        return Annotation(kind, (read_annotation(items[0], scope), Annotation("...")))
    if len(items) != _ARGUMENTS.get(kind, len(items)):
        raise TemplateError(
            f"`{shorten_source(node)}`: the number of type arguments of {kind} must be "
            f"{_ARGUMENTS[kind]}, not {len(items)}",
            line=node.lineno,
        )
    return Annotation(kind, tuple(read_annotation(item, scope) for item in items))


def _union(parts: tuple[Annotation, ...]) -> Annotation:
    """Return a flat union of `parts` without duplicates."""
    flat = [inner for part in parts for inner in (part.parts if part.kind == "union" else (part,))]
    return Annotation("union", tuple(dict.fromkeys(flat)))


def _option(node: ast.expr, scope: Scope) -> tuple[str, object]:
    """Return the name of the type and the value of a literal's option. Raises `TemplateError` if `Literal` does not
    allow it.
    """
    value = read_value(node, scope)
    if value is not None and not isinstance(value, str | int | bool):
        raise TemplateError(
            f"Literal accepts only strings, integers, booleans and None, not {shorten_source(node)}", line=node.lineno
        )
    return type(value).__name__, value


def _parse_string(text: str, node: ast.Constant) -> ast.expr:
    """Return the syntax tree of an annotation written as a string, with the line number of `node`. Raises
    `TemplateError` if the string is not an expression.
    """
    try:
        with CLASS_BUILD_LOCK:
            parsed = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TemplateError(f"the annotation {text!r:.200} is invalid: {error}", line=node.lineno) from None
    for part in ast.walk(parsed):
        if hasattr(part, "lineno"):
            part.lineno = node.lineno
    return parsed


class FieldDeclaration(NamedTuple):
    """An annotated field. `constraints` contains parameters of pydantic's `Field`, such as ge and max_length."""

    name: str
    line: int
    annotation: Annotation
    description: str | None = None
    constraints: tuple[tuple[str, object], ...] = ()
    default: object = NO_DEFAULT
    rule: FieldRule | None = None

    @property
    def is_judged(self) -> bool:
        """Whether a judge fills the field."""
        return self.rule is None or self.rule.is_judged


class EnumDeclaration(NamedTuple):
    """An enum. `base` is Enum, StrEnum or IntEnum, or the mixed-in type "str" or "int"."""

    name: str
    line: int
    base: str
    members: tuple[tuple[str, object], ...]


class ModelDeclaration(NamedTuple):
    """A class with fields: either a subclass of `BaseAnswer` (if `is_answer`), or a model that is used in one."""

    name: str
    line: int
    is_answer: bool
    docstring: str | None
    fields: Mapping[str, FieldDeclaration]
    strategy: Tree | None = None
    strategy_line: int | None = None


class Declaration(NamedTuple):
    """The declarations of a source: the answer, all classes by name, and the meaning of its names."""

    answer: ModelDeclaration
    classes: Mapping[str, ModelDeclaration | EnumDeclaration]
    scope: Scope

    def descriptions(self) -> dict[str, str]:
        """Return the descriptions of the answer's own fields, without fields that have none."""
        return {item.name: item.description for item in self.answer.fields.values() if item.description}

    def shape(self) -> Hashable:
        """Return a key that is the same for templates that can share a class: those with the same names, annotations
        and constraints, also in nested models. Ground truths, weights, primitives, hints, strategies and docstrings may
        differ.

        It also covers the defaults and descriptions of nested models. For the answer's own fields, it only matters
        whether there is a description.
        """
        seen: dict[str, Hashable] = {}
        waiting = sorted(_used_classes(self.answer))
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            declared = self.classes[name]
            seen[name] = _shape_of(declared, is_root=False)
            if isinstance(declared, ModelDeclaration):
                waiting.extend(sorted(_used_classes(declared)))
        return _shape_of(self.answer, is_root=True), tuple(sorted(seen.items(), key=lambda item: item[0]))


def _used_classes(model: ModelDeclaration) -> set[str]:
    return {name for declared in model.fields.values() for name in declared.annotation.classes()}


def _shape_of(declared: ModelDeclaration | EnumDeclaration, *, is_root: bool) -> Hashable:
    """Return a class's part of the key that `Declaration.shape` returns. `is_root` is true for the answer."""
    if isinstance(declared, EnumDeclaration):
        return declared.name, declared.base, repr(declared.members)
    return declared.name, tuple(
        (
            item.name,
            item.annotation,
            bool(item.description) if is_root else item.description,
            repr(item.constraints) if item.constraints else "",
            "" if declared.is_answer or item.default is NO_DEFAULT else repr(item.default),
            item.is_judged,
        )
        for item in declared.fields.values()
    )
