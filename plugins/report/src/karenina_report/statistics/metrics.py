"""Metrics of results: the pass rate, the share not judged, partial credit, and trait scores.

Each metric is a number between 0 and 1, or missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_engine.results.aggregate import has_verdict, is_unjudged
from karenina_engine.results.rates import is_number
from karenina_report.estimators.paired import MOST_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from karenina_core.data.result import VerificationResult


RATE: Final = "pass rate"
PARTIAL_CREDIT: Final = "partial credit"
NOT_JUDGED: Final = "not judged"
_CLOSE: Final = 1e-9
_SLACK: Final = 1e-6
"""How far rounding errors, as of a cosine, can put a score outside its scale, as a fraction of the scale."""
MOST_TRAITS: Final = 1000
"""The maximum number of traits to compare. Each question may define its own traits."""
_MOST_LABELS: Final = 20
_MOST_OUTSIDE: Final = 5

Score = float | str | None
"""A trait's score: a number, a label, or None if the trait could not be scored."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A measure that assigns a number to each result.

    `value` returns a result's number, or None. `missing` returns whether a result without a number should have one;
    such results widen the bounds of a comparison. `questions` limits the metric to the given questions, and None means
    all. `note` explains the numbers to the reader.
    """

    name: str
    value: Callable[[VerificationResult], float | None]
    missing: Callable[[VerificationResult], bool]
    questions: frozenset[str] | None = None
    note: str = ""


def verdict_metrics(results: Iterable[VerificationResult]) -> Iterator[Metric]:
    """Yield the metrics for the pass rate, the share not judged (including undecided results), and partial credit,
    which is skipped if it is always 0 or 1, or ever outside the range from 0 to 1.

    Partial credit is missing if the fields of a judged answer were not compared, as for an answer that abstains.
    """
    yield Metric(RATE, verdict, is_unjudged)
    yield Metric(NOT_JUDGED, lambda result: float(not result.outcome.judged), lambda _result: False)
    judged = [(item.question_id, partial_credit(item)) for item in results if verdict(item) is not None]
    grades = {grade for _, grade in judged if grade is not None}
    if grades - {0.0, 1.0} and all(0 <= grade <= 1 for grade in grades):
        graded = {question for question, grade in judged if grade is not None}
        ungraded = {item.question_id for item in results if _was_compared(item)} - graded
        some = frozenset(item.question_id for item in results if item.question_id not in ungraded) if ungraded else None
        yield Metric(PARTIAL_CREDIT, partial_credit, lambda item: is_unjudged(item) or item.outcome.has_verdict, some)


def _was_compared(result: VerificationResult) -> bool:
    """Return whether the verdict comes from the comparison of fields, and not from a veto or a limit."""
    return result.outcome.has_verdict and result.outcome.group != "failed"


def verdict(result: VerificationResult) -> float | None:
    """Return 1 for a correct result, 0 for any other verdict, and None without a verdict."""
    return float(result.outcome is Outcome.CORRECT) if has_verdict(result) else None


def partial_credit(result: VerificationResult) -> float | None:
    """Return the granular result, or None if there is no verdict or it is not a finite number."""
    credit = result.template.verify_granular_result
    return float(_snapped(credit)) if result.outcome.has_verdict and is_number(credit) else None


def _snapped(number: float) -> float:
    """Return 0 or 1 for a number that rounding errors put outside of the range from 0 to 1, and others unchanged."""
    return float(round(number)) if -_SLACK <= number < 0 or 1 < number <= 1 + _SLACK else number


@lru_cache(maxsize=4096)
def as_fraction(value: float) -> Fraction:
    """Return the simple fraction closest to a float, such as 2/3 for 0.6666666666666666, or the exact value if none is
    close.

    The fraction's denominator is at most `MOST_PARTS`.
    """
    near = Fraction(value).limit_denominator(MOST_PARTS)
    return near if abs(near - Fraction(value)) < _CLOSE else Fraction(value)


def trait_scores(result: VerificationResult) -> dict[str, Score]:
    """Return a result's trait scores by name, or by `TRAIT.PART` for each numeric part if a score has several, as for
    metric traits and templates. A literal trait's score is its label, and that of a trait or part that failed is None.

    Only scores on a scale of whole numbers are integers; booleans are 1.0 or 0.0.
    """
    if result.rubric is None:
        return {}
    scores: dict[str, Score] = dict.fromkeys(result.rubric.trait_errors or {})
    labels = result.rubric.labels()
    for name, score in result.rubric.get_all_trait_scores().items():
        if name in labels and score is not None:
            scores[name] = labels[name]  # the score is the index of a class, so its mean is meaningless
        elif isinstance(score, dict):
            numbers = {part: value for part, value in score.items() if value is None or is_number(value)}
            scores |= {
                f"{name}.{part}": None if value is None else float(_snapped(value)) for part, value in numbers.items()
            }
        elif is_number(score):
            scores[name] = float(score) if isinstance(score, bool) else _snapped(score)
        elif score is None or isinstance(score, str):
            scores[name] = score
    return scores


@dataclass(slots=True)
class _Seen:
    """A trait's scores, and the questions that have them. `whole` is True if all numbers are integers."""

    numbers: set[float] = field(default_factory=set)
    whole: bool = True
    labels: set[str] = field(default_factory=set)
    questions: set[str] = field(default_factory=set)

    def add_number(self, score: float) -> None:
        """Add a score that is a number."""
        self.numbers.add(score)
        self.whole = self.whole and isinstance(score, int)


def trait_metrics(
    results: Iterable[VerificationResult], cuts: Mapping[str, float], scales: Mapping[str, tuple[float, float]]
) -> Iterator[Metric]:
    """Yield the metrics of the first `MOST_TRAITS` traits: means, shares at or above the cut of a trait, and shares of
    its labels if there are at most 20.

    `results` is iterated several times. `cuts` and `scales` are the same as for `compare`. A trait with more than 20
    labels gets no label shares. A trait of all questions with a result is expected of the failed ones, too.
    """
    scores = {id(result): trait_scores(result) for result in results}
    seen: dict[str, _Seen] = {}
    for result in results:
        for name, score in scores[id(result)].items():
            if name not in seen and len(seen) >= MOST_TRAITS:
                continue
            trait = seen.setdefault(name, _Seen())
            trait.questions.add(result.question_id)
            if isinstance(score, str):
                trait.labels.add(score)
            elif score is not None:
                trait.add_number(score)
    evaluated = {result.question_id for result in results if result.outcome.judged or scores[id(result)]}
    for name, trait in seen.items():
        make = partial(_metric, scores, name, None if evaluated <= trait.questions else frozenset(trait.questions))
        yield from _number_metrics(name, trait, make, cuts, scales)
        for label in sorted(trait.labels) if len(trait.labels) <= _MOST_LABELS else ():
            yield make(f"{name} is {label}", partial(_is_label, label=label))


def find_unscaled(results: Iterable[VerificationResult], scales: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return a note about each trait that has no mean, because all scores are the same number, which is not a share,
    and its `scales` are not known.
    """
    seen: dict[str, _Seen] = {}
    for result in results:
        for name, score in trait_scores(result).items():
            if is_number(score) and name not in scales:
                seen.setdefault(name, _Seen()).add_number(score)
    return [
        f"the trait {name} has no mean because all its scores are {next(iter(trait.numbers)):g}; set its lowest and "
        "highest score with --scale or --benchmark"
        for name, trait in seen.items()
        if len(trait.numbers) == 1 and (trait.whole or not 0 <= next(iter(trait.numbers)) <= 1)
    ]


def check_scales(scales: Mapping[str, tuple[float, float]]) -> None:
    """Raise `ConfigError` if the lowest score of a scale is not below its highest."""
    wrong = [
        f"the lowest score of the trait {name!r}, {low:g}, is not below its highest, {high:g}"
        for name, (low, high) in scales.items()
        if not low < high
    ]
    if wrong:
        raise ConfigError(wrong)


def check_trait_names(results: Iterable[VerificationResult], names: Iterable[str]) -> None:
    """Raise `ConfigError` if a trait in `names` has no numeric score in any result."""
    scored = {name for result in results for name, score in trait_scores(result).items() if is_number(score)}
    strange = [name for name in dict.fromkeys(names) if name not in scored]
    if strange:
        raise ConfigError(
            [f"no result has a score for the trait {name!r}{did_you_mean(name, scored)}" for name in strange]
        )


def _number_metrics(
    name: str,
    trait: _Seen,
    make: Callable[..., Metric],
    cuts: Mapping[str, float],
    scales: Mapping[str, tuple[float, float]],
) -> Iterator[Metric]:
    """Yield the metrics of a trait's numbers, if any: the mean, unless all are equal and no scale is given, and the
    share at or above the trait's cut. `make` is called with the metric's name, a function of the score, and a note.

    Numbers outside the range from 0 to 1, or all of them if they are whole numbers, are rescaled, using the trait's
    scale or else the lowest and highest number. Those outside the scale count as its nearest limit, as the note says.
    """
    numbers = trait.numbers
    low, high = scales.get(name, (min(numbers, default=0.0), max(numbers, default=1.0)))
    if not numbers:
        return
    slack = _SLACK * (high - low)
    outside = sorted(number for number in numbers if not low - slack <= number <= high + slack)
    if low >= 0 and high <= 1 and not outside and (name in scales or not trait.whole):
        yield make(name, _as_number)
    elif low < high:
        source = (
            ""
            if name in scales
            else " (the lowest and highest scores that occur; set other limits with --scale or --benchmark)"
        )
        note = f"scores from {low:g} to {high:g}{source} were rescaled to 0 to 1"
        if outside:
            some = ", ".join(f"{number:g}" for number in outside[:_MOST_OUTSIDE])
            more = ", ..." if len(outside) > _MOST_OUTSIDE else ""
            note += f"; scores outside this scale ({some}{more}) count as its nearest limit"
        yield make(f"{name} (mean)", partial(_rescale, low=low, high=high), note)
    if name in cuts:
        yield make(f"{name} >= {cuts[name]:g}", partial(_reaches, cut=cuts[name]))


def _as_number(score: float | str) -> float | None:
    """Return the score unchanged, or None for a label."""
    return None if isinstance(score, str) else score


def _rescale(score: float | str, low: float, high: float) -> float | None:
    """Rescale a score from [low, high] to [0, 1] and clip it. Returns None for a label."""
    return None if isinstance(score, str) else min(1.0, max(0.0, (score - low) / (high - low)))


def _reaches(score: float | str, cut: float) -> float | None:
    """Return 1 if the score is at or above `cut` and 0 if it is not, or None for a label."""
    return None if isinstance(score, str) else float(score >= cut)


def _is_label(score: float | str, label: str) -> float | None:
    """Return 1 if the score is `label` and 0 if it is another label, or None for a number."""
    return float(score == label) if isinstance(score, str) else None


def _metric(
    scores: Mapping[int, Mapping[str, Score]],
    trait: str,
    questions: frozenset[str] | None,
    name: str,
    scaled: Callable[[float | str], float | None],
    note: str = "",
) -> Metric:
    """Return a metric of a trait with this name. Its value is what `scaled` returns for a score, and None without a
    score. `scores` has the scores of results by `id(result)` and trait.

    `name`, `questions` and `note` are passed to the metric.
    """

    def value(result: VerificationResult) -> float | None:
        """Return the trait's number, or None if there is none."""
        score = _scores_of(result).get(trait)
        return None if score is None else scaled(score)

    def missing(result: VerificationResult) -> bool:
        """Return whether the trait could not be scored, or is missing because the result was not judged."""
        own = _scores_of(result)
        if trait in own:
            return own[trait] is None
        return not result.outcome.judged or any(
            score is None and trait.startswith(f"{whole}.") for whole, score in own.items()
        )

    def _scores_of(result: VerificationResult) -> Mapping[str, Score]:
        """Look up the result's scores in `scores`, or compute them if the result is a copy."""
        stored = scores.get(id(result))
        return stored if stored is not None else trait_scores(result)

    return Metric(name, value, missing, questions, note)
