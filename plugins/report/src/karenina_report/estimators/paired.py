"""The interval of a mean difference between paired questions, and its power."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

from karenina_report.estimators.t_distribution import t_quantile, t_two_sided

POWER_FACTOR: Final = 2.80
"""Standard errors of a difference that is found in 80% of runs, at a two-sided level of 5%."""
LEAST_FLIPS: Final = 6
"""Flips, all in one direction, that a sign-flip test at 5% needs."""


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """A mean of paired differences with its 95% interval and standard error.

    `units` are the clusters, by default the questions. The bounds are None if there are fewer than two.
    """

    mean: float
    units: int
    error: float | None
    low: float | None
    high: float | None

    @property
    def p(self) -> float | None:
        """The two-sided p value of the t test."""
        if self.error is None:
            return None
        t = self.mean / self.error if self.error else (inf if self.mean else 0.0)
        return t_two_sided(t, self.units - 1)


def mean_difference(
    differences: Sequence[float], units: Sequence[Hashable], *, replicates: float = 1.0, pseudo: bool = True
) -> MeanDifference:
    """Return the mean of the questions' differences, each given with its unit, and its interval.

    The variance is the cluster-robust one of a mean (G / (G - 1) times the sum of squared sums of residuals), with t at
    G - 1 degrees of freedom. `pseudo` adds two pseudo-units of average size: half a unit at +1/sqrt(K), half at
    -1/sqrt(K), one at 0, K being the observations of a unit (`replicates` for each of its questions). They do not move
    the mean, keep the width above 0, and hold the coverage if nearly all questions agree. Raises `ValueError` without a
    difference.
    """
    if not differences:
        raise ValueError("the mean needs at least one difference")
    count, mean = len(differences), sum(differences) / len(differences)
    sums: dict[Hashable, float] = defaultdict(float)
    for difference, unit in zip(differences, units, strict=True):
        sums[unit] += difference - mean
    groups = len(sums)
    if groups < 2:
        return MeanDifference(mean, groups, None, None, None)
    spread, taken, size = sum(one * one for one in sums.values()), groups, float(count)
    if pseudo:
        per_unit = count / groups
        spread += per_unit / replicates + 2 * (per_unit * mean) ** 2
        taken, size = groups + 2, count + 2 * per_unit
    error = sqrt(taken / (taken - 1) * spread) / size
    half = t_quantile(groups - 1) * error
    return MeanDifference(mean, groups, error, mean - half, mean + half)


def detectable(error: float) -> float:
    """Return the difference that a comparison with this standard error finds with 80% power."""
    return POWER_FACTOR * error


def questions_needed(error: float, questions: int, difference: float) -> int:
    """Return the number of questions needed to find this difference with 80% power."""
    needed = questions * (detectable(error) / difference) ** 2
    return int(needed) + (needed > int(needed))


def within_question_share(within: Sequence[float], differences: Sequence[float]) -> float | None:
    """Return the share of the variance of the differences that comes from replicates, which more of them reduce.

    `within` are the variances of each question's difference over its replicates. None if nothing varies.
    """
    count = len(differences)
    if not within or count < 2:
        return None
    mean = sum(differences) / count
    total = sum((one - mean) ** 2 for one in differences) / (count - 1)
    return min(1.0, sum(within) / len(within) / total) if total else None


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted for all of them together (S. Holm, Scandinavian Journal of Statistics 6, 1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted
