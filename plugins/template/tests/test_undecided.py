"""Fields that cannot be decided: verdict, scores and reasons of an answer, and what its own `verify` may return."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.trust import Trust
from karenina_core.stages.finalize import make_result
from karenina_template.templates import (
    AnyOf,
    BaseAnswer,
    DateMatch,
    ExactMatch,
    Primitive,
    TracePrimitive,
    Undecided,
    VerifiedField,
    load_template,
)
from karenina_template.templates.comparison import Comparison
from karenina_template.templates.errors import InvalidAnswer
from karenina_template.templates.self_check import find_flaws
from karenina_template.verify_template import VerifyTemplate
from karenina_testing import run_stage

TWO_DATES = "01/02/2024"
WHY = "field day: 01/02/2024 can be two dates"


class Found(BaseAnswer):
    gene: str | None = VerifiedField("The gene.", ground_truth="BCL2", verify_with=ExactMatch(), weight=3.0)
    day: str | None = VerifiedField("The day.", ground_truth=date(2024, 2, 1), verify_with=DateMatch())


class Either(Found):
    class VerificationStrategy:
        verify_strategy = AnyOf("gene", "day")


@pytest.mark.parametrize(
    ("kind", "gene", "day", "passed", "granular", "why"),
    [
        (Found, "BCL2", "1 February 2024", True, 1.0, None),
        (Found, "BCL2", TWO_DATES, None, None, WHY),
        (Found, "TP53", TWO_DATES, False, 0.0, None),
        (Found, "BCL2", None, False, 0.75, None),  # a judge that found nothing is not undecided
        (Either, "BCL2", TWO_DATES, True, 1.0, None),
        (Either, "TP53", TWO_DATES, None, None, WHY),
    ],
)
def test_a_verdict_that_depends_on_two_dates_is_undecided(
    kind: type[Found], gene: str, day: str | None, passed: bool | None, granular: float | None, why: str | None
) -> None:
    answer = kind(gene=gene, day=day)
    comparison = Comparison(answer)

    assert answer.verify() is comparison.passed() is passed
    assert comparison.why_undecided() == why
    assert answer.verify_granular() == granular
    assert answer.field_results() == comparison.results()
    assert answer.field_results()["day"] is (None if day == TWO_DATES else day is not None)
    assert answer.field_scores() == comparison.scores()
    assert (answer.field_scores()["day"] is None) is (day == TWO_DATES)


def test_an_undecided_answer_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(Undecided("two dates"))
    assert Undecided("two dates") == Undecided("two dates") != Undecided("no date")


class SeesNone(Found):
    def verify(self) -> Any:
        return self.field_results()["gene"] and self.field_results()["day"]


class FindsNothing(Found):
    def verify(self) -> Any:
        return self.gene and self.gene == "BCL2"


class Says(Found):
    def verify(self) -> Any:
        return Undecided("the tables have no row for it") if self.gene == "BCL2" else False


class Counts(Found):
    def verify(self) -> Any:
        return sum(self.field_results().values()) == 2


@pytest.mark.parametrize(
    ("kind", "gene", "day", "passed", "why"),
    [
        (SeesNone, "BCL2", TWO_DATES, None, WHY),
        (SeesNone, "TP53", TWO_DATES, False, None),
        (SeesNone, "BCL2", "2024-02-01", True, None),
        (FindsNothing, None, "2024-02-01", False, None),  # None that no undecided field explains is false, as ever
        (FindsNothing, "BCL2", TWO_DATES, True, None),
        (Says, "BCL2", "2024-02-01", None, "the tables have no row for it"),
        (Counts, "BCL2", "2024-02-01", True, None),
        (
            Counts,
            "BCL2",
            TWO_DATES,
            None,
            f"{WHY} (verify() raised TypeError: unsupported operand type(s) for +: 'int' and 'NoneType')",
        ),
    ],
)
def test_a_template_with_its_own_verify_may_be_undecided(
    kind: type[Found], gene: str | None, day: str, passed: bool | None, why: str | None
) -> None:
    comparison = Comparison(kind(gene=gene, day=day))

    assert comparison.passed() is passed
    assert comparison.why_undecided() == why


class Vague(TracePrimitive):
    def check_trace(self, text: str) -> bool | Undecided:
        return Undecided("it hedges") if "perhaps" in text else "yes" in text


@pytest.mark.parametrize("truth", [True, False])
def test_the_reverse_of_undecided_is_undecided(truth: bool) -> None:
    class Answer(BaseAnswer):
        agrees: bool | None = VerifiedField("", ground_truth=truth, verify_with=Vague())

    answer = Answer()
    answer._response = "perhaps"

    assert Comparison(answer).results() == {"agrees": None}
    assert Comparison(answer).passed() is None


class Sloppy(Primitive):
    reply: Any = None

    def check(self, extracted: object, expected: object) -> Any:
        return self.reply


@pytest.mark.parametrize("reply", [None, 1, "yes", 0.5])
def test_a_primitive_that_answers_something_else_is_named(reply: object) -> None:
    class Answer(BaseAnswer):
        gene: str | None = VerifiedField("", ground_truth="x", verify_with=Sloppy(reply=reply))

    message = rf"primitive Sloppy of {__name__} answered {reply!r}.*must return True, False or Undecided"
    with pytest.raises(InvalidAnswer, match=message):
        Answer(gene="x").verify()
    with pytest.raises(InvalidAnswer, match=message):
        Comparison(Answer(gene="x")).passed()


DECLARED = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())
    day: str = VerifiedField(description="The day", ground_truth="2024-02-01", verify_with=DateMatch())
"""
PATTERN = DECLARED + '\n    def model_post_init(self, _):\n        self.regex = {"year": r"20\\d\\d"}\n'


def verify(gene: str, response: str = "", source: str = DECLARED) -> VerificationResult:
    template = load_template(source, trust=Trust.all()).for_question("q")
    artifacts = {
        Keys.ANSWER_CLASS: template,
        Keys.PARSED_ANSWER: template.bind({"gene": gene, "day": TWO_DATES}, response),
        Keys.RAW_LLM_RESPONSE: response,
    }
    return make_result(asyncio.run(run_stage(VerifyTemplate, artifacts=artifacts)).state)


def test_an_undecided_item_is_not_judged_and_says_why() -> None:
    result = verify("BCL2")

    assert result.outcome is Outcome.UNDECIDED
    assert (result.outcome.judged, result.outcome.has_verdict) == (False, False)
    assert result.why() == WHY
    template = result.template
    assert template.verify_result is template.verify_granular_result is None
    assert template.field_results == {"gene": True, "day": None}
    assert template.field_scores == {"gene": 1.0, "day": None}


def test_a_wrong_field_decides() -> None:
    result = verify("TP53")

    assert result.outcome is Outcome.WRONG
    assert result.why() == "gene differs from the truth"
    assert result.template.field_results == {"gene": False, "day": None}


@pytest.mark.parametrize(("response", "outcome"), [("2024", Outcome.UNDECIDED), ("no year", Outcome.PARTIAL)])
def test_a_pattern_that_fails_decides(response: str, outcome: Outcome) -> None:
    result = verify("BCL2", response, PATTERN)

    assert result.outcome is outcome
    assert result.why() == (WHY if outcome is Outcome.UNDECIDED else "pattern not matched: year")


def test_a_faulty_primitive_is_an_error_and_no_wrong_answer() -> None:
    source = DECLARED.replace("ExactMatch()", "Sloppy()").replace(
        "class Answer", f"from {__name__} import Sloppy\n\nclass Answer"
    )
    found = verify("BCL2", source=source)

    assert found.outcome is Outcome.STAGE_ERROR
    assert "the primitive Sloppy" in found.why()


def test_a_truth_with_two_readings_passes_its_own_check() -> None:
    source = DECLARED.replace("2024-02-01", TWO_DATES)
    assert [flaw for flaw in find_flaws(load_template(source).for_question("q")) if flaw.level == "error"] == []
