"""`Quantity`, the primitive for numbers with units that are converted before they are compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, model_validator

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives import ReadingPrimitive, Undecided, Unreadable
from karenina_template.templates.primitives.limits import find_limit_or_rejection, rate_beside, without_refused
from karenina_template.templates.primitives.quantity_parser import (
    PART_WORDS,
    DecimalMark,
    find_quantities,
    known_part,
    read_quantity,
    split_pair,
    with_scales,
)
from karenina_template.templates.primitives.quantity_parser import Quantity as Written
from karenina_template.templates.primitives.units import MULTIPLES, find_unit, kind_of_unit
from karenina_template.templates.primitives.values import Number, exact, text_of
from karenina_units.conversion import Converted, UnknownMolarMass, convert, has_offset, is_number
from karenina_units.unit_text import Unit, is_unit, read_unit
from karenina_units.written import (
    clean,
    has_two_signs,
    read_share,
    split_frequency,
    split_sum,
    split_uncertainty,
    with_rate,
)

_LONGEST: Final = 2_000
_SLACK: Final = Fraction(1, 10**9)
"""The relative difference that a conversion may cause; equal units have none."""
_SAME: Final = Fraction(1, 100)
"""The greatest relative difference of two numbers joined by an equals sign that are one quantity in two units."""
_ROUNDED: Final = Fraction(1, 20)
"""The greatest relative difference that rounding may cause in a quantity that is repeated in brackets."""
_BRACKETS: Final = re.compile(
    r"[(\[]\s*(?:i\.\s?e\.,?|that is,?|or|equals|equal to|equivalent to|=)?\s*([^()\[\]]+)[)\]]"
)
_JOINED: Final = re.compile("[=≈≃≅]")
_NUMBER: Final[tuple[Unit, ...]] = ((),)
Verdict = bool | Undecided


@dataclass(frozen=True, slots=True)
class _Truth:
    """A ground truth: its number, its unit with the possible meanings, and its own uncertainty in that unit."""

    number: Fraction
    other_readings: tuple[Fraction, ...]
    unit: str
    meanings: tuple[Unit, ...]
    uncertainty: Fraction | None = None


class Quantity(ReadingPrimitive, defer_build=True):
    """Passes if both are the same quantity, after conversion to the ground truth's unit: *40 h* for *2400 min*.

    Use it for a text field into which the judge copies the number with its unit, as the response writes it.
    `NumberWithUnit` never converts, and also compares money and other units that are not measured.

    - `tolerance`: the greatest difference, in the ground truth's unit.
    - `relative`: the greatest difference, as a fraction of the ground truth. It is refused for temperatures in °C and
      °F, whose zero is arbitrary. If both are set, the larger difference applies.
    - `unit`: the unit of numbers that are written without one, such as the unit that the question asks for. If it is
      not set, a value without a unit is undecided, unless its sign is wrong.
    - `decimal`: the decimal mark in numbers such as 1,234 and 1.234: "." (the default) or ",". The field is undecided
      if only the other reading is right. *1,5* has one reading, 1.5.
    - `molar_mass`: the mass of a mole in grams, with which 5 mg/dL of glucose is 0.2775 mmol/L. Without it, a mass is
      undecided if the ground truth is an amount of substance.
    - `unreadable`: whether a text without a quantity, a range, a limit (*more than 5 mg*, *5 mg or less*), a rejected
      quantity (*not 5 mg*) and two different quantities count as wrong ("wrong") or leave the item undecided
      ("not_judged", the default). A range or limit that excludes the ground truth is always wrong.

    A quantity that is repeated in brackets (*5 mg (0.005 g)*) must be the same within rounding; otherwise the text has
    two different quantities. Without `molar_mass`, so it has with a mass and an amount of substance.

    Without a tolerance, numbers must be equal; a conversion may change the tenth digit. An uncertainty such as *± 0.2*
    is ignored in a value, and is the tolerance of a ground truth if the rule has none.

    Units with different dimensions are wrong, even for 0. °C and °F are temperatures, and intervals in units such as
    J/(kg °C) or Δ°C. C and F are coulomb and farad or temperatures, whichever fits. Counted things need not be named:
    4.5 x10^9/L equals 4500 cells/µL, but cells are not copies. A turn is 2 pi radians, and Hz and bpm count turns. bp,
    kb and Mb count bases, IU and U are the same, and a mEq or mOsm is not a mmol. The length of a year or a month in
    days is undecided if it makes a difference. Percentages and ppm are numbers. A dose with its times a day is a rate:
    *5 mg BID* is 10 mg/d, and undecided for 5 mg.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    field_type: ClassVar[str | None] = "quantity"
    tolerance: Annotated[Number, Field(ge=0)] | None = None
    relative: Annotated[Number, Field(ge=0)] | None = None
    unit: str | None = None
    decimal: DecimalMark = Field(
        default=".", description="The decimal mark that is assumed for numbers that can be read in two ways."
    )
    molar_mass: Annotated[Number, Field(gt=0)] | None = Field(
        default=None, description="The mass of a mole in grams, which converts between mass and amount of substance."
    )

    @model_validator(mode="after")
    def _check_unit(self) -> Self:
        """Return the primitive. Raises `ValueError` if its unit is unknown."""
        if self.unit is not None and not read_unit(self.unit):
            raise ValueError(f"Quantity cannot convert the unit {self.unit!r:.60}; use NumberWithUnit, or a known unit")
        return self

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is one quantity with a known unit, and fits the parameters."""
        truth = self._truth(expected)
        if self.relative is not None and truth.meanings and all(map(has_offset, truth.meanings)):
            needed = "`tolerance` instead of `relative` for a temperature whose zero is arbitrary"
            raise self._wrong_truth(needed, expected)
        if self.unit is not None and truth.unit != self.unit and not self._converts(truth):
            raise self._wrong_truth(f"a quantity with the same dimension as its `unit` ({self.unit})", expected)

    def mutate(self, expected: object) -> object:
        """Return a quantity in the ground truth's unit that is higher than any tolerance allows."""
        truth = self._truth(expected)
        higher = truth.number + 2 * self._limit(truth) + max(Fraction(1), 2 * abs(truth.number))
        return f"{Decimal(higher.numerator) / higher.denominator} {truth.unit}".strip()

    def check(self, extracted: object, expected: object) -> Verdict:
        """Return whether the quantities are the same, `Unreadable` if the value is not one quantity, or `Undecided`."""
        truth, text = self._truth(expected), text_of(extracted)
        if text is None:
            return False
        if len(text) > _LONGEST:
            return Undecided(f"the value has more than {_LONGEST:,} characters")
        text = split_uncertainty(clean(text))[0]
        if PART_WORDS.search(text) and not PART_WORDS.search(str(expected)):
            return Undecided(f"{_quoted(text)} contains a fraction or multiple in words, which is not read")
        if has_two_signs(text):
            return Unreadable(f"{_quoted(text)} contains ±, which means two numbers")
        pair = split_pair(text)
        if bool(pair) is not bool(split_pair(str(expected))):
            fits = any(self._judge(one, truth) is not False for one in (text, *pair))
            return fits and Undecided(f"{_quoted(text)} or the ground truth may be two numbers, not a fraction")
        if (share := read_share(text)) is not None:
            return self._compare_ratio(*share, text, truth)
        verdict = self._judge(text, truth)
        if verdict is False:
            texts = (text, str(expected)), (with_scales(text), with_scales(str(expected)))
            others = [pair for pair in product(*zip(*texts, strict=True)) if pair != texts[0]]
            if any(self._is_same(*pair) for pair in others):
                return Undecided(
                    f"a letter after a number in {_quoted(text)} or the ground truth may be a power of ten"
                )
        return verdict

    def _is_same(self, text: str, expected: str) -> bool:
        """Return whether a text is another reading of the ground truth."""
        try:
            return self._judge(text, self._truth(expected)) is True
        except ValueError:
            return False

    def _compare_ratio(self, share: Fraction, has_colon: bool, text: str, truth: _Truth) -> Verdict:
        """Return whether *1 in 1000* is the ground truth. *1:1000* may be a ratio, and *1:30* a time."""
        if self._compare_number(share, _NUMBER, truth) is True:
            return not has_colon or Undecided(f"{_quoted(text)} may be a ratio or a share")
        times = [f"{text.replace(':', one)} {other}" for one, other in ((" h ", "min"), (" min ", "s"))]
        if has_colon and any(self._judge(time, truth) is True for time in times):
            return Undecided(f"{_quoted(text)} may be a time or a ratio")
        return self._judge(text, truth)

    def _truth(self, expected: object) -> _Truth:
        """Return the ground truth. Raises `ValueError` if it is not one quantity with a known unit."""
        text = text_of(expected)
        value, uncertain = split_uncertainty(clean(text)) if text is not None and len(text) <= _LONGEST else ("", None)
        parts = [read_quantity(part, self.decimal, is_unit) for part in split_sum(value)]
        whole = read_quantity(value, self.decimal, is_unit)
        if whole is None and len(parts) > 1 and (total := self._add(parts)) is not None:
            return total
        if whole is None or whole.high or whole.sign:
            raise self._wrong_truth("one number (with or without a unit, not a range or limit)", expected)
        unit = whole.unit or self.unit or ""
        meanings = read_unit(unit) if unit else _NUMBER
        if not meanings:
            raise self._wrong_truth(f"a known unit, not {unit!r:.40} (for other units, use NumberWithUnit)", expected)
        numbers = tuple(map(Fraction, whole.numbers))
        truth = _Truth(numbers[0], numbers[1:], unit, meanings)
        return truth if uncertain is None else self._with_uncertainty(truth, uncertain, expected)

    def _with_uncertainty(self, truth: _Truth, written: str, expected: object) -> _Truth:
        """Return the ground truth with an uncertainty such as *0.2 mg* or *4 %*. Raises `ValueError` for others."""
        quantity = read_quantity(written, self.decimal, is_unit)
        if quantity is None:
            raise self._wrong_truth("a number after ±", expected)
        size = Fraction(quantity.numbers[0])
        unit = read_unit(quantity.unit)
        if quantity.unit and unit != truth.meanings:
            converted = convert(size, unit[0], _NUMBER[0], None) if unit and is_number(unit[0]) else None
            if converted is None:
                raise self._wrong_truth("an uncertainty in the same unit or in percent", expected)
            size = converted.number * abs(truth.number)
        return _Truth(truth.number, truth.other_readings, truth.unit, truth.meanings, size)

    def _judge(self, text: str, truth: _Truth) -> Verdict:
        """Return the verdict on a text without LaTeX and uncertainty."""
        text = without_refused(text)
        parts = split_sum(text)
        words = find_limit_or_rejection(text, quantities := find_quantities(text, self.decimal, is_unit))
        if quantities and words:
            return Unreadable(f"{words!r} in {_quoted(text)} makes the quantity a limit or rejects it")
        if len(parts) > 1:
            total = self._add([read_quantity(part, self.decimal, is_unit) for part in parts])
            if total is not None:
                return self._compare_number(total.number, total.meanings, truth)
        if not quantities:
            return Unreadable(f"{_quoted(text)} contains no number")
        verdicts = [self._compare(quantity, truth) for quantity in quantities]
        if True in verdicts and (rate := rate_beside(text, quantities, is_unit)):
            return Undecided(f"{rate!r} in {_quoted(text)} may change the unit")
        repeated = self._in_brackets(text)
        if all(verdict is False for verdict in verdicts):
            dose, times = split_frequency(text)
            if times is None and (rate := with_rate(text)) != text:
                return self._judge(rate, truth)
            if (often := self._compare_dose(dose, times, truth)) is not False:
                return often
            is_repeated = any(self._compare(one, truth) is True for one in repeated)
            if is_repeated and len(quantities) == 1 and not self._is_near(quantities[0], truth):
                return Unreadable(f"the quantity in brackets in {_quoted(text)} contradicts the one before it")
            return is_repeated and len(quantities) == 1
        if True in verdicts and any(self._contradicts(one, truth) for one in repeated):
            return Unreadable(f"the quantity in brackets in {_quoted(text)} may contradict the one before it")
        if len(verdicts) == 1 or all(verdict is True for verdict in verdicts):
            return verdicts[0]
        if True in verdicts and _JOINED.search(text) and all(self._is_near(one, truth) for one in quantities):
            return True
        return Unreadable(f"{_quoted(text)} contains {len(verdicts)} quantities, one of which may be the ground truth")

    def _compare_dose(self, text: str, times: Fraction | None, truth: _Truth) -> Verdict:
        """Return whether a dose that is given several times a day is the ground truth, a rate.

        `times` is None if that number is not known, as in *5 mg PRN*.
        """
        dose = read_quantity(text, self.decimal, is_unit)
        unit = "" if dose is None else dose.unit if read_unit(dose.unit) else known_part(dose.unit, is_unit)
        if dose is None or not unit or not dose.numbers or dose.high or dose.sign:
            return False
        number, rate = Fraction(dose.numbers[0]), read_unit(f"{unit}/d")
        if times is not None and (verdict := self._compare_number(number * times, rate, truth)) is not False:
            return verdict
        if times is None and rate_beside(text, [dose], is_unit) and self._compare_number(number, rate, truth) is True:
            return Undecided(f"how often {_quoted(text)} is given may be counted")
        return False

    def _in_brackets(self, text: str) -> list[Written]:
        """Return the quantities that brackets consist of, as in *20.9 kJ (5 kcal)*."""
        inner = [read_quantity(part.strip(), self.decimal, is_unit) for part in _BRACKETS.findall(text)]
        return [one for one in inner if one is not None and one.numbers and read_unit(one.unit)]

    def _contradicts(self, value: Written, truth: _Truth) -> bool:
        """Return whether a quantity in brackets has the dimension of the ground truth, but another value."""
        if value.sign or value.high:
            return self._compare(value, truth) is False
        number, place = Fraction(value.numbers[0]), value.numbers[0].as_tuple().exponent
        step = Fraction(10) ** int(place) / 2
        verdicts: list[bool] = []
        for target, source in product(truth.meanings, read_unit(value.unit)):
            if is_number(target) and source != target:
                continue
            try:
                ends = [self._convert(one, source, target) for one in (number - step, number, number + step)]
            except UnknownMolarMass:
                return True
            low, middle, high = (None if one is None else one.number for one in ends)
            if low is not None and middle is not None and high is not None:
                rounded = min((high - low) / 2, _ROUNDED * abs(truth.number))
                limit = max(self._limit(truth), _SAME * abs(truth.number), rounded)
                verdicts.append(abs(middle - truth.number) > limit)
        return bool(verdicts) and all(verdicts)

    def _add(self, parts: Sequence[Written | None]) -> _Truth | None:
        """Return the sum of parts such as *5 ft* and *10 in*, in the unit of the first, or None if they are not a sum.

        Each part must be less than one of the unit before it.
        """
        total = Fraction(0)
        units: list[Unit] = []
        for part in parts:
            meanings = read_unit(part.unit) if part is not None else ()
            if part is None or not meanings or part.high or part.sign or not part.numbers or has_offset(meanings[0]):
                return None
            number = Fraction(part.numbers[0])
            if units:
                converted = convert(number, meanings[0], units[-1], None) if number >= 0 else None
                size = convert(number, meanings[0], units[0], None)
                if converted is None or size is None or converted.number >= 1 or meanings[0] == units[-1]:
                    return None
                number = size.number if total >= 0 else -size.number
            total += number
            units.append(meanings[0])
        first = parts[0]
        assert first is not None
        return _Truth(total, (), first.unit, (units[0],))

    def _compare(self, value: Written, truth: _Truth) -> Verdict:
        """Return whether one quantity of a value is the ground truth."""
        if not value.numbers:
            return Unreadable("the value cannot be read as a number")
        meanings = self._meanings(value, truth)
        if isinstance(meanings, bool | Undecided):
            return meanings
        numbers = [Fraction(number) for number in value.numbers]
        if value.high or value.sign:
            return self._compare_interval(value, meanings, truth)
        verdict = self._compare_number(numbers[0], meanings, truth)
        if verdict is False and any(self._compare_number(number, meanings, truth) is True for number in numbers[1:]):
            return Undecided("the number can be read in two ways because of its mark or brackets")
        return verdict

    def _meanings(self, value: Written, truth: _Truth) -> tuple[Unit, ...] | Verdict:
        """Return the possible units of a quantity, or the verdict if it does not depend on the unit or is unknown."""
        number = Fraction(value.numbers[0])
        meanings = read_unit(value.unit) or read_unit(known_part(value.unit, is_unit))
        if value.unit and not meanings:
            known = find_unit(value.unit)
            if known is not None and kind_of_unit(known).startswith("money"):
                return False
            noun = value.unit.split()[0].casefold()
            if truth.meanings != _NUMBER or noun.rstrip("s") in MULTIPLES:
                return Undecided(f"the unit {_quoted(value.unit)} is unknown")
            return _NUMBER
        is_scale_missing = meanings == read_unit("°") and any(map(has_offset, truth.meanings))
        if value.unit and not is_scale_missing:
            return meanings
        if self.unit is not None:
            return read_unit(self.unit)
        if not is_scale_missing and any(map(is_number, truth.meanings)):
            return self._compare_share(number, truth)
        if not any(map(has_offset, truth.meanings)):
            if not number and not truth.number:
                return True
            if number * truth.number <= 0:
                return False
        what = "scale" if is_scale_missing else "unit"
        return Undecided(f"the value has no {what}, and the rule of the field names none (`unit`)")

    def _compare_share(self, number: Fraction, truth: _Truth) -> tuple[Unit, ...] | Verdict:
        """Return the verdict on a number without a unit if the ground truth is a number, a count or a percentage."""
        if convert(Fraction(1), truth.meanings[0], (), None) == Converted(Fraction(1), Fraction(1), Fraction(1)):
            return _NUMBER
        as_number = self._compare_number(number, _NUMBER, truth)
        if as_number is True or self._compare_number(number, truth.meanings, truth) is True:
            return Undecided(f"the value has no unit, but is equal to {truth.unit} or to the fraction if read so")
        return as_number

    def _compare_number(self, number: Fraction, meanings: tuple[Unit, ...], truth: _Truth) -> Verdict:
        """Return whether a number in a unit with these possible meanings is the ground truth."""
        verdict: Verdict = False
        for target in truth.meanings:
            for source in meanings:
                one = self._compare_units(number, source, target, truth)
                if one is True:
                    return True
                verdict = one if isinstance(one, Undecided) else verdict
        if verdict is False and not truth.unit and meanings != _NUMBER and self._is_within(number, truth, (), ()):
            return Undecided("the value has a unit, but the ground truth has none (set `unit`)")
        return verdict

    def _compare_units(self, number: Fraction, source: Unit, target: Unit, truth: _Truth) -> Verdict:
        """Return whether a number in the unit `source` is the ground truth, whose unit is `target`."""
        try:
            converted = self._convert(number, source, target)
        except UnknownMolarMass:
            return Undecided("a mass and an amount of substance need the parameter `molar_mass`")
        if converted is None:
            return False
        if self._is_within(converted.number, truth, source, target):
            return True
        limit = self._limit(truth)
        if converted.low - limit <= truth.number <= converted.high + limit:
            return Undecided("the length of a year or month varies (set a tolerance)")
        if any(abs(converted.number - other) <= limit for other in truth.other_readings):
            return Undecided("the ground truth can be read in two ways because of its mark")
        return False

    def _compare_interval(self, value: Written, meanings: tuple[Unit, ...], truth: _Truth) -> Verdict:
        """Return False if a range or limit excludes the ground truth, and otherwise `Unreadable`."""
        what = "a range" if value.high else "a limit"
        unreadable = Unreadable(f"the value is {what}, not a number")
        limit = self._limit(truth)
        for target in truth.meanings:
            for source in meanings:
                try:
                    low = self._convert(Fraction(value.numbers[0]), source, target)
                    high = self._convert(Fraction(value.high[0]), source, target) if value.high else low
                except UnknownMolarMass:
                    return unreadable
                if low is None or high is None:
                    continue
                is_below = truth.number + limit < low.low and not value.sign.startswith("<")
                is_above = truth.number - limit > high.high and not value.sign.startswith(">")
                if not is_below and not is_above:
                    return unreadable
        return False

    def _is_near(self, value: Written, truth: _Truth) -> bool:
        """Return whether a quantity differs by 1 % at most, so that it can be the ground truth in another unit."""
        meanings = read_unit(value.unit)
        if not value.numbers or not meanings or value.sign or value.high:
            return False
        try:
            converted = self._convert(Fraction(value.numbers[0]), meanings[0], truth.meanings[0])
        except UnknownMolarMass:
            return False
        return converted is not None and abs(converted.number - truth.number) <= _SAME * abs(truth.number)

    def _is_within(self, number: Fraction, truth: _Truth, source: Unit, target: Unit) -> bool:
        """Return whether a number, converted from `source` to the ground truth's unit, is within the tolerance."""
        slack = _SLACK * max(abs(truth.number), abs(number)) if source != target else Fraction(0)
        return abs(number - truth.number) <= max(self._limit(truth), slack)

    def _limit(self, truth: _Truth) -> Fraction:
        """Return the greatest difference from the ground truth that is allowed, in its unit."""
        if self.tolerance is None and self.relative is None:
            return truth.uncertainty or Fraction(0)
        return max(Fraction(exact(self.tolerance or 0)), Fraction(exact(self.relative or 0)) * abs(truth.number))

    def _convert(self, number: Fraction, source: Unit, target: Unit) -> Converted | None:
        """Return the number in the unit `target`, or None if the dimensions differ."""
        if source == target:
            return Converted(number, number, number)
        return convert(number, source, target, None if self.molar_mass is None else Fraction(exact(self.molar_mass)))

    def _converts(self, truth: _Truth) -> bool:
        """Return whether the rule's unit can be converted to the ground truth's."""
        try:
            return any(
                self._convert(Fraction(1), source, target) is not None
                for source in read_unit(self.unit or "")
                for target in truth.meanings
            )
        except UnknownMolarMass:
            return True


def _quoted(text: str) -> str:
    """Return the text in quotes for a message, cut to 60 characters."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
