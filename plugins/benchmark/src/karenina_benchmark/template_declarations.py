"""The declarative form of an answer template, translated to the source of one.

The fields of a template as a mapping, as one writes it in YAML:

    gene: {description: The gene that is named, ground_truth: BCL2}
    year: {type: int, description: Its year, ground_truth: 1985, verify_with: {type: NumericTolerance, tolerance: 1}}

become the source of a class with `VerifiedField` declarations, so there is one way in which templates are read. Names
are checked to be names and values are written as literals: nothing in the mapping can become code.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from karenina_template import templates

FIELD_KEYS = ("type", "description", "ground_truth", "verify_with", "weight", "extraction_hint")
TYPES = ("str", "int", "float", "bool", "date", "list[str]", "list[int]", "list[float]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_HELD = 2**53
"""A float holds every whole number up to this one."""
_PRIMITIVE_OF = {
    "str": "ExactMatch",
    "int": "NumericExact",
    "float": "NumericExact",
    "bool": "BooleanMatch",
    "date": "DateMatch",
    "literal": "LiteralMatch",
}
_TRACE = ("TraceRegex", "TraceContains", "TraceLength")
_NODES = {"all_of": "AllOf", "any_of": "AnyOf", "at_least": "AtLeastN"}


class DeclarationError(ValueError):
    """A declaration that is no template: `path` leads to the place inside the mapping."""

    def __init__(self, what: str, *path: str | int, cure: str = "") -> None:
        super().__init__(f"{what}; {cure}" if cure else what)
        self.what = what
        self.path = path
        self.cure = cure


@dataclass
class _Writer:
    names: set[str] = field(default_factory=lambda: {"BaseAnswer", "VerifiedField"})
    dates: bool = False
    literal: bool = False


def make_template_source(fields: Mapping[str, Any], strategy: Any = None) -> str:
    """The source of the template with these fields, combined by `strategy` (all of them, where it is None).

    `type` is one of `TYPES` or `{literal: [...]}`; without it, it follows from `ground_truth` (a text of the form
    2001-12-31 is a date). `verify_with` is the name of a primitive or a mapping of its `type` and parameters; without
    it: ExactMatch for texts, NumericExact, BooleanMatch, DateMatch, LiteralMatch, and SetContainment for lists. A
    strategy is a field's name or `{all_of: [...]}`, `{any_of: [...]}`, `{at_least: {n: 2, of: [...]}}`, nested at will.
    Raises `DeclarationError`.
    """
    if not fields:
        raise DeclarationError("a template needs at least one field")
    writer = _Writer()
    body = [line for name, declared in fields.items() for line in _field(writer, name, declared)]
    if strategy is not None:
        tree = _strategy(writer, strategy, set(fields), ("strategy",))
        body += ["", "    class VerificationStrategy:", f"        verify_strategy = {tree}"]
    head = ["from datetime import date"] if writer.dates else []
    head += ["from typing import Literal"] if writer.literal else []
    # Names of plugins cannot be imported from there; the loader knows them, and names the nearest to a wrong one.
    head += [f"from karenina.templates import {', '.join(sorted(writer.names & set(templates.__all__)))}"]
    return "\n".join([*head, "", "", "class Answer(BaseAnswer):", *body]) + "\n"


def _field(writer: _Writer, name: str, declared: Any) -> Iterator[str]:
    _check_name("field", name, "answer", name)
    if name.startswith("_"):
        raise DeclarationError(f"the field {name!r} begins with an underscore", "answer", name, cure="rename it")
    if not isinstance(declared, Mapping):
        raise DeclarationError(f"the field {name!r} is no mapping of its properties", "answer", name)
    for key in declared:
        if key not in FIELD_KEYS:
            from difflib import get_close_matches

            near = get_close_matches(key, FIELD_KEYS, n=1)
            cure = f"did you mean {near[0]!r}?" if near else f"a field has {', '.join(FIELD_KEYS)}"
            raise DeclarationError(f"unknown key {key!r}", "answer", name, key, cure=cure)
    primitive = _primitive_name(declared.get("verify_with"), name)
    on_trace = primitive in _TRACE
    if not on_trace:
        for key in ("description", "ground_truth"):
            if declared.get(key) is None:
                raise DeclarationError(f"the field {name!r} has no {key!r}", "answer", name, cure="add it")
    truth = declared.get("ground_truth", True if on_trace else None)
    kind, annotation = _type(writer, declared.get("type"), truth, primitive, name)
    truth = _fitting(truth, kind, name)
    description = declared.get("description")
    if description is not None and not isinstance(description, str):
        description = str(description)
    arguments = [f"description={description or ''!r}", f"ground_truth={_literal(writer, truth, name, 'ground_truth')}"]
    arguments.append(f"verify_with={_verify_with(writer, declared.get('verify_with'), kind, name)}")
    if "weight" in declared:
        arguments.append(f"weight={_number(declared['weight'], name)}")
    hint = declared.get("extraction_hint")
    if hint is not None:
        arguments.append(f"extraction_hint={str(hint)!r}")
    yield f"    {name}: {annotation} = VerifiedField("
    yield from (f"        {argument}," for argument in arguments)
    yield "    )"


def _primitive_name(verify_with: Any, name: str) -> str | None:
    if isinstance(verify_with, Mapping):
        verify_with = verify_with.get("type")
        if verify_with is None:
            raise DeclarationError("verify_with has no `type`", "answer", name, "verify_with", cure="name a primitive")
    if verify_with is None:
        return None
    if not isinstance(verify_with, str):
        raise DeclarationError("verify_with is a primitive's name or a mapping", "answer", name, "verify_with")
    return verify_with


def _type(writer: _Writer, declared: Any, truth: Any, primitive: str | None, name: str) -> tuple[str, str]:
    if isinstance(declared, Mapping) and set(declared) == {"literal"} and isinstance(declared["literal"], list):
        writer.literal = True
        choices = [_literal(writer, choice, name, "type") for choice in declared["literal"]]
        if not choices or any(not isinstance(choice, str | int) for choice in declared["literal"]):
            raise DeclarationError("literal holds texts, whole numbers or booleans", "answer", name, "type")
        return "literal", f"Literal[{', '.join(choices)}]"
    if declared is None:
        declared = _inferred(truth, primitive, name)
    if declared not in TYPES:
        raise DeclarationError(
            f"{declared!r} is no type", "answer", name, "type", cure=f"use {', '.join(TYPES)} or {{literal: [...]}}"
        )
    if declared == "date":
        writer.dates = True
    return declared, declared


def _inferred(truth: Any, primitive: str | None, name: str) -> str:
    if isinstance(truth, bool):
        return "bool"
    if isinstance(truth, date):
        return "date"
    if isinstance(truth, str):
        is_date = _DATE.fullmatch(truth) and (primitive is None or primitive.startswith("Date"))
        return "date" if is_date else "str"
    if isinstance(truth, int | float):
        # A whole truth within a tolerance or a range says nothing of the answers: to 37, one may say 36.8, and a judge
        # that may write whole numbers only would round it.
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
        f"the type of {name!r} does not follow from its ground truth", "answer", name, cure="write a `type`"
    )


def _verify_with(writer: _Writer, declared: Any, kind: str, name: str) -> str:
    if declared is None:
        primitive = _PRIMITIVE_OF.get(kind)
        declared = primitive if primitive is not None else {"type": "SetContainment", "mode": "exact"}
    return _construction(writer, declared, ("answer", name, "verify_with"))


def _construction(writer: _Writer, declared: Any, path: tuple[str | int, ...]) -> str:
    """A call of a constructor: a primitive, or a normalizer such as SynonymMap."""
    if isinstance(declared, str):
        declared = {"type": declared}
    primitive = declared["type"]
    _check_name("primitive", primitive, *path)
    writer.names.add(primitive)
    arguments = []
    for parameter, value in declared.items():
        if parameter == "type":
            continue
        _check_name("parameter", parameter, *path, parameter)
        arguments.append(f"{parameter}={_argument(writer, value, (*path, parameter))}")
    return f"{primitive}({', '.join(arguments)})"


def _argument(writer: _Writer, value: Any, path: tuple[str | int, ...]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_argument(writer, entry, (*path, place)) for place, entry in enumerate(value))}]"
    if isinstance(value, Mapping) and isinstance(value.get("type"), str):
        return _construction(writer, value, path)
    return _literal(writer, value, *path[1:])


def _literal(writer: _Writer, value: Any, *path: str | int) -> str:
    match value:
        case None | bool() | int() | str():
            return repr(value)
        case float() if math.isfinite(value):
            return repr(value)
        case date():
            writer.dates = True
            return f"date({value.year}, {value.month}, {value.day})"
        case list():
            return f"[{', '.join(_literal(writer, entry, *path) for entry in value)}]"
        case Mapping():
            pairs = (f"{key!r}: {_literal(writer, entry, *path)}" for key, entry in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise DeclarationError(f"{value!r} cannot be written into a template", "answer", *path)


def _number(weight: Any, name: str) -> str:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        raise DeclarationError(f"the weight of {name!r} is no number", "answer", name, "weight")
    return repr(weight)


def _fitting(truth: Any, kind: str, name: str) -> Any:
    """The truth as a value of the field's type: a cell of a table is a text, whatever it says."""
    plain = isinstance(truth, str | int | float) and not isinstance(truth, bool)
    try:
        if kind == "str" and plain:
            return str(truth)
        if kind == "date" and isinstance(truth, str):
            return date.fromisoformat(truth)
        if kind == "bool" and isinstance(truth, str):
            return {"true": True, "false": False}[truth.strip().lower()]
        if kind == "float" and plain:
            return _float(truth)
        if kind == "int" and plain and not (isinstance(truth, float) and not truth.is_integer()):
            return int(truth)
    except (ValueError, KeyError, OverflowError):
        pass
    wanted = {"str": str, "date": date, "bool": bool, "float": float, "int": int}.get(kind, object)
    if kind.startswith("list"):
        wanted = list
    if not isinstance(truth, wanted) or (kind == "int" and isinstance(truth, bool)):
        cure = "write it as 2001-12-31" if kind == "date" else "correct it, or the `type`"
        raise DeclarationError(f"{truth!r} is no {kind}", "answer", name, "ground_truth", cure=cure)
    return truth


def _float(truth: str | float) -> float:
    """The truth of a float field; a whole number that no float holds stays a whole number."""
    whole = int(truth) if isinstance(truth, int) or (isinstance(truth, str) and _WHOLE.fullmatch(truth)) else None
    if whole is not None and abs(whole) > _HELD:
        return whole
    return float(truth)


def _strategy(writer: _Writer, node: Any, fields: set[str], path: tuple[str | int, ...]) -> str:
    if isinstance(node, str):
        if node not in fields:
            raise DeclarationError(
                f"the strategy names the field {node!r}, which is none",
                *path,
                cure=f"the fields are {', '.join(fields)}",
            )
        writer.names.add("FieldCheck")
        return f"FieldCheck({node!r})"
    if not isinstance(node, Mapping) or len(node) != 1 or next(iter(node)) not in _NODES:
        raise DeclarationError("a strategy is a field or one of all_of, any_of, at_least with its conditions", *path)
    kind, conditions = next(iter(node.items()))
    head = ""
    if kind == "at_least":
        n = conditions.get("n") if isinstance(conditions, Mapping) and set(conditions) == {"n", "of"} else None
        if isinstance(n, bool) or not isinstance(n, int):
            raise DeclarationError("at_least is written {n: 2, of: [...]}", *path, kind)
        head, conditions = f"n={n}, ", conditions["of"]
    if not isinstance(conditions, list) or not conditions:
        raise DeclarationError(f"{kind} has a list of conditions", *path, kind)
    writer.names.add(_NODES[kind])
    inner = [_strategy(writer, entry, fields, (*path, kind)) for entry in conditions]
    return f"{_NODES[kind]}({head}conditions=[{', '.join(inner)}])"


def _check_name(what: str, name: Any, *path: str | int) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise DeclarationError(
            f"{name!r} is no name for a {what}",
            *path,
            cure="use letters, digits and underscores, not beginning with a digit",
        )


def make_row_template(fields: Mapping[str, Any], strategy: Any, row: Mapping[str, Any]) -> str:
    """The source of a row's template: `{column: name}` in `fields` takes that column's value.

    A text from a column is a text where no `type` says otherwise, so the type of a field is the same in all rows.
    Raises `DeclarationError`, and `KeyError` for a column that the row has not.
    """
    filled: dict[str, Any] = {}
    for name, declared in fields.items():
        filled[name] = fill_columns(declared, row)
        from_column = isinstance(declared, Mapping) and isinstance(declared.get("ground_truth"), Mapping)
        if from_column and "type" not in declared and isinstance(filled[name].get("ground_truth"), str):
            filled[name] = {"type": "str", **filled[name]}
    return make_template_source(filled, strategy)


def fill_columns(declared: Any, row: Mapping[str, Any]) -> Any:
    """The declaration with every `{column: name}` replaced by that column's value. Raises `KeyError` of a column."""
    if isinstance(declared, Mapping):
        if set(declared) == {"column"} and isinstance(declared["column"], str):
            return row[declared["column"]]
        return {key: fill_columns(value, row) for key, value in declared.items()}
    if isinstance(declared, list):
        return [fill_columns(value, row) for value in declared]
    return declared
