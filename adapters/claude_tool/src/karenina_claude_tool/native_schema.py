"""Judge schemas in the form of `output_config.format`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = frozenset(
    ("type", "properties", "required", "items", "enum", "const", "anyOf", "allOf", "$ref", "$defs", "title")
) | {"description", "additionalProperties"}
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)
_DESCRIBED_LIMITS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("pattern", "format", "minItems", "maxItems", "uniqueItems"),
)


def native_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `schema` with the keywords that the API's grammar supports.

    Limits of lengths and numbers, which the API refuses, are written into the description; the core compares the reply
    with the whole schema. Defaults are left out, objects allow no other keys, `oneOf` becomes `anyOf`, and keywords
    beside a `$ref` are kept beside an `anyOf`.
    """
    kept = {key: value for key, value in schema.items() if key in _KEPT}
    if "oneOf" in schema:
        kept["anyOf"] = schema["oneOf"]
    if schema.get("format") in _FORMATS:
        kept["format"] = schema["format"]
    if schema.get("minItems") in (0, 1):
        kept["minItems"] = schema["minItems"]
    if "properties" in schema:
        kept["additionalProperties"] = False
    for key in ("properties", "$defs"):
        if key in kept:
            kept[key] = {name: native_schema(inner) for name, inner in kept[key].items()}
    for key in ("anyOf", "allOf"):
        if key in kept:
            kept[key] = [native_schema(inner) for inner in kept[key]]
    if isinstance(kept.get("items"), Mapping):
        kept["items"] = native_schema(kept["items"])
    limits = ", ".join(f"{key}: {schema[key]}" for key in _DESCRIBED_LIMITS if key in schema and key not in kept)
    if limits:
        kept["description"] = f"{schema.get('description', '')} ({limits})".strip()
    if kept.keys() - {"$ref", "$defs"} and "$ref" in kept:
        kept["anyOf"] = [{"$ref": kept.pop("$ref")}]
    return kept


def can_be_native(schema: Any) -> bool:
    """Return whether `native_schema` keeps the meaning.

    It cannot for objects with keys of any name, and for lists with a schema for each place.
    """
    if isinstance(schema, list):
        return all(map(can_be_native, schema))
    if not isinstance(schema, Mapping):
        return True
    if "prefixItems" in schema or (schema.get("type") == "object" and "properties" not in schema):
        return False
    if schema.get("additionalProperties", False) is not False:
        return False
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [schema.get(key) for key in ("anyOf", "oneOf", "allOf", "items")]
    return all(map(can_be_native, inner))


def schema_name(schema: Mapping[str, Any]) -> str:
    """Return a tool name that the API accepts, made of the schema's title."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", str(schema.get("title") or "")).strip("_")[:64] or "answer"
