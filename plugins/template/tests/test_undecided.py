"""Fields that cannot be decided: verdict, scores and reasons, and the results that a class's `verify` may return."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.trust import Trust
from karenina_core.models.settings_models import mark_of
from karenina_core.stages.finalize import make_result
from karenina_template.templates import (
    AnyOf,
    BaseAnswer,
    DateMatch,
    ExactMatch,
    Primitive,
    ReadingPrimitive,
    TracePrimitive,
    Undecided,
    Unreadable,
    VerifiedField,
    load_template,
)
from karenina_template.templates.base import Binding
from karenina_template.templates.comparison import Comparison
from karenina_template.templates.errors import InvalidAnswer, TemplateError
from karenina_template.templates.sample_check import check_samples
from karenina_template.templates.self_check import find_flaws
from karenina_template.templates.source.loading import template_of_class
from karenina_template.verify_template import VerifyTemplate
from karenina_testing import run_stage

TWO_DATES = "01/02/2024"
WHY = "field day: 01/02/2024 can be read as two different dates"


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


class NoneIsFalse(Found):
    def verify(self) -> Any:
        return False not in self.field_results().values()


class AllIsTrue(Found):
    def verify(self) -> Any:
        return all(self.field_results().values())


class AsksBase(Found):
    def verify(self) -> Any:
        return bool(super().verify())


class AsksBaseFields(Found):
    def verify(self) -> Any:
        return super().field_results()["gene"] is True and super().field_results()["day"] is not False


class AsksScores(Found):
    def verify(self) -> Any:
        return 0.0 not in self.field_scores().values()


class Half(Primitive):
    def check(self, extracted: object, expected: object) -> bool | Undecided:
        return Undecided("it may be either")

    def score(self, extracted: object, expected: object) -> float:
        return 0.9


class AsksGradedScores(BaseAnswer):
    gene: str | None = VerifiedField("The gene.", ground_truth="BCL2", verify_with=ExactMatch())
    day: str | None = VerifiedField("The day.", ground_truth="2024-02-01", verify_with=Half())

    def verify(self) -> Any:
        return self.gene == "BCL2" and self.field_scores()["day"] != 0.0


class OneOfTwo(BaseAnswer):
    gene: str | None = None
    day: str | None = VerifiedField("The day.", ground_truth="2024-02-01", verify_with=DateMatch())
    end: str | None = VerifiedField("Its end.", ground_truth="2024-02-01", verify_with=DateMatch())

    def verify(self) -> Any:
        return (self.field_results()["day"] is True) == (self.field_results()["end"] is True)


class OutsideOfStrategy(Found):
    class VerificationStrategy:
        verify_strategy = AnyOf("gene")

    def verify(self) -> Any:
        return self.field_results()["day"] is not False


class OwnResults(Found):
    def field_results(self) -> dict[str, bool | None]:
        return {**super().field_results(), "order": None}

    def verify(self) -> Any:
        return False not in self.field_results().values()


class Lenient(Found):
    def verify(self) -> Any:
        return self.gene == "BCL2" or self.field_results()["day"] is True


@pytest.mark.parametrize("kind", [NoneIsFalse, AllIsTrue, AsksBase, AsksBaseFields, AsksScores, OutsideOfStrategy])
def test_a_boolean_that_depends_on_an_undecided_field_is_undecided(kind: type[Found]) -> None:
    undecided = Comparison(kind(gene="BCL2", day=TWO_DATES))

    assert (undecided.passed(), undecided.why_undecided()) == (None, WHY)
    assert undecided.results()["day"] is None
    assert Comparison(kind(gene="BCL2", day="1 February 2024")).passed() is True
    assert Comparison(kind(gene="BCL2", day="2 January 2024")).passed() is False


def test_a_boolean_that_no_undecided_field_changes_is_the_verdict() -> None:
    for kind in (NoneIsFalse, AllIsTrue, AsksBase, AsksBaseFields, AsksScores, Lenient):
        assert Comparison(kind(gene="TP53", day=TWO_DATES)).passed() is (None if kind is Lenient else False)
    assert Comparison(Lenient(gene="BCL2", day=TWO_DATES)).passed() is True


def test_partial_credit_of_an_undecided_field_does_not_decide() -> None:
    assert Comparison(AsksGradedScores(gene="BCL2", day="x")).passed() is None
    assert Comparison(AsksGradedScores(gene="TP53", day="x")).passed() is False


def test_all_combinations_of_undecided_fields_are_tried() -> None:
    comparison = Comparison(OneOfTwo(day=TWO_DATES, end=TWO_DATES))

    assert comparison.passed() is None
    assert comparison.why_undecided() == f"{WHY}; {WHY.replace('day', 'end')}"


def test_an_undecided_result_of_the_class_itself_does_not_pass() -> None:
    comparison = Comparison(OwnResults(gene="BCL2", day="1 February 2024"))

    assert (comparison.passed(), comparison.why_undecided()) == (None, "field order: the result cannot be decided")


def test_the_answer_itself_keeps_its_undecided_results() -> None:
    class Remembers(Found):
        def verify(self) -> Any:
            self.seen = self.field_results()["day"]
            return self.seen is not False

    answer = Remembers(gene="BCL2", day=TWO_DATES)

    assert Comparison(answer).passed() is None
    assert answer.seen is answer.field_results()["day"] is None


def test_verify_is_called_once_if_all_fields_are_decided() -> None:
    calls = []

    class Counted(Found):
        def verify(self) -> Any:
            calls.append(self.day)
            return True

    assert Comparison(Counted(gene="BCL2", day="2024-02-01")).passed() is True
    assert len(calls) == 1


def test_a_verify_that_fails_for_an_assumed_result_is_undecided() -> None:
    class Fails(Found):
        def verify(self) -> Any:
            if self.field_results()["day"] is False:
                raise ValueError("no such day")
            return True

    assert Comparison(Fails(gene="BCL2", day=TWO_DATES)).passed() is None


async def _later() -> bool:
    return False


@pytest.mark.parametrize("found", [_later, "no", 0.5, 2, ["x"], object()])
def test_a_verify_that_returns_no_verdict_is_an_error(found: Any) -> None:
    class Answer(Found):
        def verify(self) -> Any:
            return found() if found is _later else found

    kind = "coroutine" if found is _later else type(found).__name__
    with pytest.raises(
        InvalidAnswer, match=rf"verify\(\) of the template Answer must .* returned a value of type {kind}\."
    ):
        Comparison(Answer(gene="BCL2", day="2024-02-01")).passed()


class NumpyBool:
    """A truth value that is not a `bool`, like those of numpy."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def __bool__(self) -> bool:
        return self.value

    def __eq__(self, other: object) -> bool:
        return self.value == other

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("found", "passed"), [(1, True), (0.0, False), (NumpyBool(True), True), (NumpyBool(False), False), ("", False)]
)
def test_numbers_0_and_1_and_empty_values_are_verdicts(found: Any, passed: bool) -> None:
    class Answer(Found):
        def verify(self) -> Any:
            return found

    assert Comparison(Answer(gene="BCL2", day="2024-02-01")).passed() is passed


@pytest.mark.parametrize("method", ["verify", "verify_granular", "field_results", "field_scores", "ground_truth"])
def test_an_async_method_is_refused_with_its_cure(method: str) -> None:
    source = f"{DECLARED}\n    async def {method}(self):\n        return False\n"

    with pytest.raises(TemplateError, match=rf"q, line \d+: Answer.{method} is async, but .*; write `def {method}`"):
        load_template(source, trust=Trust.all(), name="q")


def test_a_result_that_is_no_verdict_is_no_correct_item() -> None:
    found = verify("BCL2", source=DECLARED + "\n    def verify(self):\n        return self.gene\n")

    assert found.outcome is Outcome.STAGE_ERROR
    assert (
        "verify() of the template Answer for question q must return True, False, None or Undecided(why), but "
        "returned a value of type str" in found.why()
    )


def test_a_template_that_never_returns_a_verdict_is_refused_before_calls() -> None:
    source = DECLARED + "\n    def verify(self):\n        return (self.gene, self.day)\n"

    with pytest.raises(TemplateError, match=r"fails for every answer.* returned a value of type tuple"):
        check_samples(load_template(source, trust=Trust.all()).for_question("q"))


def test_the_reason_is_bounded_text() -> None:
    cut = Undecided("x" * 5_000).why

    assert len(cut) == 2_000
    assert cut.endswith("x ... (truncated from 5,000 characters)")
    assert Undecided("y" * 2_000).why == "y" * 2_000
    assert Undecided(ValueError("two dates")).why == "two dates"  # type: ignore[arg-type]


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
    answer._binding = Binding(response="perhaps")

    assert Comparison(answer).results() == {"agrees": None}
    assert Comparison(answer).passed() is None


class Failing(Primitive):
    def check(self, extracted: object, expected: object) -> bool:
        raise ZeroDivisionError("no quotient")


def test_a_primitive_that_raises_makes_no_answer_wrong() -> None:
    class Answer(BaseAnswer):
        gene: str | None = VerifiedField("", ground_truth="x", verify_with=Failing())

    with pytest.raises(InvalidAnswer, match=f"the primitive Failing in {__name__} failed: ZeroDivisionError: no quot"):
        Comparison(Answer(gene="x")).passed()


class Sloppy(Primitive):
    reply: Any = None

    def check(self, extracted: object, expected: object) -> Any:
        return self.reply


@pytest.mark.parametrize("reply", [None, 1, "yes", 0.5])
def test_a_primitive_that_answers_something_else_is_named(reply: object) -> None:
    class Answer(BaseAnswer):
        gene: str | None = VerifiedField("", ground_truth="x", verify_with=Sloppy(reply=reply))

    message = rf"primitive Sloppy in {__name__} returned {reply!r}.*must return True, False or Undecided"
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


EITHER = "\n    class VerificationStrategy:\n        verify_strategy = AnyOf('gene', 'day')\n"
OWN = "\n    def verify(self):\n        return self.gene in ('BCL2', 'BCL-2')\n"


def test_a_correct_item_names_its_undecided_fields() -> None:
    assert verify("BCL2", source=DECLARED + EITHER).why() == "correct although day is undecided"
    found = verify("BCL-2", source=DECLARED + OWN)
    assert (found.outcome, found.why()) == (
        Outcome.CORRECT,
        "correct although gene differs from the ground truth and day is undecided",
    )


def test_a_wrong_field_decides() -> None:
    result = verify("TP53")

    assert result.outcome is Outcome.WRONG
    assert result.why() == "gene differs from the ground truth"
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


class Shout(ReadingPrimitive):
    """Passes if both are the same in capital letters. Other values cannot be read."""

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        if not isinstance(extracted, str) or not extracted.isupper():
            return Unreadable(f"{extracted!r} is not in capital letters")
        return extracted == expected


def test_a_file_may_say_what_unreadable_values_mean() -> None:
    class Louder(Shout):
        program: str = "tr"

    assert mark_of(Louder, "unreadable") == "any"
    assert mark_of(Louder, "program") is None


@pytest.mark.parametrize(
    ("value", "response", "passed"),
    [
        ("BCL2", "It is BCL2.", True),
        ("TP53", "It is BCL2.", False),  # read, so it does not matter where it is from
        ("some gene", "It is **some   gene**, I think.", False),
        ("some gene.", "It is Some gene", False),
        ("some gene", "It is BCL2.", None),  # made up by the judge
        ("iron", "An environment.", None),
        ("", "It is BCL2.", None),
        ("some gene", "", None),
    ],
)
def test_an_unreadable_value_is_wrong_only_in_the_response(value: str, response: str, passed: bool | None) -> None:
    class Answer(BaseAnswer):
        gene: str | None = VerifiedField("The gene.", ground_truth="BCL2", verify_with=Shout(unreadable="wrong"))

    answer = template_of_class(Answer).for_question("q").bind({"gene": value}, response)
    assert Comparison(answer).passed() is passed
