"""`karenina config --schema benchmark`: the JSON Schema of benchmark files, with which editors check them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_runs import run_karenina
from faulty_benchmarks import FILES, GOOD, QUESTION_FAULTS

from karenina_benchmark.formats.yaml_format import HEAD_KEYS, QUESTION_KEYS
from karenina_benchmark.template_declarations import FIELD_KEYS
from karenina_benchmark.yaml_files import read
from karenina_core.data.rubrics import trait_kinds
from karenina_template.templates import known_primitives

SHOWN_BY_EDITORS = [
    "an unknown version",
    "no name",
    "an unknown key",
    "an unknown setting",
    "a setting of a wrong type",
    "an unknown field of a model",
    "a trait without a type",
    "a trait without a pattern",
    "a trait of an unknown type",
    "a question without text",
    "an unknown key of a question",
    "a question that is a text",
    "an example without an answer",
    "an unknown key of a field",
    "an unknown type",
    "an unknown primitive",
    "a wrong parameter of a primitive",
    "a weight that is not a number",
    "questions that are no list",
]
EVERYTHING = """karenina: 1
name: Genes
rubric:
  - {type: llm, name: clear, kind: score, min_score: 1, max_score: 5, deep_judgment_enabled: true}
dynamic_rubric: {regex_traits: [{name: cites, pattern: PMID, summary: a citation}]}
questions:
  - question: 2 + 2?
    raw_answer: 4
    keywords: [sums]
    answer:
      sum: {description: The sum, ground_truth: 4, verify_with: {type: NumericTolerance, tolerance: 1, mode: absolute}}
      name:
        description: The name
        ground_truth: four
        verify_with: {type: ExactMatch, normalize: [strip, {type: SynonymMap, mapping: {"4": four}}]}
        weight: 2
      kind: {type: {literal: [even, odd]}, description: Its kind, ground_truth: even}
    strategy: {at_least: {n: 1, of: [sum, {any_of: [name, kind]}]}}
    few_shot_examples: [{question: "1 + 1?", answer: 2}]
    sources: [{url: "https://a.example"}]
questions_from:
  file: rows.csv
  columns: {question: text, metadata: [level]}
  answer:
    sum: {description: The sum, ground_truth: {column: sum}, verify_with: {type: {column: rule}}}
"""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    benchmark_schema: dict[str, Any] = run_karenina("config", "--schema", "benchmark").json
    jsonschema.Draft202012Validator.check_schema(benchmark_schema)
    return benchmark_schema


def errors(schema: dict[str, Any], text: str) -> list[str]:
    value = read(text, Path("genes.yaml")).value
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


def test_the_schema_has_the_keys_of_the_reader(schema: dict[str, Any]) -> None:
    assert set(schema["properties"]) == {*HEAD_KEYS, "questions", "questions_from"}
    assert tuple(schema["$defs"]["Question"]["properties"]) == QUESTION_KEYS
    assert set(schema["$defs"]["Field"]["properties"]) == set(FIELD_KEYS)


def test_the_schema_has_all_primitives_and_kinds_of_traits(schema: dict[str, Any]) -> None:
    names = schema["$defs"]["Verification"]["anyOf"][0]["enum"]
    assert set(known_primitives()) <= set(names)
    assert {kind.__name__ for kind in trait_kinds().values()} <= set(schema["$defs"])


def test_all_parts_of_a_file_are_valid(schema: dict[str, Any]) -> None:
    assert errors(schema, EVERYTHING) == []
    assert errors(schema, "karenina: 1\nname: Genes\nquestions:" + GOOD) == []


@pytest.mark.parametrize("fault", SHOWN_BY_EDITORS)
def test_an_editor_shows_a_fault_of_the_structure(schema: dict[str, Any], fault: str) -> None:
    assert errors(schema, FILES[fault]) != []


@pytest.mark.parametrize(
    "fault", [name for name in QUESTION_FAULTS if name.startswith(("a template", "a truth in", "a description"))]
)
def test_valid_structures_are_not_shown_as_faults(schema: dict[str, Any], fault: str) -> None:
    assert errors(schema, FILES[fault]) == []


def test_the_line_for_editors_is_a_comment() -> None:
    text = f"# yaml-language-server: $schema=benchmark.schema.json\n{EVERYTHING}"
    assert read(text, Path("genes.yaml")).value == read(EVERYTHING, Path("genes.yaml")).value
