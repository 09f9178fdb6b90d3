"""One metric's values in two runs, paired by question, and the estimate of their difference."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import fmean, variance
from typing import TYPE_CHECKING

from karenina_report.comparison.comparison_result import Bounds, Difference, Flipped, PlainInterval, Power
from karenina_report.estimators.paired import (
    detectable,
    mean_difference,
    questions_needed,
    sign_flip,
    within_question_share,
)
from karenina_report.statistics.metrics import as_fraction

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.comparison.pairing import Pairing
    from karenina_report.statistics.metrics import Metric

_POINTS = (1, 3, 5)
Place = tuple[Hashable, ...]
"""The replicate and judge of an observation. Observations of a question are paired by this key."""


@dataclass(slots=True)
class MetricValues:
    """The values of a metric for one question in one run.

    `values` maps replicate and judge to values, and `missing` counts the results without a value. If both runs have the
    same stored answers, `unpaired` contains the values of replicates that only this run judged.
    """

    values: dict[Place, list[Fraction]] = field(default_factory=dict)
    missing: int = 0
    unpaired: list[Fraction] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of values, excluding `unpaired`."""
        return sum(map(len, self.values.values()))

    @property
    def mean(self) -> Fraction | None:
        """The mean of the values, excluding `unpaired`, or None if there are none."""
        values = [value for some in self.values.values() for value in some]
        if len(values) > 1:
            return sum(values, Fraction(0)) / len(values)
        return values[0] if values else None

    def mean_if(self, missing: int) -> Fraction:
        """Return the mean of all values, including `unpaired`, with `missing` (0 or 1) for each missing value."""
        values = [value for some in self.values.values() for value in some]
        return sum([*values, *self.unpaired], Fraction(self.missing * missing)) / self.total_count

    @property
    def has_values(self) -> bool:
        """Whether there are any values, including `unpaired`."""
        return bool(self.values or self.unpaired)

    @property
    def total_count(self) -> int:
        """The number of results, with or without a value."""
        return self.count + len(self.unpaired) + self.missing


@dataclass(slots=True)
class PairedQuestion:
    """The values of a metric for one question in both runs."""

    id: str
    a: MetricValues
    b: MetricValues

    @property
    def is_complete(self) -> bool:
        """Whether both runs have a value, not counting `unpaired`."""
        return bool(self.a.count and self.b.count)


def pair_values(metric: Metric, pairing: Pairing, judges: Sequence[str] | None = None) -> list[PairedQuestion]:
    """Return the metric's values in both runs, from results of the given `judges` (default: those of the pairing), for
    each of the questions that has, or should have, a value in either.

    If both runs have the same stored answers, values of replicates judged in only one run are put in `unpaired`.
    """
    counted = set(pairing.judges if judges is None else judges)
    paired = []
    for id, pair in pairing.questions.items():
        if metric.questions is not None and id not in metric.questions:
            continue
        sides = [MetricValues(), MetricValues()]
        for side, results in zip(sides, pair, strict=True):
            for result in results:
                judge = pairing.judge_name(result)
                if judge in counted:
                    _add_value(
                        side, metric, result, (result.metadata.replicate or 1, judge if pairing.same_judges else "")
                    )
        question = PairedQuestion(id, *sides)
        if pairing.same_answers:
            _set_unpaired_aside(question)
        if any(side.has_values or side.missing for side in sides):
            paired.append(question)
    return paired


def _add_value(side: MetricValues, metric: Metric, result: VerificationResult, place: Place) -> None:
    """Add the result's value to `side`, or count it as missing if there should be one."""
    value = metric.value(result)
    if value is not None:
        side.values.setdefault(place, []).append(as_fraction(value))
    elif metric.missing(result):
        side.missing += 1


def _set_unpaired_aside(question: PairedQuestion) -> None:
    """Move the values of replicates that only one run judged to `unpaired`."""
    both = question.a.values.keys() & question.b.values.keys()
    for side in (question.a, question.b):
        side.unpaired = [value for place, some in side.values.items() if place not in both for value in some]
        side.values = {place: some for place, some in side.values.items() if place in both}


def estimate_difference(
    metric: Metric,
    questions: Sequence[PairedQuestion],
    unit_of: Callable[[str], Hashable],
    *,
    same_answers: bool = False,
) -> Difference | None:
    """Estimate the difference A minus B in a metric, or return None if no question has a value in both runs. `unit_of`
    returns a question's statistical unit. Set `same_answers` if replicates are paired; this only affects the power.
    """
    means = [
        (question, a, b)
        for question in questions
        if (a := question.a.mean) is not None and (b := question.b.mean) is not None
    ]
    if not means:
        return None
    both, fractions = [question for question, _, _ in means], [a - b for _, a, b in means]
    differences, total = [*map(float, fractions)], _add_up(fractions)
    units = [unit_of(question.id) for question in both]
    replicates = fmean((question.a.count + question.b.count) / 2 for question in both)
    shown = mean_difference(differences, units, replicates=replicates)
    plain = mean_difference(differences, units, pseudo=False)
    sums: dict[Hashable, Fraction] = {}
    for fraction, unit in zip(fractions, units, strict=True):
        sums[unit] = sums[unit] + fraction if unit in sums else fraction
    test = sign_flip(list(sums.values()))
    higher_in_a = sum(fraction.numerator > 0 for fraction in fractions)
    higher_in_b = sum(fraction.numerator < 0 for fraction in fractions)
    flipped = Flipped(questions=higher_in_a + higher_in_b, higher_in_a=higher_in_a, higher_in_b=higher_in_b)
    return Difference(
        metric=metric.name,
        note=metric.note,
        questions=len(both),
        units=shown.units,
        replicates=replicates,
        a=float(_add_up(a for _, a, _ in means) / len(both)),
        b=float(_add_up(b for _, _, b in means) / len(both)),
        difference=float(total / len(both)),
        low=None if shown.low is None else max(-1.0, shown.low),
        high=None if shown.high is None else min(1.0, shown.high),
        plain=_plain(plain.low, plain.high, plain.p),
        p=test.p,
        mid_p=test.mid_p,
        p_exact=test.exact,
        flipped=flipped,
        bounds=_bounds(questions, total),
        power=_power(shown.error, both, differences, flipped.questions / len(both), same_answers=same_answers),
    )


def _add_up(values: Iterable[Fraction]) -> Fraction:
    """Return the exact sum of the values. Numerators are added first, because sums of fractions are slow."""
    numerators: dict[int, int] = {}
    for value in values:
        numerators[value.denominator] = numerators.get(value.denominator, 0) + value.numerator
    return sum((Fraction(numerator, denominator) for denominator, numerator in numerators.items()), Fraction(0))


def _plain(low: float | None, high: float | None, p: float | None) -> PlainInterval | None:
    return None if low is None or high is None or p is None else PlainInterval(low=low, high=high, p=p)


def _bounds(questions: Sequence[PairedQuestion], total: Fraction) -> Bounds | None:
    """Return the bounds of the difference with missing values set to 0 or 1, and whether both have the sign of `total`,
    the sum of the differences. Returns None if no values are missing, or if no question has results in both runs.

    In the lower bound, missing values are 0 in the first run and 1 in the other one.
    """
    unjudged = [sum(question.a.missing for question in questions), sum(question.b.missing for question in questions)]
    with_results = [question for question in questions if question.a.total_count and question.b.total_count]
    if not any(unjudged) or not with_results:
        return None
    low = sum((result.a.mean_if(0) - result.b.mean_if(1) for result in with_results), Fraction(0)) / len(with_results)
    high = sum((result.a.mean_if(1) - result.b.mean_if(0) for result in with_results), Fraction(0)) / len(with_results)
    holds = (low > 0 and total > 0) or (high < 0 and total < 0)
    return Bounds(unjudged_a=unjudged[0], unjudged_b=unjudged[1], low=float(low), high=float(high), sign_holds=holds)


def _power(
    error: float | None,
    both: Sequence[PairedQuestion],
    differences: Sequence[float],
    flipping: float,
    *,
    same_answers: bool,
) -> Power | None:
    """Return the power of a comparison, or None if its standard error, `error`, is None. `both` contains the questions
    in both runs, `differences` the difference of each, and `flipping` is the share of questions that flipped. For
    `same_answers`, see `estimate_difference`.
    """
    if error is None:
        return None
    least = detectable(error)
    within = _within(both, differences, same_answers=same_answers)
    return Power(
        detectable=least,
        six_flips=least > flipping,
        questions={points: questions_needed(error, len(both), points / 100) for points in _POINTS},
        within=within,
        at_best=least * (1 - within) ** 0.5 if within is not None else None,
    )


def _within(both: Sequence[PairedQuestion], differences: Sequence[float], *, same_answers: bool) -> float | None:
    """Return the share of the differences' variance that comes from replicates, or None if it cannot be estimated. Set
    `same_answers` if replicates are paired. It cannot be estimated without replicates.
    """
    noises = [noise for question in both if (noise := _noise(question, same_answers=same_answers)) is not None]
    return within_question_share(noises, differences) if noises else None


def _noise(question: PairedQuestion, *, same_answers: bool) -> float | None:
    """Return the variance that replicates add to a question's mean difference: that of the differences between paired
    replicates with `same_answers`, otherwise the sum of both runs' variances. Returns None for fewer than two
    replicates or pairs.
    """
    if min(len(question.a.values), len(question.b.values)) < 2:
        return None
    sides = [_by_replicate(question.a), _by_replicate(question.b)]
    if same_answers:
        both = [sides[0][place] - sides[1][place] for place in sides[0].keys() & sides[1].keys()]
        return variance(both) / len(both) if len(both) > 1 else None
    if min(map(len, sides)) < 2:
        return None
    return sum(variance(side.values()) / len(side) for side in sides)


def _by_replicate(side: MetricValues) -> Mapping[Hashable, float]:
    """Return the mean value of each replicate over all judges. The keys are replicates."""
    values: dict[Hashable, list[float]] = {}
    for place, some in side.values.items():
        values.setdefault(place[0], []).extend(map(float, some))
    return {replicate: fmean(some) for replicate, some in values.items()}
