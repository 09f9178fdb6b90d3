"""The class shared by templates that differ only in their ground truths.

Building a pydantic class takes longer than everything else for a question, so it is done only once for each shape.
"""

from __future__ import annotations

import enum
import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, Optional, Union

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from karenina_template.templates.base import OWN_FIELDS, BaseAnswer
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import CLASS_BUILD_LOCK, TruthCoercer
from karenina_template.templates.shapes.declaration import (
    NO_DEFAULT,
    Annotation,
    Declaration,
    EnumDeclaration,
    FieldDeclaration,
    ModelDeclaration,
)
from karenina_template.templates.shapes.open_fields import Opener, create_class
from karenina_template.templates.shapes.schema import Unshown, judge_object, judge_part, judge_schema, with_description

_CACHE_SIZE: Final = 1024
_shapes: OrderedDict[Hashable, Shape] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Shape:
    """The data that templates with the same class share.

    `answer_class` has no ground truths, and all of its fields may be None. `judge_fields` are the fields for a judge to
    fill, in the order of the schema. `schema_json` is the judge's schema. Declared templates have their own
    descriptions, which are not included here. `unshown` contains the constraints that are omitted from the schema and
    the class because they can give a ground truth away.
    """

    answer_class: type[BaseAnswer]
    judge_fields: tuple[str, ...]
    schema_json: str
    coercer: TruthCoercer
    unshown: Unshown = field(default_factory=dict)


def get_shape(key: Hashable, build: Callable[[], Shape]) -> Shape:
    """Return the shape for `key`, building it if it is not in the cache. The cache holds 1,024 shapes."""
    with CLASS_BUILD_LOCK:
        shape = _shapes.get(key)
        if shape is None:
            shape = _shapes[key] = build()
            if len(_shapes) > _CACHE_SIZE:
                _shapes.popitem(last=False)
        else:
            _shapes.move_to_end(key)
        return shape


def shape_of_declaration(declaration: Declaration) -> Shape:
    """Return the shape of a declared template. Templates with equal keys share one shape. Raises `TemplateError` if the
    class or schema cannot be built.
    """
    return get_shape(("declared", declaration.shape()), lambda: _build(declaration))


def shape_of_class(cls: type[BaseAnswer]) -> Shape:
    """Return the shape of a class, which is built once and stored on the class. The shape's `answer_class` is a
    subclass whose fields may be None and lack the constraints that are not shown to a judge. Raises `TemplateError` if
    the class is invalid.
    """
    own = cls.__dict__.get("__shape__")
    if isinstance(own, Shape):
        return own
    with CLASS_BUILD_LOCK:
        key = cls.answer_key()
        nullable = _nullable(cls)
        unjudged = OWN_FIELDS.union(name for name, rule in key.rules.items() if not rule.is_judged)
        schema, unshown = judge_schema(nullable, unjudged)
        opener = Opener()
        if changed := opener.changed(nullable.model_fields):
            nullable = _nullable(cls, opener)
        names, coercer = tuple(schema["properties"]), TruthCoercer(cls.model_fields)
        shape = Shape(nullable, names, json.dumps(schema), coercer, _with_others(unshown, changed))
        cls.__shape__ = shape  # type: ignore[attr-defined]  # on the class, so that both are freed together
    return shape


def _nullable(cls: type[BaseAnswer], opener: Opener | None = None) -> type[BaseAnswer]:
    """Return a subclass of `cls` whose fields may be None. If an `opener` is given, the types lose the constraints that
    are not shown to a judge.
    """
    fields: dict[str, Any] = {}
    for name, info in cls.model_fields.items():
        if name in OWN_FIELDS and not info.is_required():
            continue
        annotation: Any = info.annotation
        for item in info.metadata:
            annotation = Annotated[annotation, item]
        if opener is not None:
            opened = opener.annotated(info.annotation, info.metadata, info.json_schema_extra)
            annotation = annotation if opened is None else opened
        if info.discriminator is not None:
            annotation = Annotated[annotation, Field(discriminator=info.discriminator)]
        fields[name] = (
            Optional[annotation],  # noqa: UP045 - as below
            Field(
                default=None,
                description=info.description,
                exclude=info.exclude,
                repr=info.repr,
                frozen=info.frozen,
                json_schema_extra=info.json_schema_extra,
            ),
        )
    created: type[BaseAnswer] = create_class(cls.__name__, cls, fields, cls.__module__, cls.__doc__)
    return created


def _build(declaration: Declaration) -> Shape:
    """Return the shape of a declared template: its answer class, the judge's schema, and what converts ground truths.
    Nothing is executed. Raises `TemplateError` if the class or its schema cannot be built.
    """
    answer_class = _model(declaration.answer, declaration, {})
    fields = declaration.answer.fields
    plain = {name: field_shape for name, item in fields.items() if (field_shape := _plain_of_field(item)) is not None}
    judged = {name for name, item in fields.items() if item.is_judged}
    if judged <= plain.keys():
        schema = judge_object({name: json.loads(part.schema_json) for name, part in plain.items() if name in judged})
        unshown: Unshown = {name: plain[name].unshown for name in sorted(judged) if plain[name].unshown}
    else:
        schema, unshown = judge_schema(answer_class, OWN_FIELDS.union(fields.keys() - judged))
    parts = schema["properties"]
    parts.update({name: with_description(parts[name], "") for name in declaration.descriptions() if name in parts})
    coercer = TruthCoercer(answer_class.model_fields, {name: part.adapter for name, part in plain.items()})
    opener = Opener()
    if changed := opener.changed(answer_class.model_fields):
        answer_class = _model(declaration.answer, declaration, {}, opener)
    return Shape(answer_class, tuple(parts), json.dumps(schema), coercer, _with_others(unshown, changed))


def _with_others(unshown: Unshown, changed: Sequence[str]) -> Unshown:
    """Add changed fields to `unshown` if JSON Schema cannot express their constraints, such as date bounds."""
    others = {name: ("bounds that leave a single value",) for name in changed if name not in unshown}
    return {**unshown, **others} if others else unshown


class _Plain(NamedTuple):
    """The type adapter and schema for an annotation, shared by all shapes."""

    adapter: TypeAdapter[Any]
    schema_json: str
    unshown: tuple[str, ...]


def _plain_of_field(item: FieldDeclaration) -> _Plain | None:
    """Return the adapter and schema for a field, or None if they cannot be shared. They cannot be shared if the field
    has constraints or uses classes from its source, or if JSON Schema does not support its type.
    """
    return None if item.constraints or item.annotation.classes() else _plain(item.annotation)


@lru_cache(maxsize=_CACHE_SIZE)
def _plain(annotation: Annotation) -> _Plain | None:
    """Return the type adapter of an optional `annotation`, its schema, and the constraints that the judge is not shown.
    The result is None if JSON Schema does not support the annotation.
    """
    nullable: Any = Optional[_simple_type(annotation)]  # noqa: UP045 - as below
    adapter: TypeAdapter[Any] = TypeAdapter(nullable)
    try:
        part, unshown = judge_part(adapter)
    except PydanticInvalidForJsonSchema:
        return None  # building the schema of the whole class raises the error
    return _Plain(adapter, json.dumps(part), unshown)


def _model(
    declared: ModelDeclaration, declaration: Declaration, built: dict[str, Any], opener: Opener | None = None
) -> Any:
    """Return the class of a declared model, and add the classes of the source that it needs to `built`. All fields of
    the answer may be None. If an `opener` is given, their types lose the constraints that are not shown to a judge.
    """
    is_root = declared is declaration.answer
    fields: dict[str, Any] = {}
    for item in declared.fields.values():
        annotation = _type(item.annotation, declaration, built)
        settings: dict[str, Any] = dict(item.constraints)
        if is_root:
            constrained = Annotated[annotation, Field(**settings)] if settings else annotation
            if opener is not None:
                constrained = opener.open(constrained)
            fields[item.name] = (
                Optional[constrained],  # noqa: UP045 - `|` fails for annotations that are not classes
                Field(default=None),
            )
            continue
        if item.default is not NO_DEFAULT:
            settings["default"] = item.default
        fields[item.name] = (annotation, Field(description=item.description, **settings))
    return create_class(declared.name, BaseAnswer if is_root else BaseModel, fields)


def _class(name: str, declaration: Declaration, built: dict[str, Any]) -> Any:
    """Return the class or enum called `name` in the source, building it and storing it in `built` on the first call."""
    if name not in built:
        declared = declaration.classes[name]
        if isinstance(declared, ModelDeclaration):
            built[name] = _model(declared, declaration, built)
        else:
            built[name] = _enum(declared)
    return built[name]


def _enum(declared: EnumDeclaration) -> Any:
    """Return the enum class of a declaration. Raises `TemplateError` if Python rejects it."""
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
        raise TemplateError(
            f"the enumeration {declared.name} cannot be created: {error}", line=declared.line
        ) from error


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
    """Return the type of an annotation. The classes it uses are stored in `built`."""
    return _make_type(annotation, lambda name: _class(name, declaration, built))


def _simple_type(annotation: Annotation) -> Any:
    """Return the type of an annotation that uses no classes from its source."""
    return _make_type(annotation, _no_class)


def _no_class(name: str) -> Any:
    raise AssertionError(f"{name} is a class from the source, not a built-in type")


def _make_type(annotation: Annotation, class_of: Callable[[str], Any]) -> Any:
    """Return the type of an annotation. `class_of` returns the class for a name in the source."""
    if annotation.kind in _SIMPLE:
        return _SIMPLE[annotation.kind]
    if annotation.kind == "class":
        return class_of(annotation.name)
    if annotation.kind == "literal":
        return Literal[tuple(value for _, value in annotation.values)]
    parts = tuple(_make_type(part, class_of) for part in annotation.parts)
    if annotation.kind == "union":
        return Union[parts]  # noqa: UP007 - made from a tuple
    container = _CONTAINERS[annotation.kind]
    return container[parts] if parts else container
