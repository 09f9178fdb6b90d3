"""The JSON Schema for a judge, which contains only names, types and field descriptions of a template."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import VERIFICATION

REASONING_NAMES: Final = ("reasoning", "reason", "rationale", "explanation", "thinking", "evidence")
"""Names of fields that come first, also as endings after an underscore: judges that reason first decide better."""

_PLAIN: Final = frozenset(
    {"$ref", "type", "required", "enum", "const", "description", "format", "pattern", "minimum", "maximum"}
    | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"}
    | {"uniqueItems", "minProperties", "maxProperties"}
)
_ONE: Final = frozenset({"items", "additionalProperties", "propertyNames", "not"})
_MANY: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "$defs", "patternProperties"})

Json = dict[str, Any]


class _NoWarnings(GenerateJsonSchema):
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default", "skipped-discriminator"}


def judge_schema(cls: type[BaseModel], without: Collection[str]) -> Json:
    """Return the schema of `cls` for a judge, without the fields in `without`.

    It contains only keywords that constrain values, and the descriptions of fields: no titles, defaults, examples,
    docstrings and additions of `json_schema_extra`. Every property is required and may be null; objects have no further
    properties; fields for reasoning come first. Unused definitions are dropped.

    Raises `TemplateError` for an annotation that JSON Schema does not support, and for a `VerifiedField` in a nested
    model, which would not be verified.
    """
    try:
        raw = BaseModel.model_json_schema.__func__(cls, by_alias=False, schema_generator=_NoWarnings)  # type: ignore[attr-defined]  # not the override, which removes the verification data that is needed here
    except PydanticInvalidForJsonSchema as error:
        raise TemplateError(f"an annotation of {cls.__name__} has no JSON Schema: {error.message}") from error
    definitions: Json = raw.get("$defs", {})
    root: Json = definitions[raw["$ref"].rpartition("/")[2]] if "$ref" in raw else raw
    _refuse_nested_rules(definitions, cls)
    properties = {
        name: _nullable(_clean(part)) for name, part in root.get("properties", {}).items() if name not in without
    }
    schema = judge_object(properties)
    used = _reachable(schema["properties"], {name: _definition(part) for name, part in definitions.items()})
    return {**schema, "$defs": used} if used else schema


def judge_object(properties: Mapping[str, Json]) -> Json:
    """Return the schema for a judge of an object with these properties."""
    ordered = dict(sorted(properties.items(), key=lambda item: not is_reasoning(item[0])))
    return {
        "type": "object",
        "properties": ordered,
        "required": list(ordered),
        "additionalProperties": False,
    }


def judge_part(adapter: TypeAdapter[Any]) -> Json:
    """Return the part of `judge_schema` for a field of this type, which must not contain models and enumerations.

    Raises `PydanticInvalidForJsonSchema` for a type that JSON Schema does not support.
    """
    return _nullable(_clean(adapter.json_schema(by_alias=False, schema_generator=_NoWarnings)))


def is_reasoning(name: str) -> bool:
    """Return whether a field of this name contains reasoning rather than a value."""
    return name.lower().rpartition("_")[2] in REASONING_NAMES


def with_description(part: Json, text: str) -> Json:
    """Return `part` with the description `text`, at the same position among the sorted keys as pydantic's."""
    before = {key: value for key, value in part.items() if key < "description"}
    after = {key: value for key, value in part.items() if key > "description"}
    return {**before, "description": text, **after}


def _definition(part: Json) -> Json:
    cleaned: Json = _clean(part)
    cleaned.pop("description", None)  # a docstring, with the author's own notes
    return cleaned


def _clean(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    found: Json = {}
    for key, value in part.items():
        if key in _PLAIN:
            found[key] = value
        elif key in _ONE:
            found[key] = _clean(value)
        elif key in _MANY:
            found[key] = [_clean(item) for item in value]
        elif key in _NAMED:
            found[key] = {name: _clean(item) for name, item in value.items()}
    if "properties" in found:
        found["required"] = list(found["properties"])
        found["additionalProperties"] = False
    return found


def _nullable(part: Json) -> Json:
    if _allows_null(part):
        return part
    description = {"description": part["description"]} if "description" in part else {}
    inner = {key: value for key, value in part.items() if key != "description"}
    return {"anyOf": [inner, {"type": "null"}], **description}


def _allows_null(part: Json) -> bool:
    kind = part.get("type")
    if not (part.keys() - {"description"}) or kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    return any(_allows_null(option) for key in ("anyOf", "oneOf") for option in part.get(key, ()))


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            elif key not in ("enum", "const"):
                yield from _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


def _reachable(part: Json, definitions: Mapping[str, Json]) -> Json:
    found: Json = {}
    waiting = list(_references(part))
    while waiting:
        name = waiting.pop(0)
        if name in definitions and name not in found:
            found[name] = definitions[name]
            waiting.extend(_references(found[name]))
    return found


def _refuse_nested_rules(definitions: Json, cls: type[BaseModel]) -> None:
    for model, definition in definitions.items():
        if model == cls.__name__:
            continue
        for name, part in definition.get("properties", {}).items():
            if VERIFICATION in part:
                raise TemplateError(
                    f"field {name!r} of the nested model {model} is a VerifiedField, but only a template's own "
                    f"fields can be: use Field(description=...) there, and verify the field that holds the {model}"
                )
