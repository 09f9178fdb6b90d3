"""Recordings are compared with the questions before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, PortError
from karenina_manual import plugin
from karenina_testing.fixtures import anyio_backend as anyio_backend

SPEC = plugin.karenina_adapters()[0]
QUESTIONS = [CallInfo("q1", "Where?"), CallInfo("q2", "When?")]


def mismatches(traces: Any, asked: list[CallInfo] = QUESTIONS, others: tuple[CallInfo, ...] = ()) -> list[str]:
    assert SPEC.mismatches is not None
    model = ModelConfig(id="m", interface="manual", model_name="x", manual_traces=traces)
    return [said.partition(": ")[2] for said in SPEC.mismatches(model, asked, others)]


def lines(folder: Path, *rows: dict[str, Any]) -> Path:
    file = folder / "answers.jsonl"
    file.write_text("".join(json.dumps({"response": "x", **row}) + "\n" for row in rows), "utf-8")
    return file


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "q1"}, {"id": "q2"}],
        [{"question": "Where?"}, {"question": "When?"}],
        [{"id": "other", "question": "Where?"}, {"id": "q2", "question": "changed"}],
        [{"id": "q1"}, {"id": "q2", "replicate": 1}, {"id": "q2", "replicate": 2}],
    ],
)
def test_recordings_match_by_id_or_text(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    assert mismatches(lines(tmp_path, *rows)) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": "q1"}], ["1 of 2 questions have no recorded answer: 'q2'"]),
        ([{"id": "q1"}, {"id": "q2", "response": None}], ["1 of 2 questions have no recorded answer: 'q2'"]),
        (
            [{"id": "q1"}, {"id": "zzz"}],
            ["1 of 2 questions have no recorded answer: 'q2'", "1 recording matches no question: 'zzz' (line 2)"],
        ),
        (
            [{"id": "q1"}, {"id": "q2"}, *({"id": f"z{number}"} for number in range(5))],
            ["5 recordings match no question: 'z0' (line 3), 'z1' (line 4), 'z2' (line 5) and 2 more"],
        ),
        (
            [{"id": "q1"}, {"question": "When?"}, {"question": "When?", "response": "y"}],
            ["1 of 2 questions have no recorded answer: 'q2'"],
        ),
    ],
)
def test_what_is_missing_and_what_is_left_over_is_named(
    rows: list[dict[str, Any]], said: list[str], tmp_path: Path
) -> None:
    assert mismatches(lines(tmp_path, *rows)) == said


def test_a_replicate_without_a_recording_is_missing(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "q1", "replicate": 1}, {"id": "q2"})
    asked = [CallInfo(one.question_id, one.question, replicate) for one in QUESTIONS for replicate in (1, 2)]
    assert mismatches(file, asked) == ["1 of 2 questions have no recorded answer: 'q1'"]


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "q1", "replicate": 1}, {"id": "q1", "replicate": 2}, {"id": "q1", "replicate": 3}, {"id": "q2"}],
        [{"question": "Where?", "replicates": ["a", "b", "c"], "response": None}, {"id": "q2"}],
    ],
)
def test_replicates_that_the_run_does_not_have_are_reported(
    rows: list[dict[str, Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = lines(tmp_path, *rows)
    assert mismatches(file) == []
    (said,) = caplog.messages
    assert said.startswith(f"{file}: 2 recorded answers are not used")
    assert "replicate_count=3" in said
    caplog.clear()
    assert mismatches(file, [CallInfo(q.question_id, q.question, n) for q in QUESTIONS for n in (1, 2, 3)]) == []
    assert mismatches(file, QUESTIONS[1:], tuple(QUESTIONS)) == []
    assert caplog.messages == []


def test_recordings_of_other_questions_are_not_reported(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "q1"}, {"question": "When?"})
    assert mismatches(file, QUESTIONS[:1], tuple(QUESTIONS)) == []


def test_a_mapping_is_compared_too() -> None:
    assert mismatches({"q1": "x", "When?": "y", "zzz": "z"}) == ["1 recording matches no question: 'zzz'"]


@pytest.mark.parametrize("empty", ["", " \n", "<think>\n</think>", [{"role": "assistant", "content": ""}]])
def test_an_empty_recording_is_reported_with_its_place(empty: Any) -> None:
    (problem,) = mismatches({"q1": empty, "q2": "In 1993."})
    assert problem == "1 of 2 questions have an empty recorded answer: 'q1' (manual_traces['q1'])"


@pytest.mark.anyio
async def test_an_empty_recording_is_an_error_of_its_call() -> None:
    assert SPEC.llm is not None
    port = SPEC.llm(ModelConfig(id="m", interface="manual", model_name="x", manual_traces={"q1": " "}))
    with pytest.raises(PortError, match=r"the recorded answer for question 'q1' .* is empty"):
        await port.invoke([], info=QUESTIONS[0])


@pytest.mark.parametrize(
    ("said", "warned"),
    [
        (["Where?"], False),
        (["Answer briefly:\nWHERE?  Think first."], False),
        (["Here is an example.", "where?"], False),
        ([], False),
        (["", " "], False),
        (["How many?"], True),
        (["How many?", "Why?"], True),
    ],
)
def test_a_conversation_about_another_question_is_reported(
    said: list[str], warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [*({"role": "user", "content": text} for text in said), {"role": "assistant", "content": "On 17q21."}]
    file = lines(tmp_path, {"id": "q1", "response": [*messages, {"role": "user", "content": "Where?"}]}, {"id": "q2"})

    assert mismatches(file) == []
    assert caplog.messages == (
        [
            f"{file}: 1 recorded conversation does not begin with the text of the question: 'q1' (line 1); check that "
            "the ids are those of these questions"
        ]
        if warned
        else []
    )


@pytest.mark.parametrize(
    ("recorded", "warned"),
    [
        ("What is **TNF-\u03b1** \u201cfor\u201d?\n\nOptions:\n(A) pain", False),
        ("What is TNF-\u03b1 for\u2026", False),
        (json.dumps([{"role": "user", "content": 'Hi.\nWhat is TNF-\u03b1 "for"?'}], ensure_ascii=False), False),
        ("What is IL-6 for?\n\nA. pain\nB. fever", True),
    ],
    ids=["markup", "cut", "messages", "other"],
)
def test_another_form_of_the_same_question_is_not_reported(
    recorded: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = lines(tmp_path, {"id": "q1", "question": recorded})
    asked = [CallInfo("q1", 'What is TNF-\u03b1 "for"?\n\nA. pain\nB. fever')]

    mismatches(file, asked)
    assert len(caplog.messages) == warned


@pytest.mark.parametrize(
    ("question", "warned"),
    [("When?", True), ("where? ", False), ("Answer briefly.\n\nWhere?", False), ("Where", False)],
)
def test_a_recording_with_another_text_of_its_question_is_reported(
    question: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = lines(tmp_path, {"id": "q1", "question": question}, {"id": "q2", "question": "When?"})

    assert mismatches(file) == []
    assert caplog.messages == (
        [
            f"{file}: 1 recorded answer does not have the text of the question: 'q1' (line 1); check that the ids are "
            "those of these questions"
        ]
        if warned
        else []
    )


def test_recordings_of_other_questions_with_the_same_ids_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [*QUESTIONS, CallInfo("q3", "How?")]
    file = lines(tmp_path, *({"id": f"q{number}", "question": f"Who was {number}?"} for number in (1, 2)), {"id": "q3"})

    assert mismatches(file, asked) == [
        "2 of 2 recordings have the id of a question and the text of another: 'q1' (line 1), 'q2' (line 2); pass "
        "recordings of these questions, or, if only the wording is another, leave out the texts or name another column "
        "in extra.question_field"
    ]
    assert caplog.messages == []  # the message says all that the warning would


def test_the_same_text_in_all_recordings_is_no_question(tmp_path: Path) -> None:
    file = lines(tmp_path, *({"id": one.question_id, "question": "You are a helpful assistant."} for one in QUESTIONS))

    assert mismatches(file) == []


def test_recordings_in_another_language_are_read_without_their_texts(tmp_path: Path) -> None:
    rows = [{"id": "q1", "question": "Wo?"}, {"id": "q2", "question": "Wann?"}]
    model = ModelConfig(
        id="m", interface="manual", model_name="x", manual_traces=lines(tmp_path, *rows), extra={"question_field": "en"}
    )

    assert SPEC.mismatches is not None
    assert len(mismatches(lines(tmp_path, *rows))) == 1
    assert SPEC.mismatches(model, QUESTIONS, ()) == []


@pytest.mark.parametrize(
    "message", [{"finish_reason": "length"}, {"stop_reason": "max_tokens", "text": ""}, {"role": "user", "content": ""}]
)
@pytest.mark.parametrize("in_file", [True, False])
def test_a_single_message_is_no_mapping_of_ids(message: dict[str, str], in_file: bool, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(message), "utf-8")

    with pytest.raises(AdapterConfigError, match=r"and is one message; map the ids"):
        mismatches(file if in_file else message)


def test_recordings_with_exchanged_ids_match_no_question(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "q1", "question": "When?"}, {"id": "q2", "question": "Where?"})

    assert mismatches(file) == [
        "2 recordings have the id of one question and the text of another: 'q1' (line 1), 'q2' (line 2); correct the "
        "ids, or leave them out to find recordings by their text"
    ]


@pytest.mark.anyio
async def test_a_replicate_with_the_former_text_of_its_question_is_used(tmp_path: Path) -> None:
    former = {"id": "q1", "question": "Why?", "response": "first", "replicate": 1}
    file = lines(tmp_path, former, {"id": "q1", "question": "Where?", "response": "second", "replicate": 2})
    assert SPEC.llm is not None
    port = SPEC.llm(ModelConfig(id="m", interface="manual", model_name="x", manual_traces=file))

    assert (await port.invoke([], info=QUESTIONS[0])).text == "first"


@pytest.mark.anyio
async def test_the_answer_to_another_question_is_an_error_of_its_call(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "q1", "question": "When?"}, {"id": "q2", "question": "Where?"})
    assert SPEC.llm is not None
    port = SPEC.llm(ModelConfig(id="m", interface="manual", model_name="x", manual_traces=file))

    with pytest.raises(PortError, match=r"has the text of another question \(.*line 1\), .*another id \(.*line 2\)"):
        await port.invoke([], info=QUESTIONS[0])
