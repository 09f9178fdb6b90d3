"""Compares a number with a ground truth after conversion to its unit, for `Quantity`."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

from karenina_template.templates.primitives import Undecided, Unreadable
from karenina_template.templates.primitives.quantity_parser import Quantity as Written
from karenina_template.templates.primitives.values import exact
from karenina_units.conversion import Converted, UnknownActivity, UnknownMolarMass, convert, is_number
from karenina_units.unit_text import Unit, read_unit

_SLACK: Final = Fraction(1, 10**9)
"""The relative difference that a conversion may cause; equal units have none."""
SAME: Final = Fraction(1, 100)
"""The greatest relative difference of two numbers joined by an equals sign that are one quantity in two units."""
NUMBER: Final[tuple[Unit, ...]] = ((),)
"""The meanings of a number without a unit."""
Verdict = bool | Undecided


class Truth(NamedTuple):
    """A ground truth: its number, its unit with the possible meanings, and its own uncertainty in that unit."""

    number: Fraction
    other_readings: tuple[Fraction, ...]
    unit: str
    meanings: tuple[Unit, ...]
    uncertainty: Fraction | None = None


class Allowance(NamedTuple):
    """The differences from a ground truth that a rule allows, and the molar mass for conversions."""

    tolerance: float | None
    relative: float | None
    molar_mass: float | None

    def compare_number(self, number: Fraction, meanings: tuple[Unit, ...], truth: Truth) -> Verdict:
        """Return whether a number is the ground truth, within the allowed difference, in any of the possible meanings
        of its unit, or `Undecided`: if a meaning is, or if the number fits but only it has a unit.
        """
        verdict: Verdict = False
        for target in truth.meanings:
            for source in meanings:
                one = self.compare_units(number, source, target, truth)
                if one is True:
                    return True
                verdict = one if isinstance(one, Undecided) else verdict
        if verdict is False and not truth.unit and meanings != NUMBER and self.is_within(number, truth, (), ()):
            return Undecided("the value has a unit, but the ground truth has none (set `unit`)")
        return verdict

    def compare_units(self, number: Fraction, source: Unit, target: Unit, truth: Truth) -> Verdict:
        """Return whether a number in the unit `source` is the ground truth, whose unit is `target`, within the allowed
        difference. It is `Undecided` if that depends on a molar mass that is not given, on a substance, on the length
        of a month, or on how the ground truth is read. Units of different dimensions make it False.
        """
        try:
            converted = self.convert(number, source, target)
        except UnknownActivity as error:
            return number != truth.number and Undecided(str(error))
        except UnknownMolarMass as error:
            return Undecided(str(error))
        if converted is None:
            return False
        if self.is_within(converted.number, truth, source, target):
            is_ratio = is_number(source) and is_number(target) and len(source) < 2 <= len(target)
            return not is_ratio or Undecided("the value is a number, but the ground truth a ratio of two units")
        limit = self.limit(truth)
        if converted.low - limit <= truth.number <= converted.high + limit:
            return Undecided("the length of a year or month varies (set a tolerance)")
        if any(abs(converted.number - other) <= limit for other in truth.other_readings):
            return Undecided("the ground truth can be read in two ways because of its mark")
        return False

    def compare_interval(self, value: Written, meanings: tuple[Unit, ...], truth: Truth) -> Verdict:
        """Return False if a range or limit excludes the ground truth, and otherwise `Unreadable`, because neither is
        ever correct.
        """
        what = "a range" if value.high else "a limit"
        unreadable = Unreadable(f"the value is {what}, not a number")
        limit = self.limit(truth)
        for target in truth.meanings:
            for source in meanings:
                try:
                    low = self.convert(Fraction(value.numbers[0]), source, target)
                    high = self.convert(Fraction(value.high[0]), source, target) if value.high else low
                except UnknownMolarMass:
                    return unreadable
                if low is None or high is None:
                    continue
                is_below = truth.number + limit < low.low and not value.sign.startswith("<")
                is_above = truth.number - limit > high.high and not value.sign.startswith(">")
                if not is_below and not is_above:
                    return unreadable
        return False

    def is_near(self, value: Written, truth: Truth) -> bool:
        """Return whether a quantity is within 1 % of the ground truth after conversion, as a rounded one would be.
        Ranges, limits and unknown units are not.
        """
        meanings = read_unit(value.unit)
        if not value.numbers or not meanings or value.sign or value.high:
            return False
        try:
            converted = self.convert(Fraction(value.numbers[0]), meanings[0], truth.meanings[0])
        except UnknownMolarMass:
            return False
        return converted is not None and abs(converted.number - truth.number) <= SAME * abs(truth.number)

    def is_within(self, number: Fraction, truth: Truth, source: Unit, target: Unit) -> bool:
        """Return whether a number, converted from `source` to the ground truth's unit, is within the tolerance."""
        slack = _SLACK * max(abs(truth.number), abs(number)) if source != target else Fraction(0)
        return abs(number - truth.number) <= max(self.limit(truth), slack)

    def limit(self, truth: Truth) -> Fraction:
        """Return the greatest difference from the ground truth that is allowed, in its unit."""
        if self.tolerance is None and self.relative is None:
            return truth.uncertainty or Fraction(0)
        return max(Fraction(exact(self.tolerance or 0)), Fraction(exact(self.relative or 0)) * abs(truth.number))

    def convert(self, number: Fraction, source: Unit, target: Unit) -> Converted | None:
        """Return the number in the unit `target`, or None if the dimensions differ."""
        if source == target:
            return Converted(number, number, number)
        return convert(number, source, target, None if self.molar_mass is None else Fraction(exact(self.molar_mass)))
