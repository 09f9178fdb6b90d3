"""Example values are valid under their schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karenina_engine.offline.prompt_preview import example_for_schema
from karenina_toolkit.structured.schema_repair import find_mismatches

WORDS = "It is BCL2, which keeps cells alive."


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"type": "string"}, WORDS),
        ({"type": "string", "maxLength": 5}, "It is"),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"type": ["string", "null"]}, WORDS),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"type": "integer", "minimum": 3, "maximum": 5}, 3),
        ({"type": "number", "maximum": 0}, 0),
        ({"type": "number", "exclusiveMinimum": 4}, 5),
        ({"type": "boolean"}, True),
        ({"enum": [None, "b", "c"]}, "b"),
        ({"const": 7}, 7),
        ({"type": "array", "items": {"type": "boolean"}}, [True]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 0}, []),
        ({"$ref": "#/$defs/Inner"}, {"word": WORDS}),
        ({"allOf": [{"$ref": "#/$defs/Inner"}]}, {"word": WORDS}),
    ],
)
def test_a_value_is_valid_under_its_schema(part: dict[str, Any], value: object) -> None:
    inner = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    schema = {"type": "object", "properties": {"x": part}, "required": ["x"], "$defs": {"Inner": inner}}
    found = json.loads(example_for_schema(schema, WORDS))
    assert found == {"x": value}
    assert find_mismatches(found, schema) == []


def test_a_recursive_schema_has_an_example() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    assert json.loads(example_for_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}}, WORDS))["next"]


def test_booleans_can_be_false() -> None:
    assert json.loads(
        example_for_schema({"type": "object", "properties": {"x": {"type": "boolean"}}}, WORDS, yes=False)
    ) == {"x": False}


@pytest.mark.parametrize(
    "part",
    [
        {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/None"}]},
        {"type": ["string", "null"]},
        {"enum": ["1986-04-26", None]},
    ],
)
def test_an_empty_example_has_null_where_it_may(part: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": {"x": part, "days": {"type": "array", "items": part}, "word": {"type": "string"}},
        "$defs": {"None": {"type": "null"}},
    }
    found = json.loads(example_for_schema(schema, WORDS, empty=True))
    assert found == {"x": None, "days": [], "word": WORDS}
