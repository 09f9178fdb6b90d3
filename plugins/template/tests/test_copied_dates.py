"""Dates from judges: rejected if the response has none, and copied as written if the judge is small."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from parse_runs import parse

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.data.outcome import Outcome
from karenina_core.data.question import Question
from karenina_template.parse_template import ParseTemplate
from karenina_template.second_look.copied_dates import check_dates
from karenina_template.templates import load_template
from karenina_template.templates.bound_template import ANSWER_CLASS
from karenina_template.templates.primitives.date_parser import find_dates
from karenina_testing import ScriptedModels, StageRun, run_stage

TEMPLATE = """
class Answer(BaseAnswer):
    day: date | None = VerifiedField(
        description="The date of the accident.", ground_truth=date(1986, 4, 26), verify_with=DateMatch()
    )
    others: list[date] = VerifiedField(description="More", ground_truth=[], verify_with=SetContainment())
    note: str = VerifiedField(description="A note", ground_truth="x", verify_with=ExactMatch())
"""
RESPONSE = "It was on 26 April 1986."


class Judge:
    """A judge that replies with these days, one after another, and at a second look with the choice `chosen`."""

    def __init__(self, *days: str | None, chosen: str | None = "1986-04-26") -> None:
        self.days = list(days)
        self.chosen = chosen
        self.choices: list[object] = []
        self.asked = ""

    def __call__(self, messages: Any, schema: Mapping[str, Any], info: Any = None) -> Mapping[str, Any]:
        self.asked = messages[-1].content
        values = {"rejected": [], "day": self.chosen, "others": [], "note": None}
        (first, *_) = schema["properties"]["day"]["anyOf"]
        if "enum" in first:
            self.choices = first["enum"]
            return values
        return {**values, "day": self.days.pop(0) if len(self.days) > 1 else self.days[0]}


def day_of(judge: Judge, response: str = RESPONSE, **settings: Any) -> object:
    """Return the day that the judge's reply means."""
    return parse(judge, response, TEMPLATE, "When was it?", **settings)[0]["day"]


def refusal(judge: Judge, response: str = RESPONSE, *, check_values: bool = True) -> StageRun:
    """Return the run of the stage, which must fail."""
    template = load_template(TEMPLATE).for_question("q1")
    artifacts = {
        Keys.RAW_ANSWER_CLASS: template.answer_class,
        ANSWER_CLASS: template,
        Keys.RAW_LLM_RESPONSE: response,
    }
    question = Question(question="When was it?", raw_answer="known")
    models = ScriptedModels(fill=judge)
    return asyncio.run(
        run_stage(
            ParseTemplate,
            question=question,
            artifacts=artifacts,
            models=models,
            check_values=check_values,
            list_rejected=True,
        )
    )


def test_a_small_judge_chooses_among_the_dates_of_the_response() -> None:
    judge = Judge("2647-04-19")

    assert day_of(judge, "It was on 26 April 1986, and not on May 1st, 1987.") == date(1986, 4, 26)
    assert judge.choices == ["1986-04-26", "1987-05-01", None]


def test_other_judges_are_not_asked_again() -> None:
    assert day_of(Judge("2647-04-19"), check_values=False) == date(2647, 4, 19)


def test_a_year_without_a_date_in_the_response_is_asked_for_again() -> None:
    judge = Judge("2647-04-19", "1986-04-26")

    assert day_of(judge, "In 1986, two days after the 24th of April.") == date(1986, 4, 26)
    assert judge.choices == []


def test_an_invented_year_is_no_wrong_answer() -> None:
    found = refusal(Judge("2647-04-19"), "In 1986, two days after the 24th of April.")

    assert found.error is not None
    assert found.error.outcome is Outcome.PARSE_ERROR
    assert "the response has no year 2647, which the date in the field 'day' has" in found.error.message


def test_an_invented_date_without_a_usable_choice_is_no_wrong_answer() -> None:
    found = refusal(Judge("2647-04-19", chosen="2647-04-19"))

    assert found.error is not None
    assert found.error.outcome is Outcome.PARSE_ERROR


@pytest.mark.parametrize(
    ("response", "day"),
    [
        ("On 04/26/86, and not in 1987.", date(1986, 4, 26)),
        ("The 26th of April nineteen eighty-six, not 1987.", date(1986, 4, 26)),
        ("In the sixty-first year of Showa, on April 26.", date(1986, 4, 26)),
        ("\uff12\uff16 April \uff11\uff19\uff18\uff16", date(1986, 4, 26)),
        ("19860426 (and 1987)", date(1986, 4, 26)),
    ],
)
def test_years_in_other_forms_are_years_of_the_response(response: str, day: date) -> None:
    judge = Judge("1986-04-26", chosen=None)

    assert day_of(judge, response) == day
    assert judge.choices == []


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("It sank on April 15th, 1912, in the North Atlantic.", ["1912-04-15"]),
        ("On 8 May 1945.", ["1945-05-08"]),
        ("Le 14 juillet 1789 (1789-07-14), am 9. November 1918", ["1789-07-14", "1789-07-14", "1918-11-09"]),
        ("from 01/02/2024", ["2024-01-02", "2024-02-01"]),
        ("on 20240115 or 2024-13-40", ["2024-01-15"]),
        ("April 1986, 1986, 26 April, 31 April 1986, 1.2.1986-04", []),
    ],
)
def test_whole_dates_are_found_in_a_text(text: str, dates: list[str]) -> None:
    assert [one.isoformat() for one in find_dates(text)] == dates


@pytest.mark.parametrize(
    "response",
    [
        "I do not know.",
        "It may have been long before; I cannot say which day.",
        "Das weiß ich nicht, leider.",
        "Je ne sais pas.",
        "No lo sé.",
        "我不知道。",
        "わかりません。",
        "\u041d\u0435 \u0437\u043d\u0430\u044e.",
        "لا أعرف",
        "Det vet jag inte.",
        "Nevím.",
        "En tiedä.",
        "Nem tudom.",
        "Bilmiyorum.",
        "Tôi không biết.",
    ],
)
@pytest.mark.parametrize("looks_again", [True, False])
def test_a_date_from_a_response_without_any_is_not_judged(response: str, looks_again: bool) -> None:
    found = refusal(Judge("1986-04-26"), response, check_values=looks_again)

    assert found.error is not None
    assert found.error.outcome is Outcome.PARSE_ERROR
    assert "the field 'day' has the date 1986-04-26, and the response has no date" in found.error.message


def test_a_judge_that_corrects_an_invented_date_is_believed() -> None:
    judge = Judge("1986-04-26", None)

    assert day_of(judge, "I do not know.", check_values=False) is None
    assert "write the date that the response gives, or null if it gives none" in judge.asked


@pytest.mark.parametrize(
    "response",
    [
        "Today.",
        "On Christmas Day.",
        "the third of May nineteen ninety",
        "the first of May two thousand",
        "le premier mai deux mille",
        "am ersten Mai zweitausend",
        "el uno de mayo de dos mil",
        "mai",
        "五月一日",
        "二〇〇〇年五月一日",
        "今日です",
        "I. V. MM",
        "\u0412 \u043c\u0430\u0435",
        "مايو",
        "третьего мая две тысячи двадцатого",
        "першого травня",
        "الثالث من مايو",
        "den tredje maj tjugohundratjugo",
        "třetího května",
        "kolmas toukokuuta",
        "május harmadika",
        "üç May\u0131s",
        "ngày ba tháng năm",
        "στις τρεις Μαΐου",
    ],
)
def test_dates_in_words_are_dates_of_the_response(response: str) -> None:
    assert day_of(Judge("2000-05-01"), response, check_values=False) == date(2000, 5, 1)


def test_a_date_of_the_question_may_be_meant() -> None:
    template = load_template(TEMPLATE).for_question("q1").bind({"day": "1986-04-26", "others": [], "note": "x"})

    check_dates(template, "Yes.", "Was it on 26 April 1986?")
    with pytest.raises(ValueError, match="has no date"):
        check_dates(template, "Yes.", "Was it then?")


def test_an_id_that_is_a_date_is_not_a_date_of_the_judge() -> None:
    values = {"day": None, "others": [], "note": "x"}
    check_dates(load_template(TEMPLATE).for_question("2024-01-05").bind(values), "It is x.", "Which one?")
