"""Every form of rubric traits of the reference project loads, with a reason if it cannot be scored."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from karenina import Benchmark, ModelConfig, Outcome, VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.data.rubrics import AgenticRubricTrait, RubricTrait, UnknownTrait
from karenina_core.models.ports import CallInfo, Message
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

DEEP = {
    "deep_judgment_enabled": False,
    "deep_judgment_excerpt_enabled": True,
    "deep_judgment_search_enabled": False,
}
CLASSES = {"rude": "It insults.", "kind": "It cares."}
PICKLE = base64.b64encode(b"\x80\x05\x95pickled").decode()
AGENT = {
    "context_mode": "trace_only",
    "materialize_trace": False,
    "persist_trace": False,
    "max_turns": 15,
    "timeout_seconds": 120,
}
SCHEMA = {"properties": {"count": {"type": "integer"}}, "required": ["count"], "type": "object", "title": "Counted"}
MODEL = {
    "id": "m",
    "interface": "claude_agent_sdk",
    "model_name": "claude",
    "model_provider": "anthropic",
    "temperature": 0.1,
    "max_retries": 2,
    "endpoint_api_key": None,
    "extra_kwargs": None,
}
NEVER = "a pickled function, which is never loaded"

FORMS: list[tuple[str, str, str, float, float, dict[str, Any], str | None]] = [
    # id, kind of trait, word of `additionalType`, bestRating, worstRating, properties, why it cannot be scored
    ("llm-boolean", "llm", "RubricTrait", 1, 0, {**DEEP, "higher_is_better": True}, None),
    ("llm-boolean-defaults", "llm", "RubricTrait", 1, 0, {"kind": "boolean", "min_score": 1, "max_score": 5}, None),
    ("llm-score", "llm", "RubricTrait", 5.0, 1.0, {**DEEP, "higher_is_better": False}, None),
    ("llm-score-bare", "llm", "RubricTrait", 10.0, 0.0, {}, None),
    ("llm-score-empty-range", "llm", "RubricTrait", 3.0, 3.0, {}, "must be below max_score"),
    ("llm-literal", "llm", "LLMRubricTrait", 1.0, 0.0, {**DEEP, "kind": "literal", "classes": CLASSES}, None),
    (
        "llm-literal-defaults",
        "llm",
        "LLMRubricTrait",
        1.0,
        0.0,
        {"kind": "literal", "classes": CLASSES, "min_score": 1, "max_score": 5},
        None,
    ),
    ("llm-literal-text", "llm", "LLMRubricTrait", 1.0, 0.0, {"kind": "literal", "classes": json.dumps(CLASSES)}, None),
    ("llm-literal-no-classes", "llm", "LLMRubricTrait", 0.0, 0.0, {"kind": "literal"}, "`classes`"),
    (
        "regex",
        "regex",
        "RegexTrait",
        1,
        0,
        {"pattern": "four", "case_sensitive": True, "invert_result": False, "higher_is_better": True},
        None,
    ),
    ("regex-broken", "regex", "RegexTrait", 1, 0, {"pattern": "(four"}, "pattern: "),
    ("regex-empty", "regex", "RegexTrait", 1, 0, {}, "'pattern' is missing"),
    (
        "callable-boolean",
        "callable",
        "CallableTrait",
        1.0,
        0.0,
        {"callable_code": PICKLE, "kind": "boolean", "invert_result": False, "higher_is_better": True},
        NEVER,
    ),
    (
        "callable-score",
        "callable",
        "CallableTrait",
        9.0,
        2.0,
        {"callable_code": PICKLE, "kind": "score", "invert_result": False, "min_score": 2, "max_score": 9},
        NEVER,
    ),
    ("callable-literal", "callable", "CallableTrait", 5.0, 1.0, {"callable_code": PICKLE, "kind": "literal"}, "kind"),
    ("callable-empty", "callable", "CallableTrait", 1.0, 0.0, {"callable_code": "", "kind": "boolean"}, "`source`"),
    ("callable-no-code", "callable", "CallableTrait", 1.0, 0.0, {"kind": "boolean"}, "`source`"),
    (
        "metric-tp-only",
        "metric",
        "MetricRubricTrait",
        1.0,
        0.0,
        {
            "metrics": ["recall"],
            "repeated_extraction": True,
            "evaluation_mode": "tp_only",
            "tp_instructions": ["says four"],
        },
        None,
    ),
    (
        "metric-tp-only-with-tn",
        "metric",
        "MetricRubricTrait",
        1.0,
        0.0,
        {
            "metrics": ["recall"],
            "evaluation_mode": "tp_only",
            "tp_instructions": ["says four"],
            "tn_instructions": ["says five"],
        },
        None,
    ),
    (
        "metric-texts",
        "metric",
        "MetricRubricTrait",
        1.0,
        0.0,
        {"metrics": '["precision"]', "evaluation_mode": "tp_only", "tp_instructions": '["says four"]'},
        None,
    ),
    (
        "metric-full-matrix",
        "metric",
        "MetricRubricTrait",
        1.0,
        0.0,
        {
            "metrics": ["specificity", "accuracy"],
            "evaluation_mode": "full_matrix",
            "tp_instructions": ["says four"],
            "tn_instructions": ["says five"],
        },
        None,
    ),
    ("metric-empty", "metric", "MetricRubricTrait", 1.0, 0.0, {"metrics": ["recall"]}, "tp_instructions"),
    ("metric-broken", "metric", "MetricRubricTrait", 1.0, 0.0, {"metrics": "[recall"}, "cannot be read"),
    (
        "agentic-boolean",
        "agentic",
        "AgenticRubricTrait",
        1.0,
        0.0,
        {"kind": "boolean", "higher_is_better": True, **AGENT},
        None,
    ),
    (
        "agentic-boolean-defaults",
        "agentic",
        "AgenticRubricTrait",
        1.0,
        0.0,
        {"kind": "boolean", "min_score": 1, "max_score": 5, **AGENT},
        None,
    ),
    ("agentic-score", "agentic", "AgenticRubricTrait", 5.0, 1.0, {"kind": "score", **AGENT}, None),
    (
        "agentic-literal",
        "agentic",
        "AgenticRubricTrait",
        1.0,
        0.0,
        {"kind": "literal", "classes": CLASSES, **AGENT},
        None,
    ),
    (
        "agentic-template",
        "agentic",
        "AgenticRubricTrait",
        0.0,
        0.0,
        {"kind": {"type": "template", "schema": SCHEMA}, "higher_is_better": None, **AGENT},
        None,
    ),
    (
        "agentic-template-defaults",
        "agentic",
        "AgenticRubricTrait",
        5.0,
        1.0,
        {
            "kind": {"type": "template", "schema": SCHEMA},
            "higher_is_better": None,
            "min_score": 1,
            "max_score": 5,
            **AGENT,
        },
        None,
    ),
    (
        "agentic-model",
        "agentic",
        "AgenticRubricTrait",
        1.0,
        0.0,
        {"kind": "boolean", "model_override": MODEL, **AGENT},
        None,
    ),
    (
        "agentic-key",
        "agentic",
        "AgenticRubricTrait",
        1.0,
        0.0,
        {"kind": "boolean", "model_override": {"id": "m", "endpoint_api_key": "abc"}, **AGENT},
        "an API key",
    ),
    ("manual", "ManualRubricTrait", "ManualRubricTrait", 1, 0, {}, "no installed plugin provides traits of type"),
]
IDS = [form[0] for form in FORMS]


def rating(form: tuple[Any, ...], scope: str, *, dynamic: bool = False, prefix: str = "karenina:") -> dict[str, Any]:
    """Return a trait as the reference project writes it."""
    name, kind, word, best, worst, properties, _ = form
    given = [{"@type": "PropertyValue", "name": key, "value": value} for key, value in properties.items()]
    if dynamic:
        word = "DynamicRubricTrait"
        given += [
            {"@type": "PropertyValue", "name": "dynamic_trait_type", "value": kind},
            {"@type": "PropertyValue", "name": "summary", "value": "numbers"},
        ]
    return {
        "@type": "Rating",
        "@id": f"urn:uuid:rating-{name}",
        "name": name,
        "description": f"about {name}",
        "bestRating": best,
        "worstRating": worst,
        "additionalType": f"{prefix}{scope}{word}",
        "additionalProperty": given,
        "ratingExplanation": None,
    }


def written(folder: Path, *, everywhere: Sequence[Any] = (), of_question: Sequence[Any] = ()) -> Path:
    """Return a checkpoint with one question."""
    file = folder / "reference.jsonld"
    question = {"@type": "Question", "@id": "q-inner", "text": "What is two plus two?", "rating": of_question}
    document = {
        "@context": {"@version": 1.1, "@vocab": "http://schema.org/"},
        "@type": "DataFeed",
        "@id": "urn:uuid:karenina-checkpoint-1",
        "name": "Sums",
        "rating": everywhere,
        "dataFeedElement": [{"@type": "DataFeedItem", "@id": "q1", "item": question}],
        "additionalProperty": [{"@type": "PropertyValue", "name": "benchmark_format_version", "value": "3.0.0-jsonld"}],
    }
    file.write_text(json.dumps(document), "utf-8")
    return file


def the_trait(benchmark: Benchmark) -> RubricTrait:
    """Return the only trait of a benchmark with one question."""
    question = benchmark.with_shared_traits(benchmark.get("q1"))
    (found,) = [one for rubric in (question.rubric, question.dynamic_rubric) if rubric for one in rubric.traits]
    return found


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("scope", ["Global", "QuestionSpecific"])
@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_a_reference_trait_loads_or_states_why_not(
    form: tuple[Any, ...], scope: str, dynamic: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = rating(form, scope, dynamic=dynamic)
    file = written(tmp_path, **{"everywhere" if scope == "Global" else "of_question": [made]})
    trait = the_trait(Benchmark.load(file))
    says = [line for line in caplog.messages if "cannot be scored" in line]
    assert trait.name == form[0]
    assert trait.type == form[1]
    assert len(says) == (form[-1] is not None)
    if form[-1] is not None:
        assert form[-1] in says[0]
        assert f"'{form[0]}'" in says[0]


@pytest.mark.parametrize("suffix", ["jsonld", "yaml", "jsonl"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_what_is_loaded_is_saved_again(suffix: str, dynamic: bool, tmp_path: Path) -> None:
    ratings = [rating(form, "Global", dynamic=dynamic) for form in FORMS]
    first = Benchmark.load(written(tmp_path, everywhere=ratings))
    first.save(tmp_path / f"again.{suffix}")
    again = Benchmark.load(tmp_path / f"again.{suffix}")
    assert (again.global_rubric, again.dynamic_rubric) == (first.global_rubric, first.dynamic_rubric)
    again.save(tmp_path / "last.jsonld")
    kept = {one["name"]: one for one in json.loads((tmp_path / "last.jsonld").read_text("utf-8"))["rating"]}
    for one in ratings:
        values = {entry["name"]: entry["value"] for entry in kept[one["name"]].get("additionalProperty", ())}
        for entry in one["additionalProperty"]:
            if entry["name"] == "model_override" and one["name"] == "agentic-model":
                assert values["model_override"] == {key: value for key, value in MODEL.items() if value is not None}
            elif entry["value"] not in (None, "", False) and not isinstance(entry["value"], str):
                assert values.get(entry["name"], entry["value"]) == entry["value"]
            if entry["name"] in ("min_score", "max_score", "tn_instructions", "callable_code") and entry["value"]:
                assert values[entry["name"]] == entry["value"]


def test_one_line_names_all_that_cannot_be_scored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Benchmark.load(written(tmp_path, everywhere=[rating(form, "Global") for form in FORMS]))
    (says,) = [line for line in caplog.messages if "cannot be scored" in line]
    unscorable = [form[0] for form in FORMS if form[-1] is not None]
    assert f"{len(unscorable)} rubric traits cannot be scored: " in says
    assert "'callable-boolean', 'callable-score' (the file contains only a pickled function" in says


def test_unused_values_are_named_without_json_ld_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forms = [form for form in FORMS if form[0] in ("llm-boolean-defaults", "metric-tp-only-with-tn")]
    Benchmark.load(written(tmp_path, everywhere=[rating(form, "Global") for form in forms]))
    (note,) = caplog.messages
    assert note.endswith(
        "some traits contain values that are not used by their type: min_score (trait 'llm-boolean-defaults'); "
        "max_score (trait 'llm-boolean-defaults'); tn_instructions (trait 'metric-tp-only-with-tn')"
    )


def test_traits_as_plain_objects_load_with_their_default_bounds(tmp_path: Path) -> None:
    scale = {"min_score": 1, "max_score": 5}
    rubric = {
        "llm_traits": [
            {"name": "clear", "description": "It is clear.", "kind": "boolean", "classes": None, **scale, **DEEP},
            {"name": "deep", "description": "It is deep.", "kind": "score", "classes": None, **scale},
            {"name": "tone", "kind": "literal", "classes": CLASSES, "min_score": 0, "max_score": 1},
        ],
        "callable_traits": [{"name": "gone", "kind": "boolean", "callable_code": PICKLE, "min_score": None}],
        "agentic_traits": [
            {"name": "runs", "description": "It runs.", "kind": "boolean", **scale, **AGENT, "model_override": None},
            {"name": "counted", "description": "d", "kind": {"type": "template", "schema": SCHEMA}, **scale},
        ],
    }
    file = tmp_path / "plain.jsonld"
    file.write_text(json.dumps({"@type": "DataFeed", "name": "b", "globalRubric": rubric}), "utf-8")
    found = Benchmark.load(file).global_rubric
    assert found is not None
    assert found.names == ("clear", "deep", "tone", "gone", "runs", "counted")
    assert not any(isinstance(trait, UnknownTrait) for trait in found.traits)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("form", [form for form in FORMS if form[1] != "agentic"], ids=lambda form: form[0])
def test_a_loaded_trait_is_scored_or_its_reason_reported(form: tuple[Any, ...], dynamic: bool, tmp_path: Path) -> None:
    benchmark = Benchmark.load(written(tmp_path, everywhere=[rating(form, "Global", dynamic=dynamic)]))
    models = ScriptedModels(say=lambda *_: "It is four.", fill=judge)
    plugins = Plugins.discover()
    plugins.register(models)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")], parsing_models=[models.model("j")], evaluation_mode="rubric_only"
        )
        (result,) = benchmark.run_verification(config)
    assert result.rubric is not None
    if form[-1] is None:
        assert result.outcome is Outcome.SCORED
        assert result.rubric.get_all_trait_scores()[form[0]] is not None
    else:
        assert result.outcome is Outcome.RUBRIC_ERROR
        assert form[0] in (result.rubric.trait_errors or {})


def judge(_messages: Sequence[Message], schema: Mapping[str, Any], _info: CallInfo) -> dict[str, Any]:
    """Fill any schema: every concept is present, the first class fits, and no expected thing is said."""

    def one(part: Mapping[str, Any]) -> Any:
        if "enum" in part:
            return part["enum"][0]
        if part["type"] == "object":
            return {name: one(inner) for name, inner in part["properties"].items()}
        return {"boolean": True, "integer": 3, "array": [], "string": "because"}[part["type"]]

    found: dict[str, Any] = one(schema)
    return found


def test_the_model_of_an_agentic_trait_is_valid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (form,) = [form for form in FORMS if form[0] == "agentic-model"]
    trait = the_trait(Benchmark.load(written(tmp_path, everywhere=[rating(form, "Global")])))
    assert isinstance(trait, AgenticRubricTrait)
    model = ModelConfig.model_validate(trait.model_override)
    assert (model.id, model.temperature) == ("m", 0.1)
    assert any(
        "some traits contain values that are not used by their type: model_override (trait 'agentic-model')" in one
        for one in caplog.messages
    )
