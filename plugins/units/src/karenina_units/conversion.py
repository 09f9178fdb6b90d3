"""Converts a number from one unit to another, exactly, with the definitions of pint and a few of our own."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from karenina_units.unit_text import Unit

if TYPE_CHECKING:
    from pint import UnitRegistry

_PI: Final = Fraction("3.14159265358979323846264338327950288419716939937510")
_DEFINITIONS: Final = """
turn_ = [turn]
radian_ = [angle]
decay_ = [decay]
count_ = [count]
base_ = [base]
amino_acid_ = [amino_acid]
cell_ = [cell]
copy_ = [copy]
colony_ = [colony]
plaque_ = [plaque]
virion_ = [virion]
month_ = [month]
international_unit_ = [biological_activity]
equivalent_ = [charge_equivalent]
osmole_ = [osmotic_amount]
morgan_ = [genetic_distance]
bit_ = [information]
decibel_ = [level]
sievert_ = [dose_equivalent]
byte_ = 8 bit_
year_ = 12 month_
decade_ = 10 year_
century_ = 100 year_
hertz_ = turn_ / second
turn_per_minute_ = turn_ / minute
becquerel_ = decay_ / second
decay_per_minute_ = decay_ / minute
curie_ = 37000000000 decay_ / second
count_per_second_ = count_ / second
count_per_minute_ = count_ / minute
rem_ = sievert_ / 100
acre_ = 4840 yard ** 2
galileo_ = centimeter / second ** 2
short_ton_ = 2000 pound
long_ton_ = 2240 pound
millimeter_water_ = centimeter_H2O / 10
milligram_per_liter_ = milligram / liter
body_surface_ = 1.73 meter ** 2
gauss_ = tesla / 10000
watt_hour_ = watt * hour
ampere_hour_ = ampere * hour
volt_ampere_ = volt * ampere
newton_meter_ = newton * meter
mile_per_hour_ = mile / hour
kilometer_per_hour_ = kilometer / hour
molar_dalton_ = gram / mole
percent_ = 1 / 100
permille_ = 1 / 1000
ppm_ = 1 / 1000000
ppb_ = 1 / 1000000000
"""
_ANGLES: Final = {"angle_degree_": 180, "arcminute_": 180 * 60, "arcsecond_": 180 * 3600}
"""Parts of half a turn."""
_NOUNS: Final = frozenset(
    f"[{noun}]"
    for noun in ("turn", "angle", "decay", "count", "base", "amino_acid", "cell", "copy", "colony", "plaque", "virion")
)
"""What is counted. A unit that does not say it, such as /µL, is compared with one that does, such as cells/µL."""
_OFFSET: Final = {"degree_Celsius": "delta_degree_Celsius", "degree_Fahrenheit": "delta_degree_Fahrenheit"}
"""The scales whose zero is not absolute, with the units of their intervals."""
_MEAN_MONTH: Final = Fraction("30.4375") * 86_400
_DAY: Final = 86_400


class Converted(NamedTuple):
    """A number in another unit. It is from `low` to `high` if a year or month, whose length varies, was converted."""

    number: Fraction
    low: Fraction
    high: Fraction


class UnknownMolarMass(ValueError):
    """Raised if a mass must be converted to an amount of substance without a molar mass."""


class UnknownActivity(UnknownMolarMass):
    """Raised if a mass must be converted to or from international units."""


class _Scale(NamedTuple):
    """A unit in terms of root units: their `factor`, the zero in root units, and the dimensions with exponents."""

    factor: Fraction
    zero: Fraction
    dimensions: Mapping[str, int]


def has_offset(unit: Unit) -> bool:
    """Return whether the zero of a unit's scale is not absolute, as with °C."""
    return len(unit) == 1 and unit[0][0] in _OFFSET and unit[0][1] == 1


def is_number(unit: Unit) -> bool:
    """Return whether a unit has no dimension but that of counted things, as with %, cells and no unit at all."""
    return _scale(unit).dimensions.keys() <= _NOUNS


def convert(number: Fraction, source: Unit, target: Unit, molar_mass: Fraction | None) -> Converted | None:
    """Convert a number exactly from one unit to another, with bounds if the length of a month matters. Returns None if
    the units have different dimensions, apart from what is counted, such as cells, which one of them may omit. Raises
    `UnknownMolarMass` if a mass is converted to or from an amount of substance without `molar_mass` (in g/mol), and
    `UnknownActivity` if it is converted to or from international units.
    """
    old, new = _scale(source), _scale(target)
    left = {
        name: power
        for name in {**old.dimensions, **new.dimensions}
        if (power := old.dimensions.get(name, 0) - new.dimensions.get(name, 0))
    }
    factor = old.factor / new.factor
    if left.get("[turn]") and left.get("[turn]") == -left.get("[angle]", 0):
        factor *= (2 * _PI) ** left.pop("[turn]")
        left.pop("[angle]")
    if left.get("[mass]") and left.get("[mass]") == -left.get("[substance]", 0):
        if len(left) > 2:
            return None
        if molar_mass is None:
            raise UnknownMolarMass("a mass and an amount of substance need the parameter `molar_mass`")
        factor /= molar_mass ** left.pop("[mass]")
        left.pop("[substance]")
    if left.get("[mass]") and left == {"[mass]": left["[mass]"], "[biological_activity]": -left["[mass]"]}:
        raise UnknownActivity("how many international units a mass has depends on the substance")
    if (months := left.get("[month]", 0)) and months == -left.get("[time]", 0):
        left.pop("[month]")
        left.pop("[time]")
        shortest, longest = (_days(source, target, days) ** months for days in (0, 1))
        low, high = sorted(number * factor * length for length in (shortest, longest))
        return None if left else Converted(number * factor * _MEAN_MONTH**months, low, high)
    if len(left) > 1 or left.keys() - _NOUNS:
        return None
    converted = number * factor + (old.zero - new.zero) / new.factor
    return Converted(converted, converted, converted)


def _days(source: Unit, target: Unit, longest: int) -> Fraction:
    """Return the length of the shortest or longest month in seconds, or that of a twelfth of a year."""
    names = {name for name, _ in (*source, *target)}
    return Fraction((28, 31)[longest] if "month_" in names else Fraction((365, 366)[longest], 12)) * _DAY


@lru_cache(maxsize=4_096)
def _scale(unit: Unit) -> _Scale:
    """Return the factor, zero and dimensions with which a unit is converted to root units, such as grams."""
    if has_offset(unit):
        zero, one = (_in_root_units(unit[0][0], Fraction(degrees)) for degrees in (0, 1))
        return _Scale(one[0] - zero[0], zero[0], one[1])
    factor = Fraction(1)
    dimensions: dict[str, int] = {}
    for name, exponent in unit:
        size, powers = _in_root_units(_OFFSET.get(name, name), Fraction(1))
        factor *= size**exponent
        for dimension, power in powers.items():
            dimensions[dimension] = dimensions.get(dimension, 0) + power * exponent
    return _Scale(factor, Fraction(0), {name: power for name, power in dimensions.items() if power})


@lru_cache(maxsize=4_096)
def _in_root_units(name: str, number: Fraction) -> tuple[Fraction, Mapping[str, int]]:
    """Convert `number`, in our unit called `name`, to root units, such as grams. Return the number and the exponent of
    each dimension by name.
    """
    registry = _registry()
    quantity = registry.Quantity(number, registry.Unit(name)).to_root_units()
    dimensions = {str(name): int(str(power)) for name, power in quantity.dimensionality.items()}
    return Fraction(quantity.magnitude), dimensions


@cache
def _registry() -> UnitRegistry[Fraction]:
    """Return a registry of pint that calculates with fractions and has additional units. Creating it takes a second, so
    it is only created once.
    """
    from pint import UnitRegistry

    registry: UnitRegistry[Fraction] = UnitRegistry(non_int_type=Fraction, on_redefinition="raise")
    for line in _DEFINITIONS.strip().splitlines():
        registry.define(line)
    for name, parts in _ANGLES.items():
        registry.define(f"{name} = {_PI.numerator} / {_PI.denominator * parts} radian_")
    return registry
