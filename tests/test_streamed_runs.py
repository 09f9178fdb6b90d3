"""Whole runs over a benchmark file of JSON lines."""

import json
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_runs import registered

from karenina import Benchmark, Outcome
from karenina_benchmark import BenchmarkFileError
from karenina_core.data.question import Question
from karenina_engine.check import questions as run_questions
from karenina_testing import ScriptedModels


@pytest.fixture
def models() -> Iterator[ScriptedModels]:
    scripted = ScriptedModels(
        say=lambda _messages, info: f"It is v{info.question_id[1:]}.",
        fill=lambda _messages, _schema, info: {"value": f"v{info.question_id[1:]}"},
    )
    with registered(scripted):
        yield scripted


def lines(folder: Path, count: int, *more: object) -> Path:
    file = folder / "values.jsonl"
    questions = [
        {
            "id": f"q{number}",
            "question": f"What is value {number}?",
            "answer": {"value": {"description": "The value", "ground_truth": f"v{number}" if number % 5 else "other"}},
        }
        for number in range(count)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in [*questions, *more]), "utf-8")
    return file


def test_streamed_and_loaded_questions_give_equal_results(tmp_path: Path, models: ScriptedModels) -> None:
    streamed = Benchmark.load(lines(tmp_path, 20))
    held = Benchmark.create("held")
    held.add_questions(streamed)
    config = {"answering_models": [models.model("a")], "parsing_models": [models.model("j")], "replicate_count": 2}
    found, expected = streamed.run_verification(config), held.run_verification(config)
    assert {one.item: one.outcome for one in found} == {one.item: one.outcome for one in expected}
    assert found.summary().outcomes == {"correct": 32, "wrong": 8}


def test_questions_are_let_go_when_their_items_have_ended(
    tmp_path: Path, models: ScriptedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: weakref.WeakSet[Question] = weakref.WeakSet()
    most = 0
    kept = Question.model_validate

    def noted(*given: object, **named: object) -> Question:
        nonlocal most
        question = kept(*given, **named)  # type: ignore[arg-type]
        made.add(question)
        most = max(most, len(made))
        return question

    monkeypatch.setattr(Question, "model_validate", noted)
    monkeypatch.setattr(run_questions, "MAX_IN_MEMORY", 20)
    models.concurrency = 2
    benchmark = Benchmark.load(lines(tmp_path, 300))
    results = benchmark.run_verification(
        {"answering_models": [models.model("a")], "parsing_models": [models.model("j")]}
    )
    assert len(results) == 300
    assert most < 60


def test_errors_inside_a_question_are_raised_before_any_call(tmp_path: Path, models: ScriptedModels) -> None:
    broken = {
        "question": "What?",
        "answer": {"value": {"description": "It", "ground_truth": 1, "verify_with": "Exakt"}},
    }
    benchmark = Benchmark.load(lines(tmp_path, 3, broken))
    with pytest.raises(BenchmarkFileError, match=r"line 4: .*Exakt"):
        benchmark.run_verification({"answering_models": [models.model("a")], "parsing_models": [models.model("j")]})
    assert not models.requests


def test_an_unreadable_template_fails_only_its_item(tmp_path: Path, models: ScriptedModels) -> None:
    broken = {"id": "q7", "question": "What?", "template": "class Answer: ..."}
    results = Benchmark.load(lines(tmp_path, 2, broken)).run_verification(
        {"answering_models": [models.model("a")], "parsing_models": [models.model("j")]}
    )
    assert {one.question_id: one.outcome for one in results} == {
        "q0": Outcome.WRONG,
        "q1": Outcome.CORRECT,
        "q7": Outcome.TEMPLATE_ERROR,
    }
