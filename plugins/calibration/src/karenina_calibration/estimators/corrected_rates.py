"""Corrected pass rates by a judge's sensitivity and specificity in another run, and by PPI++."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from karenina_engine.results.rates import Z95


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """The sensitivity and specificity of a judge, and the effective number of labels behind each.

    Sensitivity is the share of right answers that get the verdict *correct*; specificity is the share of wrong answers
    that do not. `right` and `wrong` are the effective numbers of labels.
    """

    sensitivity: float
    specificity: float
    right: float
    wrong: float

    def smoothed(self) -> tuple[float, float]:
        """Return sensitivity and specificity with two pseudo labels each, one right and one wrong."""
        return (
            (self.right * self.sensitivity + 1) / (self.right + 2),
            (self.wrong * self.specificity + 1) / (self.wrong + 2),
        )

    def can_correct(self) -> bool:
        """Whether the judge is better than chance: the lower bound of sensitivity + specificity - 1 is above 0."""
        sensitivity, specificity = self.smoothed()
        spread = _variance(sensitivity, self.right + 2) + _variance(specificity, self.wrong + 2)
        return sensitivity + specificity - 1 - Z95 * sqrt(spread) > 0


@dataclass(frozen=True, slots=True)
class CarriedRate:
    """A pass rate corrected by labels of another run, with its 95% interval."""

    value: float
    low: float
    high: float


def rogan_gladen(rate: float, size: float, quality: JudgeQuality) -> CarriedRate | None:
    """Estimate the share of right answers from a raw pass rate; None if the judge may be no better than chance.

    `rate` is the raw pass rate and `size` its effective sample size. The estimate assumes that sensitivity and
    specificity carry over from the run with the labels. Sources: W. J. Rogan and B. Gladen, American Journal of
    Epidemiology 107, 1978; the interval of Z. Lang and J. Reiczigel, Preventive Veterinary Medicine 113, 2014.
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
    return share * (1 - share) / size


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


@dataclass(frozen=True, slots=True)
class PoweredMean:
    """The mean of labels by PPI++, its 95% interval, and the weight of the judge's verdicts, from 0 to 1."""

    value: float
    low: float
    high: float
    weight: float


def powered_mean(labels: Sequence[float], verdicts: Sequence[float], unlabelled: Sequence[float]) -> PoweredMean:
    """Return the mean of the labels, made more precise by the judge's verdicts on all answers.

    `verdicts` are those of the labelled answers, in the order of `labels`; `unlabelled` those of all other answers.
    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++: Efficient Prediction-Powered Inference, 2023. Raises
    `ValueError` if there are fewer than two labels, or no other answers.
    """
    count, others = len(labels), len(unlabelled)
    if count < 2 or not others:
        raise ValueError("PPI++ needs two labels, and answers without a label")
    everything = [*verdicts, *unlabelled]
    covariance = _mean([one * other for one, other in zip(labels, verdicts, strict=True)])
    covariance -= _mean(labels) * _mean(verdicts)
    spread = _sample_variance(everything) * len(everything) / (len(everything) - 1)
    weight = min(1.0, max(0.0, covariance / ((1 + count / others) * spread))) if spread else 0.0
    rest = [one - weight * other for one, other in zip(labels, verdicts, strict=True)]
    value = weight * _mean(unlabelled) + _mean(rest)
    half = Z95 * sqrt(weight**2 * _sample_variance(unlabelled) / others + _sample_variance(rest) / count)
    return PoweredMean(value, value - half, value + half, weight)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _sample_variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return _mean([(one - mean) ** 2 for one in values])
