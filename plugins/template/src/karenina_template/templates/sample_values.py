"""Sample values for the fields of a template, made from its schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = Mapping[str, Any]

_TEXTS: Final = ("text", "2", "2000-01-02", "BCL2", "")
_NUMBERS: Final = (1, 0, 2000, 37, -1)
_LENGTHS: Final = (1, 2, 3, 0, 1)
_FORMATS: Final = {
    "date": "2000-01-0{n}",
    "date-time": "2000-01-0{n}T00:00:00",
    "time": "00:00:0{n}",
    "duration": "PT{n}H",
    "uuid": "00000000-0000-4000-8000-00000000000{n}",
}
_DEEPEST: Final = 12


def make_samples(schema: Json) -> Iterator[dict[str, Any]]:
    """Yield samples with values for all fields of a judge's `schema`, which may violate constraints."""
    for turn in range(len(_TEXTS)):
        yield {name: _value(part, schema, turn, 0) for name, part in schema["properties"].items()}


def is_open(schema: Json) -> bool:
    """Return whether `schema` has objects with arbitrary keys or values of any type, which samples do not cover."""
    parts = [*schema["properties"].values(), *schema.get("$defs", {}).values()]
    return any(_is_open(part, schema) for part in parts)


def _is_open(part: Json, root: Json) -> bool:
    part = _resolved(part, root)
    if "enum" in part or "const" in part:
        return False
    inner = [*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("allOf", ()), *part.get("prefixItems", ())]
    if not inner and "type" not in part and "$ref" not in part:
        return True
    if part.get("type") == "object" and part.get("additionalProperties", True) is not False:
        return True
    return any(_is_open(one, root) for one in [*inner, *_items(part)] if "$ref" not in one)


def _items(part: Json) -> list[Json]:
    items = part.get("items")
    return [items] if isinstance(items, Mapping) else []


def _value(part: Json, root: Json, turn: int, depth: int) -> Any:
    part = _resolved(part, root)
    if depth > _DEEPEST:
        return None
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return part["enum"][turn % len(part["enum"])]
    for key in ("anyOf", "oneOf", "allOf"):
        options = [one for one in part.get(key, ()) if one.get("type") != "null"]
        if options:
            return _value(options[turn % len(options)], root, turn, depth + 1)
    match part.get("type"):
        case "object":
            return {name: _value(one, root, turn, depth + 1) for name, one in part.get("properties", {}).items()}
        case "array":
            length = max(part.get("minItems", 0), _LENGTHS[turn])
            kinds = part.get("prefixItems") or [part.get("items", {})] * length
            return [_value(one, root, turn + place, depth + 1) for place, one in enumerate(kinds)]
        case "boolean":
            return turn % 2 == 0
        case "integer" | "number":
            return min(max(_NUMBERS[turn % len(_NUMBERS)], part.get("minimum", -1)), part.get("maximum", 2000))
        case "string":
            form = _FORMATS.get(part.get("format", ""))
            return form.format(n=turn % 9 + 1) if form else _TEXTS[turn % len(_TEXTS)]
        case _:
            return None


def _resolved(part: Json, root: Json) -> Json:
    name = str(part.get("$ref", "")).rpartition("/")[2]
    return root.get("$defs", {}).get(name, {}) if name else part
