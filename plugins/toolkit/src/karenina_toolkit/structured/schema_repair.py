"""Comparing a judge's JSON with its schema, and repairing it if the repair is unambiguous.

This supports the part of JSON Schema used for judges: `type`, `properties`, `required`, `items`, `enum`, `const`,
`anyOf`, `oneOf`, `allOf`, `minItems`, `maxItems` and local `$ref`. Other keywords are left to validation. `null` is
accepted everywhere. It means that the judge found nothing, and the template decides how to treat it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

from karenina_core.errors import KareninaError
from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_toolkit.structured.lenient_json import number_text
from karenina_toolkit.structured.schema_forms import describe_type, find_reference

Schema = Mapping[str, Any]

MOST_STEPS: Final = 200_000
"""The maximum number of steps for comparing a value with its schema."""


class SchemaTooComplex(KareninaError, ValueError):
    """Raised if a comparison takes too many steps. A few lines of nested choices and references can need billions."""


class _Root(dict[str, Any]):
    """A complete schema, with the number of comparisons that are still allowed."""

    left = MOST_STEPS

    @classmethod
    def of(cls, schema: Schema) -> _Root:
        """Return `schema` with a counter for comparisons, or unchanged if it already has one."""
        return schema if isinstance(schema, _Root) else cls(schema)

    def step(self) -> None:
        """Count a comparison. Raises `SchemaTooComplex` if there have been too many."""
        self.left -= 1
        if self.left < 0:
            raise SchemaTooComplex(
                "not compared, because there are too many values, or too many nested choices and references in the "
                "schema"
            )


_NUMBER = lazy_pattern(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_MAY_BE_THOUSANDS = lazy_pattern(r"-?[1-9]\d{0,2}\.000")
_BULLET = lazy_pattern(r"^\s*[-*\u2022]\s+")
# A string that may mean several entries, or none, is not wrapped in a list.
_MAY_BE_A_LIST = lazy_pattern(r"[,;\n|]|\s(and|or)\s")
_MAY_BE_NOTHING = {"", "-", "none", "null", "nil", "n/a", "na", "nothing", "empty", "unknown"}
_BOOLEANS: Final = {**dict.fromkeys(("true", "yes", "y", "1"), True), **dict.fromkeys(("false", "no", "n", "0"), False)}
_LONGEST_SHOWN: Final = 60
_EXPONENT_LIMIT = 40  # of a number written as text; one with a larger exponent is not converted


def repair(data: Mapping[str, Any], schema: Schema) -> tuple[dict[str, Any], bool]:
    """Return `data` with those values converted that have an unambiguous meaning in its schema, and a flag that is true
    if anything changed. Mismatches may remain (see `find_mismatches`). Raises `SchemaTooComplex` after `MOST_STEPS`
    comparisons.

    - A boolean is converted from "true", "yes", "y", "1" and 1, or from "false", "no", "n", "0" and 0.
    - A number is converted from a string that is a JSON number, unless an enum contains the string itself.
    - A string is converted from a number, exactly as it was written. "null" becomes null if strings are not allowed.
    - A list is created from a single scalar, unless that may mean several entries or none. It is also converted from a
      string that contains a JSON array, or entries separated by semicolons or line breaks.
    - An enum value is found for a string that differs in case, spaces or look-alike characters.
    - An object is unwrapped if it is the value of a single unknown key, as in `{"Answer": {...}}`.

    Nothing else is changed, and no value is lost.
    """
    repaired, changed, _ = repair_and_check(data, schema)
    return repaired, changed


def find_mismatches(data: object, schema: Schema) -> list[str]:
    """Return a sentence for each part of `data` whose type, option, missing key or number of entries does not match
    `schema`. Null always matches, and extra keys and limits such as `minimum` and `pattern` are ignored. Raises
    `SchemaTooComplex` after `MOST_STEPS` comparisons.
    """
    root = _Root.of(schema)
    return list(_misfits(data, root, root, ""))


def repair_and_check(data: Mapping[str, Any], schema: Schema) -> tuple[dict[str, Any], bool, list[str]]:
    """Return `data` repaired, whether anything changed, and a sentence for each remaining mismatch. Data that already
    matches is only changed if it is wrapped in a single unknown key. Raises `SchemaTooComplex` after `MOST_STEPS`
    comparisons.
    """
    schema = _Root.of(schema)
    original = dict(data)
    unwrapped = _unwrap(original, schema, schema)
    problems = find_mismatches(unwrapped, schema)
    if not problems:  # data that fits is not changed
        return unwrapped, unwrapped is not original, problems
    repaired = _repair(unwrapped, schema, schema)
    assert isinstance(repaired, dict)
    return repaired, not json_equal(data, repaired), find_mismatches(repaired, schema)


def may_mean_nothing(text: str) -> bool:
    """Return whether a text is blank, or a word or dash that judges write for nothing, such as "None" or "N/A". "Na" is
    sodium.
    """
    word = fold(text).strip().removesuffix(".")
    return word.casefold() in _MAY_BE_NOTHING and word != "Na"


def allows_null(schema: Schema, root: Schema) -> bool:
    """Return whether `schema` explicitly allows null or has no type. `root` is the complete schema. Raises
    `SchemaTooComplex` after too many comparisons.
    """
    root = _Root.of(root)
    root.step()
    schema = _resolve(schema, root)
    options = _options(schema)
    if options:
        return any(allows_null(option, root) for option in options)
    allowed = _allowed(schema)
    if allowed is not None:
        return None in allowed
    return bool(schema.get("type", "object" if "properties" in schema else "null") == "null")


def _unwrap(data: dict[str, Any], schema: Schema, root: Schema) -> dict[str, Any]:
    """Return the only value in `data` if its key is unknown and it has the schema's keys. Otherwise, return `data`."""
    if len(data) != 1:
        return data
    (key, inner), *_ = data.items()
    if not isinstance(inner, dict) or not inner:
        return data
    schema = _resolve(schema, root)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or key in properties:
        return data
    needed = set(schema.get("required", ()))
    return inner if needed <= inner.keys() <= properties.keys() else data


def _repair(value: Any, schema: Schema, root: _Root) -> Any:
    """Return `value` with each part converted that has an unambiguous meaning in `schema`, and otherwise unchanged.
    Raises `SchemaTooComplex` after too many comparisons.
    """
    root.step()
    schema = _resolve(schema, root)
    if value is None:
        return None
    options = _options(schema)
    if options:
        return _repair_by_option(value, options, root)
    allowed = _allowed(schema)
    if allowed is not None:
        return _match_enum(value, allowed)
    return _repair_typed(value, schema, root)


def _repair_typed(value: Any, schema: Schema, root: _Root) -> Any:
    """Return `value` converted to fit a schema that has neither options nor an enum, or unchanged if its meaning is
    unclear. Raises `SchemaTooComplex` after too many comparisons.
    """
    kind = schema.get("type")
    if isinstance(value, dict):
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            return {
                key: _repair(item, properties[key], root) if key in properties else item for key, item in value.items()
            }
        if kind == "array" and _wants_objects(schema, root):
            return [_repair(value, schema["items"], root)]
        return value
    if kind == "array":
        return _repair_list(value, schema, root)
    if kind == "boolean":
        return _boolean(value)
    if isinstance(value, str):
        word = fold(value).strip()
        if kind in ("integer", "number"):
            return _number(word, kind, value)
        if kind == "null" and word.lower() == "null":
            return None
    if kind == "string" and "format" not in schema and isinstance(value, (int, float)):
        return value if isinstance(value, bool) else number_text(value)
    return value


def _repair_list(value: Any, schema: Schema, root: _Root) -> Any:
    """Return `value` as a list with repaired entries. A text that contains a list is split. Any other single value
    becomes the only entry, but is returned unchanged if it may mean several entries or none, or does not match. Raises
    `SchemaTooComplex` after too many comparisons.
    """
    items = schema.get("items")
    if isinstance(value, str):
        held = _parse_list(value)
        if held is None:
            held = _split_list(value)
        if held is not None:
            value = held
        elif may_mean_nothing(value) or _MAY_BE_A_LIST.search(value):
            return value
    entries = value if isinstance(value, list) else [value]
    if not isinstance(items, Mapping):
        return entries
    repaired = [_repair(entry, items, root) for entry in entries]
    if entries is not value and list(_misfits(repaired, schema, root, "")):
        return value
    return repaired


def _repair_by_option(value: Any, options: list[Schema], root: _Root) -> Any:
    """Return `value` repaired for one of several schemas. It stays as it is if it already matches one, if no repair
    helps, or if the possible repairs differ. Raises `SchemaTooComplex` after too many comparisons.
    """
    if any(not _fails(value, option, root) for option in options):
        return value
    repairs: list[Any] = []
    for option in options:
        tried = _repair(value, option, root)
        if not _fails(tried, option, root) and not any(json_equal(tried, other) for other in repairs):
            repairs.append(tried)
    return repairs[0] if len(repairs) == 1 else value


def _misfits(value: object, schema: Schema | bool, root: _Root, place: str) -> Iterator[str]:
    """Yield a sentence for each part of `value` whose type, option, missing key or number of entries `schema` does not
    allow, with its path, which begins with `place`. Null and unknown keys are always allowed, and limits such as
    `minimum` and `pattern` are not checked. Raises `SchemaTooComplex` after too many comparisons.
    """
    root.step()
    if isinstance(schema, bool) or "$ref" in schema or "allOf" in schema:
        schema = _resolve(schema, root)
    if value is None:
        return
    options = _options(schema)
    if options:
        for option in options:
            if not _fails(value, option, root):
                return
        objects = [option for option in map(partial(_resolve, root=root), options) if _takes_objects(option)]
        if isinstance(value, dict) and objects:  # what is wrong with the object is not its type
            yield " or ".join(dict.fromkeys(next(_misfits(value, option, root, place)) for option in objects))
        else:
            yield f"{_at(place)} must be {describe_type({'anyOf': options}, root)}"
        return
    allowed = _allowed(schema)
    if allowed is not None:
        if not any(json_equal(value, option) for option in allowed):
            yield f"{_at(place)} must be one of {json.dumps(allowed, ensure_ascii=False)}"
        return
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, str) and not _has_type(value, kind):
        yield f"{_at(place)} must be {_ARTICLES.get(kind, kind)}, not {_shown(value)}"
    elif isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                yield f"the key {json.dumps(key)} is missing{f' in {place}' if place else ''}"
        for key, inner in schema.get("properties", {}).items():
            if key in value:
                yield from _misfits(value[key], inner, root, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{_at(place)} must have at least {schema['minItems']} entries"
        if len(value) > schema.get("maxItems", len(value)):
            yield f"{_at(place)} must have at most {schema['maxItems']} entries"
        if isinstance(schema.get("items"), Mapping):
            for number, entry in enumerate(value):
                yield from _misfits(entry, schema["items"], root, f"{place}[{number}]")


def _fails(value: object, schema: Schema, root: _Root) -> bool:
    return next(_misfits(value, schema, root, ""), None) is not None


def _resolve(schema: Schema | bool, root: Schema) -> Schema:
    """Return the schema that `schema` refers to. A single `allOf`, as written by pydantic, also counts as a reference.
    `true`, `false` and a reference that leads nowhere, as well as anything after 20 consecutive references, result in
    an empty schema, which allows everything.
    """
    for _ in range(20):
        if isinstance(schema, bool):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            schema = find_reference(reference, root)
        elif len(schema.get("allOf", ())) == 1:
            schema = schema["allOf"][0]
        else:
            return schema
    return {}


def _options(schema: Schema) -> list[Schema]:
    """Return the alternatives of a schema, from a list of types, or from `anyOf` or `oneOf`, or an empty list if it has
    none.
    """
    kinds = schema.get("type")
    if isinstance(kinds, list):
        # null is accepted anyway; it is an option only for the word "null".
        return [{**schema, "type": kind} for kind in kinds]
    return list(schema.get("anyOf") or schema.get("oneOf") or ())


def _takes_objects(schema: Schema) -> bool:
    """Return whether a schema with neither options nor references may match an object."""
    return schema.get("type", "object") == "object" and _allowed(schema) is None


def _allowed(schema: Schema) -> list[Any] | None:
    """Return the values that `const` or `enum` allows, or None if the schema has neither."""
    if "const" in schema:
        return [schema["const"]]
    allowed = schema.get("enum")
    return list(allowed) if isinstance(allowed, list) else None


def _match_enum(value: Any, allowed: list[Any]) -> Any:
    """Return the only allowed value that `value` can mean. If there is not exactly one, return `value`."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and number_text(value) in allowed:
        return value if any(json_equal(value, option) for option in allowed) else number_text(value)
    if not isinstance(value, str) or value in allowed:
        return value
    matches = [option for option in allowed if isinstance(option, str) and _letters(option) == _letters(value)]
    if not matches:
        meant = (_boolean(value), _number(fold(value).strip(), "number", value))
        matches = [option for option in allowed if any(json_equal(option, reading) for reading in meant)]
    return matches[0] if len(matches) == 1 else value


def _letters(text: str) -> str:
    """Fold a string for comparing enum values. Case and whitespace are ignored."""
    return "".join(fold(text).casefold().split())


def _boolean(value: Any) -> Any:
    """Return the boolean that `value` represents. If it does not represent one, return `value`."""
    if isinstance(value, str):
        return _BOOLEANS.get(fold(value).strip().removesuffix(".").casefold(), value)
    return bool(value) if isinstance(value, (int, float)) and value in (0, 1) else value


def _number(word: str, kind: str, value: str) -> int | float | str:
    """Return the number that `word` states, or `value` unchanged if there is none, the exponent is huge, it is a
    fraction and `kind` is "integer", or it may be thousands, as "1.000" is in some languages.
    """
    if not _NUMBER.fullmatch(word) or _MAY_BE_THOUSANDS.fullmatch(word):
        return value
    exact = Decimal(word)
    if abs(exact.adjusted()) > _EXPONENT_LIMIT:
        return value
    if exact == exact.to_integral_value() and (kind == "integer" or "." not in word):
        return int(exact)
    return float(word) if kind == "number" else value


def _parse_list(text: str) -> list[Any] | None:
    """Return the list in a JSON text, or None if it is anything else."""
    if not text.lstrip().startswith("["):
        return None
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return held if isinstance(held, list) else None


def _split_list(text: str) -> list[Any] | None:
    """Split a string at semicolons or, if there are none, line breaks, and remove bullets. Returns None if there are no
    separators or if an entry is empty.
    """
    parts = [_BULLET.sub("", part).strip() for part in re.split(r";" if ";" in text else r"\n", text.strip())]
    return parts if len(parts) > 1 and all(parts) else None


def _wants_objects(schema: Schema, root: Schema) -> bool:
    """Return whether the entries of a list have to be objects."""
    items = schema.get("items")
    return isinstance(items, Mapping) and _resolve(items, root).get("type") == "object"


def _has_type(value: object, kind: str) -> bool:
    """Return whether a value has the JSON Schema type `kind`. 1.0 is an integer, and true is not a number. Unknown
    types match every value.
    """
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, _TYPES.get(kind, object))


def json_equal(one: object, other: object) -> bool:
    """Return whether two JSON values are equal. `True` and `1` are different."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(json_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def _shown(value: object) -> str:
    """Return a value as JSON, truncated to 60 characters."""
    start = value[: _LONGEST_SHOWN + 1] if isinstance(value, str) else value
    text = json.dumps(start, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _at(place: str) -> str:
    """Return the subject of a sentence about a problem: its location, or "the reply"."""
    return place or "the reply"


_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_ARTICLES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def object_schema(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON Schema of an object that has exactly these keys. A judge fills in the keys in the given order, so
    put its reasoning before its decision.
    """
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
