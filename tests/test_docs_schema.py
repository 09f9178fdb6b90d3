"""The benchmarks on the pages of the documentation are valid by the schema with which editors check them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_runs import run_karenina

from karenina_benchmark.yaml_files import read
from karenina_core.plugins import Plugins

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    f"{page.name} {number}": text
    for page in sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
    for number, text in enumerate(
        re.findall(r"^```yaml[^\n]*\n((?:(?!^```).)*?^karenina: 1\n.*?)^```", page.read_text("utf-8"), re.S | re.M)
    )
    if "ExactMach" not in text  # the example of the page on `karenina check` has mistakes
    if not page.name.startswith("add-a-")  # the examples of these use what the page adds
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    benchmark_schema: dict[str, Any] = run_karenina("config", "--schema", "benchmark", plugins=Plugins.discover()).json
    return benchmark_schema


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_documentation_are_valid(schema: dict[str, Any], example: str) -> None:
    value = read(EXAMPLES[example], Path("genes.yaml")).value
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)] == []


TALK = """
karenina: 1
name: Talk
questions:
  - id: a
    question: Which?
    turns: [Really., {when: {tool: find}, say: Why., id: why}, {end: {said: {type: TraceContains, substring: bye}}}]
    answer: {gene: {turn: why, missing_turn: wrong, description: The gene, ground_truth: BCL2}}
  - id: b
    question: Hello.
    user: {brief: A man., knows: {a: 1}, goal: To know., max_turns: 3, at_limit: fail}
    answer: {n: {from: conversation.turns, ground_truth: 3}}
"""


def errors(schema: dict[str, Any], text: str) -> list[Any]:
    return [*jsonschema.Draft202012Validator(schema).iter_errors(read(text, Path("talk.yaml")).value)]


def test_the_schema_knows_conversations(schema: dict[str, Any]) -> None:
    assert errors(schema, TALK) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("say: Why.", "sya: Why."),
        ("tool: find", "tol: find"),
        ("max_turns: 3", "max_turn: 3"),
        ("max_turns: 3", "max_turns: 0"),
        ("at_limit: fail", "at_limit: failed"),
        ("missing_turn: wrong", "missing_turn: false"),
        ("brief: A man., ", ""),
    ],
)
def test_the_schema_finds_mistakes_in_conversations(schema: dict[str, Any], old: str, new: str) -> None:
    assert errors(schema, TALK.replace(old, new, 1))


def test_the_schema_completes_known_values_and_describes_turns(schema: dict[str, Any]) -> None:
    field = schema["$defs"]["Field"]["properties"]
    completed = field["from"]["anyOf"][0]["enum"]

    assert {"conversation.turns", "conversation.ended", "conversation.reached", "trace.tools"} <= {*completed}
    assert "turn of a conversation" in json.dumps(field["turn"])
    assert "after the first answer" in json.dumps(schema["$defs"]["Question"]["properties"]["turns"])
