"""`--skip-broken`: questions that cannot be read affect neither the run nor other questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Environment

from karenina import Benchmark
from karenina_benchmark.errors import BenchmarkFileError

ANSWER = "{four: {description: d, ground_truth: true, verify_with: {type: TraceContains, substring: four}}}"
YAML = f"""karenina: 1
name: Sums
questions:
  - {{id: q2, question: What is two plus two, answer: {ANSWER}}}
  - {{id: q3, question: What is three plus three, anwser: {ANSWER}}}
  - {{id: q4, raw_answer: x}}
  - {{id: q2, question: What is two plus two again}}
"""
GOOD = {"id": "q2", "question": "What is two plus two?"}
LINES = [
    {"karenina": 1, "name": "Sums"},
    GOOD,
    {"id": "q3", "question": "What is three plus three?", "answer": {}, "strategy": "x"},
    {"id": "q4"},
    {"id": "q2", "question": "What is two plus two again?"},
]
ITEM = {"@type": "DataFeedItem", "@id": "q2", "item": {"@type": "Question", "text": "What is two plus two?"}}
CHECKPOINT = {
    "@type": "DataFeed",
    "name": "Sums",
    "dataFeedElement": [ITEM, {**ITEM, "@id": "q3", "item": {}}, {**ITEM, "@id": "q4", "item": "x"}, ITEM],
}
FILES = {
    "sums.yaml": YAML,
    "sums.jsonl": "\n".join([*map(json.dumps, LINES)]),
    "sums.jsonld": json.dumps(CHECKPOINT),
}


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a file with one good question and three broken ones."""
    made: Path = tmp_path / request.param
    made.write_text(FILES[request.param], "utf-8")
    return made


def test_the_other_questions_are_loaded(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    benchmark = Benchmark.load(file, skip_broken=True)
    assert benchmark.ids == ("q2",)
    assert len(benchmark.broken) == 3
    assert (
        len([line for line in caplog.messages if line.startswith(f"left out an entry that cannot be read: {file}, ")])
        == 3
    )


def test_a_broken_question_is_an_error_that_names_the_option(file: Path) -> None:
    if file.suffix == ".jsonl":  # questions of lines are read when they are wanted
        file.write_text("\n".join([*map(json.dumps, [*LINES[:2], *LINES[3:]])]), "utf-8")
    with pytest.raises(
        BenchmarkFileError, match=r"[12] more questions? cannot be read.*; or skip them with --skip-broken"
    ):
        Benchmark.load(file)


def test_a_run_skips_broken_questions_and_continues(site: Environment) -> None:
    file = site.write("sums.yaml", YAML)
    answers = site.write("answers.jsonl", '{"id": "q2", "response": "It is four."}\n')
    command = ("run", file, "--recordings", answers, "-o", "out.jsonl")
    refused = site.karenina(*command)
    done = site.karenina(*command, "--skip-broken")
    again = site.karenina("resume", "out.journal")
    assert (refused.returncode, done.returncode, again.returncode) == (2, 0, 0), done.stderr + again.stderr
    assert "line 5: unknown key 'anwser'; did you mean 'answer'?" in done.stderr
    assert "1 of 1 judged" in done.stdout


def test_one_broken_trait_of_a_checkpoint_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good = {"@type": "Rating", "name": "clear", "additionalType": "GlobalRubricTrait", "bestRating": 1}
    broken = [{**good, "name": ""}, "clear", {**good, "name": "short", "additionalProperty": "x"}, good]
    file = tmp_path / "sums.jsonld"
    content = {"@type": "DataFeed", "name": "Sums", "rating": [good, *broken], "dataFeedElement": [ITEM]}
    file.write_text(json.dumps(content), "utf-8")

    with pytest.raises(
        BenchmarkFileError, match=r"rating 2.* 3 more questions or traits cannot be read.*--skip-broken"
    ):
        Benchmark.load(file)
    benchmark = Benchmark.load(file, skip_broken=True)

    assert (benchmark.ids, benchmark.global_rubric.names) == (("q2",), ("clear",))
    assert [error.where for error in benchmark.broken] == ["rating 2", "rating 3", "rating 4", "rating 5 (clear)"]
    assert sum(line.startswith("left out an entry that cannot be read: ") for line in caplog.messages) == 4
