"""Primitives for numbers that pass or fail.

Numbers are compared exactly as they are written: integers and Decimals with all their digits, and a float as the
shortest decimal that is converted to it, which is how it is printed. So 1.1 is within 0.1 of 1, 0.4 within 0.1 of 0.3,
and 10**20 + 5000 not within 1 of 10**20. Tolerances are compared with the exact distance, at any size.

Numbers are int, float, Decimal and plain numeric text ("5", "1e-3"), as read by `values.number_of`. Everything else
fails: bool, NaN, infinity, None, "1,200", "3.5 %".
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from karenina_core.models.from_files import FromFiles
from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.exactly import at_most, product
from karenina_template.templates.primitives.values import Number, above_by, exact, number_of

Mode = Literal["relative", "absolute"]


class NumericPrimitive(Primitive):
    """The base of primitives with a number as truth."""

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the truth is a finite number, or its plain text."""
        self._truth(expected)

    def _truth(self, expected: object) -> Decimal:
        truth = number_of(expected)
        if truth is None:
            raise self._wrong_truth("a finite number", expected)
        return truth


def within(number: Decimal, truth: Decimal, tolerance: float, mode: Mode) -> bool:
    """Return whether `number` is at most `tolerance` from `truth`, measured in units of `mode`."""
    return at_most(number, truth, product(exact(tolerance), unit(mode, truth)))


def unit(mode: Mode, reference: Decimal) -> Decimal:
    """Return one unit of a tolerance: 1, or for a relative one the size of `reference` (so that 0 allows nothing)."""
    return reference.copy_abs() if mode == "relative" else Decimal(1)


class NumericExact(NumericPrimitive):
    """Passes if both are equal as numbers, such as 5, 5.0 and "5". Integers of any size are compared exactly.

    Values that are not finite numbers (None, NaN, True, "1,200", "5 mg") fail.
    """

    def mutate(self, expected: object) -> object:
        """Return a higher number."""
        return above_by(expected, Decimal(0))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the numbers are equal."""
        truth = self._truth(expected)
        return number_of(extracted) == truth


class NumericTolerance(NumericPrimitive):
    """Passes if the number is at most `tolerance` from the truth.

    `mode` "relative" (the default) measures the distance as a fraction of the truth's size: 0.05 allows 5 %, and for a
    truth of 0 only 0 passes. "absolute" measures it in the field's own unit. The tolerance must be at least 0.
    """

    from_files: ClassVar[FromFiles] = "any"
    tolerance: Annotated[Number, Field(ge=0)]
    mode: Mode = "relative"

    def mutate(self, expected: object) -> object:
        """Return a number above the tolerance."""
        truth = self._truth(expected)
        return above_by(expected, product(exact(self.tolerance), unit(self.mode, truth)))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is within the tolerance."""
        truth, number = self._truth(expected), number_of(extracted)
        return number is not None and within(number, truth, self.tolerance, self.mode)


class NumericRange(Primitive):
    """Passes if the number is from `min` to `max`, both included unless `exclusive_min` or `exclusive_max` is set.

    The truth is ignored. One bound may be omitted. Bounds must be finite, and there must be a number between them.
    """

    from_files: ClassVar[FromFiles] = "any"
    min: Number | None = None
    max: Number | None = None
    exclusive_min: bool = False
    exclusive_max: bool = False

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("NumericRange needs min, max or both")
        if self.min is not None and self.max is not None:
            if exact(self.min) > exact(self.max):
                raise ValueError(f"min {self.min} is above max {self.max}")
            if exact(self.min) == exact(self.max) and (self.exclusive_min or self.exclusive_max):
                raise ValueError(f"there is no number between {self.min} and {self.max} if one of them is excluded")
        return self

    def mutate(self, expected: object) -> object:
        """Return a number above the range, or below it if it has no upper bound."""
        return above_by(self.min, Decimal(-1)) if self.max is None else above_by(self.max, Decimal(0))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is in the range."""
        number = number_of(extracted)
        if number is None:
            return False
        return above(number, self.min, self.exclusive_min) and below(number, self.max, self.exclusive_max)


class NumericMinimum(NumericPrimitive):
    """Passes if the number is at least the truth, or above it if `exclusive` is set."""

    from_files: ClassVar[FromFiles] = "any"
    exclusive: bool = False

    def accept(self, expected: object) -> object:
        """Return the truth, or a number above it if it is excluded."""
        return above_by(expected, Decimal(0)) if self.exclusive else expected

    def mutate(self, expected: object) -> object:
        """Return a number below the truth."""
        return above_by(expected, Decimal(-1))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is large enough."""
        truth, number = self._truth(expected), number_of(extracted)
        return number is not None and above(number, truth, self.exclusive)


class NumericMaximum(NumericPrimitive):
    """Passes if the number is at most the truth, or below it if `exclusive` is set."""

    from_files: ClassVar[FromFiles] = "any"
    exclusive: bool = False

    def accept(self, expected: object) -> object:
        """Return the truth, or a number below it if it is excluded."""
        return above_by(expected, Decimal(-1)) if self.exclusive else expected

    def mutate(self, expected: object) -> object:
        """Return a number above the truth."""
        return above_by(expected, Decimal(0))

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether the number is small enough."""
        truth, number = self._truth(expected), number_of(extracted)
        return number is not None and below(number, truth, self.exclusive)


def above(number: Decimal, bound: Decimal | float | None, exclusive: bool) -> bool:
    """Return whether `number` is at least `bound`, or above it if `exclusive`. None is no bound."""
    if bound is None:
        return True
    limit = bound if isinstance(bound, Decimal) else exact(bound)
    return number > limit or (number == limit and not exclusive)


def below(number: Decimal, bound: Decimal | float | None, exclusive: bool) -> bool:
    """Return whether `number` is at most `bound`, or below it if `exclusive`. None is no bound."""
    if bound is None:
        return True
    limit = bound if isinstance(bound, Decimal) else exact(bound)
    return number < limit or (number == limit and not exclusive)
