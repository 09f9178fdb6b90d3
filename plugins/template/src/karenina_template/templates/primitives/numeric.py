"""Primitives for numbers.

Numbers are compared exactly as written: integers and Decimals with all their digits, and floats as they are printed
(the shortest decimal that converts to the float). So 1.1 is within 0.1 of 1, 0.4 is within 0.1 of 0.3, and 10**20 +
5000 is not within 1 of 10**20. Tolerances are compared with the exact distance.

Numbers are ints, floats, Decimals and plain numeric strings ("5", "1e-3"), as read by `values.number_of`. Everything
else fails: bools, NaN, infinity, None, "1,200", "3.5 %".

Graded primitives give partial credit. `check` decides the verdict. `score` is the credit in granular scores, and can be
above 0 even if `check` fails. The limits for full credit and for any credit are not rounded. The credit between these
limits is a float. Values that are not numbers score 0.

The arithmetic is exact for decimals of any size. A decimal context with a fixed number of digits would round, and one
without a limit would run out of memory for 1E+1000000 + 1. Sums never need that many digits here, because a term that
is much smaller than another cannot change the sign.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact
from math import nextafter
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.values import Number, above_by, exact, number_of

_MOST_DIGITS: Final = 20_000
_ZERO: Final = Decimal(0)
_USUAL: Final = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact])
"""A context that is precise enough for nearly all numbers. Otherwise, it raises `Inexact` instead of rounding."""


def product(one: Decimal, other: Decimal) -> Decimal:
    """Return the product of two numbers without rounding, however many digits this takes."""
    try:
        return _USUAL.multiply(one, other)
    except Inexact:
        pass
    return _context(_digits(one) + _digits(other)).multiply(one, other)


def difference(one: Decimal, other: Decimal) -> Decimal:
    """Return `one` minus `other`. The result is only rounded if it has more than 20,000 digits."""
    try:
        return _USUAL.subtract(one, other)
    except Inexact:
        pass
    return _context(min(_digits_of_sum(one, other), _MOST_DIGITS)).subtract(one, other)


def at_most(one: Decimal, other: Decimal, limit: Decimal) -> bool:
    """Return whether `one` and `other` differ by at most `limit`."""
    try:
        return _USUAL.subtract(one, other).copy_abs() <= limit
    except Inexact:
        pass
    low, high = sorted((one, other))
    return sign_of_sum(high, low.copy_negate(), limit.copy_negate()) <= 0


def sign_of_sum(*terms: Decimal) -> int:
    """Return the sign (-1, 0 or 1) of the exact sum of up to three numbers, which may be too long to compute."""
    left = _by_size(terms)
    while len(left) > 1:
        first, second, *rest = left
        if first.adjusted() > second.adjusted() + 1:
            break  # the sum of the others is smaller than the first
        left = _by_size([_context(_digits_of_sum(first, second)).add(first, second), *rest])
    return int(left[0].compare(_ZERO)) if left else 0


def _by_size(terms: Iterable[Decimal]) -> list[Decimal]:
    return sorted((term for term in terms if term), key=Decimal.adjusted, reverse=True)


def _digits(number: Decimal) -> int:
    """Return the number of digits in `number`, which is at least 1."""
    return max(1, number.adjusted() - _exponent(number) + 1)


def _digits_of_sum(one: Decimal, other: Decimal) -> int:
    """Return an upper bound for the number of digits in the exact sum."""
    return max(one.adjusted(), other.adjusted()) - min(_exponent(one), _exponent(other)) + 2


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the number is finite"
    return exponent


def _context(digits: int) -> Context:
    """Return a decimal context with the given precision, all exponents and no traps."""
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


Mode = Literal["relative", "absolute"]
Decay = Literal["linear", "quadratic"]
_ROUNDED: Final = Context(prec=40, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
_NEARLY_ALL: Final = nextafter(1.0, 0.0)  # so that rounding never results in full credit
Positive = Annotated[Number, Field(gt=0)]


class NumericPrimitive(Primitive, defer_build=True):
    """Base class of primitives whose ground truth is a number."""

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a finite number or a plain numeric string."""
        self._truth(expected)

    def _truth(self, expected: object) -> Decimal:
        truth = number_of(expected)
        if truth is None:
            raise self._wrong_truth("a finite number", expected)
        return truth


def within(number: Decimal, truth: Decimal, tolerance: float, mode: Mode) -> bool:
    """Return whether `number` is at most `tolerance` away from `truth`. If `mode` is "relative", `tolerance` is a
    fraction of `truth`.
    """
    return at_most(number, truth, product(exact(tolerance), unit(mode, truth)))


def unit(mode: Mode, reference: Decimal) -> Decimal:
    """Return the unit of a tolerance, which is 1, or the absolute value of `reference` if `mode` is "relative". A unit
    of 0 allows no difference.
    """
    return reference.copy_abs() if mode == "relative" else Decimal(1)


class NumericExact(NumericPrimitive):
    """Passes if the value and the ground truth are the same number, such as 5, 5.0 and "5".

    Integers of any size are compared exactly. Anything that is not a finite number (None, NaN, True, "1,200", "5 mg")
    fails.
    """

    def mutate(self, expected: object) -> object:
        """Return a higher number."""
        return above_by(expected, Decimal(0))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the numbers are equal."""
        truth = self._truth(expected)
        return number_of(extracted) == truth


class NumericTolerance(NumericPrimitive):
    """Passes if the number is at most `tolerance` away from the ground truth.

    If `mode` is "relative" (the default), the tolerance is a fraction of the ground truth: 0.05 allows 5 %, and only 0
    passes if the ground truth is 0. If `mode` is "absolute", the tolerance is in the field's own unit. It must be at
    least 0.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    tolerance: Annotated[Number, Field(ge=0)]
    mode: Mode = "relative"

    def mutate(self, expected: object) -> object:
        """Return a number beyond the tolerance."""
        truth = self._truth(expected)
        return above_by(expected, product(exact(self.tolerance), unit(self.mode, truth)))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is within the tolerance."""
        truth, number = self._truth(expected), number_of(extracted)
        return number is not None and within(number, truth, self.tolerance, self.mode)


class NumericRange(Primitive, defer_build=True):
    """Passes if the number is from `min` to `max`. Set `exclusive_min` or `exclusive_max` to exclude a bound.

    The ground truth is ignored. One of the bounds may be omitted. Bounds must be finite, and there must be a number
    between them.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    min: Number | None = None
    max: Number | None = None
    exclusive_min: bool = False
    exclusive_max: bool = False

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        """Raise `ValueError` if there is no bound, or no number between the bounds."""
        if self.min is None and self.max is None:
            raise ValueError("NumericRange has neither min nor max; set at least one of them")
        if self.min is not None and self.max is not None:
            if exact(self.min) > exact(self.max):
                raise ValueError(f"min {self.min} is above max {self.max}")
            if exact(self.min) == exact(self.max) and (self.exclusive_min or self.exclusive_max):
                raise ValueError(
                    f"min {self.min} and max {self.max} are equal, so no number is in the range if one of them is "
                    "excluded"
                )
        return self

    def mutate(self, expected: object) -> object:
        """Return a number above the range, or below it if there is no upper bound."""
        return above_by(self.min, Decimal(-1)) if self.max is None else above_by(self.max, Decimal(0))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the extracted value is a number in the range. The ground truth is ignored."""
        number = number_of(extracted)
        if number is None:
            return False
        return above(number, self.min, self.exclusive_min) and below(number, self.max, self.exclusive_max)


class NumericMinimum(NumericPrimitive):
    """Passes if the number is at least the ground truth. Set `exclusive` to exclude the ground truth itself."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    exclusive: bool = False

    def accept(self, expected: object) -> object:
        """Return the ground truth, or a number above it if the ground truth is excluded."""
        return above_by(expected, Decimal(0)) if self.exclusive else expected

    def mutate(self, expected: object) -> object:
        """Return a number below the ground truth."""
        return above_by(expected, Decimal(-1))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is large enough."""
        truth, number = self._truth(expected), number_of(extracted)
        return number is not None and above(number, truth, self.exclusive)


class NumericMaximum(NumericPrimitive):
    """Passes if the number is at most the ground truth. Set `exclusive` to exclude the ground truth itself."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    exclusive: bool = False

    def accept(self, expected: object) -> object:
        """Return the ground truth, or a number below it if the ground truth is excluded."""
        return above_by(expected, Decimal(-1)) if self.exclusive else expected

    def mutate(self, expected: object) -> object:
        """Return a number above the ground truth."""
        return above_by(expected, Decimal(0))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is small enough."""
        truth, number = self._truth(expected), number_of(extracted)
        return number is not None and below(number, truth, self.exclusive)


def above(number: Decimal, bound: Decimal | float | None, exclusive: bool) -> bool:
    """Return whether `number` is at least `bound`, or above it if `exclusive` is set. None means no bound."""
    if bound is None:
        return True
    limit = bound if isinstance(bound, Decimal) else exact(bound)
    return number > limit or (number == limit and not exclusive)


def below(number: Decimal, bound: Decimal | float | None, exclusive: bool) -> bool:
    """Return whether `number` is at most `bound`, or below it if `exclusive` is set. None means no bound."""
    if bound is None:
        return True
    limit = bound if isinstance(bound, Decimal) else exact(bound)
    return number < limit or (number == limit and not exclusive)


def _falling_credit(excess: Decimal, width: Decimal, decay: Decay) -> float:
    """Return the credit for a number that is `excess` beyond the limit for full credit: 1 up to the limit, falling to 0
    over `width`, linearly or with the square of the distance ("quadratic").
    """
    if excess <= 0:
        return 1.0
    if excess >= width:
        return 0.0
    share = float(_ROUNDED.divide(excess, width))
    return min(1.0 - share * share if decay == "quadratic" else 1.0 - share, _NEARLY_ALL)


class NumericGraded(NumericPrimitive):
    """Gives credit by distance from the ground truth: full credit up to `full_credit`, and none from `cutoff` on.

    If `mode` is "relative" (the default), the distance is a fraction of the ground truth, so only 0 earns credit if the
    ground truth is 0. If `mode` is "absolute", the distance is in the field's own unit. Credit decreases as 1 - r
    ("linear") or 1 - r squared ("quadratic"), where r is 0 at `full_credit` and 1 at `cutoff`.

    If `full_credit` is set, `check` passes within it. Otherwise, credit decreases from the ground truth itself, and
    `check` passes within `cutoff` (inclusive). `cutoff` must be above 0 and above `full_credit`.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    cutoff: Positive
    full_credit: Annotated[Number, Field(ge=0)] | None = None
    mode: Mode = "relative"
    decay: Decay = "linear"

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Raise `ValueError` unless `full_credit` is below `cutoff`."""
        if self.full_credit is not None and exact(self.full_credit) >= exact(self.cutoff):
            raise ValueError(f"full_credit {self.full_credit} must be below cutoff {self.cutoff}")
        return self

    def mutate(self, expected: object) -> object:
        """Return a number that is too high to earn any credit."""
        truth = self._truth(expected)
        return above_by(expected, product(exact(self.cutoff), unit(self.mode, truth)))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is within `full_credit`, or within `cutoff` if `full_credit` is not set."""
        truth, number = self._truth(expected), number_of(extracted)
        limit = self.cutoff if self.full_credit is None else self.full_credit
        return number is not None and within(number, truth, limit, self.mode)

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit from 0 to 1, which falls with the number's distance from the ground truth. Other values
        earn 0.
        """
        truth, number = self._truth(expected), number_of(extracted)
        if number is None:
            return 0.0
        scale = unit(self.mode, truth)
        full, end = (product(exact(limit), scale) for limit in (self.full_credit or 0, self.cutoff))
        distance = difference(number, truth).copy_abs()
        return _falling_credit(difference(distance, full), difference(end, full), self.decay)


class NumericRangeGraded(Primitive, defer_build=True):
    """Gives full credit from `min` to `max`. Outside the range, credit falls to 0 at a distance of `margin`.

    The ground truth is ignored. If `mode` is "absolute" (the default), the margin is in the field's own unit. If `mode`
    is "relative", it is a fraction of the range's width. `check` passes inside the range. Set `exclusive_min` or
    `exclusive_max` to exclude a bound from the range, which does not affect the credit. `min` must be below `max`, and
    `margin` above 0.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    min: Number
    max: Number
    margin: Positive
    mode: Mode = "absolute"
    decay: Decay = "linear"
    exclusive_min: bool = False
    exclusive_max: bool = False

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Raise `ValueError` unless `min` is below `max`."""
        if exact(self.min) >= exact(self.max):
            raise ValueError(f"min {self.min} must be below max {self.max}")
        return self

    def mutate(self, expected: object) -> object:
        """Return a number that is too high to earn any credit."""
        width = product(exact(self.margin), unit(self.mode, difference(exact(self.max), exact(self.min))))
        return above_by(self.max, width)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the extracted value is a number in the range. The ground truth is ignored."""
        number = number_of(extracted)
        if number is None:
            return False
        return above(number, self.min, self.exclusive_min) and below(number, self.max, self.exclusive_max)

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit from 0 to 1, which falls with the number's distance from the range. Values that are not
        numbers earn 0.
        """
        number = number_of(extracted)
        if number is None:
            return 0.0
        low, high = exact(self.min), exact(self.max)
        excess = max(difference(low, number), difference(number, high))
        width = product(exact(self.margin), unit(self.mode, difference(high, low)))
        return _falling_credit(excess, width, self.decay)


def _short_direction(direction: object) -> object:
    """Shorten "minimum" to "min" and "maximum" to "max"."""
    return {"minimum": "min", "maximum": "max"}.get(direction, direction) if isinstance(direction, str) else direction


class NumericThresholdGraded(NumericPrimitive):
    """Gives full credit on the correct side of the ground truth. On the other side, credit falls to 0 at `margin`.

    If `direction` is "min" (or "minimum"), the ground truth is the lowest correct value. If it is "max" (or "maximum"),
    the ground truth is the highest. If `mode` is "relative" (the default), the margin is a fraction of the ground
    truth, so a ground truth of 0 has no margin. If `mode` is "absolute", the margin is in the field's own unit. `check`
    passes on the correct side. Set `exclusive` to exclude the ground truth itself, which does not affect the credit.
    `margin` must be above 0.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    direction: Annotated[Literal["min", "max", "minimum", "maximum"], BeforeValidator(_short_direction)]
    margin: Positive
    mode: Mode = "relative"
    decay: Decay = "linear"
    exclusive: bool = False

    def accept(self, expected: object) -> object:
        """Return the ground truth, or a number on the correct side if the ground truth is excluded."""
        if not self.exclusive:
            return expected
        return above_by(expected, Decimal(-1 if self.direction == "max" else 0))

    def mutate(self, expected: object) -> object:
        """Return a number on the side of the ground truth that fails, so far from it that it gets no partial credit."""
        width = product(exact(self.margin), unit(self.mode, self._truth(expected)))
        return above_by(expected, width if self.direction == "max" else width.copy_negate() - 1)

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the extracted value is a number on the side of the ground truth set by `direction`. An equal
        number passes unless `exclusive` is set.
        """
        truth, number = self._truth(expected), number_of(extracted)
        if number is None:
            return False
        return (above if self.direction == "min" else below)(number, truth, self.exclusive)

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit from 0 to 1, which falls with the number's distance from the correct side. Other values
        earn 0.
        """
        truth, number = self._truth(expected), number_of(extracted)
        if number is None:
            return 0.0
        short = (truth, number) if self.direction == "min" else (number, truth)
        width = product(exact(self.margin), unit(self.mode, truth))
        return _falling_credit(difference(*short), width, self.decay)
