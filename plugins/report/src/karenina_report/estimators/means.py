"""Means over questions: of values between 0 and 1 with an interval, pass@k and pass^k."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from fractions import Fraction
from math import comb

from karenina_engine.results.rates import effective_size, wilson


def mean_interval(values: Iterable[tuple[Hashable, Fraction]]) -> tuple[float, float, float]:
    """Return the mean of values, each given with the unit it belongs to, and the bounds of its 95% interval.

    The interval is Wilson's at the effective sample size, as for a rate. Raises `ValueError` without a value.
    """
    sums: dict[Hashable, Fraction] = {}
    sizes: dict[Hashable, int] = {}
    for unit, value in values:
        sums[unit] = sums.get(unit, Fraction(0)) + value
        sizes[unit] = sizes.get(unit, 0) + 1
    items, total = sum(sizes.values()), sum(sums.values(), Fraction(0))
    if not items:
        raise ValueError("the mean needs at least one value")
    size = effective_size(
        len(sizes),
        items,
        total,
        sum((one * one for one in sums.values()), Fraction(0)),
        sum((sums[unit] * sizes[unit] for unit in sums), Fraction(0)),
        sum(one * one for one in sizes.values()),
        graded=True,
    )
    mean = float(total / items)
    low, high = wilson(mean * size, size)
    return mean, min(low, mean), max(high, mean)


def pass_at_k(right: int, judged: int, k: int) -> float:
    """Return the probability that at least one of `k` replicates is right, drawn from those that were judged.

    Source: M. Chen et al., Evaluating Large Language Models Trained on Code, 2021. Raises `ValueError` if fewer than k
    were judged.
    """
    _check(right, judged, k)
    return 1 - comb(judged - right, k) / comb(judged, k)


def pass_hat_k(right: int, judged: int, k: int) -> float:
    """Return the probability that each of `k` replicates is right, drawn from those that were judged.

    Source: S. Yao et al., tau-bench, 2024. Raises `ValueError` if fewer than k were judged.
    """
    _check(right, judged, k)
    return comb(right, k) / comb(judged, k)


def _check(right: int, judged: int, k: int) -> None:
    if not 0 <= right <= judged or not 1 <= k <= judged:
        raise ValueError(f"{k} of {judged} replicates, {right} right, cannot be drawn")
