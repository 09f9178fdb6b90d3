"""`Shape`: the class that all templates share which differ only in what is right, and what is made from it once.

Building a pydantic class costs more than all else that is done for a question, so it is done once a shape.
"""

from __future__ import annotations

import enum
import json
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Optional, Union

from pydantic import BaseModel, Field, PydanticUserError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError

from karenina_core.templates.annotation import Annotation
from karenina_core.templates.base import OWN_FIELDS, BaseAnswer
from karenina_core.templates.building import BUILDING
from karenina_core.templates.declaration import NO_DEFAULT, Declaration, EnumDeclaration, ModelDeclaration
from karenina_core.templates.errors import TemplateError
from karenina_core.templates.field import Truths
from karenina_core.templates.schema import judge_schema, with_description

_KEPT: Final = 1024
_shapes: OrderedDict[Hashable, Shape] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Shape:
    """What templates of one shape share.

    `answer_class` has no truths, and every field of it may be None. `judge_fields` are the fields that a judge fills,
    in the order of its schema; `schema_json` is that schema as text. What is declared in a source leaves the
    descriptions of the answer's own fields to each template: they are empty in the schema, and the class has none.
    """

    answer_class: type[BaseAnswer]
    judge_fields: tuple[str, ...]
    schema_json: str
    truths: Truths


def shared(key: Hashable, build: Callable[[], Shape]) -> Shape:
    """The shape kept under `key`, built first where it is new. The least recently used beyond 1,024 are let go."""
    with BUILDING:
        known = _shapes.get(key)
        if known is None:
            known = _shapes[key] = build()
            if len(_shapes) > _KEPT:
                _shapes.popitem(last=False)
        else:
            _shapes.move_to_end(key)
        return known


def shape_of_declaration(declaration: Declaration) -> Shape:
    """The shape that `declaration` has, shared with all templates that have it too. Raises `TemplateError`."""
    return shared(("declared", declaration.shape()), lambda: _build(declaration))


def shape_of_class(cls: type[BaseAnswer]) -> Shape:
    """The shape of a class that is there already: a subclass of it whose fields may be None. Raises `TemplateError`."""
    own = cls.__dict__.get("__shape__")
    if isinstance(own, Shape):
        return own
    with BUILDING:
        key = cls.answer_key()
        shape = _shape(_nullable(cls), {name for name, rule in key.rules.items() if rule.reads_trace}, cls.model_fields)
        cls.__shape__ = shape  # type: ignore[attr-defined]  # kept on the class so that it goes when the class goes
    return shape


def _shape(
    answer_class: type[BaseAnswer], trace: set[str], fields: Mapping[str, FieldInfo], described: Iterable[str] = ()
) -> Shape:
    schema = judge_schema(answer_class, trace | OWN_FIELDS)
    parts = schema["properties"]
    parts.update({name: with_description(parts[name], "") for name in described if name in parts})
    return Shape(answer_class, tuple(schema["properties"]), json.dumps(schema), Truths(dict(fields)))


def _nullable(cls: type[BaseAnswer]) -> type[BaseAnswer]:
    fields: dict[str, Any] = {}
    for name, info in cls.model_fields.items():
        if name in OWN_FIELDS and not info.is_required():
            continue
        annotation: Any = info.annotation
        for item in info.metadata:
            annotation = Annotated[annotation, item]
        if info.discriminator is not None:
            annotation = Annotated[annotation, Field(discriminator=info.discriminator)]
        fields[name] = (
            Optional[annotation],  # noqa: UP045 - `|` fails for annotations that are no classes
            Field(
                default=None,
                description=info.description,
                exclude=info.exclude,
                repr=info.repr,
                frozen=info.frozen,
                json_schema_extra=info.json_schema_extra,
            ),
        )
    created: type[BaseAnswer] = _created(cls.__name__, cls, fields, cls.__module__, cls.__doc__)
    return created


def _created(
    name: str, base: type[BaseModel], fields: dict[str, Any], module: str = __name__, doc: str | None = None
) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a field may be named as one of pydantic's own methods
            return create_model(name, __base__=base, __module__=module, __doc__=doc, **fields)
    except (PydanticUserError, SchemaError, AttributeError, NameError, TypeError, ValueError) as error:
        raise TemplateError(f"the class {name} cannot be built: {error}") from error


def _build(declaration: Declaration) -> Shape:
    built: dict[str, Any] = {}
    answer_class = _model(declaration.answer, declaration, built)
    trace = {item.name for item in declaration.answer.fields.values() if item.is_trace}
    return _shape(answer_class, trace, answer_class.model_fields, declaration.descriptions())


def _model(declared: ModelDeclaration, declaration: Declaration, built: dict[str, Any]) -> Any:
    is_root = declared is declaration.answer
    fields: dict[str, Any] = {}
    for item in declared.fields.values():
        annotation = _type(item.annotation, declaration, built)
        settings: dict[str, Any] = dict(item.constraints)
        if is_root:
            constrained = Annotated[annotation, Field(**settings)] if settings else annotation
            fields[item.name] = (
                Optional[constrained],  # noqa: UP045 - as above
                Field(default=None),
            )
            continue
        if item.default is not NO_DEFAULT:
            settings["default"] = item.default
        fields[item.name] = (annotation, Field(description=item.description, **settings))
    return _created(declared.name, BaseAnswer if is_root else BaseModel, fields)


def _class(name: str, declaration: Declaration, built: dict[str, Any]) -> Any:
    if name not in built:
        declared = declaration.classes[name]
        if isinstance(declared, ModelDeclaration):
            built[name] = _model(declared, declaration, built)
        else:
            built[name] = _enum(declared)
    return built[name]


def _enum(declared: EnumDeclaration) -> Any:
    members = list(declared.members)
    try:
        match declared.base:
            case "StrEnum":
                return enum.StrEnum(declared.name, members)
            case "IntEnum":
                return enum.IntEnum(declared.name, members)
            case "str":
                return enum.Enum(declared.name, members, type=str)
            case "int":
                return enum.Enum(declared.name, members, type=int)
            case _:
                return enum.Enum(declared.name, members)
    except (TypeError, ValueError) as error:
        raise TemplateError(f"the enumeration {declared.name} cannot be built: {error}", line=declared.line) from error


_SIMPLE: Final[dict[str, Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "date": date,
    "datetime": datetime,
    "time": time,
    "timedelta": timedelta,
    "Decimal": Decimal,
    "Any": Any,
    "object": Any,
    "None": None,
    "...": ...,
}
_CONTAINERS: Final[dict[str, Any]] = {"list": list, "dict": dict, "set": set, "frozenset": frozenset, "tuple": tuple}


def _type(annotation: Annotation, declaration: Declaration, built: dict[str, Any]) -> Any:
    if annotation.kind in _SIMPLE:
        return _SIMPLE[annotation.kind]
    if annotation.kind == "class":
        return _class(annotation.name, declaration, built)
    if annotation.kind == "literal":
        return Literal[tuple(value for _, value in annotation.values)]
    parts = tuple(_type(part, declaration, built) for part in annotation.parts)
    if annotation.kind == "union":
        return Union[parts]  # noqa: UP007 - made from a tuple
    container = _CONTAINERS[annotation.kind]
    return container[parts] if parts else container
