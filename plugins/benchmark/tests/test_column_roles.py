"""Columns of a table are chosen by their names, and by their cells where names do not decide."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_benchmark.tables.column_roles import Roles, choose_roles, fold_name

SETS: dict[str, tuple[list[str], dict[str, str]]] = {
    "ragas": (
        ["user_input", "retrieved_contexts", "response", "reference"],
        {"question": "user_input", "answer": "reference", "context": "retrieved_contexts", "response": "response"},
    ),
    "old ragas": (
        ["question", "contexts", "answer", "ground_truth"],
        {"question": "question", "answer": "ground_truth", "context": "contexts", "response": "answer"},
    ),
    "deepeval": (
        ["input", "actual_output", "expected_output", "context"],
        {"question": "input", "answer": "expected_output", "context": "context", "response": "actual_output"},
    ),
    "promptfoo": (["question", "__expected"], {"question": "question", "answer": "__expected"}),
    "langfuse": (["id", "input", "expectedOutput"], {"question": "input", "answer": "expectedOutput", "id": "id"}),
    "a product": (["Prompt", "Ideal Response", "Model Response"], {"question": "Prompt", "answer": "Ideal Response"}),
    "openai": (["Question", "Ideal"], {"question": "Question", "answer": "Ideal"}),
    "truthful": (
        ["Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source"],
        {"question": "Question", "answer": "Best Answer", "keywords": "Category"},
    ),
    "arc": (["id", "question", "choices", "answerKey"], {"question": "question", "answer": "answerKey", "id": "id"}),
    "medical": (["QUESTION", "CONTEXTS", "final_decision"], {"answer": "final_decision", "context": "CONTEXTS"}),
    "a gold id": (["question", "gold_id", "gold_url", "answer"], {"answer": "answer"}),
    "an explanation": (["question", "correct_answer_explanation", "solution"], {"answer": "solution"}),
    "a rating": (["question", "answer", "correctness", "expected_difficulty"], {"answer": "answer"}),
    "a key of rows": (["key", "question", "answer"], {"answer": "answer"}),
    "a worked solution": (["problem", "solution", "answer"], {"answer": "answer"}),
    "the own names": (["question", "raw_answer", "answer"], {"answer": "raw_answer"}),
}


@pytest.mark.parametrize("name", SETS)
def test_the_columns_of_a_tool_are_known(name: str) -> None:
    columns, expected = SETS[name]
    columns_by_role = choose_roles(columns).columns
    assert {role: columns_by_role.get(role) for role in expected} == expected


def chosen(rows: list[dict[str, Any]]) -> Roles:
    return choose_roles(list(rows[0]), rows)


@pytest.mark.parametrize("cells", [("Correct Answer", "Incorrect Answer"), ("pass", "refusal"), (1, 0), (True, False)])
def test_a_column_of_grades_is_not_the_right_answer(cells: tuple[Any, Any]) -> None:
    rows = [
        {"question": "q", "correct": cell, "answer": text} for cell, text in zip(cells, ("Ann", "Bob"), strict=True)
    ]
    assert (chosen(rows).get("answer"), chosen(rows).grades) == ("answer", ("correct",))


def test_grades_beside_a_response_leave_no_right_answer() -> None:
    rows = [{"question": "q", "response": "r", "label": grade} for grade in ("Correct", "Refusal")]
    assert (chosen(rows).get("answer"), chosen(rows).grades) == (None, ("label",))


@pytest.mark.parametrize(("name", "cells"), [("correct", ("yes", "no")), ("label", (1, 0))])
def test_yes_and_no_beside_a_text_of_a_model_are_grades(name: str, cells: tuple[Any, Any]) -> None:
    rows = [{"question": "q", "model_answer": "It is Lima.", name: cell} for cell in cells]
    assert (chosen(rows).get("answer"), chosen(rows).grades) == (None, (name,))
    rows = [{**row, "model_answer": "yes"} for row in rows]
    assert (chosen(rows).get("answer"), chosen(rows).grades) == (name, ())


def test_other_columns_that_could_be_the_right_answer_are_named() -> None:
    rows = [{"question": "q", "answer": "BRAF", "reference": "p. 12", "response": "r"}]
    assert (chosen(rows).get("answer"), chosen(rows).rivals) == ("reference", ("answer",))


def test_one_of_several_general_names_is_not_taken() -> None:
    columns = ["question", "expected_scope", "expected_risk"]
    roles = choose_roles(columns, [dict.fromkeys(columns, "some text")])
    assert roles.get("answer") is None
    assert roles.rivals == ("expected_scope", "expected_risk")
    assert choose_roles([*columns, "expected_answer"]).get("answer") == "expected_answer"


def test_addresses_of_sources_are_not_right_answers() -> None:
    rows = [{"question": "q", "reference": "https://example.org/a", "answer": "Ann"}]
    assert chosen(rows).get("answer") == "answer"
    assert chosen([{"question": "q", "reference": "Ann", "answer": "It is Ann."}]).get("answer") == "reference"


def test_yes_and_no_are_answers_if_nothing_else_is() -> None:
    rows = [{"question": "q", "label": cell} for cell in ("yes", "no")]
    assert (chosen(rows).get("answer"), chosen(rows).grades) == ("label", ())


@pytest.mark.parametrize(
    ("columns", "letters"),
    [
        (["Question", "A", "B", "C", "Answer"], {"A": "A", "B": "B", "C": "C"}),
        (["q", "Option A", "option_b", "key"], {"A": "Option A", "B": "option_b"}),
        (["ctx", "ending0", "ending1", "label"], {"A": "ending0", "B": "ending1"}),
        (["question", "opa", "opb", "cop"], {"A": "opa", "B": "opb"}),
        (["question", "answer1", "answer2", "correctAnswer"], {"A": "answer1", "B": "answer2"}),
        (["question", "answer1", "answer2"], {}),
        (["question", "response_a", "response_b", "winner"], {}),
        (["question", "A", "answer"], {}),
        (["question", "option 2", "option 3", "answer"], {}),
    ],
)
def test_options_in_columns_are_found(columns: list[str], letters: dict[str, str]) -> None:
    assert choose_roles(columns).options == letters


def test_a_label_says_which_answer_is_right_if_it_marks_one() -> None:
    columns = ["question", "answerA", "answerB", "label"]

    def options(*labels: Any) -> dict[str, str]:
        return dict(
            choose_roles(columns, [dict(zip(columns, ("?", "x", "y", label), strict=True)) for label in labels]).options
        )

    assert options("1", "2") == options("A", None) == {"A": "answerA", "B": "answerB"}
    assert options("biology", "1") == options(None) == {}
    row = {"question": "?", "ground_truth": "x", "answer1": "x", "answer2": "y", "label": "1"}
    assert choose_roles([*row], [row]).options == {}


def test_a_key_that_numbers_the_items_is_their_id() -> None:
    def roles(*keys: Any, **more: Any) -> dict[str, str]:
        rows = [{"key": key, "prompt": f"Task {key}", **more} for key in keys]
        return dict(choose_roles([*rows[0]], rows).columns)

    assert roles(1000, 1001, 1005) == roles("0", "12") == {"question": "prompt", "id": "key"}
    assert roles(5, 3, 9) == roles(7) == roles("B", "A") == {"question": "prompt", "answer": "key"}
    assert roles(0, 1, A="x", B="y") == {"question": "prompt", "answer": "key"}
    assert roles(0, 1, choices=["x", "y"]) == {"question": "prompt", "answer": "key", "choices": "choices"}
    after = [{"question": "How many are 1 and 1?", "key": "2"}, {"question": "And 2 and 2?", "key": "4"}]
    assert choose_roles(["question", "key"], after).columns == {"question": "question", "answer": "key"}


@pytest.mark.parametrize("name", ["label", "cop", "answer_idx"])
def test_labels_that_are_not_published_are_not_right_answers(name: str) -> None:
    def roles(*labels: Any) -> dict[str, str]:
        return dict(choose_roles(["question", name], [{"question": "Is it?", name: label} for label in labels]).columns)

    assert roles(-1, -1) == roles("-1", -1.0) == {"question": "question"}
    assert roles(-1, 1) == {"question": "question", "answer": name}


def test_columns_of_several_answers_have_names() -> None:
    names = ["question", "answer.gene", "answer.year", "description.year", "description.other", "from.gene", "from.x"]
    roles = choose_roles(names)
    assert (roles.descriptions, roles.sources) == ({"year": "description.year"}, {"gene": "from.gene"})
    assert roles.unused == ("description.other", "from.x")
    assert roles.fields == {"gene": "answer.gene", "year": "answer.year"}
    assert roles.get("answer") is None


def test_a_column_that_numbers_the_rows_is_not_mentioned() -> None:
    rows = [{"Unnamed: 0": str(number), "question": "q", "answer": "a", "Level": "1"} for number in range(3)]
    assert chosen(rows).unused == ("Level",)


@given(st.lists(st.text(max_size=12), unique=True, max_size=8), st.data())
def test_each_column_has_one_use_whatever_it_is_called(columns: list[str], data: st.DataObject) -> None:
    names = st.sampled_from(["question", "answer", "label", "A", "B", "context", "text", "response", "answer.x", "id"])
    columns = list(dict.fromkeys([*columns, *data.draw(st.lists(names))]))
    cells = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.text(max_size=3)))
    rows = [{column: data.draw(cells) for column in columns} for _ in range(2)]
    roles = choose_roles(columns, rows)
    used = [*roles.columns.values(), *roles.options.values(), *roles.fields.values(), *roles.descriptions.values()]
    others = [*used, *roles.contexts[1:], *roles.grades, *roles.unused]
    assert len(set(others)) == len(others)
    assert set(others) <= set(columns)


def test_names_are_compared_without_case_and_punctuation() -> None:
    assert fold_name("Correct Answer") == fold_name("correct_answer") == fold_name("correctAnswer")
