"""The description of a schema in a judge's prompt."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_template.templates import load_template
from karenina_toolkit.structured.schema_forms import describe_fields, describe_type


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "string"}, "text"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "whole number or null"),
        ({"type": ["boolean", "null"]}, "true or false or null"),
        ({"type": "array", "items": {"type": "number"}}, "list of number"),
        ({"enum": ["a", "b"]}, 'one of "a", "b"'),
        ({"const": 3}, "3"),
        ({"type": "string", "format": "date"}, "date as YYYY-MM-DD"),
        ({"$ref": "#/$defs/Point"}, "object with x: whole number"),
        ({}, "any value"),
    ],
)
def test_a_type_is_described_in_words(part: dict[str, Any], words: str) -> None:
    root = {"$defs": {"Point": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
    assert describe_type(part, root) == words


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    root = {"$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}}
    assert "..." in describe_type({"$ref": "#/$defs/Node"}, root)


def test_every_field_has_a_line_and_its_hint() -> None:
    template = load_template(
        "class Answer(BaseAnswer):\n"
        '    gene: str = VerifiedField(description="The gene", ground_truth="x", verify_with=ExactMatch())\n'
        '    year: int = VerifiedField(description="The year", ground_truth=1, verify_with=NumericExact())\n'
    )
    schema = template.for_question("q").judge_schema()
    assert describe_fields(schema, {"gene": "an official symbol"}) == (
        "Fields:\n- gene: The gene (text or null) Hint: an official symbol\n- year: The year (whole number or null)"
    )
