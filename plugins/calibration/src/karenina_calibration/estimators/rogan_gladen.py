"""The share of right answers by the sensitivity and specificity that a judge had in another run."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from karenina_engine.results.rates import Z95


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """The sensitivity and specificity of a judge, and the effective numbers of labels behind each.

    Sensitivity is the share of right answers that get the verdict correct; specificity the share of wrong answers that
    do not.
    """

    sensitivity: float
    specificity: float
    right: float
    wrong: float

    def smoothed(self) -> tuple[float, float]:
        """Return both with two pseudo labels each."""
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
    """Return the share of right answers behind a pass rate; None if the judge cannot be corrected.

    `rate` is the raw pass rate and `size` its effective sample size. It assumes that sensitivity and specificity carry
    over. Sources: W. J. Rogan and B. Gladen, American Journal of Epidemiology 107, 1978; the interval of Z. Lang and
    J. Reiczigel, Preventive Veterinary Medicine 113, 2014.
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
