"""Generates the source of an answer template from declared fields.

The fields are a mapping, as in a YAML file:

    gene: {description: The gene that is named, ground_truth: BCL2}
    year: {type: int, description: Its year, ground_truth: 1985, verify_with: {type: NumericTolerance, tolerance: 1}}
    steps: {from: trace.steps, ground_truth: 8, verify_with: NumericMaximum}

The generated source is a class with `VerifiedField` declarations, so all templates are loaded in the same way. Names
must be identifiers and values are written as literals, so nothing in the mapping can become code.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from karenina_benchmark.errors import suggest_key
from karenina_core.catalog import read_catalog
from karenina_core.config.setting_owners import not_loaded
from karenina_core.namespaces import describe_unknown, flatten
from karenina_core.plugins import active_plugins
from karenina_template import templates
from karenina_template.templates.field import is_option
from karenina_toolkit.known_values import find_offer

FIELD_KEYS = ("type", "description", "from", "ground_truth", "verify_with", "weight", "extraction_hint")
_FIELD_KEYS = frozenset(FIELD_KEYS)
TYPES = ("str", "int", "float", "bool", "date", "list[str]", "list[int]", "list[float]")
_OPEN_TYPES = ("list", "object")
"""Types of known values that have no fixed item type, or may be of any type. Files cannot declare them."""
_FIELD = re.compile(r" {4}(\w+): ")
WRITTEN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
MAX_EXACT_FLOAT = 2**53
"""Up to this number, floats represent all integers exactly."""
_DEFAULT_PRIMITIVES = {
    "str": "ExactMatch",
    "int": "NumericExact",
    "float": "NumericExact",
    "bool": "BooleanMatch",
    "date": "DateMatch",
    "literal": "LiteralMatch",
}
_TRACE_PRIMITIVES = ("TraceRegex", "TraceContains", "TraceLength", "TraceJSON")
_TEXT_PRIMITIVES = ("ExactMatch", "ContainsAny", "ContainsAll", "RegexMatch", "SemanticMatch", "OrderedMatch")
_RANGE_TYPES = {"NumericRange": "float", "DateRange": "date"}
"""Primitives that need no `ground_truth`, with the default type of their field."""
_NORMALIZERS = {"synonym_map": "SynonymMap"}
"""Normalizers with parameters. Their names in files are mapped to their classes."""
_STRATEGIES = {"all_of": "AllOf", "any_of": "AnyOf", "at_least": "AtLeastN"}


class DeclarationError(ValueError):
    """Raised if a declared template is invalid. `path` is the place of the error in the mapping."""

    def __init__(self, what: str, *path: str | int, cure: str = "") -> None:
        super().__init__(f"{what}; {cure}" if cure else what)
        self.what = what
        self.path = path
        self.cure = cure


@dataclass
class _Imports:
    """The names that the generated source must import."""

    names: set[str] = field(default_factory=lambda: {"BaseAnswer", "VerifiedField"})
    packages: set[str] = field(default_factory=set)
    date: bool = False
    literal: bool = False


def make_template_source(fields: Mapping[str, Any], strategy: Any = None) -> str:
    """Return the source of a template with the given fields, combined by `strategy` (None: all must be correct). Raises
    `DeclarationError` for an invalid declaration. Names and values are checked so that none can become code.

    `type` is one of `TYPES`, `{literal: [...]}`, or a type that a primitive reads from text, such as quantity. By
    default, it is the type of the known value given by `from`, or it is inferred from `ground_truth` (a string like
    2001-12-31 is a date). `verify_with` is the name of a primitive, or a mapping with its `type` and parameters. The
    default depends on the type: ExactMatch for strings, SetContainment for lists, and otherwise NumericExact,
    BooleanMatch, DateMatch, LiteralMatch or the primitive that reads the type. A mapping without a `type` sets
    parameters of this default. NumericRange and DateRange need no `ground_truth`, and fields with `from` need no
    `description`. A strategy is the name of a field, or `{all_of: [...]}`, `{any_of: [...]}` or `{at_least: {n: 2, of:
    [...]}}`. Strategies can be nested.
    """
    if not fields:
        raise DeclarationError("the template has no fields")
    imports = _Imports()
    body = [line for name, declared in fields.items() for line in _write_field(imports, name, declared)]
    if strategy is not None:
        tree = _write_strategy(imports, strategy, fields, ("strategy",))
        body += ["", "    class VerificationStrategy:", f"        verify_strategy = {tree}"]
    head = ["from datetime import date"] if imports.date else []
    head += ["from typing import Literal"] if imports.literal else []
    head += [f"import {package}" for package in sorted(imports.packages)]
    # Primitives of plugins cannot be imported from there; the loader knows them, and suggests names for unknown ones.
    head += [f"from karenina.templates import {', '.join(sorted(imports.names.intersection(templates.__all__)))}"]
    return "\n".join([*head, "", "", "class Answer(BaseAnswer):", *body]) + "\n"


def keep_written_truths(fields: Mapping[str, Any], written: Callable[..., str | None]) -> dict[str, Any]:
    """Return the fields, with ground truths that are numbers but compared as text replaced by their spelling in the
    file, which `written` returns for a path in `fields`. YAML reads 01234, 1.10 and 2E1 as numbers, which Python would
    write as 1234, 1.1 and 20.0.
    """
    spelled = dict(fields)
    for name, declared in fields.items():
        truth = declared.get("ground_truth") if isinstance(declared, (dict, Mapping)) else None
        if isinstance(truth, (bool, str)):
            continue
        is_list = isinstance(truth, list)
        values: list[Any] = truth if isinstance(truth, list) else [truth]
        numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in values]
        if True not in numbers or not _compares_text(declared):
            continue
        texts = [written(name, "ground_truth", *([at] if is_list else [])) for at in range(len(values))]
        if "type" not in declared and all(
            str(value) == text for value, text, number in zip(values, texts, numbers, strict=True) if number
        ):
            continue  # the numbers are written as Python writes them, and their type stays that of numbers
        truths = [
            text if number and text is not None else value
            for value, text, number in zip(values, texts, numbers, strict=True)
        ]
        spelled[name] = {**declared, "ground_truth": truths if is_list else truths[0]}
    return spelled


def _compares_text(declared: Mapping[str, Any]) -> bool:
    """Return whether a declared field is compared as text, based on its type or primitive."""
    kind, rule = declared.get("type"), declared.get("verify_with")
    kind = _offered_type(declared.get("from")) if kind is None else kind
    if isinstance(kind, Mapping):
        options = kind.get("literal")
        return isinstance(options, list) and all(isinstance(option, str) for option in options)
    if kind is not None:
        return kind in ("str", "list[str]") or kind not in TYPES  # a primitive reads a type of its own from text
    return (rule.get("type") if isinstance(rule, Mapping) else rule) in _TEXT_PRIMITIVES


def field_at(source: str, line: int | None) -> str | None:
    """Return the field that `line` of a generated source belongs to, or None."""
    above = source.splitlines()[: line or 0]
    return next((match[1] for text in reversed(above) if (match := _FIELD.match(text))), None)


def _write_field(imports: _Imports, name: str, declared: Any) -> Iterator[str]:
    """Yield the source lines of a declared field, and note in `imports` what they need. Raises `DeclarationError` if it
    is invalid.
    """
    _check_name("field", name, "answer", name)
    if name.startswith("_"):
        raise DeclarationError(
            f"the name of the field {name!r} must not begin with an underscore", "answer", name, cure="rename it"
        )
    if not isinstance(declared, Mapping):
        cure = "write {description: ..., ground_truth: ...}"
        raise DeclarationError(f"the field {name!r} must be a mapping", "answer", name, cure=cure)
    options: dict[str, Any] = {}
    if not _FIELD_KEYS.issuperset(declared):
        try:
            declared = flatten(declared, FIELD_KEYS)
        except ValueError as error:
            raise DeclarationError(str(error), "answer", name) from error
        options = {key: value for key, value in declared.items() if is_option(key)}
        for key in declared:
            if key not in FIELD_KEYS and key not in options:
                known = [*FIELD_KEYS, *read_catalog()["template_fields"]]
                cure = suggest_key(key, known, f"the keys for a field are {', '.join(known)}")
                raise DeclarationError(f"unknown key {key!r}", "answer", name, key, cure=cure)
    declared = _with_primitive_of_type(declared, name)
    primitive, source = _primitive_name(declared.get("verify_with"), name), declared.get("from")
    if source is not None and not isinstance(source, str):
        what = "`from` must be the name of a known value, such as trace.steps"
        raise DeclarationError(what, "answer", name, "from")
    on_trace = primitive in _TRACE_PRIMITIVES
    needed = {"description": on_trace or source is not None, "ground_truth": on_trace or primitive in _RANGE_TYPES}
    for key, is_optional in needed.items():
        if declared.get(key) is None and not is_optional:
            raise DeclarationError(f"the field {name!r} has no {key!r}", "answer", name, cure="add it")
    truth = declared.get("ground_truth", True if on_trace else None)
    stated = declared.get("type")
    types: tuple[str, ...] = TYPES
    if stated is None and source is not None:
        stated, types = _type_of_source(source, truth, primitive, name), TYPES + _OPEN_TYPES
    kind, annotation = _write_type(imports, stated, truth, primitive, name, types)
    truth = _convert_truth(truth, kind, name) if truth is not None else None
    description = declared.get("description")
    if description is not None and not isinstance(description, str):
        description = str(description)
    arguments = [f"description={description or ''!r}"] if description or source is None else []
    arguments += [f"source={source!r}"] if source is not None else []
    if truth is not None:
        arguments.append(f"ground_truth={_write_literal(imports, truth, name, 'ground_truth')}")
    arguments.append(f"verify_with={_write_verify_with(imports, declared.get('verify_with'), kind, name)}")
    if "weight" in declared:
        arguments.append(f"weight={_write_weight(declared['weight'], name)}")
    hint = declared.get("extraction_hint")
    if hint is not None:
        arguments.append(f"extraction_hint={str(hint)!r}")
    tables: dict[str, dict[str, Any]] = {}
    for key, value in options.items():
        table, _, option = key.rpartition(".")
        tables.setdefault(table, {})[option] = value
    for table, values in tables.items():
        if table:
            _check_name("plugin", table, "answer", name)
        for key, value in ({table: values} if table else values).items():
            arguments.append(f"{key}={_write_literal(imports, value, name, key)}")
    yield f"    {name}: {annotation} = VerifiedField("
    yield from (f"        {argument}," for argument in arguments)
    yield "    )"


def _with_primitive_of_type(declared: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field's declaration with a type such as quantity replaced by the text that its primitive reads. Raises
    `DeclarationError` for a type that is known but whose plugin is not installed, and names the plugin. Another unknown
    type is an error only if the declaration relies on it for its primitive.

    Plugins are loaded, because they may add primitives.
    """
    kind, rule = declared.get("type"), declared.get("verify_with")
    if not isinstance(kind, str) or kind in TYPES:
        return declared
    active_plugins()  # which may add primitives
    primitive = templates.primitives_by_field_type().get(kind)
    if primitive is None:
        if (missing := templates.missing_pack(kind)) is not None:
            raise DeclarationError(f"the type {kind!r} is not available", "answer", name, "type", cure=missing)
        if not isinstance(rule, Mapping) or "type" in rule:
            return declared
        cure = f"use {', '.join([*TYPES, *templates.primitives_by_field_type()])} or {{literal: [...]}}"
        raise DeclarationError(f"unknown type {kind!r}", "answer", name, "type", cure=cure)
    if rule is None or (isinstance(rule, Mapping) and "type" not in rule):
        rule = {"type": primitive, **(rule or {})}
    return {**declared, "type": "str", "verify_with": rule}


def _primitive_name(verify_with: Any, name: str) -> str | None:
    """Return the name of the primitive in `verify_with`, or None if that is None. Raises `DeclarationError` for other
    values.
    """
    if isinstance(verify_with, Mapping):
        verify_with = verify_with.get("type")
        if verify_with is None:
            raise DeclarationError(
                "verify_with has no `type`", "answer", name, "verify_with", cure="specify a primitive"
            )
    if verify_with is None:
        return None
    if not isinstance(verify_with, str):
        what = "verify_with must be a primitive name or a mapping with a `type`"
        raise DeclarationError(what, "answer", name, "verify_with")
    return verify_with


def _write_type(
    imports: _Imports, declared: Any, truth: Any, primitive: str | None, name: str, types: tuple[str, ...]
) -> tuple[str, str]:
    """Return the kind of a field (one of `types`, or `literal`) and its annotation, adding what this needs to
    `imports`. If no type is declared, it is inferred from `truth` and `primitive`. Raises `DeclarationError` if the
    type is unknown or cannot be inferred.
    """
    if isinstance(declared, Mapping) and set(declared) == {"literal"} and isinstance(declared["literal"], list):
        imports.literal = True
        choices = [_write_literal(imports, choice, name, "type") for choice in declared["literal"]]
        if not choices or any(not isinstance(choice, str | int) for choice in declared["literal"]):
            what = "literal must be a list of strings, integers or booleans"
            raise DeclarationError(what, "answer", name, "type")
        return "literal", f"Literal[{', '.join(choices)}]"
    if declared is None:
        declared = _infer_type(truth, primitive, name)
    if declared not in types:
        cure = f"use {', '.join(TYPES)} or {{literal: [...]}}"
        raise DeclarationError(f"unknown type {declared!r}", "answer", name, "type", cure=cure)
    if declared == "date":
        imports.date = True
    return declared, declared


def _type_of_source(source: str, truth: Any, primitive: str | None, name: str) -> str:
    """Return the type of a field that a known value fills. If the known value may have any type, it is inferred from
    `truth`.
    """
    if (offered := _offered_type(source)) is not None:
        return offered
    try:
        return _infer_type(truth, primitive, name)
    except DeclarationError:
        return "list" if isinstance(truth, list) else "object"


def _offered_type(source: object) -> str | None:
    """Return the type of the known value called `source`, or None if it is unknown or may be any type."""
    offer = find_offer(source) if isinstance(source, str) else None
    return offer.kind if offer is not None and offer.kind in TYPES else None


def _infer_type(truth: Any, primitive: str | None, name: str) -> str:
    """Infer a field's type from its ground truth and primitive. Raises `DeclarationError` if it is unclear."""
    if truth is None and primitive in _RANGE_TYPES:
        return _RANGE_TYPES[primitive]
    if isinstance(truth, bool):
        return "bool"
    if isinstance(truth, date):
        return "date"
    if isinstance(truth, str):
        is_date = WRITTEN_DATE.fullmatch(truth) and (primitive is None or primitive.startswith("Date"))
        return "date" if is_date else "str"
    if isinstance(truth, int | float):
        # With a tolerance or a range, the answer may be fractional although the truth is an integer: for a truth of 37
        # it may be 36.8, which a judge would round if the type were int.
        measured = primitive is not None and primitive.startswith("Numeric") and primitive != "NumericExact"
        return "int" if isinstance(truth, int) and not measured else "float"
    if isinstance(truth, list) and truth:
        kinds = {type(entry) for entry in truth}
        if kinds <= {str}:
            return "list[str]"
        if kinds <= {int}:
            return "list[int]"
        if kinds <= {int, float}:
            return "list[float]"
    raise DeclarationError(
        f"the type of {name!r} cannot be inferred from its ground truth", "answer", name, cure="add a `type`"
    )


def _write_verify_with(imports: _Imports, declared: Any, kind: str, name: str) -> str:
    """Return the constructor call for a field's declared primitive or, without one, for the default of the field's
    kind.
    """
    if declared is None:
        primitive = _DEFAULT_PRIMITIVES.get(kind)
        declared = primitive if primitive is not None else {"type": "SetContainment", "mode": "exact"}
    return _write_call(imports, declared, ("answer", name, "verify_with"))


def _write_call(imports: _Imports, declared: Any, path: tuple[str | int, ...]) -> str:
    """Return the constructor call for a `declared` primitive, or a normalizer such as SynonymMap, given as its name or
    as a mapping with a `type`, and add its class to `imports`. Raises `DeclarationError` if a name is not valid or the
    primitive of a plugin is unknown.
    """
    if isinstance(declared, str):
        declared = {"type": declared}
    primitive = _NORMALIZERS.get(declared["type"], declared["type"])
    package, _, plain = str(primitive).rpartition(".")
    for part in (package, plain) if package else (primitive,):
        _check_name("primitive", part, *path)
    if package:
        active_plugins()  # which may add primitives
        if primitive not in templates.known_primitives():
            cure = describe_unknown(primitive, templates.known_primitives(), {}) + not_loaded()
            raise DeclarationError(f"unknown primitive {primitive!r}", *path, cure=cure)
        imports.packages.add(package)
    else:
        imports.names.add(primitive)
    arguments = []
    for parameter, value in declared.items():
        if parameter == "type":
            continue
        _check_name("parameter", parameter, *path, parameter)
        arguments.append(f"{parameter}={_write_argument(imports, value, (*path, parameter))}")
    return f"{primitive}({', '.join(arguments)})"


def _write_argument(imports: _Imports, value: Any, path: tuple[str | int, ...]) -> str:
    """Return the source of a parameter's value, adding what it needs to `imports`. A mapping with a `type` becomes a
    constructor call. `path` locates the value in messages.
    """
    if isinstance(value, list):
        return f"[{', '.join(_write_argument(imports, entry, (*path, place)) for place, entry in enumerate(value))}]"
    if isinstance(value, Mapping) and isinstance(value.get("type"), str):
        return _write_call(imports, value, path)
    return _write_literal(imports, value, *path[1:])


def _write_literal(imports: _Imports, value: Any, *path: str | int) -> str:
    """Return the source of a plain value, adding what it needs to `imports`. Raises `DeclarationError` at `path` for
    other values, such as NaN.
    """
    match value:
        case None | bool() | int() | str():
            return repr(value)
        case float() if math.isfinite(value):
            return repr(value)
        case date():
            imports.date = True
            return f"date({value.year}, {value.month}, {value.day})"
        case list():
            return f"[{', '.join(_write_literal(imports, entry, *path) for entry in value)}]"
        case Mapping():
            pairs = (f"{key!r}: {_write_literal(imports, entry, *path)}" for key, entry in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise DeclarationError(f"the value {value!r} cannot be written into a template", "answer", *path)


def _write_weight(weight: Any, name: str) -> str:
    """Return the source of a weight. Raises `DeclarationError` if it is not a finite number."""
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        raise DeclarationError(f"the weight of {name!r} must be a finite number", "answer", name, "weight")
    return repr(weight)


def _convert_truth(truth: Any, kind: str, name: str) -> Any:
    """Return the ground truth converted to the field's type, because table cells are strings, for example. Raises
    `DeclarationError` if this is not possible.
    """
    plain = isinstance(truth, str | int | float) and not isinstance(truth, bool)
    try:
        if kind == "str" and plain:
            return str(truth)
        if kind == "date" and isinstance(truth, str):
            return date.fromisoformat(truth)
        if kind == "bool" and isinstance(truth, str):
            return {"true": True, "false": False}[truth.strip().lower()]
        if kind == "float" and plain:
            return _to_float(truth)
        if kind == "int" and plain and not (isinstance(truth, float) and not truth.is_integer()):
            return int(truth)
    except (ValueError, KeyError, OverflowError):
        pass
    expected = {"str": str, "date": date, "bool": bool, "float": float, "int": int}.get(kind, object)
    if kind.startswith("list"):
        expected = list
    if not isinstance(truth, expected) or (kind == "int" and isinstance(truth, bool)):
        cure = "write the date as 2001-12-31" if kind == "date" else "correct the ground truth or the `type`"
        what = f"the ground truth {truth!r} is not of type {kind!r}"
        raise DeclarationError(what, "answer", name, "ground_truth", cure=cure)
    return truth


def _to_float(truth: str | float) -> float:
    """Return the ground truth of a float field. An integer that a float cannot represent exactly stays an int."""
    whole = int(truth) if isinstance(truth, int) or (isinstance(truth, str) and _WHOLE.fullmatch(truth)) else None
    if whole is not None and abs(whole) > MAX_EXACT_FLOAT:
        return whole
    return float(truth)


def _write_strategy(imports: _Imports, node: Any, fields: Collection[str], path: tuple[str | int, ...]) -> str:
    """Return the source of a strategy. `path` is its place in the declaration. Raises `DeclarationError` if the
    strategy is invalid.
    """
    if isinstance(node, str):
        if node not in fields:
            raise DeclarationError(
                f"the strategy refers to the unknown field {node!r}",
                *path,
                cure=f"the fields are {', '.join(fields)}",
            )
        imports.names.add("FieldCheck")
        return f"FieldCheck({node!r})"
    if not isinstance(node, Mapping) or len(node) != 1 or next(iter(node)) not in _STRATEGIES:
        what = "a strategy must be a field name, or all_of, any_of or at_least with a list of conditions"
        raise DeclarationError(what, *path)
    kind, conditions = next(iter(node.items()))
    head = ""
    if kind == "at_least":
        n = conditions.get("n") if isinstance(conditions, Mapping) and set(conditions) == {"n", "of"} else None
        if isinstance(n, bool) or not isinstance(n, int):
            raise DeclarationError("at_least must be written as {n: 2, of: [...]}", *path, kind)
        head, conditions = f"n={n}, ", conditions["of"]
    if not isinstance(conditions, list) or not conditions:
        raise DeclarationError(f"{kind} requires a list of conditions", *path, kind)
    imports.names.add(_STRATEGIES[kind])
    inner = [_write_strategy(imports, entry, fields, (*path, kind)) for entry in conditions]
    return f"{_STRATEGIES[kind]}({head}conditions=[{', '.join(inner)}])"


def _check_name(what: str, name: Any, *path: str | int) -> None:
    """Raise `DeclarationError` if `name` is a keyword or not an identifier, because it could then become code."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise DeclarationError(
            f"{name!r} is not a valid name for a {what}",
            *path,
            cure="use letters, digits and underscores, not beginning with a digit",
        )


def make_row_template(fields: Mapping[str, Any], strategy: Any, row: Mapping[str, Any]) -> str:
    """Return the source of a row's template, with each `{column: name}` in `fields` replaced by the column's value. If
    nothing else sets the type, a string from a column has the type str. Raises `DeclarationError` for an invalid
    declaration, and `KeyError` for a column that the row does not have.

    The type is set by `type` or a known value. A field must have the same type in all rows, whatever the strings look
    like.
    """
    filled: dict[str, Any] = {}
    for name, declared in fields.items():
        filled[name] = fill_columns(declared, row)
        from_column = isinstance(declared, Mapping) and isinstance(declared.get("ground_truth"), Mapping)
        has_type = "type" in declared or _offered_type(declared.get("from")) is not None
        if from_column and not has_type and isinstance(filled[name].get("ground_truth"), str):
            filled[name] = {"type": "str", **filled[name]}
    return make_template_source(filled, strategy)


def fill_columns(declared: Any, row: Mapping[str, Any]) -> Any:
    """Return a declaration with each `{column: name}` in it replaced by the column's value. Raises `KeyError` if the
    row has no such column.
    """
    if isinstance(declared, Mapping):
        if set(declared) == {"column"} and isinstance(declared["column"], str):
            return row[declared["column"]]
        return {key: fill_columns(value, row) for key, value in declared.items()}
    if isinstance(declared, list):
        return [fill_columns(value, row) for value in declared]
    return declared
