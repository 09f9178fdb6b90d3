"""`Comparison` equals the answer's own methods, and compares each field once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from karenina_template.templates import (
    AnyOf,
    BaseAnswer,
    ExactMatch,
    NumericGraded,
    Primitive,
    TraceContains,
    VerifiedField,
)
from karenina_template.templates.base import Binding
from karenina_template.templates.comparison import Comparison


class Declared(BaseAnswer):
    name: str | None = VerifiedField("Its name.", ground_truth="Ada", verify_with=ExactMatch(), weight=2.0)
    year: float | None = VerifiedField(
        "Its year.", ground_truth=10, verify_with=NumericGraded(cutoff=0.5, full_credit=0.1)
    )
    sure: bool | None = VerifiedField("", verify_with=TraceContains(substring="sure"))


class Either(Declared):
    class VerificationStrategy:
        verify_strategy = AnyOf("name", "year")


class OwnVerdict(Declared):
    def verify(self) -> bool:
        return self.year == 3


class OwnGrade(Declared):
    def verify_granular(self) -> float:
        return 0.25


class OwnFields(Declared):
    def field_results(self) -> dict[str, bool]:
        return {"name": self.name == "Bob"}


class OwnScores(Declared):
    def field_scores(self) -> dict[str, float]:
        return dict.fromkeys(("name", "year", "sure"), 0.5)


@pytest.mark.parametrize("kind", [Declared, Either, OwnVerdict, OwnGrade, OwnFields, OwnScores])
@given(
    name=some.sampled_from([None, "Ada", " ada", "Bob"]),
    year=some.none() | some.floats(0, 20),
    response=some.sampled_from(["", "I am sure."]),
)
def test_it_says_what_the_methods_of_the_answer_say(
    kind: type[Declared], name: str | None, year: float | None, response: str
) -> None:
    answer = kind.model_construct(name=name, year=year, sure=None)
    answer._binding = Binding(response=response)

    comparison = Comparison(answer)
    found = (comparison.passed(), comparison.granular(), comparison.results(), comparison.scores())

    assert found == (answer.verify(), answer.verify_granular(), answer.field_results(), answer.field_scores())


def test_a_field_is_compared_once() -> None:
    compared: list[object] = []

    class Counted(Primitive):
        def check(self, extracted: Any, expected: Any) -> bool:
            compared.append(extracted)
            return bool(extracted == expected)

    class Answer(BaseAnswer):
        name: str = VerifiedField("Its name.", ground_truth="Ada", verify_with=Counted())

    comparison = Comparison(Answer(name="Ada"))
    assert (comparison.passed(), comparison.granular(), comparison.results()) == (True, 1.0, {"name": True})

    assert compared == ["Ada"]
