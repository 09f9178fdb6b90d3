"""The options of questions are read from cells, and the right options are found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_benchmark.tables import lettered_options

METALS = {"A": "iron", "B": "mercury"}


@pytest.mark.parametrize(
    "cell",
    [
        ["iron", "mercury"],
        "['iron', 'mercury']",
        '["iron", "mercury"]',
        "['iron' 'mercury']",
        "array(['iron', 'mercury'], dtype=object)",
        {"A": "iron", "B": "mercury"},
        {"1": "iron", "2": "mercury"},
        {"0": "iron", "1": "mercury"},
        {"text": ["iron", "mercury"], "label": ["A", "B"]},
        {"text": ["iron", "mercury"], "label": ["1", "2"]},
        ["A. iron", "B. mercury"],
        ["(a) iron", "(b) mercury"],
        ["1) iron", "2) mercury"],
        [{"id": 1, "text": "iron"}, {"id": 2, "text": "mercury"}],
        "A. iron\nB. mercury",
        "A) iron B) mercury",
        "iron; mercury",
        "iron|mercury",
        "iron\nmercury",
        "iron, mercury",
    ],
    ids=repr,
)
def test_options_are_read_from_a_cell(cell: Any) -> None:
    assert lettered_options.read_options(cell) == METALS


@pytest.mark.parametrize(
    "cell", ["iron", "", [], ["iron"], {"x": "iron", "y": "b"}, 5, None, ["iron", None], "x" * 200_000]
)
def test_other_cells_have_no_options(cell: Any) -> None:
    assert lettered_options.read_options(cell) == {}


@pytest.mark.parametrize("cell", ["A) only a) B) only b) C) neither", "a) only A) b) only B) c) neither"])
def test_letters_of_the_other_case_belong_to_the_options(cell: str) -> None:
    assert list(lettered_options.read_options(cell).values())[2:] == ["neither"]


@pytest.mark.parametrize(
    "options", [["0.5", "1.5", "2.5"], ["1.5 g", "2.5 g"], ["1:3", "2:3"], ["0:30", "1:30"]], ids=repr
)
def test_numbers_that_begin_in_order_are_no_marks(options: list[str]) -> None:
    assert lettered_options.strip_marks(options) == options
    assert list(lettered_options.read_options(", ".join(options)).values()) == options


@pytest.mark.parametrize(("truth", "letter"), [("1", "A"), (2, "B"), ("mercury", "mercury"), (["2", "1"], ["B", "A"])])
def test_keys_of_options_are_their_labels(truth: Any, letter: Any) -> None:
    assert lettered_options.letter_of_label(truth, {"1": "iron", "2": "mercury"}) == letter


def test_letters_are_not_doubled() -> None:
    assert lettered_options.strip_marks(["A. iron", "B. mercury"]) == ["iron", "mercury"]
    assert lettered_options.strip_marks(["A. iron", "C. mercury"]) == ["A. iron", "C. mercury"]
    question = "Which is liquid?\n(A) iron\n(B) mercury"
    assert lettered_options.join_options(question, METALS) == question
    assert lettered_options.options_in(question, "(B)") == METALS
    assert lettered_options.options_in(question, "mercury") == {}
    assert lettered_options.join_options("Which is liquid?", METALS) == "Which is liquid?\n\nA. iron\nB. mercury"


FOUND: list[tuple[list[Any], str, list[tuple[str, ...]]]] = [
    (["A", "(b)"], "letter or text", [("A",), ("B",)]),
    (["Iron", "B. mercury"], "letter or text", [("A",), ("B",)]),
    (["Option A", "B)"], "letter or text", [("A",), ("B",)]),
    ([0, 1], "index", [("A",), ("B",)]),
    (["1", "2.0"], "number", [("A",), ("B",)]),
    (["A, B", ["B"]], "letter or text", [("A", "B"), ("B",)]),
    (["one", "two"], "letter or text", [("A",), ("B",)]),
    (["tin", "B"], "", [(), ()]),
    ([None, ""], "", [(), ()]),
]


@pytest.mark.parametrize(("truths", "way", "letters"), FOUND, ids=[repr(case[0]) for case in FOUND])
def test_the_right_options_of_a_column_are_found_in_one_way(
    truths: list[Any], way: str, letters: list[tuple[str, ...]]
) -> None:
    right = lettered_options.find_right_options(truths, [METALS, METALS], columns={"A": "one", "B": "two"})
    assert (right.way, list(right.letters), right.problem) == (way, letters, "")


def test_a_place_that_could_be_counted_from_0_or_1_is_a_problem() -> None:
    both = [{"A": "x", "B": "y", "C": "z"}] * 2
    assert "could be the index or number of an option" in lettered_options.find_right_options([1, 2], both).problem
    assert lettered_options.find_right_options([1, 2], both, "number").letters == (("A",), ("B",))
    assert lettered_options.find_right_options([1, 2], both, hint="index").letters == (("B",), ("C",))
    assert lettered_options.find_right_options([1, 0], both).letters == (("B",), ("A",))


def test_numbers_that_are_texts_and_places_of_options_are_a_problem() -> None:
    assert lettered_options.find_right_options([2], [{"A": "1", "B": "2", "C": "3"}]).problem
    assert lettered_options.find_right_options([12], [{"A": "10", "B": "12"}]).letters == (("B",),)


def test_one_bad_cell_of_many_is_left_out() -> None:
    right = lettered_options.find_right_options(["A"] * 24 + ["tin"], [METALS] * 25)
    assert (right.way, right.letters[-1], right.letters[0]) == ("letter or text", (), ("A",))


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=5))
def test_a_list_written_by_python_is_read_as_it_was(items: list[str]) -> None:
    assert lettered_options.parse_list(repr(items)) == items


@given(st.text(max_size=40) | st.recursive(st.text(max_size=3), lambda inner: st.lists(inner, max_size=3)).map(repr))
def test_any_text_is_a_list_or_none(text: str) -> None:
    items = lettered_options.parse_list(text)
    assert items is None or isinstance(items, list)
    options = lettered_options.read_options(text)
    assert all(options.values())
