"""Reads template sources. Declarations are read without executing them, and everything else is code."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from karenina_core.text import did_you_mean
from karenina_template.templates.base import METHODS, OWN_FIELDS, check_strategy
from karenina_template.templates.errors import TemplateError, missing_answer_class
from karenina_template.templates.field import (
    CLASS_BUILD_LOCK,
    FIELD_OPTIONS,
    UNSET,
    VERIFIED,
    describe_parameter,
    is_option,
    make_rule,
)
from karenina_template.templates.shapes.declaration import (
    NO_DEFAULT,
    Declaration,
    EnumDeclaration,
    FieldDeclaration,
    ModelDeclaration,
    read_annotation,
)
from karenina_template.templates.shapes.expressions import (
    Scope,
    full_name,
    is_known_import,
    known_names,
    read_arguments,
    read_value,
    shorten_source,
)
from karenina_template.templates.shapes.open_fields import SHOW

_CONSTRAINTS: Final = (
    "ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "pattern",
)  # fmt: skip
_UNUSED: Final = (
    "title", "examples", "repr", "alias", "alias_priority", "validation_alias", "serialization_alias", "frozen",
    "init", "kw_only", "json_schema_extra",
)  # fmt: skip
_FACTORIES: Final = frozenset({"bool", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"})
_ENUMS: Final = frozenset({"Enum", "IntEnum", "StrEnum"})


def parse_source(source: str) -> ast.Module:
    """Parse a source, and return its syntax tree. Raises `TemplateError` if it is not valid Python."""
    try:
        with CLASS_BUILD_LOCK:
            return ast.parse(source)
    except SyntaxError as error:
        raise TemplateError(f"the source is not valid Python: {error.msg}", line=error.lineno) from error
    except (RecursionError, MemoryError) as error:
        raise TemplateError("the source is nested too deeply") from error
    except ValueError as error:
        raise TemplateError(f"the source cannot be read: {error}") from error


def read_declaration(tree: ast.Module, digest: str) -> Declaration:
    """Return the declarations in a source, which is not executed. Raises `UntrustedTemplate` for code, which is
    anything except docstrings, imports of known names, and classes with annotated fields or enum members, and
    `TemplateError` for invalid declarations. `digest`, the SHA-256 hash of the source, is used in trust errors.
    """
    scope = Scope(digest)
    for statement in tree.body:
        _read_statement(statement, scope)
    classes = [statement for statement in tree.body if isinstance(statement, ast.ClassDef)]
    for index, node in enumerate(classes):
        if any(node.name == earlier.name for earlier in classes[:index]):
            raise TemplateError(f"two classes are named {node.name!r}; rename one of them", line=node.lineno)
    declared: dict[str, ModelDeclaration | EnumDeclaration] = {}
    # Annotations may refer to classes that are defined later; bases may not.
    later = {node.name for node in classes}
    scope.classes = set()
    for node in classes:
        bases = _read_bases(node, scope, declared)
        if bases & _ENUMS:
            enum = _read_enum(node, bases, scope)
            declared[node.name] = enum
            scope.enums[node.name] = dict(enum.members)
            scope.classes.add(node.name)
            continue
        hidden, scope.classes = scope.classes, later
        declared[node.name] = _read_model(node, bases, scope, declared)
        scope.classes = hidden | {node.name}
    answer = _find_answer(declared)
    _check_answer(answer, declared, scope)
    return Declaration(answer, declared, scope)


def _find_answer(declared: dict[str, ModelDeclaration | EnumDeclaration]) -> ModelDeclaration:
    """Return the class `Answer`. Raises `TemplateError` if there is none."""
    answers = [item for item in declared.values() if isinstance(item, ModelDeclaration) and item.is_answer]
    named = [item for item in answers if item.name == "Answer"]
    if named:
        return named[0]
    raise missing_answer_class([item.name for item in answers], line=answers[0].line if answers else None)


def _read_statement(statement: ast.stmt, scope: Scope) -> None:
    """Add the names that an import statement defines to `scope`, or check the class that the statement defines. Raises
    `UntrustedTemplate` for imports of unknown names, and for all other statements except docstrings.
    """
    match statement:
        case ast.ImportFrom(module=module, names=names, level=0) if module is not None:
            if module == "__future__":
                return
            for alias in names:
                if not is_known_import(module, alias.name):
                    raise scope.code(
                        statement,
                        f"`from {module} import {alias.name}` imports a name that only trusted code may import",
                    )
                scope.names[alias.asname or alias.name] = full_name(module, alias.name)
        case ast.Import(names=names):
            for alias in names:
                if not known_names(alias.name):
                    raise scope.code(
                        statement, f"`import {alias.name}` imports a module that only trusted code may import"
                    )
                top = alias.name.partition(".")[0]
                scope.modules[alias.asname or top] = alias.name if alias.asname else top
        case ast.ClassDef():
            _check_class(statement, scope)
        case ast.Expr(value=ast.Constant()):
            return
        case _:
            raise scope.code(statement, f"`{shorten_source(statement)}` is not a class, an import or a docstring")


def _check_class(node: ast.ClassDef, scope: Scope) -> None:
    """Raise `UntrustedTemplate` if a class contains code, such as a decorator or method."""
    if node.decorator_list:
        raise scope.code(
            node.decorator_list[0], f"class {node.name} has the decorator `@{shorten_source(node.decorator_list[0])}`"
        )
    if node.keywords:
        raise scope.code(node, f"class {node.name} has the argument `{shorten_source(node.keywords[0])}`")
    if getattr(node, "type_params", None):
        raise scope.code(node, f"class {node.name} has type parameters")
    for statement in node.body:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.AnnAssign(target=ast.Name(), simple=1):
                continue
            case ast.Assign(targets=[ast.Name()]):
                continue  # a member of an enumeration, or rejected when the class is read
            case ast.ClassDef(name="VerificationStrategy", bases=[], keywords=[], decorator_list=[]):
                continue
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                raise scope.code(statement, f"class {node.name} has the method {name}()")
            case _:
                raise scope.code(
                    statement, f"`{shorten_source(statement)}` in class {node.name} is not a field declaration"
                )


def _read_bases(node: ast.ClassDef, scope: Scope, declared: dict[str, ModelDeclaration | EnumDeclaration]) -> set[str]:
    """Return the base of a class, or both bases of an enum with a mixed-in type. Raises `UntrustedTemplate` if there is
    no base, if there are too many, or if templates must not use the base.
    """
    names: list[str] = []
    for base in node.bases:
        if isinstance(base, ast.Name) and isinstance(declared.get(base.id), ModelDeclaration):
            names.append(base.id)
            continue
        meaning = scope.meaning(base)
        if meaning not in {"BaseAnswer", "BaseModel", "str", "int", *_ENUMS}:
            raise scope.code(
                base, f"class {node.name} has the base class `{shorten_source(base)}`, which templates may not use"
            )
        names.append(meaning)
    if len(names) == 1 or (len(names) == 2 and names[0] in ("str", "int") and names[1] == "Enum"):
        return set(names)
    if not names:
        raise scope.code(
            node, f"class {node.name} has no base class; the base class must be BaseAnswer, BaseModel or Enum"
        )
    raise scope.code(node, f"class {node.name} has several base classes")


def _read_enum(node: ast.ClassDef, bases: set[str], scope: Scope) -> EnumDeclaration:
    """Return the declaration of an enum with these bases. Raises `TemplateError` if it is invalid, and
    `UntrustedTemplate` for code.
    """
    members: dict[str, object] = {}
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name in members or name.startswith("_"):
                    raise TemplateError(
                        f"enumeration {node.name} cannot have the member {name!r}, which is a duplicate or starts "
                        "with an underscore",
                        line=statement.lineno,
                    )
                members[name] = _check_enum_value(read_value(value, scope), bases, statement)
            case ast.Expr() | ast.Pass():
                continue
            case _:
                raise scope.code(
                    statement, f"`{shorten_source(statement)}` in the enumeration {node.name} is not a member"
                )
    if not members:
        raise TemplateError(f"enumeration {node.name} has no members", line=node.lineno)
    base = next(iter(bases - {"Enum"}), "Enum")
    return EnumDeclaration(node.name, node.lineno, base, tuple(members.items()))


def _check_enum_value(value: object, bases: set[str], node: ast.stmt) -> object:
    """Return `value`, that of an enum member. Raises `TemplateError` if it does not fit the enum's base."""
    allowed: Any = (
        str if bases & {"str", "StrEnum"} else int if bases & {"int", "IntEnum"} else str | int | float | bool
    )
    if not isinstance(value, allowed):
        raise TemplateError(
            f"`{shorten_source(node)}`: a member of this enumeration cannot have the value {value!r:.200}",
            line=node.lineno,
        )
    return value


def _read_model(
    node: ast.ClassDef, bases: set[str], scope: Scope, declared: dict[str, ModelDeclaration | EnumDeclaration]
) -> ModelDeclaration:
    """Return the declaration of a class with the only base in `bases`, including fields and the strategy that it
    inherits from a class in `declared`. Raises `TemplateError` if the class is invalid, and `UntrustedTemplate` for
    code.
    """
    (base,) = bases
    if base in ("str", "int"):
        raise scope.code(node, f"class {node.name} has the base class {base}")
    parent = declared.get(base)
    inherited = parent if isinstance(parent, ModelDeclaration) else None
    own: dict[str, FieldDeclaration] = {}
    strategy = None
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                if name in own:
                    raise TemplateError(
                        f"{node.name} declares the field {name!r} more than once", line=statement.lineno
                    )
                own[name] = _read_field(name, statement, scope)
            case ast.ClassDef():
                if strategy is not None:
                    raise TemplateError(f"{node.name} has more than one VerificationStrategy", line=statement.lineno)
                strategy = _read_strategy(statement, scope)
            case ast.Assign():
                raise scope.code(
                    statement, f"`{shorten_source(statement)}` in class {node.name} is not a field declaration"
                )
    fields = {**(inherited.fields if inherited else {}), **own}
    is_answer = inherited.is_answer if inherited else base == "BaseAnswer"
    tree, line = (strategy.tree, strategy.line) if strategy else (None, None)
    rules = {name: item.rule for name, item in fields.items() if item.rule is not None}
    if strategy is not None:
        try:
            tree = check_strategy(strategy.tree, rules)
        except TemplateError as error:
            raise error.at(line) from error
    elif inherited is not None:
        tree, line = inherited.strategy, inherited.strategy_line
    return ModelDeclaration(node.name, node.lineno, is_answer, ast.get_docstring(node), fields, tree, line)


class _Strategy:
    """A strategy's tree and the line on which it is declared."""

    def __init__(self, tree: object, line: int) -> None:
        self.tree: Any = tree
        self.line = line


def _read_strategy(node: ast.ClassDef, scope: Scope) -> _Strategy:
    """Return the strategy in a class `VerificationStrategy`. Raises `TemplateError` if there is none, and
    `UntrustedTemplate` if the class contains other statements.
    """
    strategy: _Strategy | None = None
    for statement in node.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="verify_strategy")], value=value)
                | ast.AnnAssign(target=ast.Name(id="verify_strategy"), value=ast.expr() as value)
            ):
                strategy = _Strategy(read_value(value, scope), statement.lineno)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                continue
            case _:
                raise scope.code(
                    statement, f"`{shorten_source(statement)}` in VerificationStrategy is not `verify_strategy = ...`"
                )
    if strategy is None:
        raise TemplateError("VerificationStrategy has no verify_strategy; define it", line=node.lineno)
    return strategy


def _read_field(name: str, node: ast.AnnAssign, scope: Scope) -> FieldDeclaration:
    """Return the declaration of a field. Raises `TemplateError` if it is invalid, and `UntrustedTemplate` for code."""
    if name.startswith("_"):
        raise scope.code(node, f"`{shorten_source(node)}` declares a private attribute")
    annotation = read_annotation(node.annotation, scope)
    value = node.value
    if value is None:
        return FieldDeclaration(name, node.lineno, annotation)
    if not isinstance(value, ast.Call):
        return FieldDeclaration(name, node.lineno, annotation, default=read_value(value, scope))
    kind = scope.meaning(value.func)
    if kind == "VerifiedField":
        own, others, options = _split_arguments(value, scope)
        constraints, _ = _constraints_and_default(name, value, others, scope, verified=True)
        values = {key: read_value(argument, scope) for key, argument in own.items()}
        values["options"] = {key: read_value(argument, scope) for key, argument in options.items()}
        rule = _read_rule(name, value, values)
        description = _check_text(values.get("description"), "description", value)
        return FieldDeclaration(name, node.lineno, annotation, description, constraints, rule=rule)
    if kind == "Field":
        return _plain_field(name, node.lineno, annotation, value, scope)
    return FieldDeclaration(name, node.lineno, annotation, default=read_value(value, scope))


def _read_rule(name: str, node: ast.Call, values: dict[str, Any]) -> Any:
    """Return the rule of the `VerifiedField` in `node`, whose arguments by name are `values`. Raises `TemplateError`,
    with field and line, if it is invalid.
    """
    try:
        return make_rule(
            values.get("ground_truth", UNSET),
            values.get("verify_with", UNSET),
            values.get("weight", 1.0),
            values.get("extraction_hint"),
            values["options"],
            values.get("source"),
        )
    except TemplateError as error:
        raise TemplateError(f"field {name!r}: {error.reason}", line=node.lineno) from error


def _split_arguments(
    node: ast.Call, scope: Scope
) -> tuple[dict[str, ast.expr], dict[str, ast.expr], dict[str, ast.expr]]:
    """Return the arguments of a `VerifiedField`: its own, those of `Field`, and plugin options. Raises `TemplateError`
    for repeated or too many arguments, and `UntrustedTemplate` for unpacking.
    """
    positional, named = read_arguments(node, scope)
    if len(positional) > len(VERIFIED):
        raise TemplateError(f"VerifiedField takes at most {len(VERIFIED)} positional arguments", line=node.lineno)
    own = dict(zip(VERIFIED, positional, strict=False))
    others, options = dict[str, ast.expr](), dict[str, ast.expr]()
    for key, argument in named.items():
        if key in own:
            raise TemplateError(f"VerifiedField was passed the argument {key!r} more than once", line=node.lineno)
        (own if key in VERIFIED else options if is_option(key) else others)[key] = argument
    return own, others, options


def _constraints_and_default(
    name: str, node: ast.Call, named: Mapping[str, ast.expr], scope: Scope, *, verified: bool = False
) -> tuple[tuple[tuple[str, object], ...], object]:
    """Return the constraints, sorted by name, and the default, or `NO_DEFAULT`, from parameters of pydantic's `Field`;
    those without effect on a template, such as `alias`, are dropped. `verified` is true for a `VerifiedField`. Raises
    `TemplateError` for an unknown parameter, and `UntrustedTemplate` if a parameter may contain code.
    """
    default: object = NO_DEFAULT
    constraints: dict[str, object] = {}
    function = "VerifiedField" if verified else "Field"
    for key, argument in named.items():
        if key == "default":
            is_required = isinstance(argument, ast.Constant) and argument.value is ...
            default = NO_DEFAULT if is_required else read_value(argument, scope)
        elif key in _CONSTRAINTS:
            constraints[key] = read_value(argument, scope)
        elif key in _UNUSED:
            value = read_value(argument, scope)
            if key == "json_schema_extra" and isinstance(value, Mapping) and value.get(SHOW) is True:
                constraints[key] = {SHOW: True}
        elif verified and key == "default_factory" and scope.meaning(argument) in _FACTORIES:
            continue  # a field that the judge leaves out is None
        elif key in FIELD_OPTIONS:
            raise scope.code(node, f"field {name!r} uses {function}({key}=...), which is not a declaration")
        else:
            names = [*(VERIFIED if verified else ("description",)), "default", *_CONSTRAINTS]
            cure = did_you_mean(key, names, "" if verified else None) or describe_parameter(key)
            raise TemplateError(f"{function} has no parameter {key!r}{cure}", line=node.lineno)
    return tuple(sorted(constraints.items())), default


def _plain_field(name: str, line: int, annotation: Any, node: ast.Call, scope: Scope) -> FieldDeclaration:
    """Return the declaration of a field that uses pydantic's `Field`. Raises `TemplateError` if its arguments are
    invalid, and `UntrustedTemplate` if they are code.
    """
    positional, named = read_arguments(node, scope)
    if len(positional) > 1 or (positional and "default" in named):
        raise TemplateError(
            "Field accepts only one positional argument, the default, which cannot be combined with default=...",
            line=node.lineno,
        )
    if positional:
        named = {"default": positional[0], **named}
    described = named.pop("description", None)
    description = None if described is None else _check_text(read_value(described, scope), "description", node)
    constraints, default = _constraints_and_default(name, node, named, scope)
    return FieldDeclaration(name, line, annotation, description, constraints, default)


def _check_text(value: object, parameter: str, node: ast.Call) -> str | None:
    """Return a parameter's value, or None if it is empty. Raises `TemplateError` if it is not a string."""
    if value is not None and not isinstance(value, str):
        raise TemplateError(f"{parameter} must be a string, not {value!r:.200}", line=node.lineno)
    return value or None


def _check_answer(
    answer: ModelDeclaration, declared: dict[str, ModelDeclaration | EnumDeclaration], scope: Scope
) -> None:
    """Raise `TemplateError` for a field with a reserved name, for a rule in a nested model, or if nothing is verified,
    and `UntrustedTemplate` for a model that contains itself.
    """
    for name, item in answer.fields.items():
        if name in METHODS | OWN_FIELDS:
            raise TemplateError(
                f"{answer.name} cannot have a field named {name!r}, which is a reserved name; rename the field",
                line=item.line,
            )
    if not any(item.rule for item in answer.fields.values()):
        raise TemplateError(
            f"{answer.name} verifies nothing; add a VerifiedField or a verify() method",
            line=answer.line,
        )
    _check_nested_models(answer, (), declared, scope, set())


def _check_nested_models(
    model: ModelDeclaration,
    above: tuple[str, ...],
    declared: dict[str, ModelDeclaration | EnumDeclaration],
    scope: Scope,
    done: set[str],
) -> None:
    """Raise `TemplateError` for a `VerifiedField` in a model nested in `model`, and `UntrustedTemplate` for a model
    that contains itself. `above` are the models that enclose it. Nested models are added to `done`, and not checked
    again.
    """
    for item in model.fields.values():
        if above and item.rule is not None:
            raise TemplateError(
                f"field {item.name!r} of the nested model {model.name} is a VerifiedField, but only fields of "
                "the template itself can be VerifiedFields. Use Field(description=...) in the nested model, "
                f"and verify the template field that contains the {model.name}",
                line=item.line,
            )
        for name in sorted(item.annotation.classes()):
            inner = declared[name]
            if name == model.name or name in above:
                raise scope.code_at(item.line, f"the annotation of {item.name!r} makes {name} contain itself")
            if isinstance(inner, ModelDeclaration) and name not in done:
                _check_nested_models(inner, (*above, model.name), declared, scope, done)
                done.add(name)
