"""The second look of a small judge at numbers: which numbers a response has, and when the judge chooses among them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parse_runs import parse

from karenina_core.models.ports import ParserReply
from karenina_template.templates.primitives.numbers_in_text import read_numbers
from karenina_testing import StageRun

TEMPLATE = """
class Answer(BaseAnswer):
    year: int = VerifiedField(description="The year", ground_truth=2003, verify_with=NumericExact())
    weight: float = VerifiedField(description="The weight in grams", ground_truth=14, verify_with=NumericExact())
    limited: int | None = VerifiedField(
        description="It", ground_truth=3, verify_with=NumericExact(), ge=1, le=4000
    )
    choice: Literal[20, 23] = VerifiedField(description="It", ground_truth=20, verify_with=NumericExact())
    town: str = VerifiedField(description="The town", ground_truth="Rome", verify_with=ExactMatch())
"""


class Judge:
    """A judge that first replies with `first` and, at a second look, with the last choice of each field."""

    def __init__(self, first: Mapping[str, Any], second: Mapping[str, Any] | None = None) -> None:
        self.first, self.second = first, second
        self.choices: list[Mapping[str, Sequence[object]]] = []

    def __call__(self, messages: Any, schema: Mapping[str, Any], info: Any = None) -> Mapping[str, Any]:
        options = {name: part.get("anyOf", [{}])[0].get("enum") for name, part in schema["properties"].items()}
        choices = {name: found for name, found in options.items() if found and None in found}
        if not choices:
            return self.first
        self.choices.append(choices)
        return self.second or {**self.first, **{name: found[-2] for name, found in choices.items()}}


def run(judge: Judge, response: str, **settings: Any) -> tuple[dict[str, Any], StageRun]:
    """Return the fields of the template as the judge filled them, and the run of the stage."""
    return parse(judge, response, TEMPLATE, "What is known?", **settings)


def filled(**values: Any) -> dict[str, Any]:
    return {"rejected": [], **dict.fromkeys(("year", "weight", "limited", "choice", "town")), **values}


def test_a_number_that_the_response_has_in_words_replaces_one_that_it_does_not_have() -> None:
    judge = Judge(filled(year=203, town="Rome"))

    values, found = run(judge, "In Rome, in two thousand and three.")

    assert (values["year"], values["town"]) == (2003, "Rome")
    assert judge.choices == [{"year": [2003, None]}]
    assert found.field("parsing") == {"replaced": {"year": 203}}


NO_CHOICE: dict[str, tuple[dict[str, object], str]] = {
    "the number itself": ({"year": 2003}, "two thousand and three"),
    "a number in millions": ({"weight": 8.4}, "8.4 million"),
    "a count": ({"year": 3}, "Rome, Oslo, Bern: twenty-one thousand people"),
    "too many digits": ({"year": 18}, "Born in nineteen forty, he died young."),
    "another first digit": ({"year": 31}, "two thousand and three"),
    "an ordinal": ({"year": 21}, "the twenty-third"),
    "no whole number": ({"weight": 20.5}, "twenty-three"),
    "a fraction in words": ({"weight": 250}, "two hundred and a half"),
    "a choice of the template": ({"choice": 20}, "twenty-three"),
    "a text": ({"town": "203"}, "two thousand and three"),
    "a number in that unit": ({"weight": 14}, "0.49 ounces (14 grams)"),
    "a number in that unit first": ({"weight": 14}, "14 grams (0.49 ounces)"),
    "the unit of the field before and in brackets": ({"weight": 4}, "4 grams (14 grams in all)"),
    "no brackets": ({"weight": 10}, "10 by 20 grams"),
    "a field without a unit": ({"year": 4}, "4 days (96 grams)"),
}
"""Values and responses without another number to choose."""


@pytest.mark.parametrize(
    ("first", "response", "choices"),
    [
        pytest.param(
            {"year": 2016}, "Not twenty thirteen but two thousand and one.", {"year": [2013, 2001, None]}, id="several"
        ),
        pytest.param(
            {"year": 205, "weight": 13.0},
            "two thousand and five; one hundred and three",
            {"year": [2005, None], "weight": [103, None]},
            id="two",
        ),
        pytest.param({"year": 10000}, "1 thousand", {"year": [1000, None]}, id="digits and a word"),
        pytest.param({"limited": 203}, "two thousand and three", {"limited": [2003, None]}, id="a field with a limit"),
        pytest.param({"weight": 0.49}, "0.49 ounces (14 grams)", {"weight": [14, None]}, id="the unit of the field"),
        *(pytest.param(first, response, {}, id=name) for name, (first, response) in NO_CHOICE.items()),
    ],
)
def test_the_choices_of_a_second_look(
    first: Mapping[str, Any], response: str, choices: Mapping[str, Sequence[object]]
) -> None:
    judge = Judge(filled(**first))

    run(judge, response)

    assert judge.choices == ([choices] if choices else [])


@pytest.mark.parametrize("number", ["1e400", "1e300"])
def test_numbers_that_are_too_large_are_not_misread_ones(number: str) -> None:
    """A reply may contain such numbers: JSON reads 1e400 as infinity."""
    reply = ParserReply(json.dumps(filled(weight="N")).replace('"N"', number), "json_schema")

    values, found = parse(lambda *_args, **_info: reply, "twenty-three", TEMPLATE, "What is known?")

    assert values["weight"] == float(number)
    assert found.field("parsing") is None


def test_only_small_judges_choose_numbers_by_default() -> None:
    judge = Judge(filled(year=203))

    assert run(judge, "two thousand and three", check_values=None)[0]["year"] == 203
    assert judge.choices == []


@pytest.mark.parametrize(
    ("second", "problem"),
    [({"year": "neither"}, "no usable reply"), ({"limited": 5003}, "the template rejected the new value")],
)
def test_an_unusable_choice_leaves_the_number_and_is_recorded(second: Mapping[str, Any], problem: str) -> None:
    first = filled(**dict.fromkeys(second, 503))
    judge = Judge(first, {**first, **second})

    values, found = run(judge, "five thousand and three")

    assert [values[name] for name in second] == [503]
    assert problem in found.field("parsing")["not_checked"]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("12.5 thousand! 3.5 million! two point three million! 1.005 million", [12500, 3500000, 2300000, 1005000]),
        ("nineteen nineteen! nineteen oh two! nineteen o four! eighteen hundred", [1919, 1902, 1904, 1800]),
        ("two hundred and eighty-six! a hundred and five! minus forty-two", [286, 105, -42]),
        ("Oh, H2O at six o'clock; the third one of seven, 1,200 in all", []),
    ],
)
def test_numbers_of_several_words(text: str, numbers: Sequence[float]) -> None:
    found = [read_numbers(part) for part in text.split("!")]

    assert [number for one in found if one is not None for number in one.of_several_words] == numbers
    assert all(found)


@pytest.mark.parametrize(
    "text",
    [
        *("half a million", "one thousand, two hundred", "between one thousand and two thousand"),
        *("three to four million", "12 millions", "3 hundred and six", "2 hundred thousand"),
        *("twenty-one trillion", "ten-fifteen minutes"),
    ],
)
def test_texts_with_numbers_that_are_not_read(text: str) -> None:
    assert read_numbers(text) is None


@given(st.integers(0, 10**12), st.booleans())
def test_numbers_in_digits_are_known(number: int, commas: bool) -> None:
    found = read_numbers(f"I read {number:,} of them." if commas else f"I read {number} of them.")

    assert found is not None
    assert found.known == {number}


WORDS = ["12", "9" * 400, ",", ".", "-", " ", "one ", "nineteen ", "oh ", "thousand ", "third ", "minus ", "\ud800"]


@given(st.lists(st.sampled_from(WORDS) | st.characters()))
def test_any_text_can_be_searched_for_numbers(words: list[str]) -> None:
    """No text is an error, and numbers of several words are among the known numbers."""
    found = read_numbers("".join(words))

    assert found is None or found.known.issuperset(found.of_several_words)
