"""The benchmarks of `examples`: each is checked and run, with a scripted server for the model and the judge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES
from servers import recording_server
from typer.testing import CliRunner

from karenina import Benchmark
from karenina_cli.app import build_app
from karenina_template.question_template import template_of

FILES = sorted((EXAMPLES / "benchmarks").glob("*.yaml"))
COUNTS = {
    "algebra": 4,
    "chemistry": 3,
    "code-agent": 2,
    "conversations": 4,
    "genetics": 3,
    "law": 3,
    "medicine": 4,
    "pharmacology": 3,
    "pressure": 2,
    "support-tone": 2,
}


class Judge:
    """A server whose model answers with the raw answer, and whose judge finds the given values, or any that fit."""

    def __init__(self, benchmark: Benchmark, **wrong: object) -> None:
        self.answers = {question.question: question.raw_answer or "Done." for question in benchmark}
        self.values: dict[str, Any] = {"abstained": False}
        for question in benchmark:
            template = template_of(question)
            if template is not None:
                self.values |= template.for_question(question.id).expected()
        self.values |= wrong

    def reply(self, body: dict[str, Any]) -> str | dict[str, Any]:
        """Return the reply to a request: JSON for a schema, a call of a tool in an agent's first turn, or an answer."""
        messages, last = body["messages"], body["messages"][-1]["content"]
        if "response_format" in body:
            schema = body["response_format"]["json_schema"]["schema"]
            if "say" in schema["properties"]:
                return json.dumps({"say": None, "done": True, "reached": True})
            return json.dumps(self._fill(schema, schema.get("$defs", {})))
        if "tools" in body and messages[-1]["role"] != "tool":
            file = "stats.py" if "mean()" in str(messages) else "slugs.py"
            function = {"name": "read_file", "arguments": json.dumps({"path": file})}
            return {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        return self.answers.get(last, f"I read: {last}")

    def _fill(self, schema: Mapping[str, Any], shared: Mapping[str, Any]) -> Any:
        if "$ref" in schema:
            return self._fill(shared[schema["$ref"].rpartition("/")[2]], shared)
        if "anyOf" in schema:
            return self._fill(schema["anyOf"][0], shared)
        if "properties" in schema:
            parts = schema["properties"].items()
            return {
                name: self.values[name] if name in self.values else self._fill(part, shared) for name, part in parts
            }
        if "enum" in schema:
            return schema["enum"][-1]
        usual: dict[str, Any] = {"boolean": True, "integer": schema.get("maximum", 1), "number": 1.0, "array": []}
        return usual.get(schema.get("type", "string"), "So it says.")


def run(file: Path, folder: Path, **wrong: object) -> list[dict[str, Any]]:
    """Return the results of a run with the command; the judge finds the values of `wrong` in place of the truths."""
    with recording_server(Judge(Benchmark.load(file), **wrong).reply) as server:
        models = [
            word
            for option, name in (("--answering", "m"), ("--judge", "j"), ("--user", "u"))
            for word in (option, f"openai:{name}@{server.url}")
        ]
        command = ["run", str(file), *models, "--output", str(folder / "results.jsonl"), "--json"]
        done = CliRunner().invoke(build_app(), command)
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return found


def test_each_benchmark_is_run() -> None:
    assert {file.stem for file in FILES} == set(COUNTS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_benchmark_passes_the_check(file: Path) -> None:
    report = Benchmark.check_file(file)

    assert (report.findings, report.questions) == ((), COUNTS[file.stem])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_right_answers_are_correct(tmp_path: Path, file: Path) -> None:
    results = run(file, tmp_path)

    rubric_only = file.stem == "support-tone"
    assert [result["outcome"] for result in results] == ["scored" if rubric_only else "correct"] * COUNTS[file.stem]
    assert all(not (result["rubric"] or {}).get("trait_errors") for result in results)


def test_a_wrong_dose_is_wrong(tmp_path: Path) -> None:
    results = run(EXAMPLES / "benchmarks" / "medicine.yaml", tmp_path, grams=8)

    wrong = [result["question_id"] for result in results if result["outcome"] == "wrong"]
    assert wrong == ["paracetamol"]


def test_refusals_are_counted_apart(tmp_path: Path) -> None:
    results = run(EXAMPLES / "benchmarks" / "law.yaml", tmp_path, abstained=True)

    assert {result["outcome"] for result in results} == {"abstained"}


def test_the_files_decide_and_not_the_report_of_the_agent(tmp_path: Path) -> None:
    """The judge reads the file of the workspace, and its report of it is the text from which the fields are filled."""
    results = run(EXAMPLES / "benchmarks" / "code-agent.yaml", tmp_path)

    reports = {result["question_id"]: result["template"]["investigation_trace"] for result in results}
    assert "def mean(values" in reports["empty-mean"]
    assert "def slug(text" in reports["slug-option"]
