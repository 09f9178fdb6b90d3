"""`Quantity`, the primitive for numbers with units that are converted before they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, model_validator

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives import ReadingPrimitive, Undecided, Unreadable
from karenina_template.templates.primitives.limits import (
    find_change,
    find_count,
    find_expression,
    find_limit_or_rejection,
    find_other_unit,
    rate_beside,
    without_refused,
)
from karenina_template.templates.primitives.quantity_parser import (
    PART_WORDS,
    DecimalMark,
    calculated,
    find_quantities,
    is_calculation,
    is_rounded,
    known_part,
    read_quantity,
    split_pair,
    split_score,
)
from karenina_template.templates.primitives.quantity_parser import Quantity as Written
from karenina_template.templates.primitives.units import MULTIPLES, find_unit, kind_of_unit
from karenina_template.templates.primitives.values import Number, text_of
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_units.comparison import NUMBER, SAME, Allowance, Truth, Verdict
from karenina_units.conversion import Converted, UnknownMolarMass, convert, has_offset, is_number
from karenina_units.unit_text import Unit, is_unit, read_unit
from karenina_units.written import (
    Frequency,
    as_range,
    clean,
    has_two_signs,
    may_differ,
    other_spellings,
    read_ratio,
    read_share,
    split_frequency,
    split_sum,
    split_uncertainty,
    with_rate,
)

_LONGEST: Final = 2_000
_ROUNDED: Final = Fraction(1, 20)
"""The greatest relative difference that rounding may cause in a quantity that is repeated in brackets."""
_BRACKETS: Final = lazy_pattern(
    r"[(\[]\s*(?:i\.\s?e\.,?|that is,?|or|equals|equal to|equivalent to|=)?\s*([^()\[\]]+)[)\]]"
)
_JOINED: Final = lazy_pattern("[=≈≃≅]")
_MOST_PARTS: Final = 8


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
    and *5.0(2)* is ignored in a value, and is the tolerance of a ground truth if the rule has none.

    Units with different dimensions are wrong, even for 0. °C and °F are temperatures, and intervals in units such as
    J/(kg °C) or Δ°C. C and F are coulomb and farad or temperatures, whichever fits. Counted things need not be named:
    4.5 x10^9/L equals 4500 cells/µL, but cells are not copies. A turn is 2 pi radians, and Hz and bpm count turns. bp,
    kb and Mb count bases, IU and U are the same, and a mEq or mOsm is not a mmol. The length of a year or a month in
    days is undecided if it makes a difference. Percentages, ppm and shares such as *12 per 1,000* are
    numbers, and ratios such as *5 g per 100 mL* are divided. A dose with its times a day is a rate: *5 mg BID* is
    10 mg/d, and undecided for 5 mg; so is *10 mg q2d* for 10 mg. A Sv is not a Gy, because it is a weighted dose.

    A quantity is also undecided beside words that may change it (*5 mg less*, *100 m below sea level*, *two 5 mg
    tablets*), with a substance inside its unit (*5 g of salt per day*), in an expression (*20π rad/s*), and if only
    the value or the ground truth says *ton*, which may be metric, long or short. So is one that is right in another
    definition of its unit (a gallon is that of the US, or imperial), and one with a direction (*5 m/s N* for 5 m/s).
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
        higher = truth.number + 2 * self._allowance.limit(truth) + max(Fraction(1), 2 * abs(truth.number))
        return f"{Decimal(higher.numerator) / higher.denominator} {truth.unit}".strip()

    def check(self, extracted: object, expected: object) -> Verdict:
        """Return whether the quantities are the same, within the tolerance, `Unreadable` if the value is not one
        quantity, or `Undecided` if this is unclear. An empty value is wrong. Raises `ValueError` if the ground truth,
        `expected`, is not one quantity with a known unit.
        """
        truth, written = self._truth(expected), text_of(extracted)
        if written is None:
            return False
        if len(written) > _LONGEST:
            return Undecided(f"the value has more than {_LONGEST:,} characters")
        text = split_uncertainty(clean(written))[0]
        if PART_WORDS.search(text) and not PART_WORDS.search(str(expected)):
            return Undecided(f"{_quoted(text)} contains a fraction or multiple in words, which is not supported")
        if (sign := find_expression(text)) and not find_expression(str(expected)):
            return Undecided(f"{sign!r} in {_quoted(text)} makes it an expression, which is not evaluated")
        if has_two_signs(text):
            return Unreadable(f"{_quoted(text)} contains ±, which means two numbers")
        pair = split_pair(text)
        if bool(pair) is not bool(split_pair(str(expected))):
            fits = any(self._judge(one, truth) is not False for one in (text, *pair))
            return fits and Undecided(f"{_quoted(text)} or the ground truth may be two numbers, not a fraction")
        if (share := read_share(text)) is not None:
            return self._compare_share_of(*share, text, truth)
        verdict = self._judge(text, truth)
        if verdict is not True:
            verdict = self._compare_ratio(text, truth, verdict)
        if verdict is False:
            one, other, others = text, str(expected), other_spellings(written, str(expected))
            texts = ([one, *other_spellings(one, other), *others], [other, *other_spellings(other, one)])
            if any(self._is_same(*pair) for pair in product(*texts) if pair != (text, str(expected))):
                return Undecided(f"a letter or mark in {_quoted(text)} or the ground truth can be read in two ways")
        if verdict is False:
            scores = [split_score(one) for one in (text, str(expected))]
            if all(scores) is not any(scores) and self._is_same(scores[0] or text, scores[1] or str(expected)):
                return Undecided(f"a fraction in {_quoted(text)} or the ground truth may be a score")
        if verdict is True and (may_differ(text, str(expected)) or find_other_unit(text, clean(str(expected)))):
            return Undecided(f"the units of {_quoted(text)} and the ground truth may differ in spite of their names")
        return verdict

    def _is_same(self, text: str, expected: str) -> bool:
        """Return whether `text` is certainly correct if `expected` is the ground truth. If `expected` is not a valid
        one, return False.
        """
        try:
            return self._judge(text, self._truth(expected)) is True
        except ValueError:
            return False

    def _compare_ratio(self, text: str, truth: Truth, verdict: Verdict) -> Verdict:
        """Return the verdict on a ratio such as *5 g per 100 mL*, or `verdict` for other texts."""
        ratio = read_ratio(with_rate(text), self.decimal)
        whole = read_quantity(text, self.decimal, is_unit)
        if ratio is None or (whole is not None and read_unit(whole.unit)):
            return verdict
        number, unit, is_full = ratio
        if not is_full and (find_count(text)[0] or split_frequency(text)[1]):
            return verdict
        same = self._allowance.compare_number(number, read_unit(unit), truth)
        if is_full or same is not True:
            return same if is_full else verdict
        return Undecided(f"words in {_quoted(text)} may belong to its unit, {unit}")

    def _compare_share_of(self, share: Fraction, has_colon: bool, text: str, truth: Truth) -> Verdict:
        """Return whether a share such as *1 in 1000* is the ground truth, or `Undecided` if another reading matters:
        *1:1000* may be a ratio, and *1:30* a time.
        """
        if self._allowance.compare_number(share, NUMBER, truth) is True:
            return not has_colon or Undecided(f"{_quoted(text)} may be a ratio or a share")
        times = [f"{text.replace(':', one)} {other}" for one, other in ((" h ", "min"), (" min ", "s"))]
        if has_colon and any(self._judge(time, truth) is True for time in times):
            return Undecided(f"{_quoted(text)} may be a time or a ratio")
        return self._judge(text, truth)

    def _truth(self, expected: object) -> Truth:
        """Return the ground truth as a quantity, with the rule's `unit` if it has none. Raises `ValueError` if it is
        not one quantity with a known unit.
        """
        text = text_of(expected)
        value, uncertain = split_uncertainty(clean(text)) if text is not None and len(text) <= _LONGEST else ("", None)
        parts = [read_quantity(part, self.decimal, is_unit) for part in split_sum(value)]
        whole = read_quantity(value, self.decimal, is_unit)
        if (share := read_share(value)) is not None and not share[1]:
            return Truth(share[0], (), "", NUMBER)
        if whole is None and (ratio := read_ratio(value, self.decimal)) is not None and ratio[2]:
            return Truth(ratio[0], (), ratio[1], read_unit(ratio[1]))
        if whole is None and len(parts) > 1 and (total := self._add(parts)) is not None:
            return total
        if whole is None or whole.high or whole.sign:
            raise self._wrong_truth("one number (with or without a unit, not a range or limit)", expected)
        unit = whole.unit or self.unit or ""
        meanings = read_unit(unit) if unit else NUMBER
        if not meanings:
            raise self._wrong_truth(
                f"a quantity with a known unit (for the unit {unit!r:.40}, use NumberWithUnit)", expected
            )
        numbers = tuple(map(Fraction, whole.numbers))
        truth = Truth(numbers[0], numbers[1:], unit, meanings)
        return truth if uncertain is None else self._with_uncertainty(truth, uncertain, expected)

    def _with_uncertainty(self, truth: Truth, written: str, expected: object) -> Truth:
        """Return a copy of the ground truth with an uncertainty such as *0.2 mg* or *4 %* in its own unit. Raises
        `ValueError` if the uncertainty is not a number, or has another unit.
        """
        quantity = read_quantity(written, self.decimal, is_unit)
        if quantity is None:
            raise self._wrong_truth("a quantity with a number after ±", expected)
        size = Fraction(quantity.numbers[0])
        unit = read_unit(quantity.unit)
        if quantity.unit and unit != truth.meanings:
            converted = convert(size, unit[0], NUMBER[0], None) if unit and is_number(unit[0]) else None
            if converted is None:
                raise self._wrong_truth("a quantity whose uncertainty is in the same unit or in percent", expected)
            size = converted.number * abs(truth.number)
        return Truth(truth.number, truth.other_readings, truth.unit, truth.meanings, size)

    def _judge(self, text: str, truth: Truth) -> Verdict:
        """Return the verdict on a text without LaTeX and uncertainty, which may contain several quantities and words.
        Words that may change the quantity make it `Undecided` or `Unreadable`.
        """
        text = without_refused(text)
        parts = split_sum(text)
        words = find_limit_or_rejection(text, quantities := find_quantities(text, self.decimal, is_unit))
        if quantities and words:
            return Unreadable(f"{words!r} in {_quoted(text)} makes the quantity a limit or rejects it")
        if len(parts) > 1:
            total = self._add([read_quantity(part, self.decimal, is_unit) for part in parts])
            if total is not None:
                return self._allowance.compare_number(total.number, total.meanings, truth)
        if not quantities:
            return Unreadable(f"{_quoted(text)} contains no number")
        verdicts = [self._compare(quantity, truth) for quantity in quantities]
        if True in verdicts and (rate := rate_beside(text, quantities, is_unit)):
            return Undecided(f"{rate!r} in {_quoted(text)} may change the unit")
        dose, frequency = split_frequency(text)
        words = text.removeprefix(dose).strip(" ,.")
        if (
            True in verdicts
            and frequency
            and not any(one.unit.endswith(words) and is_unit(one.unit) for one in quantities)
        ):
            return Undecided(f"{words!r} in {_quoted(text)} may change the unit")
        count, times = find_count(text)
        if True in verdicts and (words := count or (find_change(text) if truth.number > 0 else "")):
            return Undecided(f"{words!r} in {_quoted(text)} may change the quantity")
        repeated = self._in_brackets(text)
        if all(verdict is False for verdict in verdicts):
            if not frequency and (rate := with_rate(text)) != text:
                return self._judge(rate, truth)
            if (often := self._compare_dose(dose, frequency, truth)) is not False:
                return often
            if self._is_range_around(text, truth):
                return Unreadable("the value is a range, not a number")
            if why := self._find_other_number(text, quantities, times, truth):
                return Undecided(f"{_quoted(text)} may be the ground truth: {why}")
            is_repeated = any(self._compare(one, truth) is True for one in repeated)
            if is_repeated and len(quantities) == 1 and not self._allowance.is_near(quantities[0], truth):
                return Unreadable(f"the quantity in brackets in {_quoted(text)} contradicts the one before it")
            return is_repeated and len(quantities) == 1
        if True in verdicts and any(self._contradicts(one, truth) for one in repeated):
            return Unreadable(f"the quantity in brackets in {_quoted(text)} may contradict the one before it")
        is_sum = is_calculation(text, quantities)
        if len(verdicts) == 1 or (all(verdict is True for verdict in verdicts) and not is_sum):
            return verdicts[0]
        if True in verdicts and _JOINED.search(text) and all(self._allowance.is_near(one, truth) for one in quantities):
            return True
        return Unreadable(f"{_quoted(text)} contains {len(verdicts)} quantities, one of which may be the ground truth")

    def _find_other_number(self, text: str, quantities: Sequence[Written], count: int, truth: Truth) -> str:
        """Return why a text without the ground truth's number may still mean it, or an empty string. The number may be
        negative, a sum, the result of a calculation, or `count` times one in the text.
        """
        read = [one for one in quantities[:_MOST_PARTS] if one.numbers and not one.sign and not one.high]
        named = [one.unit for one in read if one.unit]
        units = [read_unit(unit) or read_unit(known_part(unit, is_unit)) for unit in named] or [NUMBER]
        numbers = [Fraction(one.numbers[0]) for one in read]

        def fits(number: Fraction) -> bool:
            return any(self._allowance.compare_number(number, unit, truth) is True for unit in units if unit)

        if (
            truth.number < 0
            and (words := find_change(text, decrease=True))
            and any(fits(-number) for number in numbers)
        ):
            return f"{words!r} may make the number negative"
        if count > 1 and any(fits(count * number) for number in numbers):
            return f"it may be {count} times the number"
        rate = "" if split_frequency(text)[1] else rate_beside(text, quantities, is_unit)
        if rate and "/" in truth.unit:
            own_unit = [self._allowance.compare_number(number, truth.meanings, truth) for number in numbers]
            if any(verdict is not False for verdict in own_unit):
                return f"{rate!r} may belong to the unit"
        if len(numbers) > 1 and len({unit for unit in units if unit}) == 1 and fits(sum(numbers, Fraction(0))):
            return "it may be a sum"
        if (result := calculated(text, read)) is not None and self._compare(result, truth) is True:
            return "it may be a calculation"
        return ""

    def _is_range_around(self, text: str, truth: Truth) -> bool:
        """Return whether a text such as *30 min to 2 h* or *between 5 mg and 10 mg* is a range that contains the
        ground truth. A first number without a unit has the other one's.
        """
        ends = find_quantities(as_range(text), self.decimal, is_unit)
        if len(ends) == 1 and ends[0].high:
            return self._compare(ends[0], truth) is not False
        if len(ends) != 2 or not all(one.numbers for one in ends):
            return False
        ends[0] = ends[0]._replace(unit=ends[0].unit or ends[1].unit)
        return any(
            all(
                self._compare(one._replace(sign=sign), truth) is not False
                for one, sign in zip(pair, (">=", "<="), strict=True)
            )
            for pair in (ends, ends[::-1])
        )

    def _compare_dose(self, text: str, frequency: Sequence[Frequency], truth: Truth) -> Verdict:
        """Return whether a dose that is given several times is the ground truth, a rate. `frequency` is empty if it is
        not known how often it is given, as in *5 mg PRN*, which may make the result `Undecided`.
        """
        found = find_quantities(text, self.decimal, is_unit)
        dose = found[0] if len(found) == 1 else None
        unit = "" if dose is None else dose.unit if read_unit(dose.unit) else known_part(dose.unit, is_unit)
        if dose is None or not unit or not dose.numbers or dose.high or dose.sign:
            return False
        number, rate = Fraction(dose.numbers[0]), read_unit(f"{unit}/d")
        verdicts = [
            self._allowance.compare_number(number * often, read_unit(f"{unit}/{period}"), truth)
            for often, period in frequency
        ]
        if (verdict := next((one for one in verdicts if one is not False), False)) is not False:
            return verdict if len(verdicts) == 1 else Undecided(f"how often {_quoted(text)} is given is ambiguous")
        is_counted = not frequency and rate_beside(text, [dose], is_unit)
        if is_counted and any(
            self._allowance.compare_number(number * often, rate, truth) is True for often in range(1, 7)
        ):
            return Undecided(f"how often {_quoted(text)} is given may be counted")
        return False

    def _in_brackets(self, text: str) -> list[Written]:
        """Return the quantities that brackets consist of, as in *20.9 kJ (5 kcal)*."""
        inner = [read_quantity(part.strip(), self.decimal, is_unit) for part in _BRACKETS.findall(text)]
        return [one for one in inner if one is not None and one.numbers and read_unit(one.unit)]

    def _contradicts(self, value: Written, truth: Truth) -> bool:
        """Return whether a quantity in brackets has the dimension of the ground truth, but another value, even if it is
        rounded: the difference also exceeds 1 %. A value that only a missing molar mass could convert contradicts too.
        """
        if value.sign or value.high:
            return self._compare(value, truth) is False
        number, place = Fraction(value.numbers[0]), value.numbers[0].as_tuple().exponent
        step = Fraction(10) ** int(place) / 2
        verdicts: list[bool] = []
        for target, source in product(truth.meanings, read_unit(value.unit)):
            if is_number(target) and source != target:
                continue
            try:
                ends = [self._allowance.convert(one, source, target) for one in (number - step, number, number + step)]
            except UnknownMolarMass:
                return True
            low, middle, high = (None if one is None else one.number for one in ends)
            if low is not None and middle is not None and high is not None:
                rounded = min((high - low) / 2, _ROUNDED * abs(truth.number))
                limit = max(self._allowance.limit(truth), SAME * abs(truth.number), rounded)
                verdicts.append(abs(middle - truth.number) > limit)
        return bool(verdicts) and all(verdicts)

    def _add(self, parts: Sequence[Written | None]) -> Truth | None:
        """Return the sum of parts such as *5 ft* and *10 in*, in the unit of the first, or None if they are not a sum:
        each part must be less than one of the unit before it.
        """
        total = Fraction(0)
        units: list[Unit] = []
        for part in parts:
            meanings = read_unit(part.unit) if part is not None else ()
            if part is None or not meanings or part.high or part.sign or not part.numbers or has_offset(meanings[0]):
                return None
            number = Fraction(part.numbers[0])
            if units:
                try:
                    converted = convert(number, meanings[0], units[-1], None) if number >= 0 else None
                    size = convert(number, meanings[0], units[0], None)
                except UnknownMolarMass:  # *5 mmol, 90 mg* states the same amount twice
                    return None
                if converted is None or size is None or converted.number >= 1 or meanings[0] == units[-1]:
                    return None
                number = size.number if total >= 0 else -size.number
            total += number
            units.append(meanings[0])
        first = parts[0]
        assert first is not None
        return Truth(total, (), first.unit, (units[0],))

    def _compare(self, value: Written, truth: Truth) -> Verdict:
        """Return the verdict on one quantity of a value, undecided if its number can be read in two ways. A range or
        limit is never correct, only wrong or unreadable.
        """
        if not value.numbers:
            return Unreadable("the value cannot be read as a number")
        meanings = self._meanings(value, truth)
        if isinstance(meanings, bool | Undecided):
            return meanings
        numbers = [Fraction(number) for number in value.numbers]
        if value.high or value.sign:
            return self._allowance.compare_interval(value, meanings, truth)
        verdict = self._allowance.compare_number(numbers[0], meanings, truth)
        if verdict is False and any(
            self._allowance.compare_number(number, meanings, truth) is True for number in numbers[1:]
        ):
            return Undecided("the number can be read in two ways because of its mark or brackets")
        right = Decimal(truth.number.numerator) / truth.number.denominator
        if verdict is False and meanings == truth.meanings and is_rounded(value.numbers[0], right):
            return Undecided("a number may be the rounded fraction")
        return verdict

    def _meanings(self, value: Written, truth: Truth) -> tuple[Unit, ...] | Verdict:
        """Return the possible units of a quantity, those of the rule if it has none, or a verdict if no unit has to be
        known or none can be found.
        """
        number = Fraction(value.numbers[0])
        meanings = read_unit(value.unit)
        if value.unit and not meanings:
            known = find_unit(value.unit)
            if known is not None and kind_of_unit(known).startswith("money"):
                return False
            meanings = read_unit(known_part(value.unit, is_unit))
        if value.unit and not meanings:
            noun = value.unit.split()[0].casefold()
            if truth.meanings != NUMBER or noun.rstrip("s") in MULTIPLES:
                return Undecided(f"the unit {_quoted(value.unit)} is unknown")
            return NUMBER
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

    def _compare_share(self, number: Fraction, truth: Truth) -> tuple[Unit, ...] | Verdict:
        """Compare a number without a unit with a count or a percentage, and return the verdict. If the ground truth is
        a plain number, return `NUMBER` instead, the unit in which to compare them.
        """
        if convert(Fraction(1), truth.meanings[0], (), None) == Converted(Fraction(1), Fraction(1), Fraction(1)):
            return NUMBER
        as_number = self._allowance.compare_number(number, NUMBER, truth)
        if as_number is True or self._allowance.compare_number(number, truth.meanings, truth) is True:
            return Undecided(f"the value has no unit, but is equal to {truth.unit} or to the fraction if read so")
        return as_number

    @property
    def _allowance(self) -> Allowance:
        return Allowance(self.tolerance, self.relative, self.molar_mass)

    def _converts(self, truth: Truth) -> bool:
        """Return whether the rule's unit can be converted to the ground truth's, also if this needs a molar mass that
        is not given.
        """
        try:
            return any(
                self._allowance.convert(Fraction(1), source, target) is not None
                for source in read_unit(self.unit or "")
                for target in truth.meanings
            )
        except UnknownMolarMass:
            return True


def _quoted(text: str) -> str:
    """Return the text in quotes for a message, cut to 60 characters."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
