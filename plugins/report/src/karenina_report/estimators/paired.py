"""The mean difference between paired questions: its interval, its power, and the sign-flip test.

The p value of the sign-flip test is the probability of a difference at least as large if the signs of all units were
random. Intervals use Student's t distribution, which this module computes itself. numpy starts threads, and a process
with threads cannot be forked, so it is only imported when needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, inf, lcm, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import Final

_MOST_TERMS: Final = 10_000
_PRECISION: Final = 1e-15
_TINY: Final = 1e-300


@lru_cache(maxsize=1024)
def t_quantile(degrees: float, level: float = 0.95) -> float:
    """Return the t for which the interval from -t to t has the probability `level`. Raises `ValueError` if `degrees` is
    not positive or `level` is not between 0 and 1.
    """
    if degrees <= 0 or not 0 < level < 1:
        raise ValueError(f"there is no quantile at level {level} with {degrees} degrees of freedom")
    low, high = 0.0, NormalDist().inv_cdf(0.5 + level / 2)
    while t_two_sided(high, degrees) > 1 - level:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_two_sided(middle, degrees) > 1 - level else (low, middle)
    return (low + high) / 2


def t_two_sided(t: float, degrees: float) -> float:
    """Return the probability that Student's t is at least as far from 0 as `t`."""
    if t in (inf, -inf):
        return 0.0
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function (DLMF 8.17.22, by the modified Lentz method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    value, c, d = 1.0, 1.0, 0.0
    for term in range(_MOST_TERMS):
        half = term // 2
        if term == 0:
            factor = 1.0
        elif term % 2 == 0:
            factor = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            factor = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / _away_from_zero(1 + factor * d)
        c = _away_from_zero(1 + factor / c)
        value *= c * d
        if abs(1 - c * d) < _PRECISION and term:
            break
    return front * (value - 1)


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


POWER_FACTOR: Final = 2.80
"""The difference that is found with 80% power at a two-sided level of 5%, in standard errors."""
LEAST_FLIPS: Final = 6
"""The smallest number of flips, all in one direction, that is significant at 5% in a sign-flip test."""


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """A mean of paired differences with its 95% interval and standard error.

    `units` is the number of clusters, which are single questions by default. With fewer than two units, there is no
    standard error and no interval.
    """

    mean: float
    units: int
    error: float | None
    low: float | None
    high: float | None

    @property
    def p(self) -> float | None:
        """The two-sided p value of the t test, or None with fewer than two units."""
        if self.error is None:
            return None
        t = self.mean / self.error if self.error else (inf if self.mean else 0.0)
        return t_two_sided(t, self.units - 1)


def mean_difference(
    differences: Sequence[float], units: Sequence[Hashable], *, replicates: float = 1.0, pseudo: bool = True
) -> MeanDifference:
    """Return the mean of the questions' differences with its 95% interval, which is None with fewer than two units.
    With `pseudo`, two pseudo-units keep the interval from being too narrow. Raises `ValueError` if there are no
    differences.

    `units` contains each question's statistical unit. The variance is the cluster-robust variance of a mean: G / (G -
    1) times the sum of squared sums of residuals. The interval uses t with G - 1 degrees of freedom. `pseudo` adds two
    pseudo-units of average size: half a unit at +1/sqrt(K), half at -1/sqrt(K) and one at 0, where K is the number of
    observations of a unit (`replicates` for each of its questions). They do not move the mean, keep the width above 0,
    and preserve the coverage if nearly all questions agree.
    """
    if not differences:
        raise ValueError("there are no differences to average")
    count, mean = len(differences), sum(differences) / len(differences)
    sums: dict[Hashable, float] = defaultdict(float)
    for difference, unit in zip(differences, units, strict=True):
        sums[unit] += difference - mean
    groups = len(sums)
    if groups < 2:
        return MeanDifference(mean, groups, None, None, None)
    spread, taken, size = sum(total * total for total in sums.values()), groups, float(count)
    if pseudo:
        per_unit = count / groups
        spread += per_unit / replicates + 2 * (per_unit * mean) ** 2
        taken, size = groups + 2, count + 2 * per_unit
    error = sqrt(taken / (taken - 1) * spread) / size
    half = t_quantile(groups - 1) * error
    return MeanDifference(mean, groups, error, mean - half, mean + half)


def detectable(error: float) -> float:
    """Return the difference that can be found with 80% power at the given standard error."""
    return POWER_FACTOR * error


def questions_needed(error: float, questions: int, difference: float) -> int:
    """Return the number of questions needed to find `difference` with 80% power. `error` is the standard error with
    `questions` questions. The result is rounded up.
    """
    needed = questions * (detectable(error) / difference) ** 2
    return int(needed) + (needed > int(needed))


def within_question_share(within: Sequence[float], differences: Sequence[float]) -> float | None:
    """Return the share of the differences' variance that comes from replicates, given the variance that these add to
    each question's difference (`within`). Returns None if there is no variance, if `within` is empty, or for fewer than
    two differences.
    """
    count = len(differences)
    if not within or count < 2:
        return None
    mean = sum(differences) / count
    total = sum((difference - mean) ** 2 for difference in differences) / (count - 1)
    return min(1.0, sum(within) / len(within) / total) if total else None


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted jointly by Holm's method, in the order of the given ones, each at most 1.

    Source: S. Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


MOST_PARTS: Final = 10_080
"""The largest common denominator with which scores are counted in whole numbers."""
_MOST_STEPS: Final = 2_000_000_000
"""The number of additions above which random draws are faster than counting."""


@dataclass(frozen=True, slots=True)
class SignFlip:
    """The result of a sign-flip test. `exact` is true if all sign patterns were counted instead of a sample."""

    p: float
    mid_p: float
    exact: bool


def sign_flip(scores: Sequence[Fraction]) -> SignFlip:
    """Return the two-sided p value and mid-p value of a sign-flip test: whether the sum of `scores`, one for each unit,
    differs from 0. The test is exact, or by seeded draws if there are too many scores or parts.

    The test is exact if the scores have a common denominator of at most `MOST_PARTS` and are not too many. Otherwise it
    makes `DRAWS` seeded draws, with p = (b + 1) / (m + 1). With one observation for each unit and scores of 1, 0 or -1,
    the exact p value is that of McNemar's test.
    """
    scale = lcm(*{score.denominator for score in scores}) if scores else 1
    if scale <= MOST_PARTS:
        whole = [score.numerator * (scale // score.denominator) for score in scores if score]
        if sum(map(abs, whole)) * len(whole) <= _MOST_STEPS:
            return _exact_test(whole)
    return _sampled_test([float(score) for score in scores if score])


def _exact_test(scores: Sequence[int]) -> SignFlip:
    """Return the p and mid-p values of the sum of `scores`, one for each unit, over all sign patterns, by building the
    distribution of the sum one unit at a time.
    """
    import numpy as np

    most = sum(map(abs, scores))
    chances = np.zeros(2 * most + 1)
    chances[most] = 1.0
    reach = 0
    for size in sorted(map(abs, scores)):
        inner = chances[most - reach : most + reach + 1] / 2
        reach += size
        outer = chances[most - reach : most + reach + 1]
        outer[:] = 0.0
        outer[: inner.size] += inner
        outer[2 * size :] += inner
    seen = abs(sum(scores))
    if not seen:
        return SignFlip(1.0, 1.0 - float(chances[most]) / 2, exact=True)
    beyond, at = float(chances[most + seen + 1 :].sum()), float(chances[most + seen])
    return SignFlip(min(1.0, 2 * (beyond + at)), min(1.0, 2 * beyond + at), exact=True)


DRAWS: Final = 100_000
_SEED: Final = 20_261_122
_AT_ONCE: Final = 4_000_000


def _sampled_test(values: Sequence[float]) -> SignFlip:
    """Return the p and mid-p values of the sum of `values` from `DRAWS` random patterns of their signs, with a fixed
    seed, so that they are always the same.
    """
    import numpy as np

    scores = np.array(values)
    random = np.random.default_rng(_SEED)
    seen = abs(float(scores.sum()))
    tolerance = 1e-9 * max(1.0, float(np.abs(scores).sum()))
    beyond = at = 0
    chunk = max(1, _AT_ONCE // max(1, scores.size))
    for start in range(0, DRAWS, chunk):
        signs = random.integers(0, 2, (min(chunk, DRAWS - start), scores.size), dtype=np.int8) * 2.0 - 1.0
        sums = np.abs(signs @ scores)
        beyond += int((sums > seen + tolerance).sum())
        at += int((np.abs(sums - seen) <= tolerance).sum())
    return SignFlip((beyond + at + 1) / (DRAWS + 1), (beyond + at / 2 + 1) / (DRAWS + 1), exact=False)
