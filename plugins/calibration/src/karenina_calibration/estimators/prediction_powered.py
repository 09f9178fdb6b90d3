"""PPI++ for a mean: a cross-check of the corrected rate if the labels are a simple random sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from karenina_engine.results.rates import Z95


@dataclass(frozen=True, slots=True)
class PoweredMean:
    """The mean of labels by PPI++, its 95% interval, and the weight of the judge's verdicts, from 0 to 1."""

    value: float
    low: float
    high: float
    weight: float


def powered_mean(labels: Sequence[float], verdicts: Sequence[float], unlabelled: Sequence[float]) -> PoweredMean:
    """Return the mean of labels, made more precise by verdicts.

    `verdicts` are those of the labelled answers, in the order of `labels`; `unlabelled` those of all other answers.
    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++: Efficient Prediction-Powered Inference, 2023.
    Raises `ValueError` for fewer than two labels, and without other answers.
    """
    count, others = len(labels), len(unlabelled)
    if count < 2 or not others:
        raise ValueError("PPI++ needs two labels, and answers without a label")
    everything = [*verdicts, *unlabelled]
    covariance = _mean([one * other for one, other in zip(labels, verdicts, strict=True)])
    covariance -= _mean(labels) * _mean(verdicts)
    spread = _variance(everything) * len(everything) / (len(everything) - 1)
    weight = min(1.0, max(0.0, covariance / ((1 + count / others) * spread))) if spread else 0.0
    rest = [one - weight * other for one, other in zip(labels, verdicts, strict=True)]
    value = weight * _mean(unlabelled) + _mean(rest)
    half = Z95 * sqrt(weight**2 * _variance(unlabelled) / others + _variance(rest) / count)
    return PoweredMean(value, value - half, value + half, weight)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return _mean([(one - mean) ** 2 for one in values])
