"""`Choice`: the tables of cases (`stranger.jsonl` by an author who had seen only the design), and the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates import Choice, Undecided
from karenina_testing.contracts import PrimitiveContract
from karenina_testing.verdict_rows import check_verdict, verdict_rows

CAPITALS = {"A": "Quito", "B": "Lima", "C": "Bogotá", "D": "La Paz"}


@pytest.mark.parametrize("case", verdict_rows(Path(__file__).parent / "cases" / "choice"))
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    rule = Choice.model_validate({"options": case["options"], **case["rule"]})

    check_verdict(rule, case)


@pytest.mark.parametrize(
    "value",
    [
        *("I would choose B.", "I'd go with option B", "Answer - B", "ans: B", "<answer>B</answer>", r"\(B\)", "B ✓"),
        *("It's not A but B", "second: Lima", "b-Lima", "B is correct", "I think it is Lima"),
    ],
)
def test_words_around_an_option_do_not_matter(value: str) -> None:
    assert Choice(options=CAPITALS).check(value, "B") is True


@pytest.mark.parametrize("value", ["B is wrong", "B is not correct", "neither Lima nor Quito", "no idea", "2"])
def test_a_value_that_chooses_nothing_is_undecided(value: str) -> None:
    assert isinstance(Choice(options=CAPITALS).check(value, "B"), Undecided)


@pytest.mark.parametrize(
    "value", ["the second last", "the second best", "the second largest", "second half", "the first two", "third last"]
)
def test_an_ordinal_that_is_no_place_from_the_start_is_undecided(value: str) -> None:
    verdicts = [Choice(options=CAPITALS).check(value, label) for label in CAPITALS]

    assert all(isinstance(verdict, Undecided) for verdict in verdicts)


@pytest.mark.parametrize(("value", "label"), [("5'", "A"), ('5"', "A"), ("x'", "B"), ("x!", "B")])
def test_a_mark_after_a_number_or_symbol_may_change_it(value: str, label: str) -> None:
    assert isinstance(Choice(options={"A": "5", "B": "x"}).check(value, label), Undecided)
    assert Choice(options={"A": "5", "B": "x"}).check(f"'{value[0]}'", label) is True
    assert Choice(options={"A": "5", "B": "x"}).check(f"{label}!", label) is True


@pytest.mark.parametrize("value", ["The answer is B!", "Answer: B!", "It is option B!", "The answer is Lima!"])
def test_an_exclamation_mark_after_a_label_or_word_does_not_count(value: str) -> None:
    assert Choice(options=CAPITALS).check(value, "B") is True


def test_a_list_of_options_has_letters() -> None:
    rule = Choice(options=["Quito", "Lima"])

    assert rule == Choice(options={"A": "Quito", "B": "Lima"})
    assert rule.check("B. Lima", "Lima") is True


def test_texts_that_differ_in_case_are_distinct() -> None:
    rule = Choice(options={"A": "5 mM", "B": "5 mm", "C": "5 M"})

    assert rule.check("5 mM", "A") is True
    assert rule.check("5 mm", "A") is False
    assert isinstance(rule.check("5 MM", "A"), Undecided)


class TestChoice(PrimitiveContract):
    entry_point = "karenina_template:plugin"
    primitive = Choice(options=CAPITALS, unreadable="wrong")
    truths = ("B", "lima", "D")
    bad_truths = (None, "E", "Santiago", 2, ["B"])
    passes = (("(b)", "B"), ("Lima", "B"), ("the last", "D"))
    fails = (("A", "B"), ("B. Quito", "B"), ("A or B", "B"))
    undecided = (("B. Santiago", "B"),)
    unreadable = (("Santiago", "B"), ("hard to say", "B"))


@pytest.mark.parametrize("options", [{"A": "Quito"}, {"A": "Quito", "B": " "}, ["Quito", ""], [], "Quito"])
def test_options_without_a_choice_are_refused(options: Any) -> None:
    with pytest.raises(ValidationError):
        Choice(options=options)


texts = st.text("AaBb1x .(),$\\{}é-", min_size=1).filter(str.strip)


@given(st.lists(texts, min_size=2, max_size=5), st.text())
def test_any_text_has_a_verdict(options: list[str], value: str) -> None:
    verdict = Choice(options=options).check(value, "A")

    assert verdict in (True, False) or isinstance(verdict, Undecided)


@given(
    st.lists(
        st.text("abcdefgh ", min_size=2).filter(str.strip),
        min_size=2,
        max_size=5,
        unique_by=lambda text: "".join(text.split()),
    )
)
def test_a_letter_with_its_text_is_never_wrong(options: list[str]) -> None:
    rule = Choice(options=options)
    for letter, text in rule.options.items():
        assert rule.check(f"{letter}. {text}", letter) is not False
