"""Estimating rates from human labels, with plain numbers.

`allocate` and `post_stratified` plan and evaluate a stratified random sample of labels. `rogan_gladen` corrects a rate
with the judge's sensitivity and specificity in another run. `powered_mean` (PPI++) uses the judge's verdicts on all
answers to make the mean of labels more precise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final, TypeVar

from karenina_engine.results.rates import Z95, Clusters, Rate, wilson
from karenina_report.estimators.agreement import weight_effect
from karenina_report.estimators.paired import t_quantile

Stratum = Hashable
Unit = Hashable
Key = TypeVar("Key", bound=Hashable)

LEAST: Final = 5
"""The minimum number of labels in a stratum."""


@dataclass(frozen=True, slots=True)
class Label:
    """The label of one answer. `right` is 1 or 0, or the mean over several labellers.

    `weight` is the inverse of the fraction that was sampled from the answer's stratum. Only ratios of weights matter.
    """

    stratum: Stratum
    unit: Unit
    right: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """The share of right answers among all answers, with a 95% interval.

    `influence` contains each unit's deviation. The squares of these deviations add up to the variance. `pseudo` is the
    variance due to the pseudo labels, and `between` is the part of the variance that does not depend on the number of
    labels.
    """

    value: float
    low: float
    high: float
    error: float
    labels: int
    units: int
    influence: Mapping[Unit, float]
    pseudo: float
    between: float

    @property
    def remaining(self) -> float:
        """The approximate half-width of the interval if all answers were labelled, which is due to the limited number
        of questions.
        """
        within = max(0.0, self.error**2 - self.between)
        variance = min(self.error**2, self.between + within * self.labels / self.units)
        return t_quantile(max(1, self.units - 1)) * sqrt(variance)


def post_stratified(answers: Iterable[tuple[Stratum, Unit]], labels: Sequence[Label]) -> CorrectedRate:
    """Estimate the share of right answers from labels of some of the `answers`, which are pairs of a stratum and a
    unit. A stratum's share is (y + 1) / (n + 2). The interval is for all questions of this kind, not only those in the
    run. Raises `ValueError` if a stratum has no labels or there are no answers.

    `answers` contains all of the run's answers. Their unit is the question or a cluster of questions. The interval has
    a width even if every answer is labelled. The variance is that of the linearised estimator, with residuals added up
    within each unit, because answers to the same question are correlated. The pseudo labels, one right and one wrong in
    each stratum, preserve the coverage if all labels in a stratum are equal.
    """
    counts = Counter(answers)
    total = sum(counts.values())
    sizes: Counter[Stratum] = Counter()
    for (stratum, _), count in counts.items():
        sizes[stratum] += count
    missing = sizes.keys() - {label.stratum for label in labels}
    if not total or missing:
        raise ValueError("the run has no answers, or a stratum has no labels")
    scale = _scales(labels)
    shares, numbers = _shares(labels, scale)
    value = sum(size / total * shares[stratum] for stratum, size in sizes.items())
    between: dict[Unit, float] = defaultdict(float)
    for (stratum, unit), count in counts.items():
        between[unit] += count * (shares[stratum] - value) / total
    within: dict[Unit, float] = defaultdict(float)
    for label in labels:
        part = sizes[label.stratum] / total / (numbers[label.stratum] + 2)
        within[label.unit] += part * scale[label.stratum] * label.weight * (label.right - shares[label.stratum])
    influence = {unit: between[unit] + within.get(unit, 0.0) for unit in between}
    pseudo = sum(
        (size / total / (numbers[stratum] + 2)) ** 2 * ((1 - shares[stratum]) ** 2 + shares[stratum] ** 2)
        for stratum, size in sizes.items()
    )
    units = len(influence)
    factor = units / max(1, units - 1)
    error = sqrt(factor * sum(effect * effect for effect in influence.values()) + pseudo)
    half = t_quantile(max(1, units - 1)) * error
    fixed = factor * sum(effect * effect for effect in between.values())
    return CorrectedRate(
        value, max(0.0, value - half), min(1.0, value + half), error, len(labels), units, influence, pseudo, fixed
    )


def _scales(labels: Sequence[Label]) -> Mapping[Stratum, float]:
    """Return for each stratum the factor with which the weights of its labels have a mean of 1."""
    sums: dict[Stratum, float] = defaultdict(float)
    numbers: Counter[Stratum] = Counter()
    for label in labels:
        sums[label.stratum] += label.weight
        numbers[label.stratum] += 1
    return {stratum: numbers[stratum] / sums[stratum] for stratum in sums}


def _shares(
    labels: Sequence[Label], scale: Mapping[Stratum, float]
) -> tuple[Mapping[Stratum, float], Mapping[Stratum, int]]:
    """Return the share of right answers, (y + 1) / (n + 2), and the number of labels in each stratum. The shares are
    never 0 or 1. `scale` contains the factors for the weights; see `_scales`.
    """
    right: dict[Stratum, float] = defaultdict(float)
    numbers: Counter[Stratum] = Counter()
    for label in labels:
        right[label.stratum] += scale[label.stratum] * label.weight * label.right
        numbers[label.stratum] += 1
    return {stratum: (right[stratum] + 1) / (numbers[stratum] + 2) for stratum in numbers}, numbers


@dataclass(frozen=True, slots=True)
class CorrectedDifference:
    """The difference between two corrected rates, with a 95% interval."""

    value: float
    low: float
    high: float


def corrected_difference(a: CorrectedRate, b: CorrectedRate) -> CorrectedDifference:
    """Return the rate `a` minus the rate `b`. The interval takes into account that they may share questions."""
    units = a.influence.keys() | b.influence.keys()
    squares = sum((a.influence.get(unit, 0.0) - b.influence.get(unit, 0.0)) ** 2 for unit in units)
    degrees = max(1, len(units) - 1)
    half = t_quantile(degrees) * sqrt((degrees + 1) / degrees * squares + a.pseudo + b.pseudo)
    value = a.value - b.value
    return CorrectedDifference(value, max(-1.0, value - half), min(1.0, value + half))


def more_labels(rate: CorrectedRate, answers: int) -> int | None:
    """Return the number of additional labels that would halve the interval, or None if this needs more labels than
    there are `answers` in total, or if no number would.

    The part of the variance that is due to labelling is inversely proportional to the number of labels.
    """
    variance = rate.error**2
    caused = max(0.0, variance - rate.between) * rate.labels
    room = variance / 4 - rate.between
    if room <= 0:
        return None
    needed = int(caused / room) + 1
    return needed - rate.labels if rate.labels < needed <= answers else None


def merge_small(sizes: Mapping[Key, int], least: int = LEAST, *, into: Key | None = None) -> dict[Key, tuple[Key, ...]]:
    """Merge strata with fewer than `least` answers into `into`, if it exists, or into the next larger one, and return
    the members of each remaining stratum. If all have fewer in total, one stratum is left. Strata without answers are
    ignored.

    The smallest stratum is merged first. This is repeated until no stratum is too small or only one is left.
    """
    groups: dict[Key, tuple[Key, ...]] = {key: (key,) for key, size in sizes.items() if size}
    total = {key: sizes[key] for key in groups}
    while len(groups) > 1:
        small, larger = sorted(groups, key=total.__getitem__)[:2]
        if total[small] >= least:
            break
        if into is not None and into in groups and into != small:
            larger = into
        groups[larger] += groups.pop(small)
        total[larger] += total.pop(small)
    return groups


def allocate(sizes: Mapping[Key, int], labels: int, least: int = LEAST) -> dict[Key, int]:
    """Return the number of answers to draw from each stratum: at least `least`, or all if it has fewer. The rest of
    `labels` goes, one at a time, to the stratum that is furthest below its proportional share. The total is larger than
    `labels` if the minimums add up to more.
    """
    drawn = {key: min(size, least) for key, size in sizes.items()}
    total = sum(sizes.values())
    left = min(labels, total) - sum(drawn.values())
    while left > 0:
        behind = {key: size * labels / total - drawn[key] for key, size in sizes.items() if drawn[key] < size}
        chosen = max(behind, key=lambda key: behind[key])
        drawn[chosen] += 1
        left -= 1
    return drawn


def weighted_rate(units: Sequence[Hashable], hits: Sequence[bool], weights: Sequence[float]) -> Rate:
    """Return the weighted share of hits and its interval, which is wider if items of the same unit are alike. Without
    items, the rate has no value.

    `units` contains the statistical unit of each item. The interval is Wilson's interval at the effective size, which
    is smaller if items of the same unit are alike or if weights differ. With equal weights, it is the same interval as
    for pass rates.
    """
    plain = _count(units, hits).rate()
    if not hits or len(set(weights)) == 1:
        return plain
    value = sum(weight for weight, hit in zip(weights, hits, strict=True) if hit) / sum(weights)
    value = min(1.0, max(0.0, value))
    size = effective_labels(units, hits, weights)
    low, high = wilson(value * size, size)
    return plain.model_copy(update={"value": value, "low": min(low, value), "high": max(high, value)})


def effective_labels(units: Sequence[Hashable], hits: Sequence[bool], weights: Sequence[float]) -> float:
    """Return the size of an equally precise simple random sample, or 0 if there are no items."""
    return max(1.0, _count(units, hits).effective_size() * weight_effect(weights)) if hits else 0.0


def _count(units: Sequence[Hashable], hits: Sequence[bool]) -> Clusters:
    """Return the numbers of items and hits in each unit. `units` contains the unit of each item, and `hits` whether it
    is a hit.
    """
    counted = Clusters()
    for unit, hit in zip(units, hits, strict=True):
        counted.add(unit, hit=hit)
    return counted


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """A judge's sensitivity and specificity, and the effective number of labels behind each of them.

    Sensitivity is the share of right answers with the verdict *correct*, and specificity is the share of wrong answers
    without it. `right` and `wrong` are the effective numbers of labels for right and wrong answers.
    """

    sensitivity: float
    specificity: float
    right: float
    wrong: float

    def smoothed(self) -> tuple[float, float]:
        """Return the sensitivity and the specificity, each with two pseudo labels: one right and one wrong."""
        return (
            (self.right * self.sensitivity + 1) / (self.right + 2),
            (self.wrong * self.specificity + 1) / (self.wrong + 2),
        )

    def can_correct(self) -> bool:
        """Return whether the judge is certainly better than chance: whether the lower bound of sensitivity +
        specificity - 1 is above 0.
        """
        sensitivity, specificity = self.smoothed()
        spread = _variance(sensitivity, self.right + 2) + _variance(specificity, self.wrong + 2)
        return sensitivity + specificity - 1 - Z95 * sqrt(spread) > 0


@dataclass(frozen=True, slots=True)
class CarriedRate:
    """A pass rate corrected with the labels of another run, with a 95% interval."""

    value: float
    low: float
    high: float


def rogan_gladen(rate: float, size: float, quality: JudgeQuality) -> CarriedRate | None:
    """Estimate the share of right answers and its interval from a raw pass rate, its effective sample size, and the
    error rates of the judge in another run (`quality`). Returns None if the judge may be no better than chance there.

    Sources: W. J. Rogan and B. Gladen, American Journal of Epidemiology 107, 1978; the interval is from Z. Lang and J.
    Reiczigel, Preventive Veterinary Medicine 113, 2014.
    """
    if not quality.can_correct():
        return None
    value = (rate + quality.specificity - 1) / (quality.sensitivity + quality.specificity - 1)
    square = Z95 * Z95
    apparent = (size * rate + square / 2) / (size + square)
    sensitivity, specificity = quality.smoothed()
    slope = sensitivity + specificity - 1
    middle = (apparent + specificity - 1) / slope
    of_right = _variance(sensitivity, quality.right + 2)
    of_wrong = _variance(specificity, quality.wrong + 2)
    shift = 2 * square * (middle * of_right - (1 - middle) * of_wrong)
    spread = _variance(apparent, size + square) + (1 - middle) ** 2 * of_wrong + middle**2 * of_right
    half = Z95 * sqrt(spread) / slope
    low, high = _clip(middle + shift - half), _clip(middle + shift + half)
    return CarriedRate(_clip(value), min(low, _clip(value)), max(high, _clip(value)))


def _variance(share: float, size: float) -> float:
    """Return the variance of a share in a sample of the given size."""
    return share * (1 - share) / size


def _clip(value: float) -> float:
    """Limit a value to the range from 0 to 1."""
    return min(1.0, max(0.0, value))


@dataclass(frozen=True, slots=True)
class PoweredMean:
    """The PPI++ mean of labels, its 95% interval, and the weight of the verdicts, from 0 to 1."""

    value: float
    low: float
    high: float
    weight: float


def powered_mean(labels: Sequence[float], verdicts: Sequence[float], unlabelled: Sequence[float]) -> PoweredMean:
    """Return the mean of the labels and its 95% interval, made more precise by verdicts on all answers: `verdicts` on
    the labelled ones, in the same order, and `unlabelled` on the others. Raises `ValueError` if there are fewer than
    two labels or no unlabelled answers.

    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++: Efficient Prediction-Powered Inference, 2023.
    """
    count, others = len(labels), len(unlabelled)
    if count < 2 or not others:
        raise ValueError("PPI++ needs at least two labels and at least one answer without a label")
    everything = [*verdicts, *unlabelled]
    covariance = _mean([label * other for label, other in zip(labels, verdicts, strict=True)])
    covariance -= _mean(labels) * _mean(verdicts)
    spread = _population_variance(everything) * len(everything) / (len(everything) - 1)
    weight = min(1.0, max(0.0, covariance / ((1 + count / others) * spread))) if spread else 0.0
    rest = [label - weight * other for label, other in zip(labels, verdicts, strict=True)]
    value = weight * _mean(unlabelled) + _mean(rest)
    half = Z95 * sqrt(weight**2 * _population_variance(unlabelled) / others + _population_variance(rest) / count)
    return PoweredMean(value, value - half, value + half, weight)


def _mean(values: Sequence[float]) -> float:
    """Return the mean of `values`, which must not be empty."""
    return sum(values) / len(values)


def _population_variance(values: Sequence[float]) -> float:
    """Return the population variance of `values`, which must not be empty."""
    mean = _mean(values)
    return _mean([(value - mean) ** 2 for value in values])
