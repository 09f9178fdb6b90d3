"""Bounds for constrained decoding, without which small models fill a list or a text until max_tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ONE: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_MANY: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties")
_SETTLED: Final = ("const", "enum", "pattern", "format", "maxLength")


def limit_schema(schema: Mapping[str, Any], *, max_items: int, max_length: int) -> dict[str, Any]:
    """Return a copy of the JSON Schema `schema` in which every list has `maxItems` and every text has `maxLength`.

    Bounds in the schema are kept, and so are texts with `enum`, `const`, `pattern` or `format`. The bound of a list is
    at least its `minItems`, and that of a text at least its `minLength`. Descriptions, defaults and other values that
    are not schemas are not changed.
    """
    limited = dict(schema)
    for key in _ONE:
        if isinstance(limited.get(key), Mapping):
            limited[key] = limit_schema(limited[key], max_items=max_items, max_length=max_length)
    for key in _MANY:
        if isinstance(limited.get(key), list):
            limited[key] = [
                limit_schema(one, max_items=max_items, max_length=max_length) if isinstance(one, Mapping) else one
                for one in limited[key]
            ]
    for key in _NAMED:
        if isinstance(limited.get(key), Mapping):
            limited[key] = {
                name: limit_schema(one, max_items=max_items, max_length=max_length) if isinstance(one, Mapping) else one
                for name, one in limited[key].items()
            }
    types = _schema_types(limited)
    if "array" in types and "maxItems" not in limited:
        limited["maxItems"] = max(max_items, limited.get("minItems", 0))
    if "string" in types and not any(key in limited for key in _SETTLED):
        limited["maxLength"] = max(max_length, limited.get("minLength", 0))
    return limited


def _schema_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    found = schema.get("type", ())
    return (found,) if isinstance(found, str) else tuple(found)
