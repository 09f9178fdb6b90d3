"""`NumberWithUnit`, the primitive for numbers with units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import product
from typing import ClassVar, Final, NamedTuple

from pydantic import Field

from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives.base import Primitive, Undecided
from karenina_template.templates.primitives.latex import plain_text
from karenina_template.templates.primitives.limits import (
    find_change,
    find_count,
    find_expression,
    find_limit_or_rejection,
    find_other_unit,
    rate_beside,
)
from karenina_template.templates.primitives.quantity_parser import (
    PART_WORDS,
    DecimalMark,
    Quantity,
    calculated,
    find_quantities,
    following_unit,
    is_calculation,
    is_known_unit,
    is_rounded,
    known_part,
    other_readings,
    read_quantity,
    split_pair,
    split_score,
)
from karenina_template.templates.primitives.units import (
    MULTIPLES,
    contradict,
    find_unit,
    find_unknown_unit,
    is_money,
    kind_of_unit,
    may_be_same_kind,
    unit_of_amount,
)
from karenina_template.templates.primitives.values import above_by, text_of
from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern

_HUNDRED: Final = Decimal(100)
_TWO_WAYS: Final = "a number can be read in two ways because its mark may be a decimal mark or a thousands separator"
_EXPONENT: Final = lazy_pattern(r"[-^\u207b][0-9\u00b9\u00b2\u00b3]")
_NOUN: Final = lazy_pattern(r"(?![A-Z]{2,3}\Z)[^\W\d_][^\W\d_'-]{2,}[^\s]*")
"""A word that may be what is counted, not a symbol such as *x*, *i* or *AM*."""
_COINS: Final = frozenset({"bucks", "grand", "pence", "pennies", "penny", "pound", "pounds", "quid"})
_ERAS: Final = frozenset({"AD", "CE"})
_LONGEST: Final = 2_000
"""The maximum length of a value that is read."""
_JOINED: Final = lazy_pattern(r"[0-9](?![eE])[^\W\d_]{1,3}[0-9]{2}(?![0-9])|\A[^'\"]*[0-9]['\"](?!\w)")
"""*6h30* and *6'*, in which marks or digits belong to the number before them."""
_REMARK: Final = lazy_pattern(r"\(([^()0-9]+)\)")
_ROMAN: Final = lazy_pattern(r"[IVXLCDM]{2,}")
_NOTHING: Final = frozenset(("none", "no", "nil", "nothing", "never", "no one", "nobody"))
_BRACKETS: Final = lazy_pattern(r"(?<=\s)[(\[]\s*([^()\[\]]*[0-9][^()\[\]]*)[)\]]")
_MARKED: Final = lazy_pattern(r"[0-9]\s?(?:'|\"|°\s?[0-9])")
"""A number with a mark of feet, inches, minutes or seconds, also of angles."""
_CLOCK: Final = lazy_pattern(r"\A\s*([0-9]{1,3}):([0-5][0-9])(?::([0-5][0-9]))?\s*\Z")
_TEMPERATURES: Final = ("°C", "°F")
_SYMBOLS: Final = {
    frozenset(("°C", "coulomb")): ("C",),
    frozenset(("°F", "farad")): ("F",),
    frozenset(("A", "Å")): ("A",),
    frozenset(("m", "min")): ("m",),
    frozenset(("oz", "fl oz")): ("oz", "ozs", "ounce", "ounces"),
}
"""Symbols and words that people use for two units, by these units."""


class NumberWithUnit(Primitive, defer_build=True):
    """Passes if the value and the ground truth are the same number with the same unit: *1,500 mg*, *1.5e3 mgs*.

    Use it for a text field into which the judge copies the quantity. It suits questions that require the ground truth's
    unit, and units that are not measured, such as money. `Quantity` from karenina-units converts units and has
    tolerances.

    Numbers are compared exactly. They may have thousands separators, decimal commas, fractions, powers of ten, LaTeX,
    and words such as *million*. Words such as *about* are ignored. Known units are compared with a table of spellings,
    all others by their words. The case of a symbol matters if it can mean another unit (*mPa* and *MPa*, *s* and *S*).
    Units are never converted. A value without a unit is assumed to have the ground truth's unit.

    - `unit`: the unit of a ground truth that is written without one, such as the unit that the question asks for.
    - `decimal`: the decimal mark in numbers such as 1,234 and 1.234: "." (the default) or ",".

    The field is undecided if the value could be correct despite one of these differences:

    - another unit of the same quantity (g for mg, N/m2 for Pa, cents for dollars), units that a molar mass or density
      may convert (ppm for mg/L), *pounds*, which may be money or a mass, and *C*, *F*, *A* and *m*, which may be
      coulombs, farads, ångströms and minutes;
    - *oz* for *fl oz*, *ton* for *tonne*, and a word behind the unit that makes it another one (*gallons, UK*, *oz
      troy*);
    - another unit after it (*5 N m* for *5 N*), which makes it another quantity;
    - a word after the number that may be an unknown unit (*5 furlongs from the coast* for *5 km*);
    - a unit although the ground truth has none, except currencies and counted things (*280 students*);
    - more than one number, or another quantity in brackets (*5 mg (0.5 g)*);
    - a range or a limit (*more than 5*, *5 or less*) instead of a number, or a rejected number (*not 5*);
    - the other reading of a decimal mark or of brackets;
    - the fraction 0.05 for 5 %;
    - words that change a number (*a loss of 5*, *5 less*, *half*, *2 dozen*, *two 5 mg tablets*, *none*);
    - words that make it a rate (*5 mg daily*, *5 mg pro Tag*), an ordinal (*12th*) or part of an expression (*12!*,
      *log 12*);
    - other words after an amount of money that may change it (*$5 off*, *$5 each*);
    - a letter or foreign word that may be a power of ten (*8B people*, *5 Millionen*), number words of other languages
      (*fünf*, *五万*), two numbers with a slash (*120/80 mmHg*), or a score (*8/10*) for its first number;
    - a fraction for the same number rounded (*2/3* for *0.667*), *10-3* for a power of ten, and *5' 10"*;
    - more than 2,000 characters.

    A value without a number, with a different number, or with a unit of another kind fails.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    unit: str | None = None
    decimal: DecimalMark = Field(
        default=".", description="The decimal mark that is assumed for numbers that can be read in two ways."
    )

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a number, with or without a unit."""
        self._truth(expected)

    def mutate(self, expected: object) -> object:
        """Return a higher number as a string without a unit."""
        return str(above_by(max(self._truth(expected).numbers), Decimal(1)))

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether number and unit are the same, `False` if they are clearly not, and `Undecided` with the reason
        in the many cases that the class describes, such as other units, ranges and words that may change the number.
        """
        truth, written = self._truth(expected), text_of(extracted)
        if written is None:
            return False
        if len(written) > _LONGEST:
            return Undecided(f"the value is longer than {_LONGEST:,} characters")
        text, right = plain_text(written), plain_text(text_of(expected) or "")
        if bool(PART_WORDS.search(text)) is not bool(PART_WORDS.search(f"{right} {self.unit}")):
            why = "contains a fraction or multiple in words, which is not converted to a number"
            return Undecided(f"{_quoted(text)} or the ground truth {why}")
        if (sign := find_expression(text)) and not find_expression(right):
            return Undecided(f"{sign!r} in {_quoted(text)} makes it an expression, which is not evaluated")
        if _ROMAN.fullmatch(text.strip(" .")):
            return Undecided(f"{_quoted(text)} may be a Roman numeral")
        quantities = find_quantities(text, self.decimal)
        if text.strip(" .").casefold() in _NOTHING and not any(truth.numbers):
            return Undecided(f"{_quoted(text)} may mean 0")
        verdicts = [self._compare(quantity, truth) for quantity in quantities]
        pair = split_pair(text)
        if bool(pair) is not bool(split_pair(right)):
            fits = any(verdict is not False for verdict in [*verdicts, *(self.check(one, expected) for one in pair)])
            return fits and Undecided(f"{_quoted(text)} or the ground truth may be two numbers, not a fraction")
        if True in verdicts and (other := find_other_unit(text, right)):
            return Undecided(f"{other!r} in the value or the ground truth may make the unit another one")
        is_bare = any(verdict is True and not one.unit for verdict, one in zip(verdicts, quantities, strict=True))
        if (
            is_bare
            and find_unit(truth.unit)
            and not is_money(truth.unit)
            and (other := find_unknown_unit(text, truth.unit))
        ):
            return Undecided(f"{other!r} in {_quoted(text)} may be another unit")
        if True in verdicts and (why := self._find_doubt(text, right, quantities, truth)):
            return Undecided(f"{why} in {_quoted(text)} may change the number")
        if True in verdicts and (other := self._contradiction(text, truth)):
            return Undecided(f"{other!r} in brackets in {_quoted(text)} contradicts the quantity before it")
        if not verdicts or all(verdict is False for verdict in verdicts):
            why = self._find_other_reading(text, quantities, truth, expected)
            return bool(why) and Undecided(f"{_quoted(text)} may be the ground truth: {why}")
        if len(verdicts) == 1 or (
            all(verdict is True for verdict in verdicts) and not is_calculation(text, quantities)
        ):
            return verdicts[0]
        return Undecided(f"{_quoted(text)} contains {len(verdicts)} numbers, one of which may be the ground truth")

    def _find_doubt(self, text: str, right: str, quantities: Sequence[Quantity], truth: Quantity) -> str:
        """Return, in quotes, the words beside a number equal to the ground truth that may change it and are not in the
        ground truth as written, `right`, or an empty string.
        """
        is_amount = any(map(is_money, _parts_of(truth.unit)))
        word, count = find_count(text)
        joined = _JOINED.search(fold(text))
        words = (
            find_limit_or_rejection(text, quantities)
            or (_remark(text, truth.unit) if is_amount else _other_rate(text, right, quantities))
            or (word if count not in truth.numbers else "")
            or (find_change(text) if truth.numbers[0] > 0 and not truth.sign and not find_change(right) else "")
            or (joined[0] if joined is not None else "")
        )
        return repr(words) if words else ""

    def _find_other_reading(self, text: str, quantities: Sequence[Quantity], truth: Quantity, expected: object) -> str:
        """Return why a text without a number equal to the ground truth may still mean it, or an empty string."""
        if truth.numbers[0] < 0 and (words := find_change(text, decrease=True)):
            positive = truth._replace(numbers=tuple(map(abs, truth.numbers)))
            if any(self._compare(quantity, positive) is not False for quantity in quantities):
                return f"{words!r} may make the number negative"
        right_rate = rate_beside(plain_text(text_of(expected) or ""), [truth], is_known_unit)
        if right_rate and any(
            "/" in one.unit and self._compare(Quantity(one.numbers), truth._replace(unit="")) is not False
            for one in quantities
            if one.numbers
        ):
            return f"{right_rate!r} in the ground truth may be the same rate"
        if (rate := rate_beside(text, quantities, is_known_unit)) and "/" in truth.unit:
            without_unit, count = truth._replace(unit=""), find_count(text)[1]
            numbers = [
                tuple(times * one for one in quantity.numbers for times in (1, count)) for quantity in quantities
            ]
            if any(self._compare(Quantity(one), without_unit) is not False for one in numbers if one):
                return f"{rate!r} may belong to the unit"
        unit = find_unit(truth.unit)
        kind = "" if unit is None else kind_of_unit(unit)
        if _CLOCK.match(text) and kind == "time":
            return "it may be a time"
        if _MARKED.search(fold(text)) and kind in ("length", "time", "angle"):
            return "its marks may be feet, minutes or seconds"
        count = find_count(text)[1]
        known = [one._replace(numbers=tuple(count * number for number in one.numbers)) for one in quantities]
        if count > 1 and any(self._compare(quantity, truth) is True for quantity in known):
            return f"it may be {count} times the number"
        readings = [quantity for quantity in quantities if quantity.numbers and not quantity.sign and not quantity.high]
        if len(readings) > 1 and len({quantity.unit for quantity in readings}) == 1:
            total = readings[0]._replace(numbers=(sum((one.numbers[0] for one in readings), Decimal(0)),))
            if self._compare(total, truth) is True:
                return "it may be a sum"
        if (result := calculated(text, readings)) is not None and self._compare(result, truth) is True:
            return "it may be a calculation"
        score, right_score = split_score(text), split_score(text_of(expected) or "")
        if read_quantity(right_score, self.decimal) is None:
            right_score = ""
        if bool(score) is not bool(right_score) and self.check(score or text, right_score or expected) is not False:
            return "a fraction may be a score"
        if any(self.check(other, expected) is not False for other in other_readings(text)):
            return "a word, letter or mark beside a number can be read in two ways"
        return ""

    def _contradiction(self, text: str, truth: Quantity) -> str:
        """Return the first text in brackets with a quantity that contradicts the ground truth, such as *0.5 g* in
        *5 mg (0.5 g)*, or an empty string. Ranges, and quantities with a sign or an unknown unit, are ignored.
        """
        for inner in _BRACKETS.findall(text):
            for other in find_quantities(inner, self.decimal):
                unit = find_unit(other.unit)
                if not other.numbers or other.high or other.sign or unit is None:
                    continue
                right = find_unit(truth.unit)
                is_other_kind = right is not None and kind_of_unit(unit) not in (kind_of_unit(right), "ratio")
                if is_other_kind or contradict(truth.numbers[0], truth.unit, other.numbers[0], other.unit):
                    return str(inner)
        return ""

    def _truth(self, expected: object) -> Quantity:
        """Return the ground truth as a quantity, with `unit` if it has none of its own. Raises `ValueError` if the
        ground truth is not a number.
        """
        text = text_of(expected)
        truth = None if text is None else read_quantity(plain_text(text), self.decimal)
        if truth is None:
            raise self._wrong_truth("a number (with or without a unit)", expected)
        return truth if truth.unit or not self.unit else truth._replace(unit=self.unit)

    def _compare(self, value: Quantity, truth: Quantity) -> bool | Undecided:
        """Return whether `value` equals the ground truth, or `Undecided` with the reason. If the ground truth has no
        unit, a percentage also equals the fraction that it represents.
        """
        if not value.numbers:
            return Undecided("the value cannot be read as a number")
        same_unit = _compare_units(value.unit, truth.unit)
        if same_unit is False or isinstance(same_unit, _OtherUnit):
            return same_unit if isinstance(same_unit, bool) else Undecided(same_unit.why)
        same_number = _compare_numbers(value, truth)
        if same_number is False and not truth.unit and find_unit(value.unit) == "%":
            return value.numbers[0] / _HUNDRED == truth.numbers[0]
        if same_number is False and not value.unit and find_unit(truth.unit) == "%":
            is_share = value.numbers[0] * _HUNDRED == truth.numbers[0]
            return is_share and Undecided(
                "the value has no unit, but equals the percentage in the ground truth when read as a fraction"
            )
        if same_number is False and self.unit == "%" and value.numbers[0] == truth.numbers[0] * _HUNDRED:
            return Undecided("the ground truth has no unit and may be a fraction")
        return same_unit if same_number is True else same_number


class _OtherUnit(NamedTuple):
    """The reason why values in two different units cannot be compared."""

    why: str


def _compare_units(value: str, truth: str) -> bool | Undecided | _OtherUnit:
    """Return whether two units are the same. A `value` without a unit ("") has the ground truth's. `Undecided` means
    that the field is undecided if the numbers are equal, and `_OtherUnit` that it is undecided in any case.
    """
    if not value:
        return True
    unit, truth_unit = find_unit(value), find_unit(truth)
    if unit is None and _known_part(value) and (not truth or truth_unit is not None):
        unit = find_unit(_known_part(value))
    if truth_unit is None and _known_part(truth) and unit is not None:
        truth_unit = find_unit(_known_part(truth))
    if not truth:
        if unit is not None:
            return kind_of_unit(unit) == "money" or Undecided(
                f"the value is in {value}, but the ground truth has no unit"
            )
        first = value.split()[0]
        if value.replace(".", "").upper() in _ERAS:
            return True
        is_counted = _noun(first) not in MULTIPLES and not is_money(first) and _NOUN.fullmatch(first) is not None
        return is_counted or Undecided(f"the value is a number of {value}, but the ground truth has no unit")
    if unit is not None and truth_unit is not None:
        if unit == truth_unit == "t" and _is_ton(value) is not _is_ton(truth):
            return Undecided(f"a ton may be metric, long or short, so {value!r:.40} and {truth!r:.40} may differ")
        if unit == truth_unit or (unit == "°" and truth_unit in _TEMPERATURES):
            return True
        if truth_unit == "°" and unit in _TEMPERATURES:
            return Undecided(f"the value is in {value}, but the ground truth is in degrees on an unknown scale")
        if not {value, truth}.isdisjoint(_SYMBOLS.get(frozenset((unit, truth_unit)), ())):
            return Undecided(f"it is not known whether {value!r:.40} and {truth!r:.40} are the same unit")
        same_kind = may_be_same_kind(unit, truth_unit) or _is_pound(value, unit, truth, truth_unit)
        return same_kind and _OtherUnit(
            f"the value is in {value} and the ground truth is in {truth}, but units are not converted"
        )
    if unit != truth_unit and None in (unit, truth_unit) and (is_money(unit or "") or is_money(truth_unit or "")):
        other = value if unit is None else truth
        if not any(map(is_money, _parts_of(other))):
            is_other = _NOUN.fullmatch(other) and other.casefold() not in _COINS
            doubt = Undecided if is_other else _OtherUnit  # 50p may be 0.50 pounds
            return doubt(f"it is not known whether {other!r:.40} is money")
    if (unit is None) == (truth_unit is None) and [*map(_noun, value.split())] == [*map(_noun, truth.split())]:
        return True
    return Undecided(f"it is not known whether {value!r:.40} and {truth!r:.40} are the same unit")


def _known_part(unit: str) -> str:
    """Return the known unit at the start of a unit, but none before an exponent, another unit (as in *N m*), or words
    that may change money.
    """
    known = known_part(unit)
    is_other = is_money(known) or _EXPONENT.search(unit, len(known)) or following_unit(unit, known)
    return "" if is_other else known


def _other_rate(text: str, right: str, quantities: Sequence[Quantity]) -> str:
    """Return a word that makes a quantity a rate, unless the ground truth as written has it with the same words after
    it, or an empty string.
    """
    word = rate_beside(text, quantities, is_known_unit)
    if not word:
        return ""
    ours, theirs = (fold(one).casefold().partition(word.casefold())[1:] for one in (text, right))
    return word if ours != theirs else ""


def _is_ton(unit: str) -> bool:
    """Return whether a unit is the word *ton*, which may mean a metric, long or short one."""
    return known_part(unit).casefold() in ("ton", "tons")


def _remark(text: str, unit: str) -> str:
    """Return words in brackets that may change an amount of money, as in *$5 (Canadian)*, or an empty string."""
    currency = next(filter(is_money, _parts_of(unit)))
    remarks = [inner for inner in _REMARK.findall(text) if find_unit(inner) != find_unit(currency)]
    return next((inner for inner in remarks if unit_of_amount(currency, inner) != currency), "")


def _parts_of(unit: str) -> list[str]:
    """Return the first word of a unit and its first sign, one of which is a currency in an amount of money."""
    return [unit[:1], *re.split(r"[\s/]", unit)[:1]]


def _is_pound(value: str, unit: str, truth: str, truth_unit: str) -> bool:
    """Return whether one of two units is the word *pound*, which may mean money or a mass."""
    return {unit, truth_unit} == {"lb", "\u00a3"} and "pound" in f"{value} {truth}".casefold()


def _noun(word: str) -> str:
    """Return `word` in lower case and without a plural s, as far as this does not change its meaning. Words of up to
    three letters may be symbols. They keep the s, and the case of a first letter that may be a prefix.
    """
    folded = fold(word)
    if len(folded) > 3:
        return folded.casefold().removesuffix("s")
    if not (folded.islower() or folded.isupper() or folded.istitle()):
        return folded
    return folded[:1] + folded[1:].casefold() if folded[:1] in ("m", "M", "p", "P") else folded.casefold()


def _compare_numbers(value: Quantity, truth: Quantity) -> bool | Undecided:
    """Return whether the numbers are equal, or `Undecided` with the reason. Units are ignored. The result is undecided
    if a number is within the other's range or limit, may be the other one rounded, or is equal only in another reading.
    """
    number, right = value.numbers[0], truth.numbers[0]
    if value.high and truth.high:
        if (number, value.high[0]) == (right, truth.high[0]):
            return True
        return not _ranges(value).isdisjoint(_ranges(truth)) and Undecided(_TWO_WAYS)
    if value.high or truth.high:
        between, single = (value, truth) if value.high else (truth, value)
        fits = any(low <= number <= high for low, high in _ranges(between) for number in single.numbers)
        return fits and Undecided(
            "either the value or the ground truth is a range, and the other is a number within that range"
        )
    if value.sign != truth.sign:
        fits = any(
            _is_within(value.sign, one, other) and _is_within(truth.sign, other, one)
            for one, other in product(value.numbers, truth.numbers)
        )
        return fits and Undecided("either the value or the ground truth is a limit, and the other is within that limit")
    if number == right:
        return True
    other = not set(value.numbers).isdisjoint(truth.numbers)
    if other and any(-number in (*value.numbers, *truth.numbers) for number in value.numbers):
        return Undecided("a number in brackets may be negative")
    if not other and is_rounded(number, right):
        return Undecided("a number may be the rounded fraction")
    return other and Undecided(_TWO_WAYS)


def _ranges(quantity: Quantity) -> set[tuple[Decimal, Decimal]]:
    """Return the readings of a range. A mark that both bounds have is read in the same way."""
    if len(quantity.numbers) == len(quantity.high):
        return set(zip(quantity.numbers, quantity.high, strict=True))
    return set(product(quantity.numbers, quantity.high))


def _is_within(sign: str, limit: Decimal, number: Decimal) -> bool:
    """Return whether `number` is within a limit with the given sign, such as "<". An empty sign means no limit."""
    return not sign or number == limit or (number < limit) == sign.startswith("<")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
