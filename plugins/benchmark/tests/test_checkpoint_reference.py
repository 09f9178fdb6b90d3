"""Checkpoints of the reference project are read, and their other content is kept."""

import json

from karenina_benchmark import Benchmark
from karenina_core.data.rubrics import (
    AgenticRubricTrait,
    CallableRubricTrait,
    LLMRubricTrait,
    MetricRubricTrait,
    UnknownTrait,
)


def prop(name, value):
    return {"@type": "PropertyValue", "name": name, "value": value}


def rating(name, additional_type, best=1.0, worst=0.0, **properties):
    return {
        "@type": "Rating",
        "name": name,
        "description": f"about {name}",
        "bestRating": best,
        "worstRating": worst,
        "additionalType": additional_type,
        "additionalProperty": [prop(key, value) for key, value in properties.items()],
    }


TEMPLATE = "class Answer(BaseAnswer):\n    capital: str = Field(description='the capital')\n"
CHECKPOINT = {
    "@context": {"@version": 1.1, "@vocab": "http://schema.org/", "DataFeed": "DataFeed"},
    "@type": "DataFeed",
    "@id": "urn:uuid:karenina-checkpoint-1770332819.2",
    "name": "Capitals",
    "description": "two questions",
    "version": "1.0.0",
    "creator": {"@type": "Person", "name": "A. Nyone", "email": "a@example.org"},
    "dateCreated": "2026-02-05T23:06:59.237819",
    "dateModified": "2026-02-05T23:06:59.238117",
    "rating": [
        rating("concise", "GlobalRubricTrait", higher_is_better=True, deep_judgment_enabled=True),
        rating("depth", "karenina:GlobalRubricTrait", 5.0, 1.0, higher_is_better=False),
        rating("tone", "karenina:GlobalLLMRubricTrait", 1.0, 0.0, kind="literal", classes={"rude": "", "kind": "warm"}),
        rating("cites", "karenina:GlobalRegexTrait", pattern=r"\[\d+\]", case_sensitive=True, invert_result=False),
        rating("pickle", "karenina:GlobalCallableTrait", callable_code="gASVAAAAAAAAAA==", kind="boolean"),
        rating("drugs", "GlobalMetricRubricTrait", metrics='["recall"]', tp_instructions='["aspirin"]'),
        rating("runs", "karenina:GlobalAgenticRubricTrait", 5.0, 1.0, kind="score", max_turns=9),
        rating("safety", "karenina:GlobalDynamicRubricTrait", dynamic_trait_type="llm", summary="side effects"),
        rating("by_hand", "GlobalManualRubricTrait", who="me"),
    ],
    "dataFeedElement": [
        {
            "@type": "DataFeedItem",
            "@id": "urn:uuid:question-what-is-the-capital-of-france-cb0b4aaf",
            "dateCreated": "2026-02-05T23:06:59.237875",
            "dateModified": "2026-02-05T23:06:59.237926",
            "item": {
                "@type": "Question",
                "@id": "q1",
                "text": "What is the capital of France?",
                "acceptedAnswer": {"@type": "Answer", "@id": "a1", "text": "Paris"},
                "hasPart": {
                    "@type": "SoftwareSourceCode",
                    "name": "What is the capital of France?... Answer Template",
                    "text": TEMPLATE,
                    "programmingLanguage": "Python",
                    "codeRepository": "karenina-benchmarks",
                },
                "rating": [
                    {**rating("short", "QuestionSpecificRubricTrait", custom_knob=3), "ratingExplanation": "why"}
                ],
                "additionalProperty": [
                    prop("finished", True),
                    prop("author", '{"name": "Bob"}'),
                    prop("sources", "a book"),
                    {**prop("workspace_path", "w"), "unitText": "folder"},
                    prop("few_shot_examples", '[{"question": "Of Italy?", "answer": "Rome"}]'),
                    prop("custom_difficulty", "easy"),
                    {**prop("custom_observed", 1), "unitText": "times"},
                ],
            },
            "keywords": ["geography"],
        },
        {"item": {"text": "What is 2 + 2?"}},
    ],
    "additionalProperty": [prop("benchmark_format_version", "3.0.0-jsonld"), prop("custom_field", {"a": 1})],
    "hasScenario": [{"@type": "Scenario"}],
}


def load(tmp_path, data):
    file = tmp_path / "reference.jsonld"
    file.write_text(json.dumps(data))
    return Benchmark.load(file)


def test_questions_are_read(tmp_path):
    benchmark = load(tmp_path, CHECKPOINT)
    first, second = benchmark
    assert (benchmark.name, benchmark.creator, benchmark.metadata) == ("Capitals", "A. Nyone", {"field": {"a": 1}})
    assert (first.question, first.raw_answer) == ("What is the capital of France?", "Paris")
    assert (first.answer_template, first.keywords) == (TEMPLATE, ("geography",))
    assert (first.author, first.sources, first.metadata) == ({"name": "Bob"}, "a book", {"difficulty": "easy"})
    assert first.few_shot_examples[0].answer == "Rome"
    assert (second.question, second.raw_answer, second.answer_template) == ("What is 2 + 2?", None, None)
    assert second.id.startswith("urn:uuid:")


def test_traits_are_read(tmp_path):
    rubric = load(tmp_path, CHECKPOINT).global_rubric
    traits = {trait.name: trait for trait in rubric.traits}
    assert traits["concise"] == LLMRubricTrait(name="concise", description="about concise", deep_judgment_enabled=True)
    assert (traits["depth"].kind, traits["depth"].min_score, traits["depth"].max_score) == ("score", 1, 5)
    assert traits["depth"].higher_is_better is False
    assert traits["tone"].class_names == ("rude", "kind")
    assert traits["cites"].pattern == r"\[\d+\]"
    assert isinstance(traits["drugs"], MetricRubricTrait)
    assert (traits["drugs"].metrics, traits["drugs"].tp_instructions) == (("recall",), ("aspirin",))
    assert isinstance(traits["runs"], AgenticRubricTrait)
    assert (traits["runs"].max_turns, traits["runs"].max_score) == (9, 5)


def test_dynamic_traits_are_read(tmp_path):
    dynamic = load(tmp_path, CHECKPOINT).dynamic_rubric
    assert [(trait.name, trait.summary) for trait in dynamic.llm_traits] == [("safety", "side effects")]


def test_a_pickled_function_is_kept_and_not_loaded(tmp_path):
    (trait,) = load(tmp_path, CHECKPOINT).global_rubric.callable_traits
    assert (trait.pickled, trait.function, trait.source) == ("gASVAAAAAAAAAA==", None, None)


def test_a_trait_of_unknown_kind_stays_in_the_rubric(tmp_path):
    (trait,) = load(tmp_path, CHECKPOINT).global_rubric.other_traits
    assert isinstance(trait, UnknownTrait)
    assert (trait.name, trait.type, trait.who) == ("by_hand", "ManualRubricTrait", "me")


def test_unknown_content_survives_both_formats(tmp_path):
    first = load(tmp_path, CHECKPOINT)
    first.save(tmp_path / "b.yaml")
    second = Benchmark.load(tmp_path / "b.yaml")
    second.save(tmp_path / "c.jsonld")
    assert first == second == Benchmark.load(tmp_path / "c.jsonld")
    again = json.loads((tmp_path / "c.jsonld").read_text())
    assert again["hasScenario"] == [{"@type": "Scenario"}]
    assert again["creator"] == CHECKPOINT["creator"]
    assert again["@context"] == CHECKPOINT["@context"]
    assert {**prop("workspace_path", "w"), "unitText": "folder"} in again["dataFeedElement"][0]["item"][
        "additionalProperty"
    ]
    (short,) = again["dataFeedElement"][0]["item"]["rating"]
    assert short["ratingExplanation"] == "why"
    assert prop("custom_knob", 3) in short["additionalProperty"]
    assert again["dataFeedElement"][0]["item"]["hasPart"]["codeRepository"] == "karenina-benchmarks"
    assert prop("finished", True) in again["dataFeedElement"][0]["item"]["additionalProperty"]
    assert {**prop("custom_observed", 1), "unitText": "times"} in again["dataFeedElement"][0]["item"][
        "additionalProperty"
    ]


def test_a_rubric_of_plain_objects_is_read(tmp_path):
    plain = {
        "name": "Test rubric",
        "llm_traits": [{"name": "clear", "description": "d", "kind": "score", "min_score": 1, "max_score": 3}],
        "regex_traits": [{"name": "cites", "pattern": "x"}],
        "callable_traits": [
            {
                "name": "words",
                "callable_code": "def f(text):\n    return 3",
                "kind": "score",
                "min_score": 1,
                "max_score": 5,
            }
        ],
    }
    benchmark = load(tmp_path, {"@type": "DataFeed", "name": "b", "globalRubric": plain})
    assert benchmark.global_rubric.names == ("clear", "cites", "words")
    assert benchmark.global_rubric.callable_traits[0].source == "def f(text):\n    return 3"
    assert isinstance(benchmark.global_rubric.callable_traits[0], CallableRubricTrait)
    assert benchmark.unread == {"globalRubric": {"name": "Test rubric"}}


def test_checkpoints_use_the_vocabulary_of_schema_org(tmp_path):
    benchmark = Benchmark.create("b")
    benchmark.add_question("q?", "a", TEMPLATE, rubric=[LLMRubricTrait(name="t")])
    benchmark.save(tmp_path / "b.jsonld")
    data = json.loads((tmp_path / "b.jsonld").read_text())
    (element,) = data["dataFeedElement"]
    assert data["@context"]["@vocab"] == "http://schema.org/"
    assert (data["@type"], element["@type"], element["item"]["@type"]) == ("DataFeed", "DataFeedItem", "Question")
    assert element["item"]["acceptedAnswer"] == {"@type": "Answer", "text": "a"}
    assert element["item"]["hasPart"]["@type"] == "SoftwareSourceCode"
    assert element["item"]["rating"][0]["@type"] == "Rating"
    assert data["additionalProperty"] == [prop("karenina_format_version", 1)]
