"""Two forms of a judge's schema: OpenAI's strict mode, and a list of fields for the prompt.

The list is needed because servers that enforce a schema do not always show it to the model, and because small models
follow a list more closely than a schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import SplitResult

from pydantic_core import PydanticSerializationError, from_json, to_json

_UNKNOWN_TO_OPENAI = ("minLength", "maxLength")
_HOLDING = frozenset({"properties", "$defs", "anyOf", "oneOf", "allOf", "prefixItems", "items"})
_CHANGED = _HOLDING | {"default", "$ref", *_UNKNOWN_TO_OPENAI}


def is_official(url: SplitResult) -> bool:
    """Return whether `url` is OpenAI's own service, which requires a key and strict schemas."""
    return url.hostname == "api.openai.com"


def strict_schema(schema: Mapping[str, Any], *, official: bool) -> tuple[dict[str, Any], bool]:
    """Convert `schema` to the form that strict mode, of OpenAI's `official` service or another server, requires, and
    return it with True. If `schema` has an optional key or an open map, which cannot be strict, return an unconverted
    copy with False. Do not modify the result, because other calls may share it.

    Strict mode requires all keys and forbids any others. It supports `anyOf` but not `oneOf`, forbids keywords next to
    a `$ref`, and has no defaults. OpenAI's own service (`official`) also forbids limits on string length. They are kept
    for other servers, because they keep the replies of small models short.
    """
    try:
        text = to_json(schema)
    except PydanticSerializationError:  # half of a surrogate pair, or a mapping of another kind
        return _strict_form(schema, official)
    return _cached_form(text, official)


@lru_cache(maxsize=64)
def _cached_form(text: bytes, official: bool) -> tuple[dict[str, Any], bool]:
    """Return `_strict_form` for a schema given as JSON. The result is shared and must not be modified."""
    return _strict_form(from_json(text), official)


def _strict_form(schema: Mapping[str, Any], official: bool) -> tuple[dict[str, Any], bool]:
    """Return the strict form of `schema` and True, or a copy and False if it cannot be strict. `official` is explained
    in `strict_schema`.
    """
    if not _can_be_strict(schema):
        return dict(schema), False
    return _adapt(schema, official), True


def schema_name(schema: Mapping[str, Any]) -> str:
    """Return a name for the schema that servers accept: its title, cut to 64 characters, or `answer`. Anything but
    ASCII letters, digits, `_` and `-` is replaced with `_`.
    """
    title = schema.get("title")
    return (title and re.sub(r"[^A-Za-z0-9_-]+", "_", str(title)).strip("_")[:64]) or "answer"


def _can_be_strict(schema: Any) -> bool:
    """Return whether `schema` can be expressed in strict mode. All keys must be required. There must be no open maps
    and no `allOf` with several schemas.
    """
    if not isinstance(schema, (dict, Mapping)):  # the check for dict is fast, and nearly all are
        return True
    if schema.keys().isdisjoint(_HOLDING):
        return schema.get("type") != "object"
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties")
        if not isinstance(properties, (dict, Mapping)) or set(schema.get("required", ())) != set(properties):
            return False
        if schema.get("additionalProperties", False) is not False:
            return False
    if "allOf" in schema and len(schema["allOf"]) > 1:
        return False
    return all(_can_be_strict(inner) for inner in _subschemas(schema))


def _subschemas(schema: Mapping[str, Any]) -> list[Any]:
    """Return the direct subschemas of `schema`. Invalid ones may not be mappings."""
    subschemas: list[Any] = []
    for key in ("properties", "$defs"):
        subschemas += schema.get(key, {}).values()
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        subschemas += schema.get(key, ())
    subschemas.append(schema.get("items"))
    return subschemas


def _adapt(schema: Mapping[str, Any], official: bool) -> dict[str, Any]:
    """Return the strict form of a schema that can be strict. With `official`, limits on string length, which OpenAI's
    own service forbids, are removed.
    """
    if schema.keys().isdisjoint(_CHANGED):
        return dict(schema)
    adapted: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "default" or (official and key in _UNKNOWN_TO_OPENAI):
            continue
        if key in ("properties", "$defs"):
            adapted[key] = {name: _adapt(inner, official) for name, inner in value.items()}
        elif key in ("anyOf", "oneOf", "allOf"):
            adapted["anyOf"] = [_adapt(inner, official) for inner in value]
        elif key == "items" and isinstance(value, Mapping):
            adapted[key] = _adapt(value, official)
        else:
            adapted[key] = value
    if "properties" in adapted:
        adapted["additionalProperties"] = False
    if "$ref" in adapted and len(adapted) > 1:
        adapted["anyOf"] = [{"$ref": adapted.pop("$ref")}]
    return adapted


_WORDS: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "object": "object",
    "array": "list",
}
_DEEPEST: Final = 4


def describe_fields(schema: Mapping[str, Any], hints: Mapping[str, str] | None = None) -> str:
    """Return the heading `Fields:` and a line for each field of an object's JSON Schema with its description, type and
    hint. `hints` contains hints keyed by field name.
    """
    try:
        text = None if hints else to_json(schema)
    except PydanticSerializationError:  # half of a surrogate pair, or a mapping of another kind
        text = None
    return _describe_fields(schema, hints or {}) if text is None else _cached_description(text)


@lru_cache(maxsize=64)
def _cached_description(text: bytes) -> str:
    """Return `describe_fields` for a schema given as JSON, without hints. Questions with one template share it."""
    return _describe_fields(from_json(text), {})


def _describe_fields(schema: Mapping[str, Any], hints: Mapping[str, str]) -> str:
    """Return the heading and the lines of `describe_fields`."""
    lines = []
    for name, part in schema.get("properties", {}).items():
        description = " ".join(str(part.get("description", "")).split())
        hint = " ".join(hints.get(name, "").split())
        line = f"{name}: {description}" if description else name
        lines.append(f"- {line} ({describe_type(part, schema)})" + (f" Hint: {hint}" if hint else ""))
    return "\n".join(["Fields:", *lines])


def find_reference(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of the schema `root` to which a local reference leads, such as `#/$defs/Answer`. If it leads
    to nothing or to `true` or `false`, return an empty schema.
    """
    target: Any = root
    for step in filter(None, reference.lstrip("#/").split("/")):
        if isinstance(target, list):
            target = next((entry for place, entry in enumerate(target) if str(place) == step), {})
        else:
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
    return target if isinstance(target, Mapping) else {}


def describe_type(part: Mapping[str, Any] | bool, root: Mapping[str, Any], depth: int = 0) -> str:
    """Return a description of the values that match part of a JSON Schema, such as `list of text or null` or `one of
    "a", "b"`, with references resolved in `root`. Anything nested more than four levels deep, counted from `depth`, is
    shown as `...`.

    `depth` is the current nesting level. Anything nested more than four levels deep is shown as `...`.
    """
    if depth > _DEEPEST:
        return "..."
    if isinstance(part, bool):
        return "any value"
    if "$ref" in part:
        return describe_type(find_reference(str(part["$ref"]), root), root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if key in part:
            return " or ".join(dict.fromkeys(describe_type(option, root, depth) for option in part[key]))
    if "const" in part:
        return json.dumps(part["const"], ensure_ascii=False)
    if "enum" in part:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in part["enum"])
    kinds = part.get("type", "object" if "properties" in part else None)
    if kinds is None:
        return "any value"
    if isinstance(kinds, list):
        return " or ".join(describe_type({**part, "type": kind}, root, depth) for kind in kinds)
    if kinds == "string" and "format" in part:
        return _describe_format(part["format"])
    if kinds == "array" and "items" in part:
        return f"list of {describe_type(part['items'], root, depth + 1)}"
    if kinds == "object" and part.get("properties"):
        inner = ", ".join(
            f"{name}: {describe_type(schema, root, depth + 1)}" for name, schema in part["properties"].items()
        )
        return f"object with {inner}"
    return _WORDS.get(str(kinds), str(kinds))


def _describe_format(format: str) -> str:
    """Describe a JSON Schema string `format` in words."""
    return {"date": "date as YYYY-MM-DD", "date-time": "date and time as in ISO 8601"}.get(format, f"text, {format}")
