"""Example values for JSON schemas, used as placeholder replies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_MAX_LENGTH: Final = 120
_MAX_DEPTH: Final = 12
_TEXTS: Final[Mapping[str, str]] = {
    "date": "2000-01-01",
    "time": "00:00:00",
    "date-time": "2000-01-01T00:00:00",
    "duration": "PT1H",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "https://example.org/",
    "email": "nobody@example.org",
}


def example_for_schema(schema: Schema, words: str, *, yes: bool = True) -> str:
    """Return a JSON text that is valid under `schema`.

    Strings are the beginning of `words`, so that a quotation of them is found in the answer; booleans are `yes`; a list
    has one item, or as many as it must have.
    """
    return json.dumps(_value(schema, schema, words.strip(), yes, 0), ensure_ascii=False)


def _value(part: Schema, root: Schema, words: str, yes: bool, depth: int) -> Any:
    part = _resolve(part, root)
    if depth > _MAX_DEPTH:
        return None
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return next((value for value in part["enum"] if value is not None), None)
    for key in ("anyOf", "oneOf"):
        if key in part:
            options = [option for option in part[key] if _resolve(option, root).get("type") != "null"]
            return _value(options[0], root, words, yes, depth + 1) if options else None
    if part.get("allOf"):
        merged: dict[str, Any] = {}
        for piece in part["allOf"]:
            merged.update(_resolve(piece, root))
        return _value(merged, root, words, yes, depth + 1)
    kinds = part.get("type", "object" if "properties" in part else None)
    kind = next((one for one in kinds if one != "null"), "null") if isinstance(kinds, list) else kinds
    match kind:
        case "object":
            inner = part.get("properties", {})
            return {name: _value(one, root, words, yes, depth + 1) for name, one in inner.items()}
        case "array":
            length = max(part.get("minItems", 0), min(1, part.get("maxItems", 1)))
            return [_value(part.get("items", {}), root, words, yes, depth + 1) for _ in range(length)]
        case "boolean":
            return yes
        case "integer":
            return int(_number(part))
        case "number":
            return _number(part)
        case "string":
            return _text(part, words)
        case _:
            return None


def _number(part: Schema) -> float:
    least: float = part.get("minimum", part.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in part))
    most: float = part.get("maximum", part.get("exclusiveMaximum", least + 1) - ("exclusiveMaximum" in part))
    return min(max(1, least), max(most, least))


def _text(part: Schema, words: str) -> str:
    if part.get("format") in _TEXTS:
        return _TEXTS[part["format"]]
    text = words[: min(_MAX_LENGTH, part.get("maxLength", _MAX_LENGTH))] or "-"
    return text.ljust(part.get("minLength", 0), "-")


def _resolve(part: Schema, root: Schema) -> Schema:
    found: Any = part
    for _ in range(_MAX_DEPTH):
        if "$ref" not in found:
            return dict(found)
        place: Any = root
        for step in str(found["$ref"]).removeprefix("#/").split("/"):
            place = place.get(step, {}) if isinstance(place, Mapping) else {}
        found = {**place, **{key: value for key, value in found.items() if key != "$ref"}}
    return {}
