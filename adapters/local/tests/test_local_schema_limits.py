from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_local.ports import limit_schema


def limited(schema: dict[str, Any]) -> dict[str, Any]:
    return limit_schema(schema, max_items=3, max_length=10)


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "string"}, {"type": "string", "maxLength": 10}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"], "maxLength": 10}),
        ({"type": "array"}, {"type": "array", "maxItems": 3}),
        ({"type": "array", "maxItems": 9}, {"type": "array", "maxItems": 9}),
        ({"type": "array", "minItems": 5}, {"type": "array", "minItems": 5, "maxItems": 5}),
        ({"type": "string", "minLength": 20}, {"type": "string", "minLength": 20, "maxLength": 20}),
        ({"type": "string", "maxLength": 99}, {"type": "string", "maxLength": 99}),
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "pattern": "^x+$"}, {"type": "string", "pattern": "^x+$"}),
        ({"type": "integer"}, {"type": "integer"}),
    ],
)
def test_lists_and_texts_get_the_bounds_that_they_lack(schema: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert limited(schema) == wanted


@pytest.mark.parametrize(
    "place",
    [
        lambda inner: {"type": "object", "properties": {"field": inner}},
        lambda inner: {"$defs": {"Part": inner}},
        lambda inner: {"anyOf": [inner, {"type": "null"}]},
        lambda inner: {"type": "array", "maxItems": 1, "items": inner},
        lambda inner: {"type": "array", "maxItems": 1, "prefixItems": [inner]},
        lambda inner: {"type": "object", "additionalProperties": inner},
    ],
)
def test_bounds_reach_every_place_where_a_schema_can_stand(place: Any) -> None:
    assert limited(place({"type": "string"})) == place({"type": "string", "maxLength": 10})


def test_a_field_named_like_a_keyword_is_still_a_field() -> None:
    schema = {"type": "object", "properties": {"type": {"type": "string"}, "items": {"type": "array"}}}
    found = limited(schema)["properties"]
    assert found == {"type": {"type": "string", "maxLength": 10}, "items": {"type": "array", "maxItems": 3}}


schemas: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "boolean", "null", "array"])}),
    lambda inner: st.one_of(
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(lambda many: {"anyOf": many}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda named: {"type": "object", "properties": named, "required": sorted(named)},
            st.dictionaries(st.text(max_size=5), inner, max_size=3),
        ),
    ),
    max_leaves=8,
)


@given(schemas)
def test_limiting_is_idempotent_and_keeps_its_argument(schema: dict[str, Any]) -> None:
    before = repr(schema)
    once = limited(schema)
    assert limited(once) == once
    assert repr(schema) == before
