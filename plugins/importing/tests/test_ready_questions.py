"""Rows of formats that contain more of a question than its text, its truth and one answer."""

from __future__ import annotations

from typing import Any

from karenina_importing import FieldMapping, SourceRow, convert

MAPPING = FieldMapping(paths={"question": ("q",), "raw_answer": ("gold",), "response": ("reply",)})
GENE = {"gene": {"description": "The gene that is named", "ground_truth": "BCL2"}}
POLITE = {"type": "llm", "name": "polite", "description": "The response is polite"}


def _row(number: int = 1, q: str = "Which gene?", **ready: Any) -> SourceRow:
    return SourceRow(f"line {number}", {"q": q, "gold": "KRAS", "reply": "It is KRAS."}, **ready)


def test_ready_keys_take_the_place_of_mapped_ones() -> None:
    done = convert([_row(question={"answer": GENE, "strategy": "gene", "rubric": [POLITE]})], MAPPING)

    (question,) = done.questions.values()
    assert question["answer"] == GENE
    assert question["rubric"] == [POLITE]
    assert question["raw_answer"] == "KRAS"
    assert done.config == {"evaluation_mode": "template_and_rubric"}


def test_a_chosen_type_replaces_ready_fields() -> None:
    row = _row(question={"answer": GENE, "strategy": "gene", "rubric": [POLITE]})

    (question,) = convert([row], MAPPING.changed(["answer=text"])).questions.values()

    assert question["answer"]["answer"]["ground_truth"] == "KRAS"
    assert "strategy" not in question
    assert question["rubric"] == [POLITE]


def test_one_text_with_other_ready_keys_is_another_question() -> None:
    other = {"gene": {**GENE["gene"], "ground_truth": "KRAS"}}
    rows = [_row(1, question={"answer": GENE}), _row(2, question={"answer": other}), _row(3, question={"answer": GENE})]

    done = convert(rows, MAPPING)

    assert [question["answer"]["gene"]["ground_truth"] for question in done.questions.values()] == ["BCL2", "KRAS"]
    assert [(recording["id"], recording["replicate"]) for recording in done.recordings] == [
        ("q1-which-gene", 1),
        ("q2-which-gene", 1),
        ("q1-which-gene", 2),
    ]


def test_several_recordings_of_a_row_keep_models_and_labels() -> None:
    recordings = [
        {"response": "KRAS", "model": "a", "label": {"verdict": False, "labeller": "Ada"}},
        {"response": "BCL2", "model": "b"},
    ]

    done = convert([_row(recordings=recordings), _row(2, "Why?", recordings=[])], MAPPING)

    assert [(recording["model"], recording["replicate"], recording["response"]) for recording in done.recordings] == [
        ("a", 1, "KRAS"),
        ("b", 1, "BCL2"),
    ]
    assert done.labels == [
        {"id": "q1-which-gene", "replicate": 1, "model": "a", "verdict": False, "labeller": "Ada"},
    ]
    assert [row.place for row in done.unanswered] == ["line 2"]


def test_what_is_left_out_is_counted_once_for_each_question() -> None:
    done = convert([_row(left_out=["latency", "cost"]), _row(2, left_out=["latency", "cost"])], MAPPING)

    assert done.left_out == {"latency": 1, "cost": 1}


def test_a_wrong_ready_key_is_a_problem_of_its_row() -> None:
    wrong = {"gene": {"description": "The gene", "ground_truth": "BCL2", "verify_with": "NoSuchRule"}}

    done = convert([_row(question={"answer": wrong}), _row(2, question={"rubric": [{"type": "llm"}]})], MAPPING)

    assert [problem.place for problem in done.problems] == ["line 1", "line 2"]
    assert not done.questions
