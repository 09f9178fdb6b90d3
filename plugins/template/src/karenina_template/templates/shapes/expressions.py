"""Reads expressions in a template's source as data: literals, containers, signs, and known constructors.

Nothing is evaluated. The tables in this module define the known names. All other names are unknown.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pydantic import ValidationError

from karenina_core.text import did_you_mean, join_problems
from karenina_template.templates.compose import AllOf, AnyOf, AtLeastN, FieldCheck
from karenina_template.templates.errors import TemplateError, UntrustedTemplate
from karenina_template.templates.normalize import SynonymMap
from karenina_template.templates.primitives import known_primitives, missing_pack
from karenina_toolkit.files.json_values import find_problem

_MODULES: Final[dict[str, frozenset[str]]] = {
    "typing": frozenset({"Any", "Dict", "FrozenSet", "List", "Literal", "Optional", "Set", "Tuple", "Union"}),
    "datetime": frozenset({"date", "datetime", "time", "timedelta"}),
    "enum": frozenset({"Enum", "IntEnum", "StrEnum"}),
    "decimal": frozenset({"Decimal"}),
    "pydantic": frozenset({"BaseModel", "Field"}),
}
_OURS: Final = frozenset({"BaseAnswer", "VerifiedField", "AllOf", "AnyOf", "AtLeastN", "FieldCheck", "SynonymMap"})
_CONSTRUCTORS: Final[dict[str, Callable[..., object]]] = {
    "AllOf": AllOf,
    "AnyOf": AnyOf,
    "AtLeastN": AtLeastN,
    "FieldCheck": FieldCheck,
    "SynonymMap": SynonymMap,
    "date": date,
    "datetime": datetime,
    "Decimal": Decimal,
}
_ALWAYS: Final = frozenset({"bool", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple"})


def karenina_names() -> frozenset[str]:
    """Return the names that a template may import from `karenina*`."""
    return _OURS | known_primitives().keys()


def is_karenina_module(module: str) -> bool:
    """Return whether the top-level package of `module` is `karenina` or begins with `karenina_`."""
    return module.partition(".")[0].partition("_")[0] == "karenina"


def known_names(module: str) -> frozenset[str]:
    """Return the names that templates may import from `module`, or an empty set if the module is unknown."""
    if is_karenina_module(module):
        return karenina_names()
    package = module.partition(".")[0]
    others = {name.partition(".")[2] for name in known_primitives() if name.startswith(f"{package}.")}
    return _MODULES.get(module, frozenset()) | others


def is_known_import(module: str, name: str) -> bool:
    """Return whether templates may import `name` from `module`. This is faster than `known_names`."""
    if not is_karenina_module(module):
        return name in _MODULES.get(module, ()) or f"{module.partition('.')[0]}.{name}" in known_primitives()
    return name in _OURS or name in known_primitives()


def full_name(module: str, name: str) -> str:
    """Return the full name of `name` in a known module, including the package for a third-party primitive."""
    full = f"{module.partition('.')[0]}.{name}"
    return full if full in known_primitives() else name


@dataclass
class Scope:
    """The meaning of the names in a source: imported `names` and `modules`, and its own `classes` and `enums`.

    Known names need no import. The source's own classes shadow them. `digest` is the SHA-256 hash of the source.
    """

    digest: str
    names: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    enums: dict[str, Mapping[str, object]] = field(default_factory=dict)

    def meaning(self, node: ast.expr) -> str | None:
        """Return what a name or dotted name refers to, by its usual name in templates, such as "ExactMatch" for an
        imported alias. Returns None if it is unknown, a class in the source, or another kind of expression.
        """
        if isinstance(node, ast.Name):
            if node.id in self.classes:
                return None
            if node.id in self.names:
                return self.names[node.id]
            return node.id if is_known(node.id) else None
        if isinstance(node, ast.Attribute):
            dotted = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
            if dotted in known_primitives():
                return dotted
            module = self._module(node.value)
            if module is None or not is_known_import(module, node.attr):
                return None
            return full_name(module, node.attr)
        return None

    def _module(self, node: ast.expr) -> str | None:
        """Return the full name of the module that `node` refers to, or None if it is unknown or not imported."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id)
        if isinstance(node, ast.Attribute):
            outer = self._module(node.value)
            return f"{outer}.{node.attr}" if outer is not None and known_names(outer) else None
        return None

    def code(self, node: ast.AST, what: str) -> UntrustedTemplate:
        """Return the error for a syntax node that is code. `what` describes the code."""
        return self.code_at(getattr(node, "lineno", None), what)

    def code_at(self, line: int | None, what: str) -> UntrustedTemplate:
        """Return the error for code on the given line. `what` describes the code."""
        return UntrustedTemplate(what, digest=self.digest, line=line)


def is_known(name: str) -> bool:
    """Return whether templates may use `name` without importing it."""
    return (
        name in _ALWAYS
        or name in _OURS
        or name in known_primitives()
        or any(name in names for names in _MODULES.values())
    )


def shorten_source(node: ast.AST) -> str:
    """Return the source of `node` for a message, up to 80 characters, or its type if it has no source."""
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        return type(node).__name__
    return text if len(text) <= 80 else text[:77] + "..."


def read_value(node: ast.expr, scope: Scope) -> Any:
    """Return the value of an expression that consists of literals, containers and known constructors, such as
    primitives, which are called. A member of an enum in the source becomes its value. Raises `UntrustedTemplate` for
    any other code, and `TemplateError` for mistakes.
    """
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None):
            trouble = find_problem(node.value)
            if trouble is not None:
                raise TemplateError(f"{trouble.what}; {trouble.cure}", line=node.lineno)
            return node.value
        case ast.List(elts=items):
            return [read_value(item, scope) for item in items]
        case ast.Tuple(elts=items):
            return tuple(read_value(item, scope) for item in items)
        case ast.Set(elts=items):
            return _hashed(node, lambda: {read_value(item, scope) for item in items})
        case ast.Dict(keys=keys, values=values):
            return _hashed(node, lambda: _dict(node, keys, values, scope))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            number = read_value(operand, scope)
            if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
                raise TemplateError(
                    f"a plus or minus sign must be followed by a number: {shorten_source(node)}", line=node.lineno
                )
            return -number if isinstance(node.op, ast.USub) else number
        case ast.Attribute(value=ast.Name(id=name), attr=member) if name in scope.enums:
            members = scope.enums[name]
            if member not in members:
                raise TemplateError(f"{name} has no member {member!r}{did_you_mean(member, members)}", line=node.lineno)
            return members[member]
        case ast.Call():
            return _read_call(node, scope)
    raise scope.code(node, f"`{shorten_source(node)}` is not a literal, a container or a known constructor")


def read_arguments(node: ast.Call, scope: Scope) -> tuple[list[ast.expr], dict[str, ast.expr]]:
    """Return the positional and keyword arguments of a call. Raises `UntrustedTemplate` if any are unpacked."""
    named: dict[str, ast.expr] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise scope.code(node, f"`{shorten_source(node)}` unpacks a mapping")
        named[keyword.arg] = keyword.value
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            raise scope.code(node, f"`{shorten_source(node)}` unpacks a sequence")
    return node.args, named


def _read_call(node: ast.Call, scope: Scope) -> object:
    """Call a known constructor and return the object. Raises `TemplateError` for invalid arguments and unknown
    primitives, and `UntrustedTemplate` for all other calls.
    """
    name, constructor = scope.meaning(node.func), find_constructor(node, scope)
    if name is None or constructor is None:
        raise _unknown_call(node, scope)
    positional, named = read_arguments(node, scope)
    arguments = [read_value(argument, scope) for argument in positional]
    keywords = {key: read_value(value, scope) for key, value in named.items()}
    try:
        return constructor(*arguments, **keywords)
    except ValidationError as error:
        raise TemplateError(_bad_parameter(name, error, constructor), line=node.lineno) from error
    except (TypeError, ValueError, ArithmeticError) as error:
        raise TemplateError(f"{name} cannot be created: {error}", line=node.lineno) from error


def find_constructor(node: ast.Call, scope: Scope) -> Callable[..., object] | None:
    """Return the known constructor that is called, or None for any other call."""
    name = scope.meaning(node.func) or ""
    return _CONSTRUCTORS.get(name) or known_primitives().get(name)


def _unknown_call(node: ast.Call, scope: Scope) -> TemplateError:
    """Return the error for a call to something other than a known constructor: an unknown primitive if the name means
    nothing else, and otherwise untrusted code.
    """
    function = node.func
    if isinstance(function, ast.Name) and not (
        function.id in scope.classes
        or function.id in scope.names
        or hasattr(builtins, function.id)
        or is_known(function.id)
    ):
        if (missing := missing_pack(function.id)) is not None:
            return TemplateError(f"the primitive {function.id!r} is not available; {missing}", line=node.lineno)
        near = did_you_mean(function.id, [*known_primitives(), *_CONSTRUCTORS])
        return TemplateError(
            f"unknown primitive {function.id!r}{near} (`karenina primitives` lists all)",
            line=node.lineno,
        )
    return scope.code(
        node, f"`{shorten_source(node)}` calls {shorten_source(function)}, which is not a known constructor"
    )


def _bad_parameter(name: str, error: ValidationError, constructor: object) -> str:
    """Return why a constructor rejected its arguments, for an error message, suggesting names for unknown
    parameters.
    """
    problems: list[str] = []
    missing: list[str] = []
    fields = getattr(constructor, "model_fields", {})
    items = [(_place_of(item["loc"]), item) for item in error.errors(include_url=False, include_input=False)]
    explained = tuple(f"{place}." for place, item in items if place and item["type"] == "value_error")
    for place, item in items:
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            problems.append(f"{name} has no parameter {place!r}{did_you_mean(place, fields)}")
        elif item["type"] == "missing":
            meaning = getattr(fields.get(place), "description", None)
            missing.append(f"{place!r}{f' ({meaning})' if meaning else ''}")
        elif not place.startswith(explained):  # else it is about another form of a value whose problem is reported
            problems.append(f"{place}: {message}" if place else message)
    kind = getattr(fields.get("type"), "default", name)
    shown = name if kind == name else f"{name} (type: {kind})"
    needs = f"{shown} needs the parameter {' and '.join(missing)}" if missing else ""
    if not problems:
        return needs
    problem = join_problems(problems)
    problem = problem if problem.startswith(f"{name} ") else f"invalid parameter of {name}: {problem}"
    return f"{problem}; {needs}" if needs else problem


def _place_of(location: tuple[int | str, ...]) -> str:
    """Return an error's location as a dotted path, without the names of pydantic's validators."""
    return ".".join(str(part) for part in location if not set(str(part)) & set("[(-"))


def _dict(node: ast.Dict, keys: list[ast.expr | None], values: list[ast.expr], scope: Scope) -> dict[Any, Any]:
    """Return the value of a dictionary in braces with these `keys` and `values`. Raises `UntrustedTemplate` if it
    unpacks a mapping.
    """
    mapping: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        if key is None:
            raise scope.code(node, f"`{shorten_source(node)}` unpacks a mapping")
        mapping[read_value(key, scope)] = read_value(value, scope)
    return mapping


def _hashed(node: ast.expr, build: Callable[[], Any]) -> Any:
    """Return the result of `build`. Raises `TemplateError` if a key or item is not hashable."""
    try:
        return build()
    except TypeError as error:
        raise TemplateError(f"`{shorten_source(node)}` cannot be evaluated: {error}", line=node.lineno) from error
