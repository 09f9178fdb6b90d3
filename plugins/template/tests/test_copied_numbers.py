"""The second look of a small judge at numbers: which the response has, and when the judge chooses among them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core import ArtifactKey, Question
from karenina_core import ArtifactKeys as Keys
from karenina_template.numbers_in_text import find_text_numbers
from karenina_template.parse_template import ParseTemplate
from karenina_template.templates import load_template
from karenina_testing import ScriptedModels, StageRun, run_stage

TEMPLATE = """
class Answer(BaseAnswer):
    year: int = VerifiedField(description="The year", ground_truth=2003, verify_with=NumericExact())
    weight: float = VerifiedField(description="The weight in grams", ground_truth=14, verify_with=NumericExact())
    town: str = VerifiedField(description="The town", ground_truth="Rome", verify_with=ExactMatch())
"""
LIMITED = """
class Answer(BaseAnswer):
    year: int = VerifiedField(description="It", ground_truth=3, verify_with=NumericExact(), ge=1)
"""


class Judge:
    """A judge that fills `first`, and at a second look the last choice of each field that has some."""

    def __init__(self, first: Mapping[str, Any], second: Mapping[str, Any] | None = None) -> None:
        self.first, self.second = first, second
        self.choices: list[Mapping[str, Sequence[object]]] = []

    def __call__(self, messages: Any, schema: Mapping[str, Any], info: Any = None) -> Mapping[str, Any]:
        options = {name: part.get("anyOf", [{}])[0].get("enum") for name, part in schema["properties"].items()}
        choices = {name: found for name, found in options.items() if found}
        if not choices:
            return self.first
        self.choices.append(choices)
        return self.second or {**self.first, **{name: found[-2] for name, found in choices.items()}}


def run(judge: Judge, response: str, source: str = TEMPLATE, **settings: Any) -> tuple[dict[str, Any], StageRun]:
    """Return the fields of the template as the judge filled them, and the run of the stage."""
    template = load_template(source).for_question("q1")
    artifacts: dict[ArtifactKey[Any], object] = {
        Keys.RAW_ANSWER_CLASS: template.answer_class,
        Keys.ANSWER_CLASS: template,
        Keys.RAW_LLM_RESPONSE: response,
    }
    settings = {"list_rejected": True, "check_values": True, **settings}
    question = Question(question="What is known?", raw_answer="It")
    models = ScriptedModels(fill=judge)
    found = asyncio.run(run_stage(ParseTemplate, question=question, artifacts=artifacts, models=models, **settings))
    assert found.error is None
    answer = found.artifact(Keys.PARSED_ANSWER)
    assert answer is not None
    return {name: getattr(answer, name) for name in template.judge_fields}, found


def filled(**values: Any) -> dict[str, Any]:
    return {"rejected": [], "year": None, "weight": None, "town": None, **values}


def test_a_number_that_the_response_has_in_words_replaces_one_that_it_does_not_have() -> None:
    judge = Judge(filled(year=203, town="Rome"))

    values, found = run(judge, "In Rome, in two thousand and three.")

    assert values == {"year": 2003, "weight": None, "town": "Rome"}
    assert judge.choices == [{"year": [2003, None]}]
    assert found.field("parsing") == {"replaced": {"year": 203}}


@pytest.mark.parametrize(
    ("first", "response", "choices"),
    [
        pytest.param({"year": 2016}, "Not twenty thirteen but 2001.", {"year": [2013, 2001, None]}, id="several"),
        pytest.param({"year": 2003}, "two thousand and three", {}, id="the number itself"),
        pytest.param({"weight": -3.0}, "minus three", {}, id="a negative number"),
        pytest.param({"weight": -3.0}, "It had 3 grams less, or four.", {}, id="a sign that the judge gives it"),
        pytest.param({"year": 1, "weight": 7}, "1.5 or ten", {"year": [10, None], "weight": [1.5, 10, None]}, id="two"),
        pytest.param({"year": 3}, "Rome (1), Oslo (2), Bern.", {}, id="a count, of a response with digits only"),
        pytest.param({"year": 3}, "One of them; the third.", {}, id="no word that counts"),
        pytest.param({"weight": 2.5}, "two and a half", {}, id="a fraction in words"),
        pytest.param({"weight": 0.49}, "0.49 ounces (14 grams)", {"weight": [14, None]}, id="the unit of the field"),
        pytest.param({"weight": 14}, "0.49 ounces (14 grams)", {}, id="a number in that unit"),
        pytest.param({"weight": 14}, "0.49 ounces", {}, id="no number in that unit"),
        pytest.param({"town": "203"}, "two thousand and three", {}, id="a text"),
    ],
)
def test_the_choices_of_a_second_look(
    first: Mapping[str, Any], response: str, choices: Mapping[str, Sequence[object]]
) -> None:
    judge = Judge(filled(**first))

    run(judge, response)

    assert judge.choices == ([choices] if choices else [])


def test_only_small_judges_choose_numbers_by_default() -> None:
    judge = Judge(filled(year=203))

    assert run(judge, "two thousand and three", check_values=None)[0]["year"] == 203
    assert judge.choices == []


def test_an_unusable_choice_leaves_the_number_and_is_recorded() -> None:
    judge = Judge(filled(year=203), filled(year="neither"))

    values, found = run(judge, "two thousand and three")

    assert values["year"] == 203
    assert "no usable reply" in found.field("parsing")["not_checked"]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234,567 and 12.5 thousand, or 3.5 million", [1234567, 12500, 3500000]),
        (
            "nineteen nineteen, nineteen oh two, eighteen hundred, twenty ten, ten sixty-six",
            [1919, 1902, 1800, 2010, 1066],
        ),
        ("two hundred and eighty-six; one point five; five, six", [286, 1.5, 5, 6]),
        ("-5, \u22127 and minus eight, pages 3-4", [-5, -7, -8, 3, 4]),
        ("1,5 and v1.2.3", []),
    ],
)
def test_numbers_in_a_text(text: str, numbers: Sequence[float]) -> None:
    assert [one.value for one in find_text_numbers(text)] == numbers


WORDS = ["12", "9" * 400, ",", ".", "-", " ", "one ", "nineteen ", "oh ", "thousand ", "third ", "minus ", "é"]


@given(st.lists(st.sampled_from(WORDS)))
def test_any_text_can_be_searched_for_numbers(words: list[str]) -> None:
    """Numbers are in the text, in order, and do not overlap."""
    text = "".join(words)

    places = [(one.start, one.end) for one in find_text_numbers(text)]

    assert all(0 <= start < end <= len(text) for start, end in places)
    assert all(first[1] <= second[0] for first, second in pairwise(places))
