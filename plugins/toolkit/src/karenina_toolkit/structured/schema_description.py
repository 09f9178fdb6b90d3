"""Descriptions of a JSON Schema for a judge's prompt: one line for each field.

Servers that constrain a reply by a schema do not always show the schema to the model, and small models follow a list
better than a schema, so prompts contain one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

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
    """Return one line for each field of an object's JSON Schema: name, description, type, and its hint, if any."""
    lines = []
    for name, part in schema.get("properties", {}).items():
        description = " ".join(str(part.get("description", "")).split())
        hint = " ".join((hints or {}).get(name, "").split())
        line = f"{name}: {description}" if description else name
        lines.append(f"- {line} ({describe_type(part, schema)})" + (f" Hint: {hint}" if hint else ""))
    return "\n".join(["Fields:", *lines])


def describe_type(part: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> str:
    """Return in words which values match a part of a JSON Schema: `list of text or null`, `one of "a", "b"`."""
    if depth > _DEEPEST:
        return "..."
    if "$ref" in part:
        found: Any = root
        for step in str(part["$ref"]).removeprefix("#/").split("/"):
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        return describe_type(found, root, depth + 1)
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
        return _text(part["format"])
    if kinds == "array" and "items" in part:
        return f"list of {describe_type(part['items'], root, depth + 1)}"
    if kinds == "object" and part.get("properties"):
        inner = ", ".join(f"{name}: {describe_type(one, root, depth + 1)}" for name, one in part["properties"].items())
        return f"object with {inner}"
    return _WORDS.get(str(kinds), str(kinds))


def _text(format: str) -> str:
    return {"date": "date as YYYY-MM-DD", "date-time": "date and time as in ISO 8601"}.get(format, f"text, {format}")
