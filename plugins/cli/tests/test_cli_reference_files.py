"""Files of the reference on the command line: drafts are left out of runs, and results are shown and rescored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_runs import make_plugins, run_karenina

BENCHMARK = """karenina: 1
name: metals
questions:
  - {id: liquid, question: "Which is liquid?", answer: {metal: {description: The metal, ground_truth: mercury}}}
  - {id: red, question: "Which is red?", answer: {metal: {description: The metal, ground_truth: copper}}}
  - {id: new, question: "Which is light?", answer: {metal: {description: The metal, ground_truth: lithium}}}
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def result(id: str, metal: str | None, verdict: bool | None, **more: Any) -> dict[str, Any]:
    """Return a result as the reference exports it."""
    model = {"interface": "langchain", "model_name": "m", "tools": []}
    template = {
        "raw_llm_response": f"It is {metal}.",
        "parsed_llm_response": {"metal": metal},
        "template_verification_performed": True,
        "verify_result": verdict,
    }
    meta = {"question_id": id, "question_text": f"{id}?", "answering": model, "parsing": model, "timestamp": "t"}
    return {"metadata": {**meta, **more}, "template": template}


@pytest.fixture
def export() -> Path:
    refused = {"category": "abstention", "stage": "AbstentionCheck", "reason": "it refused"}
    rows = [
        result("liquid", "mercury", True),
        result("red", "Copper", False),
        result("liquid", "lead", False, failure=refused, replicate=2),
        result("gone", "tin", True),
    ]
    Path("metals.yaml").write_text(BENCHMARK, "utf-8")
    Path("export.json").write_text(json.dumps({"format_version": "2.2", "metadata": {}, "results": rows}), "utf-8")
    return Path("export.json")


def test_results_are_shown(export: Path) -> None:
    shown = run_karenina("show", export, "--quiet")

    assert shown.code == 0, shown.err
    assert "2 correct, 1 wrong, 1 abstained" in shown.out


def test_results_are_rescored_from_the_extracted_values(export: Path) -> None:
    done = run_karenina("rescore", export, "metals.yaml", "--json", "-o", "new.jsonl")

    assert done.code == 0, done.err
    assert [(flip["question_id"], flip["before"], flip["after"]) for flip in done.json["flips"]] == [
        ("red", "wrong", "correct")
    ]
    assert (done.json["gone"], done.json["new"], done.json["missing"]) == (1, 1, 0)
    again = run_karenina("show", "new.jsonl", "--quiet")
    assert "2 correct, 1 abstained" in again.out
    assert "the result file was not changed" in run_karenina("rescore", export, "metals.yaml").err


@pytest.mark.parametrize("named", ["metals.yaml", "export.json"])
def test_rescoring_does_not_overwrite_another_file(export: Path, named: str) -> None:
    before = Path(named).read_text("utf-8")

    done = run_karenina("rescore", export, "metals.yaml", "-o", named)

    assert done.code == 2, done.out
    assert f"{named} is not a result file and was not changed" in done.err
    assert Path(named).read_text("utf-8") == before


def test_rescoring_keeps_earlier_results(export: Path) -> None:
    run_karenina("rescore", export, "metals.yaml", "-o", "new.jsonl")
    first = Path("new.jsonl").read_text("utf-8")

    again = run_karenina("rescore", export, "metals.yaml", "-o", "new.jsonl")

    assert again.code == 0, again.err
    assert Path("new-1.jsonl").read_text("utf-8") == first
    assert "new.jsonl contained earlier results, which are kept in" in again.err


def test_values_that_do_not_fit_the_template_are_not_judged(export: Path) -> None:
    Path("metals.yaml").write_text(BENCHMARK.replace("{metal: {", "{number: {type: int, ").replace("mercury", "7"))

    done = run_karenina("rescore", export, "metals.yaml", "--json")

    assert done.code == 2 or done.json["missing"] == 2


def test_rescoring_results_without_a_benchmark_names_the_command(export: Path) -> None:
    done = run_karenina("rescore", export)

    assert done.code == 2
    assert "karenina rescore export.json BENCHMARK" in done.err


def gui(*finished: bool) -> Path:
    """Write a checkpoint of the graphical interface, with questions that are finished or not."""
    questions = {
        f"q{number}": {
            "question": f"Question {number}?",
            "raw_answer": "x",
            "answer_template": "",
            "finished": is_finished,
        }
        for number, is_finished in enumerate(finished, 1)
    }
    data = {"version": "2.0", "global_rubric": None, "checkpoint": questions}
    Path("gui.json").write_text(json.dumps(data), "utf-8")
    return Path("gui.json")


def run(*arguments: str | Path) -> Any:
    fixed = ("--answering", "scripted:m", "--set", "evaluation_mode=rubric_only", "--json")
    return run_karenina("run", *arguments, *fixed, plugins=make_plugins())


def test_drafts_are_left_out_of_a_run_unless_they_are_named() -> None:
    file = gui(True, False)

    all_of_it, named = run(file), run(file, "--question", "q2")

    assert [entry["question_id"] for entry in all_of_it.json["results"]] == ["q1"]
    assert "left out of runs: q2" in all_of_it.err
    assert [entry["question_id"] for entry in named.json["results"]] == ["q2"]


def test_a_benchmark_of_drafts_is_no_empty_run() -> None:
    done = run(gui(False, False))

    assert done.code == 2
    assert "every question in the benchmark is a draft (`finished: false`); select the questions to run" in done.err


def test_a_resumed_run_has_the_drafts_that_were_named() -> None:
    file = gui(True, False)
    first = run(file, "--question", "q1", "--question", "q2")

    again = run_karenina("resume", "gui.journal", "--json", plugins=make_plugins())

    assert first.code == again.code == 0, again.err
    assert [entry["question_id"] for entry in again.json["results"]] == ["q1", "q2"]
