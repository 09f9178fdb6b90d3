"""The scale of a trait: the schema that a judge fills, the words that say it, and the score that is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from karenina_core.data.rubrics import AgenticRubricTrait, LLMRubricTrait
from karenina_rubric.score_schema import Score, describe_scale, read_score, score_schema
from karenina_toolkit.structured import InvalidReply, find_mismatches, object_schema, repair


class Part(BaseModel):
    """A part."""

    title: str
    default: int = 3


class Whole(BaseModel):
    parts: list[Part]
    counts: dict[str, int] = Field(default_factory=dict)
    remark: str = "none"


CLASSES = {"rude": "It insults.", "neutral": "It states.", "kind": "It cares."}
SAFE = LLMRubricTrait(name="safe")
CLEAR = LLMRubricTrait(name="clear", kind="score", min_score=-2, max_score=10)
TONE = LLMRubricTrait(name="tone", kind="literal", classes=CLASSES)
WHOLE = LLMRubricTrait.model_validate({"name": "whole", "kind": Whole})
FILLED = {"parts": [{"title": "a", "default": 1}], "counts": {"b": 2}, "remark": "fine"}


def schema_of(trait: LLMRubricTrait) -> dict[str, Any]:
    """The schema of an object that holds the score alone."""
    score = score_schema(trait)
    return score.complete(object_schema({"score": score.schema}))


@pytest.mark.parametrize(
    ("trait", "given", "expected"),
    [
        (SAFE, True, Score(True)),
        (SAFE, False, Score(False)),
        (CLEAR, -2, Score(-2)),
        (CLEAR, 10, Score(10)),
        (TONE, "rude", Score(0, "rude")),
        (TONE, "kind", Score(2, "kind")),
        (WHOLE, FILLED, Score(FILLED)),
        (AgenticRubricTrait(name="runs", kind="literal", classes=CLASSES), "neutral", Score(1, "neutral")),
    ],
)
def test_a_score_is_read_in_the_kind_of_its_trait(trait: LLMRubricTrait, given: object, expected: Score) -> None:
    assert find_mismatches({"score": given}, schema_of(trait)) == []
    assert read_score(trait, given) == expected


def test_a_whole_number_with_a_point_is_a_whole_number() -> None:
    read = read_score(CLEAR, 7.0).value
    assert (read, type(read)) == (7, int)


@pytest.mark.parametrize("trait", [SAFE, CLEAR, TONE, WHOLE], ids=lambda trait: trait.name)
def test_null_is_no_score(trait: LLMRubricTrait) -> None:
    with pytest.raises(InvalidReply, match="score must not be null"):
        read_score(trait, None)


@pytest.mark.parametrize("given", [-3, 11])
def test_a_number_outside_the_bounds_is_no_score(given: int) -> None:
    with pytest.raises(InvalidReply, match=f"score must be from -2 to 10, not {given}"):
        read_score(CLEAR, given)


@pytest.mark.parametrize(
    ("trait", "given"), [(SAFE, 1), (SAFE, "perhaps"), (CLEAR, 7.5), (CLEAR, True), (TONE, "cold"), (WHOLE, "none")]
)
def test_the_schema_refuses_what_is_not_of_the_kind(trait: LLMRubricTrait, given: object) -> None:
    assert find_mismatches({"score": given}, schema_of(trait))


@given(st.lists(st.text(min_size=1), min_size=2, max_size=6, unique=True).flatmap(lambda names: st.permutations(names)))
def test_the_score_of_a_class_is_its_position(names: list[str]) -> None:
    trait = LLMRubricTrait(name="t", kind="literal", classes=dict.fromkeys(names, ""))
    schema = schema_of(trait)
    for position, name in enumerate(names):
        assert find_mismatches({"score": name}, schema) == []
        assert read_score(trait, repair({"score": name}, schema)[0]["score"]) == Score(position, name)


def test_titles_are_removed_and_every_key_is_required() -> None:
    score = score_schema(WHOLE)
    assert list(score.schema["properties"]) == ["parts", "counts", "remark"]
    assert score.schema["required"] == ["parts", "counts", "remark"]
    assert score.schema["additionalProperties"] is False
    assert score.schema["properties"]["counts"]["additionalProperties"] == {"type": "integer"}
    assert score.schema["properties"]["remark"] == {"type": "string"}
    assert "$defs" not in score.schema


def test_fields_may_have_the_names_of_keywords() -> None:
    (part,) = score_schema(WHOLE).definitions.values()
    assert part["properties"] == {"title": {"type": "string"}, "default": {"type": "integer"}}
    assert part["required"] == ["title", "default"]


@pytest.mark.parametrize("key", ["$defs", "definitions"])
def test_references_lead_to_the_definitions_of_the_whole(key: str) -> None:
    template = {"type": "object", "properties": {"a": {"$ref": f"#/{key}/A"}}, key: {"A": {"type": "integer"}}}
    trait = LLMRubricTrait.model_validate({"name": "t", "kind": {"type": "template", "schema": template}})
    score = score_schema(trait, prefix="t0_")
    assert score.schema["properties"]["a"] == {"$ref": "#/$defs/t0_A"}
    whole = score.complete(object_schema({"score": score.schema}))
    assert find_mismatches({"score": {"a": 1}}, whole) == []
    assert find_mismatches({"score": {"a": "one"}}, whole) == ['score.a must be a whole number, not "one"']


def test_the_template_of_a_trait_stays_as_it_is() -> None:
    template = {"type": "object", "properties": {"grade": {"enum": ["a", "b"]}}, "required": ["grade"]}
    trait = LLMRubricTrait.model_validate({"name": "t", "kind": {"type": "template", "schema": template}})
    before = json.dumps(trait.template_schema)
    grade = score_schema(trait).schema["properties"]["grade"]
    grade["enum"].append("c")
    grade["description"] = "changed"
    assert json.dumps(trait.template_schema) == before


@pytest.mark.parametrize("trait", [SAFE, CLEAR, TONE], ids=lambda trait: trait.name)
def test_a_schema_without_definitions_gets_none(trait: LLMRubricTrait) -> None:
    assert "$defs" not in schema_of(trait)


@pytest.mark.parametrize(
    ("trait", "visible"),
    [(SAFE, ["true", "false"]), (CLEAR, ["from -2 to 10"]), (TONE, ['"rude": It insults.', '"kind": It cares.'])],
)
def test_the_words_say_every_score_that_there_is(trait: LLMRubricTrait, visible: list[str]) -> None:
    assert [part for part in visible if part not in describe_scale(trait)] == []


def test_a_template_scale_shows_its_schema_only_on_request() -> None:
    assert "remark" in describe_scale(WHOLE, show_template=True)
    assert "remark" not in describe_scale(WHOLE)
