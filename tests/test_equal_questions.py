"""Equal questions under several ids: every command counts them as one statistical unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_runs import run_karenina

from karenina import VerificationResultSet
from karenina_core.plugins import Plugins


@pytest.fixture
def equal_questions(tmp_path: Path) -> Path:
    """Return the results of 60 questions with 20 texts. Equal questions have equal answers, of which 15 are right."""
    words = {"words": {"from": "answer.words", "ground_truth": 1, "verify_with": "NumericExact"}}
    questions = [
        {"id": f"q{number}", "question": f"Which gene,  number {number // 3}?".replace("  ", " " * (1 + number % 3)),
         "answer": words}
        for number in range(60)
    ]  # fmt: skip
    benchmark, answers, output = tmp_path / "b.yaml", tmp_path / "m.jsonl", tmp_path / "r.jsonl"
    benchmark.write_text(json.dumps({"karenina": 1, "name": "Genes", "questions": questions}), "utf-8")
    responses = [{"id": f"q{number}", "response": "BCL2" if number < 45 else "It is BCL2"} for number in range(60)]
    answers.write_text("".join(json.dumps(line) + "\n" for line in responses), "utf-8")
    done = run_karenina("run", benchmark, "--recordings", answers, "-o", output, "--json", plugins=Plugins.discover())
    assert done.code == 0, done.err
    (tmp_path / "printed.json").write_text(done.out, "utf-8")
    return output


def test_all_commands_print_the_same_interval_of_a_rate(equal_questions: Path) -> None:
    plugins = Plugins.discover()
    (statistics,) = run_karenina("stats", equal_questions, "--json", plugins=plugins).json["runs"]
    expected = statistics["pass_rate"]

    ran = json.loads((equal_questions.parent / "printed.json").read_text("utf-8"))["summary"]["pass_rate"]
    shown = run_karenina("show", equal_questions, "--json", plugins=plugins).json["summary"]["pass_rate"]
    loaded = VerificationResultSet.load(equal_questions).summary().pass_rate

    assert (expected["hits"], expected["out_of"], expected["clusters"]) == (45, 60, 20)
    assert ran == shown == expected
    assert loaded is not None
    assert loaded.model_dump() == expected
    markdown = run_karenina("export", equal_questions, "--format", "markdown", plugins=plugins).out
    assert f"{expected['low']:.1%} to {expected['high']:.1%}" in markdown
    scored = run_karenina("rescore", equal_questions, "--json", plugins=plugins).json
    assert scored["after"]["pass_rate"] == expected


def test_outputs_without_a_question_are_units_of_their_own(tmp_path: Path) -> None:
    outputs, rubric = tmp_path / "o.jsonl", tmp_path / "t.py"
    outputs.write_text("".join(f'{{"response": "BCL{number % 2}"}}\n' for number in range(30)), "utf-8")
    rubric.write_text(
        "from karenina import BaseAnswer, NumericExact, VerifiedField\n\n\n"
        "class Answer(BaseAnswer):\n"
        '    words: int = VerifiedField(source="answer.words", ground_truth=1, verify_with=NumericExact())\n',
        "utf-8",
    )
    plugins, output = Plugins.discover(), tmp_path / "r.jsonl"
    done = run_karenina("judge", outputs, "--template", rubric, "-o", output, "--json", "--trust-all", plugins=plugins)
    assert done.code == 0, done.err

    (statistics,) = run_karenina("stats", output, "--json", plugins=plugins).json["runs"]

    assert statistics["pass_rate"]["clusters"] == done.json["summary"]["pass_rate"]["clusters"] == 30
    assert statistics["notes"] == []
