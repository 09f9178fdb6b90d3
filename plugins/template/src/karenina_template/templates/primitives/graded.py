"""Primitives for numbers that give partial credit.

`check` passes or fails and decides the verdict; `score` is the credit in granular scores, and may be above 0 if `check`
fails. Numbers are compared exactly, as in `numeric`: the limits of full and of any credit are not rounded; the credit
between them is a float. Values that are not numbers fail and score 0.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import nextafter
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from karenina_core.models.from_files import FromFiles
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.exactly import difference, product
from karenina_template.templates.primitives.numeric import Mode, NumericPrimitive, above, below, unit, within
from karenina_template.templates.primitives.values import Number, above_by, exact, number_of

Decay = Literal["linear", "quadratic"]
_ROUNDED: Final = Context(prec=40, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
_NEARLY_ALL: Final = nextafter(1.0, 0.0)  # so that rounding never results in full credit
Positive = Annotated[Number, Field(gt=0)]


def _falling(excess: Decimal, width: Decimal, decay: Decay) -> float:
    """Return the credit `excess` beyond full credit, which decreases over `width` as 1 - r or 1 - r squared."""
    if excess <= 0:
        return 1.0
    if excess >= width:
        return 0.0
    share = float(_ROUNDED.divide(excess, width))
    return min(1.0 - share * share if decay == "quadratic" else 1.0 - share, _NEARLY_ALL)


class NumericGraded(NumericPrimitive):
    """Gives credit by the distance from the truth: full up to `full_credit`, then decreasing, none from `cutoff`.

    `mode` "relative" (the default) measures the distance as a fraction of the truth's size, so that for a truth of 0
    only 0 earns credit; "absolute" measures it in the field's own unit. Credit decreases as 1 - r ("linear") or
    1 - r squared ("quadratic"), where r is 0 at `full_credit` and 1 at `cutoff`.

    `check` passes within `full_credit`, if it is given. Without it, credit decreases from the truth itself, and `check`
    passes within `cutoff`, the limit included. `cutoff` must be above 0 and above `full_credit`.
    """

    from_files: ClassVar[FromFiles] = "any"
    cutoff: Positive
    full_credit: Annotated[Number, Field(ge=0)] | None = None
    mode: Mode = "relative"
    decay: Decay = "linear"

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.full_credit is not None and exact(self.full_credit) >= exact(self.cutoff):
            raise ValueError(f"full_credit {self.full_credit} must be below cutoff {self.cutoff}")
        return self

    def mutate(self, expected: object) -> object:
        """Return a number above every credit."""
        truth = self._truth(expected)
        return above_by(expected, product(exact(self.cutoff), unit(self.mode, truth)))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is within `full_credit`, or within `cutoff` if `full_credit` is not given."""
        truth, number = self._truth(expected), number_of(extracted)
        limit = self.cutoff if self.full_credit is None else self.full_credit
        return number is not None and within(number, truth, limit, self.mode)

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit, 0 to 1."""
        truth, number = self._truth(expected), number_of(extracted)
        if number is None:
            return 0.0
        one = unit(self.mode, truth)
        full, end = (product(exact(limit), one) for limit in (self.full_credit or 0, self.cutoff))
        distance = difference(number, truth).copy_abs()
        return _falling(difference(distance, full), difference(end, full), self.decay)


class NumericRangeGraded(Primitive):
    """Gives full credit from `min` to `max`, decreasing to none at `margin` outside. The truth is ignored.

    `mode` "absolute" (the default) gives the margin in the field's own unit, "relative" as a fraction of the range's
    width. `check` passes inside the range, both ends included unless `exclusive_min` or `exclusive_max` is set, which
    change only `check`. `min` must be below `max`, and `margin` above 0.
    """

    from_files: ClassVar[FromFiles] = "any"
    min: Number
    max: Number
    margin: Positive
    mode: Mode = "absolute"
    decay: Decay = "linear"
    exclusive_min: bool = False
    exclusive_max: bool = False

    @model_validator(mode="after")
    def _order(self) -> Self:
        if exact(self.min) >= exact(self.max):
            raise ValueError(f"min {self.min} must be below max {self.max}")
        return self

    def mutate(self, expected: object) -> object:
        """Return a number above every credit."""
        width = product(exact(self.margin), unit(self.mode, difference(exact(self.max), exact(self.min))))
        return above_by(self.max, width)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is in the range."""
        number = number_of(extracted)
        if number is None:
            return False
        return above(number, self.min, self.exclusive_min) and below(number, self.max, self.exclusive_max)

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit, 0 to 1."""
        number = number_of(extracted)
        if number is None:
            return 0.0
        low, high = exact(self.min), exact(self.max)
        excess = max(difference(low, number), difference(number, high))
        width = product(exact(self.margin), unit(self.mode, difference(high, low)))
        return _falling(excess, width, self.decay)


def _short(direction: object) -> object:
    return {"minimum": "min", "maximum": "max"}.get(direction, direction) if isinstance(direction, str) else direction


class NumericThresholdGraded(NumericPrimitive):
    """Gives full credit on the correct side of the truth, decreasing to none at `margin` on the wrong side.

    With `direction` "min" (or "minimum"), the truth is the lowest correct value, with "max" (or "maximum") the highest.
    `mode` "relative" (the default) gives the margin as a fraction of the truth's size, so that a truth of 0 has no
    margin; "absolute" in the field's own unit. `check` passes on the correct side, the truth included unless
    `exclusive` is set, which changes only `check`. `margin` must be above 0.
    """

    from_files: ClassVar[FromFiles] = "any"
    direction: Annotated[Literal["min", "max", "minimum", "maximum"], BeforeValidator(_short)]
    margin: Positive
    mode: Mode = "relative"
    decay: Decay = "linear"
    exclusive: bool = False

    def accept(self, expected: object) -> object:
        """Return the truth, or a number on the correct side if it is excluded."""
        if not self.exclusive:
            return expected
        return above_by(expected, Decimal(-1 if self.direction == "max" else 0))

    def mutate(self, expected: object) -> object:
        """Return a number on the wrong side, without credit."""
        width = product(exact(self.margin), unit(self.mode, self._truth(expected)))
        return above_by(expected, width if self.direction == "max" else width.copy_negate() - 1)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is on the correct side."""
        truth, number = self._truth(expected), number_of(extracted)
        if number is None:
            return False
        return (above if self.direction == "min" else below)(number, truth, self.exclusive)

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit, 0 to 1."""
        truth, number = self._truth(expected), number_of(extracted)
        if number is None:
            return 0.0
        short = (truth, number) if self.direction == "min" else (number, truth)
        width = product(exact(self.margin), unit(self.mode, truth))
        return _falling(difference(*short), width, self.decay)
