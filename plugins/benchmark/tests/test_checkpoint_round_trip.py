"""Saving and loading returns the same benchmark, in both formats."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina_benchmark import Benchmark
from karenina_core.data import rubrics
from karenina_core.data.question import Question

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    [
        "no",
        "on",
        "1e3",
        "010",
        "1985-03-01",
        "12:30",
        "~",
        "",
        "a: b",
        "<<",
        "- x",
        " lead",
        "trail ",
        "a\n  b\n",
        "\n\n x",
    ]
)
visible = text.filter(lambda value: value.strip())
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
mappings = st.dictionaries(text, json_values, max_size=3)
source = st.none() | visible
classes = st.dictionaries(text, text, min_size=2, max_size=4)


for trait_kind in rubrics.trait_kinds().values():
    trait_kind.model_rebuild()  # hypothesis reads the signature: the base class has it until then


def named(kind, /, **fields):
    common = {"name": visible, "description": visible, "summary": st.none() | text}
    return st.builds(kind, **common, higher_is_better=st.booleans() | st.none(), **fields)


llm = (
    named(
        rubrics.LLMRubricTrait,
        deep_judgment_enabled=st.booleans(),
        deep_judgment_max_excerpts=st.none() | st.integers(1, 9),
    )
    | named(rubrics.LLMRubricTrait, kind=st.just("score"), min_score=st.integers(-3, 1), max_score=st.integers(2, 9))
    | named(rubrics.LLMRubricTrait, kind=st.just("literal"), classes=classes)
)
agentic_names = visible.filter(lambda value: "." not in value)
traits = (
    llm
    | named(rubrics.RegexRubricTrait, pattern=st.sampled_from(["a", r"\d+", "é|ü"]), case_sensitive=st.booleans())
    | named(rubrics.CallableRubricTrait, source=visible, kind=st.sampled_from(["boolean", "score"]))
    | named(rubrics.CallableRubricTrait, pickled=st.just("gASVAAAA"))
    | named(
        rubrics.MetricRubricTrait,
        metrics=st.just(["recall", "f1"]),
        tp_instructions=st.lists(text, min_size=1, max_size=3),
    )
    | st.builds(rubrics.AgenticRubricTrait, name=agentic_names, description=visible, max_turns=st.integers(1, 9))
    | st.builds(rubrics.UnknownTrait, type=st.just("of_a_plugin"), name=visible, description=visible, knobs=json_values)
)


def rubrics_of(kind):
    return st.none() | st.lists(traits, min_size=1, max_size=3, unique_by=lambda trait: trait.name).map(
        kind.model_validate
    )


questions = st.builds(
    Question,
    id=visible,
    question=visible,
    raw_answer=st.none() | text,
    answer_template=source,
    keywords=st.lists(text, max_size=3),
    few_shot_examples=st.lists(st.fixed_dictionaries({"question": text.filter(bool), "answer": text}), max_size=2),
    rubric=rubrics_of(rubrics.Rubric),
    dynamic_rubric=rubrics_of(rubrics.DynamicRubric),
    workspace_path=st.none() | text,
    author=json_values,
    sources=json_values,
    metadata=mappings,
    date_created=st.none() | text,
)


@st.composite
def benchmarks(draw):
    benchmark = Benchmark.create(draw(visible), draw(text), draw(text), draw(text))
    benchmark.add_questions(draw(st.lists(questions, max_size=3, unique_by=lambda question: question.id)))
    benchmark.global_rubric = draw(rubrics_of(rubrics.Rubric))
    benchmark.dynamic_rubric = draw(rubrics_of(rubrics.DynamicRubric))
    benchmark.run_config = draw(mappings)
    benchmark.metadata = draw(mappings)
    benchmark.workspace_root = draw(st.sampled_from([None, Path("workspaces"), Path("/data")]))
    return benchmark


def without_clashes(benchmark):
    theirs = {name for rubric in [benchmark.global_rubric] if rubric for name in rubric.names}
    return all(not theirs & set(question.rubric.names) for question in benchmark if question.rubric)


@pytest.mark.parametrize("ending", [".jsonld", ".yaml"])
@settings(max_examples=settings().max_examples // 2)  # for each of two formats
@given(benchmark=benchmarks().filter(without_clashes))
def test_a_saved_benchmark_loads_unchanged(tmp_path, ending, benchmark):
    file = tmp_path / f"benchmark{ending}"
    benchmark.save(file)
    first = file.read_text()
    loaded = Benchmark.load(file)
    assert loaded == benchmark
    loaded.save(file)
    assert file.read_text() == first


@given(value=json_values)
def test_values_keep_their_types_in_yaml(tmp_path, value):
    benchmark = Benchmark.create("types")
    benchmark.metadata = {"value": value}
    benchmark.save(tmp_path / "b.yaml")
    assert json.dumps(Benchmark.load(tmp_path / "b.yaml").metadata["value"]) == json.dumps(value)


@pytest.mark.parametrize("ending", [".jsonld", ".yaml"])
def test_the_order_of_classes_survives(tmp_path, ending):
    benchmark = Benchmark.create("scale")
    trait = rubrics.LLMRubricTrait(name="t", kind="literal", classes={"z": "lowest", "a": "highest"})
    benchmark.add_question("q?", rubric=[trait])
    benchmark.save(tmp_path / f"b{ending}")
    assert Benchmark.load(tmp_path / f"b{ending}").questions[0].rubric.llm_traits[0].class_names == ("z", "a")


def test_a_template_is_a_block_in_yaml(tmp_path):
    benchmark = Benchmark.create("b")
    benchmark.add_question("q?", answer_template="class Answer(BaseAnswer):\n    x: int\n")
    benchmark.save(tmp_path / "b.yaml")
    assert "    template: |\n      class Answer(BaseAnswer):\n          x: int\n" in (tmp_path / "b.yaml").read_text()
