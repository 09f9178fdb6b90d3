"""The estimators used in reports, for many simulated runs at once, each checked against the report's function."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np

from karenina_engine.results.rates import Z95, effective_size, wilson
from karenina_report.estimators.paired import mean_difference, sign_flip, t_quantile

Array = np.ndarray[Any, np.dtype[Any]]

COMPARED: Final = 5
"""The number of runs of each cell whose figures are compared with the functions of reports."""
_SCALE: Final = 60
"""Multiplied by this, differences between shares of up to five replicates are whole numbers."""
_TAIL: Final = 9.0
"""The number of standard deviations beyond which a sum of random signs has a probability below 1e-17."""
_CHUNK: Final = 4_000_000


def rate_intervals(right: Array, judged: Array) -> tuple[Array, Array]:
    """Return the bounds of each run's pass rate. Rows are runs, and columns are questions."""
    questions = (judged > 0).sum(1).astype(float)
    items, hits = judged.sum(1).astype(float), right.sum(1).astype(float)
    squares = ((right * right).sum(1), (right * judged).sum(1), (judged * judged).sum(1))
    size = items / questions
    total = items + size
    share = (hits + size / 2) / total
    spread = squares[0] - 2 * share * squares[1] + share * share * squares[2]
    spread += size * size / 2 * ((1 - share) ** 2 + share * share)
    effect = (questions + 1) / questions * spread / total / (share * (1 - share))
    effective = np.where(questions == items, items, np.clip(items / effect, 1.0, items))
    rate = hits / items
    square = Z95 * Z95 / effective
    middle = (rate + square / 2) / (1 + square)
    half = Z95 * np.sqrt(rate * (1 - rate) / effective + square / (4 * effective)) / (1 + square)
    low, high = np.where(hits == 0, 0.0, middle - half), np.where(hits == items, 1.0, middle + half)
    for run in range(COMPARED):
        sums = (int(one[run]) for one in squares)
        found = effective_size(int(questions[run]), int(items[run]), int(hits[run]), *sums)
        _compare((low[run], high[run]), wilson(float(rate[run]) * found, found))
    return low, high


def difference_intervals(differences: Array, paired: Array, replicates: Array) -> tuple[Array, Array]:
    """Return the bounds of the mean difference for each pair of runs.

    `paired` marks the questions judged in both runs, and `replicates` is the mean number of replicates for each pair.
    """
    count = paired.sum(1)
    mean = (differences * paired).sum(1) / count
    spread = (((differences - mean[:, None]) ** 2) * paired).sum(1) + 1 / replicates + 2 * mean * mean
    error = np.sqrt((count + 2) / (count + 1) * spread) / (count + 2)
    quantiles = {one: t_quantile(one - 1) for one in np.unique(count).tolist()}
    half = np.array([quantiles[one] for one in count.tolist()]) * error
    for run in range(COMPARED):
        values = differences[run][paired[run]].tolist()
        found = mean_difference(values, range(len(values)), replicates=float(replicates[run]))
        _compare((mean[run] - half[run], mean[run] + half[run]), (found.low or 0.0, found.high or 0.0))
    return mean - half, mean + half


def sign_flip_p(differences: Array) -> Array:
    """Return the two-sided sign-flip p value of each pair of runs, exact up to rounding.

    The sum of values with random signs has the characteristic function prod cos(value * angle). Its distribution is the
    inverse Fourier transform, with a period so long that the tails do not overlap. Unpaired questions are 0.
    """
    whole = np.rint(differences * _SCALE).astype(np.int64)
    whole //= np.gcd.reduce(whole, axis=None) or 1
    sums = np.abs(whole.sum(1))
    sizes = [one for one in np.unique(np.abs(whole)).tolist() if one]
    counts = np.stack([(np.abs(whole) == one).sum(1) for one in sizes], 1).astype(float) if sizes else None
    if counts is None:
        return np.ones(len(whole))
    reach = min(
        2 * float(np.abs(whole).sum(1).max()), 2 * (_TAIL * float(np.sqrt((whole**2).sum(1).max())) + sums.max())
    )
    period = 1 << int(np.ceil(np.log2(reach + 2)))
    angles = np.arange(period // 2 + 1) * (2 * np.pi / period)
    cosines = np.cos(np.outer(sizes, angles))
    logarithms, negative = np.log(np.maximum(np.abs(cosines), 1e-300)), (cosines < 0).astype(float)
    found = np.empty(len(whole))
    rows = max(1, _CHUNK // period)
    for start in range(0, len(whole), rows):
        part = slice(start, start + rows)
        signs = 1 - 2 * np.mod(counts[part] @ negative, 2)
        chances = np.fft.irfft(np.exp(counts[part] @ logarithms) * signs, period)[:, : period // 2]
        inside = np.cumsum(chances, 1)
        at = np.maximum(sums[part] - 1, 0)
        within = 2 * np.take_along_axis(inside, at[:, None], 1)[:, 0] - chances[:, 0]
        found[part] = np.where(sums[part] == 0, 1.0, 1 - within)
    for run in range(COMPARED):
        _compare((found[run],), (sign_flip([Fraction(int(one), _SCALE) for one in whole[run].tolist()]).p,))
    return found


def _compare(found: tuple[float, ...], expected: tuple[float, ...]) -> None:
    """Raise `AssertionError` if the figures differ from the expected ones by more than a rounding error."""
    if any(abs(one - other) > 1e-9 for one, other in zip(found, expected, strict=True)):
        raise AssertionError(f"the simulated figures {found} do not match the figures in the reports ({expected})")
