"""The kinds of traits: valid fields, and errors for invalid ones."""

import json

import pytest
from pydantic import BaseModel

from karenina_core.data.rubrics import (
    AgenticRubricTrait,
    CallableRubricTrait,
    DynamicRubric,
    LLMRubricTrait,
    MetricRubricTrait,
    RegexRubricTrait,
    Rubric,
    RubricTrait,
    UnknownTrait,
    check_dynamic_names,
    register_trait_kind,
    trait_from_json,
    trait_to_json,
)

TRAITS = [
    LLMRubricTrait(name="clear", description="Is it clear?"),
    LLMRubricTrait(name="tone", kind="literal", classes={"rude": "it offends", "neutral": "", "kind": "it is warm"}),
    LLMRubricTrait(name="depth", kind="score", higher_is_better=False, deep_judgment_enabled=True),
    RegexRubricTrait(name="cites", pattern=r"\[\d+\]", case_sensitive=False, invert_result=True),
    CallableRubricTrait(name="short", function="my_package.checks:is_short"),
    CallableRubricTrait(name="words", source="def words(text):\n    return 3\n", kind="score", max_score=9),
    MetricRubricTrait(name="drugs", metrics=["f1"], tp_instructions=["aspirin"]),
    AgenticRubricTrait(name="runs", max_turns=3, timeout_seconds=7.5, context_mode="workspace_only"),
]


@pytest.mark.parametrize("trait", TRAITS, ids=lambda trait: trait.name)
def test_a_trait_is_the_same_after_json(trait):
    assert trait_from_json(json.loads(json.dumps(trait_to_json(trait)))) == trait


@pytest.mark.parametrize(
    ("fields", "bounds"),
    [
        ({"kind": "boolean"}, (None, None)),
        ({"kind": "score"}, (1, 5)),
        ({"kind": "score", "min_score": 0}, (0, 5)),
        ({"kind": "literal", "classes": {"a": "", "b": "", "c": ""}}, (0, 2)),
    ],
)
def test_bounds_follow_from_the_kind(fields, bounds):
    trait = LLMRubricTrait(name="t", **fields)
    assert (trait.min_score, trait.max_score) == bounds


def test_the_order_of_classes_is_the_scale_and_survives_json():
    trait = LLMRubricTrait(name="t", kind="literal", classes={"z": "lowest", "a": "highest"})
    assert trait_from_json(json.loads(json.dumps(trait_to_json(trait)))).class_names == ("z", "a")


def test_a_pydantic_class_is_a_trait_of_kind_template():
    class Finding(BaseModel):
        files: int

    trait = AgenticRubricTrait(name="t", kind=Finding)
    assert (trait.kind, trait.higher_is_better) == ("template", None)
    assert trait.template_schema["properties"]["files"]["type"] == "integer"


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (LLMRubricTrait, {"name": " "}, "visible"),
        (LLMRubricTrait, {"name": "t", "kind": "literal"}, "needs `classes`"),
        (LLMRubricTrait, {"name": "t", "classes": {"a": "", "b": ""}}, "cannot have `classes`"),
        (LLMRubricTrait, {"name": "t", "kind": "literal", "classes": {"a": ""}}, "at least two"),
        (
            LLMRubricTrait,
            {"name": "t", "kind": "literal", "classes": {"a": "", "b": ""}, "max_score": 5},
            "from 0 to 1",
        ),
        (LLMRubricTrait, {"name": "t", "kind": "boolean", "max_score": 5}, "boolean"),
        (LLMRubricTrait, {"name": "t", "kind": "score", "min_score": 5, "max_score": 5}, "below"),
        (LLMRubricTrait, {"name": "t", "higher_is_beter": True}, "higher_is_beter"),
        (CallableRubricTrait, {"name": "t"}, "neither"),
        (CallableRubricTrait, {"name": "t", "function": "a:b", "source": "def b(t): ..."}, "function and source"),
        (CallableRubricTrait, {"name": "t", "function": "os.system('x')"}, "import path"),
        (MetricRubricTrait, {"name": "t", "metrics": ["accuracy"], "tp_instructions": ["x"]}, "full_matrix"),
        (MetricRubricTrait, {"name": "t", "metrics": [], "tp_instructions": ["x"]}, "metrics"),
        (
            MetricRubricTrait,
            {"name": "t", "evaluation_mode": "full_matrix", "metrics": ["f1"], "tp_instructions": ["x"]},
            "tn_instructions",
        ),
        (AgenticRubricTrait, {"name": "a.b"}, "dot"),
        (AgenticRubricTrait, {"name": "t", "materialize_trace": True, "context_mode": "workspace_only"}, "trace"),
        (
            AgenticRubricTrait,
            {"name": "t", "model_override": {"endpoint_api_key": "sk-1"}},
            "model_override.endpoint_api_key",
        ),
    ],
)
def test_a_wrong_trait_says_what_is_wrong(kind, fields, said):
    with pytest.raises(ValueError, match=said):
        kind(**fields)


def test_fields_of_a_plugin_are_given_and_written_flat() -> None:
    trait = LLMRubricTrait(name="depth", deep_judgment_enabled=True, deep_judgment_max_excerpts=None)

    assert trait.extra == {"deep_judgment_enabled": True}
    assert trait_to_json(trait) == {"type": "llm", "name": "depth", "deep_judgment_enabled": True}
    assert LLMRubricTrait.model_validate_json(trait.model_dump_json()) == trait


def test_fields_that_no_member_owns_are_kept_in_extra() -> None:
    trait = LLMRubricTrait(name="depth", extra={"tasty": 3})

    assert trait_from_json(trait_to_json(trait)) == trait


def is_short(text: str) -> bool:
    return len(text) < 10


def test_a_function_of_a_module_is_kept_by_its_path():
    trait = CallableRubricTrait.from_callable("short", is_short)
    assert (trait.function, trait.source) == (f"{__name__}:is_short", None)


def test_a_function_made_inside_another_is_kept_by_its_source():
    def is_long(text: str) -> bool:
        return len(text) > 10

    assert CallableRubricTrait.from_callable("long", is_long).source.startswith("def is_long(text: str) -> bool:\n    ")


def test_a_lambda_is_called_and_not_kept():
    trait = CallableRubricTrait.from_callable("t", lambda text: True)
    assert trait.given("any") is True
    assert "define it with `def`" in trait.unsaved


def test_traits_are_put_into_the_list_of_their_kind():
    rubric = Rubric.of(*reversed(TRAITS))
    assert rubric.names == ("depth", "tone", "clear", "cites", "words", "short", "drugs", "runs")
    assert [trait.name for trait in rubric.callable_traits] == ["words", "short"]


def test_trait_names_are_unique_in_a_rubric():
    with pytest.raises(ValueError, match=r"have the name 'cites' .*llm and regex"):
        Rubric(llm_traits=[LLMRubricTrait(name="cites")], regex_traits=[RegexRubricTrait(name="cites", pattern="x")])


def test_merging_puts_the_global_traits_first():
    merged = Rubric.merge(Rubric.of(LLMRubricTrait(name="a")), Rubric.of(LLMRubricTrait(name="b")))
    assert merged.names == ("a", "b")


def test_a_clash_in_a_merge_names_both_traits():
    with pytest.raises(ValueError, match=r"'a' is used both in the global rubric \(llm trait\).*\(regex trait\)"):
        Rubric.merge(Rubric.of(LLMRubricTrait(name="a")), Rubric.of(RegexRubricTrait(name="a", pattern="x")))


def test_a_dynamic_trait_needs_a_concept():
    with pytest.raises(ValueError, match="neither a summary nor a description"):
        DynamicRubric.of(LLMRubricTrait(name="a"))


def test_static_and_dynamic_rubric_cannot_share_names():
    with pytest.raises(ValueError, match="'a'"):
        check_dynamic_names(
            Rubric.of(LLMRubricTrait(name="a")), DynamicRubric.of(LLMRubricTrait(name="a", summary="the a"))
        )


def test_a_plugin_adds_a_kind_that_rubrics_hold():
    class ReadabilityTrait(RubricTrait):
        type: str = "test_readability"
        grade: int

    register_trait_kind(ReadabilityTrait)
    register_trait_kind(ReadabilityTrait)
    rubric = Rubric.model_validate([{"type": "test_readability", "name": "r", "grade": 8}])
    assert rubric.other_traits == (ReadabilityTrait(name="r", grade=8),)
    assert Rubric.model_validate_json(rubric.model_dump_json()) == rubric


def test_two_classes_cannot_be_one_kind():
    class Other(RubricTrait):
        type: str = "llm"

    with pytest.raises(ValueError, match=r"LLMRubricTrait and .*Other"):
        register_trait_kind(Other)


def test_a_trait_of_an_unknown_kind_is_kept_whole():
    data = {"type": "from_another_plugin", "name": "x", "depth": {"of": [1, 2]}}
    trait = trait_from_json(data)
    assert isinstance(trait, UnknownTrait)
    assert trait_to_json(trait) == data
