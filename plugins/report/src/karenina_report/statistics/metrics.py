"""Verdict metrics: pass rate, share not judged, and partial credit, each a number in [0, 1] or missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Final

from karenina_core.data.outcome import Outcome
from karenina_report.estimators.paired import MOST_PARTS

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

RATE: Final = "pass rate"
PARTIAL_CREDIT: Final = "partial credit"
NOT_JUDGED: Final = "not judged"
_CLOSE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Metric:
    """A number for each result.

    `value` returns None if the result has none; `missing` then returns True if it should have one, which counts in the
    bounds. `questions` are the ids of the questions that have it, or None for all. `note` explains the numbers to the
    reader.
    """

    name: str
    value: Callable[[VerificationResult], float | None]
    missing: Callable[[VerificationResult], bool]
    questions: frozenset[str] | None = None
    note: str = ""


def verdict_metrics(results: Iterable[VerificationResult]) -> Iterator[Metric]:
    """Yield the verdict metrics: the pass rate, the share not judged, and partial credit if there is any."""
    yield Metric(RATE, verdict, unjudged)
    yield Metric(NOT_JUDGED, lambda result: float(not result.outcome.judged), lambda _result: False)
    judged = [(one.question_id, partial_credit(one)) for one in results if verdict(one) is not None]
    grades = {grade for _, grade in judged if grade is not None}
    if grades - {0.0, 1.0} and all(0 <= grade <= 1 for grade in grades):
        some = frozenset(question for question, grade in judged if grade is not None)
        all_have = all(grade is not None for _, grade in judged)
        yield Metric(PARTIAL_CREDIT, partial_credit, unjudged, None if all_have else some)


def verdict(result: VerificationResult) -> float | None:
    """Return 1 for a correct result, 0 for any other verdict, and None without a verdict."""
    return float(result.outcome is Outcome.CORRECT) if result.outcome.has_verdict else None


def unjudged(result: VerificationResult) -> bool:
    """Return whether the result would have a verdict if nothing had failed."""
    return not result.outcome.judged and result.outcome is not Outcome.RUBRIC_ERROR


def partial_credit(result: VerificationResult) -> float | None:
    """Return the granular result; None without a verdict, or if it is not a finite number."""
    found = result.template.verify_granular_result
    if not result.outcome.has_verdict or not isinstance(found, int | float) or not isfinite(found):
        return None
    return float(found)


@lru_cache(maxsize=4096)
def as_fraction(value: float) -> Fraction:
    """Return the fraction nearest to a float: 2/3 for 0.6666666666666666."""
    near = Fraction(value).limit_denominator(MOST_PARTS)
    return near if abs(near - Fraction(value)) < _CLOSE else Fraction(value)
