"""Inspect samples with all their turns, the values that their scorers compare, and datasets of Inspect tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from imports import import_file, judge_imported, run_imported, write_json, write_lines

from karenina_benchmark import Benchmark
from karenina_template.templates import load_template

RECORD = ("--recordings", "answers.jsonl")
CALL = {"id": "c1", "function": "lookup", "arguments": {"of": "Peru"}, "type": "function"}
TURNS: list[dict[str, Any]] = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Answer briefly."},
    {"role": "user", "content": "What is the capital of Peru?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "no answer", "tool_call_id": "c1", "function": "lookup", "error": {"type": "timeout"}},
    {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Lima"}]},
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def log(*samples: dict[str, Any], scorers: list[dict[str, Any]] | None = None) -> Path:
    about = {"task": "t", "model": "openai/m", **({"scorers": scorers} if scorers else {})}
    return write_json(Path("log.json"), {"version": 2, "status": "success", "eval": about, "samples": list(samples)})


def sample(**more: Any) -> dict[str, Any]:
    return {"id": 1, "epoch": 1, "input": "Which city?", "target": "Lima", "output": {"completion": "Lima."}, **more}


def recordings() -> list[Any]:
    return [json.loads(line)["response"] for line in Path("answers.jsonl").read_text("utf-8").splitlines()]


def test_a_log_without_samples_is_refused_with_the_way_on() -> None:
    write_json(Path("log.json"), {"version": 2, "status": "cancelled", "eval": {"task": "t"}, "samples": []})
    with ZipFile("log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"status": "cancelled", "eval": {"task": "t"}}))

    for name in ("log.json", "log.eval"):
        done = import_file(name)

        assert done.code == 2
        assert "the log has no samples (status 'cancelled')" in done.err
        assert "inspect eval-retry" in done.err


def test_answers_of_samples_that_were_declared_invalid_are_listed_and_not_recorded() -> None:
    invalidation = {"timestamp": "2026-01-01T00:00:00Z", "author": "ada", "reason": "the sandbox was broken"}
    log(sample(), sample(epoch=2, invalidation=invalidation), sample(epoch=3, invalidation={"author": "ada"}))

    done = import_file("log.json", *RECORD)

    assert done.code == 0, done.err
    assert "1 recorded answer" in done.out
    assert "epoch 2): the row has an error instead of an answer: the sample was declared invalid: the sand" in done.err
    assert "epoch 3): the row has an error instead of an answer: the sample was declared invalid" in done.err


def test_a_log_that_ended_early_says_so() -> None:
    about = {"task": "t", "dataset": {"samples": 100}}
    results = {"total_samples": 4, "completed_samples": 2}
    samples = [sample(), sample(epoch=2), sample(id=2, input="Which other?")]
    write_json(
        Path("log.json"), {"version": 2, "status": "cancelled", "eval": about, "results": results, "samples": samples}
    )

    done = import_file("log.json")

    assert done.code == 0, done.err
    assert "The status of the log is 'cancelled'; it contains 2 of the 100 samples from its dataset" in done.err
    assert "only 2 of 4 samples in the log were completed" in done.err


def test_scorers_that_compare_and_empty_targets_are_named() -> None:
    log(sample(), scorers=[{"name": "match"}])
    compared = import_file("log.json")
    log(sample(target=""), scorers=[{"name": "includes"}])
    empty = import_file("log.json")

    assert "For the scorer 'match', a judge extracts the answer, which is then compared with the target" in compared.err
    assert "Not carried over: 1 scorer includes of a sample with an empty target" in empty.err


def test_a_recording_holds_all_turns_and_a_run_reads_it(tmp_path: Path) -> None:
    log(
        sample(
            input="Answer briefly.", messages=TURNS, output={"completion": "Lima"}, scores={"includes": {"value": "C"}}
        )
    )

    done = import_file("log.json", *RECORD)

    assert done.code == 0, done.err
    assert "System messages are kept in the recordings" in done.err
    (question,) = Benchmark.load("out.yaml")
    assert question.question == "Answer briefly.\n\nWhat is the capital of Peru?"
    (result,) = judge_imported(tmp_path)
    assert result.template.verify_result is True
    trace = result.template.trace_messages
    assert [turn["role"] for turn in trace] == ["assistant", "tool", "assistant"]
    assert trace[0]["tool_calls"][0]["name"] == "lookup"
    assert trace[1]["is_error"] is True
    assert trace[2]["reasoning"] == "Hm."


def test_an_answer_that_an_agent_submitted_is_the_last_turn() -> None:
    turns = [*TURNS[:4], {"role": "tool", "content": "", "tool_call_id": "c1", "function": "submit"}]
    log(sample(messages=turns, output={"completion": "It is Lima."}))

    assert import_file("log.json", *RECORD).code == 0
    (messages,) = recordings()
    assert messages[-1] == {"role": "assistant", "content": "It is Lima.", "source": "generate"}


def test_an_input_in_a_template_of_the_solver_is_asked_once() -> None:
    asked = {"role": "user", "content": "Answer with a letter.\n\nWhich city?\n\nA) Lima"}
    log(sample(messages=[asked, {"role": "assistant", "content": "Lima."}]))

    assert import_file("log.json", *RECORD).code == 0
    assert next(iter(Benchmark.load("out.yaml"))).question == "Which city?"
    assert recordings() == ["Lima."]


@pytest.mark.parametrize(
    ("scorer", "described"),
    [
        ("model_graded_fact", "contains the content of this expert answer, and contradicts none of it: Lima"),
        ("inspect_ai/model_graded_qa1", "meets this criterion: Lima"),
    ],
)
def test_a_target_that_a_model_grades_is_a_trait(tmp_path: Path, scorer: str, described: str) -> None:
    log(sample(), scorers=[{"name": scorer, "options": {}}])

    assert import_file("log.json", *RECORD).code == 0
    (question,) = Benchmark.load("out.yaml")
    assert question.rubric is not None
    (trait,) = question.rubric.traits
    assert described in (trait.description or "")
    assert [result.outcome.value for result in judge_imported(tmp_path)] == ["scored"]


@pytest.mark.parametrize(
    ("target", "options", "answer", "passes"),
    [
        ("Lima", {}, "It is LIMA.", True),
        ("Lima", {}, "It is Cusco.", False),
        ("Lima", {"ignore_case": False}, "It is LIMA.", False),
        (["Lima", "City of Kings"], {}, "the city of kings", True),
        (["Lima", "City of Kings"], {}, "Cusco", False),
    ],
)
def test_what_an_answer_must_include(
    tmp_path: Path, target: Any, options: dict[str, Any], answer: str, passes: bool
) -> None:
    log(sample(target=target, output={"completion": answer}), scorers=[{"name": "includes", "options": options}])

    assert import_file("log.json", *RECORD).code == 0
    assert run_imported(tmp_path) == {"1": passes}


@pytest.mark.parametrize(("answer", "passes"), [("The answer is B.", True), ("The answer is A.", False)])
def test_choices_are_a_field_of_letters(tmp_path: Path, answer: str, passes: bool) -> None:
    log(sample(choices=["Cusco", "Lima"], target="B", output={"completion": answer}), scorers=[{"name": "choice"}])

    assert import_file("log.json", *RECORD).code == 0
    assert run_imported(tmp_path) == {"1": passes}


@pytest.mark.parametrize(
    ("scorer", "target", "shown", "right", "wrong"),
    [
        ("choice", ["A", "C"], "A. Helium; C. Neon", [["C", "A"]], [["A"], ["A", "B", "C"]]),
        ("choice", "A, C", "A. Helium; C. Neon", [["A", "C"]], [["C"]]),
        ("choice", "CA", "A. Helium; C. Neon", [["A", "C"]], [["C"]]),
        ("answer", ["A", "C"], "A or C", ["A", "C"], ["B"]),
        ("match", ["Helium", "Neon"], "Helium or Neon", ["A", "C"], ["B"]),
    ],
)
def test_only_the_scorer_choice_needs_all_options_of_a_target(
    scorer: str, target: Any, shown: str, right: list[Any], wrong: list[Any]
) -> None:
    log(sample(choices=["Helium", "Iron", "Neon"], target=target), scorers=[{"name": scorer}])

    assert import_file("log.json").code == 0
    (question,) = Benchmark.load("out.yaml")
    bound = load_template(question.answer_template or "").for_question("1")
    assert question.raw_answer == shown
    assert [bound.bind({"answer": answer}).verify() for answer in right] == [True] * len(right)
    assert [bound.bind({"answer": answer}).verify() for answer in wrong] == [False] * len(wrong)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("stop", "wrong"), ("max_tokens", "truncated"), ("content_filter", "abstained"), ("unknown", "wrong")],
)
@pytest.mark.parametrize("turns", [[], TURNS])
def test_the_reason_why_an_answer_ended_early_is_recorded(
    tmp_path: Path, reason: str, shown: str, turns: list[dict[str, Any]]
) -> None:
    output = {"completion": "The answer is Cusco", "choices": [{"stop_reason": reason}]}
    log(sample(output=output, messages=turns), scorers=[{"name": "match"}])

    assert import_file("log.json", *RECORD).code == 0
    assert [result.outcome.value for result in judge_imported(tmp_path)] == [shown]


@pytest.mark.parametrize(("limit", "shown"), [({"type": "token", "limit": 100}, "truncated"), (None, "wrong")])
def test_an_answer_that_a_limit_of_the_sample_ended_is_truncated(
    tmp_path: Path, limit: dict[str, Any] | None, shown: str
) -> None:
    output = {"completion": "The answer is Cusco", "choices": [{"stop_reason": "stop"}]}
    log(sample(output=output, limit=limit), scorers=[{"name": "match"}])

    assert import_file("log.json", *RECORD).code == 0
    assert [result.outcome.value for result in judge_imported(tmp_path)] == [shown]


def test_a_sample_that_somebody_stopped_is_no_answer() -> None:
    output = {"completion": "The answer is Cusco", "choices": [{"stop_reason": "stop"}]}
    log(sample(output=output, limit={"type": "operator", "limit": 1}), scorers=[{"name": "match"}])

    assert import_file("log.json", *RECORD).code == 0
    recorded = json.loads(Path("answers.jsonl").read_text("utf-8"))
    assert recorded["finish_reason"] == "error: the operator stopped the sample"


def test_what_is_not_carried_over_is_named() -> None:
    log(
        sample(sandbox=["docker", "c.yaml"], files={"a": "b"}, metadata={"level": 1, "long": "x" * 2000}),
        scorers=[{"name": "own_scorer"}],
    )

    done = import_file("log.json", *RECORD)

    for named in ("scorer own_scorer", "sandbox of a sample", "files of a sample", "long metadata of a sample"):
        assert f"1 {named}" in done.err
    assert next(iter(Benchmark.load("out.yaml"))).metadata == {"level": 1}


def test_a_sample_in_a_folder_has_its_messages_and_metadata() -> None:
    shell = {**sample(scores={"match": {"value": "C"}}), "message_refs": [[1, 4], [0, 1], [9, 99]]}
    final = {"role": "assistant", "content": "attachment://0"}
    pool = [final, TURNS[2], TURNS[3], {**TURNS[4], "error": None}]
    with ZipFile("log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "openai/m"}}))
        folder = "samples/1_epoch_1"
        archive.writestr(f"{folder}/sample.json", json.dumps(shell))
        archive.writestr(f"{folder}/messages/0.json", json.dumps(pool[:2]))
        archive.writestr(f"{folder}/messages/2.json", json.dumps(pool[2:]))
        archive.writestr(f"{folder}/attachments/0.json", json.dumps(["It is Lima."]))
        archive.writestr(f"{folder}/metadata.json", json.dumps({"level": 2}))

    assert import_file("log.eval", *RECORD).code == 0
    (messages,) = recordings()
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[3]["content"] == "It is Lima."
    assert next(iter(Benchmark.load("out.yaml"))).metadata == {"level": 2}


RECORDS = [
    {"input": "Which city?", "choices": ["Cusco", "Lima"], "target": "B", "id": "peru", "metadata": {"area": "west"}},
    {"input": [{"role": "user", "content": "And of Chile?"}], "choices": ["Santiago", "Arica"], "target": "A"},
]


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
def test_datasets_of_tasks(kind: str) -> None:
    if kind == "json":
        write_json(Path("data.json"), RECORDS)
    elif kind == "jsonl":
        write_lines(Path("data.jsonl"), RECORDS)
    else:
        rows = 'id,input,choices,target,metadata\nperu,Which city?,"Cusco,Lima",B,"{""area"": ""west""}"\n'
        Path("data.csv").write_text(rows + ',And of Chile?,"[""Santiago"", ""Arica""]",A,\n', "utf-8")

    done = import_file(f"data.{kind}")

    assert done.code == 0, done.err
    assert "2 questions from 2 rows of an Inspect log or dataset" in done.out
    first, second = Benchmark.load("out.yaml")
    assert (first.id, first.question) == ("peru", "Which city?\n\nA. Cusco\nB. Lima")
    assert (first.raw_answer, first.metadata) == ("B. Lima", {"area": "west"})
    assert second.question == "And of Chile?\n\nA. Santiago\nB. Arica"
    assert "verify_with=Choice(options={'A': 'Santiago" in str(second.answer_template)


def test_a_table_of_inputs_and_targets_alone_stays_a_table() -> None:
    write_lines(Path("data.jsonl"), [{"input": "Which city?", "target": "Lima"}, {"input": "Why?", "target": "So"}])

    assert "of a table, or a Hugging Face dataset" in import_file("data.jsonl").out


def test_letters_and_texts_are_the_targets_that_they_are_in_inspect() -> None:
    rows = [
        {"input": "Which?", "choices": ["B", "A", "C"], "target": "A", "id": 1},
        {"input": "Which pair?", "target": "[2, 3]", "id": 2},
    ]
    write_lines(Path("data.jsonl"), rows)

    assert import_file("data.jsonl", "--from", "inspect").code == 0
    lettered, pair = Benchmark.load("out.yaml")
    assert "Literal['A', 'B', 'C']" in (lettered.answer_template or "")
    assert "ground_truth='A'" in (lettered.answer_template or "")
    assert pair.raw_answer == "[2, 3]"


def test_alternatives_stay_alternatives_beside_a_question_for_a_list() -> None:
    rows = [
        {"input": "Which city?", "target": ["Lima", "Callao"], "id": 1},
        {"input": "List the primes below 4.", "target": ["2", "3"], "id": 2},
        {"input": "Which country?", "target": "Peru", "id": 3},
    ]
    write_lines(Path("data.jsonl"), rows)

    assert import_file("data.jsonl", "--from", "inspect").code == 0
    first, second, third = (question.answer_template or "" for question in Benchmark.load("out.yaml"))
    assert "SetContainment" not in first + third
    assert "callao" in first
    assert "SetContainment" in second
