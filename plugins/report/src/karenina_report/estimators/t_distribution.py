"""Student's t distribution: its quantile and its two-sided p value."""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p
from statistics import NormalDist
from typing import Final

_MOST_TERMS: Final = 10_000
_PRECISION: Final = 1e-15
_TINY: Final = 1e-300


@lru_cache(maxsize=1024)
def t_quantile(degrees: float, level: float = 0.95) -> float:
    """Return the t for which the range from -t to t has probability `level`. Raises `ValueError` for bad arguments."""
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
    """Return the probability of a value at least as far from 0 as `t`."""
    if t in (inf, -inf):
        return 0.0
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function (DLMF 8.17.22, by the modified method of Lentz)."""
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
