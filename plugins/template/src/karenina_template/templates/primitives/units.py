"""Units as people write them, for `NumberWithUnit`. Units are never converted.

Symbols come from the SI brochure (9th edition) and currencies from ISO 4217. Everything else comes from common use.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern

_KINDS: Final[dict[str, dict[str, str]]] = {
    "ratio": {"%": "percent|per cent|pct", "‰": "permille|per mille", "ppm": "", "ppb": ""},
    "mass": {
        "kg": "kilogram|kilogramme|kilo|kgs", "g": "gram|gramme|gm|gms", "mg": "milligram|milligramme|mgs",
        "µg": "microgram|mcg|ug", "ng": "nanogram", "pg": "picogram", "t": "ton|tonne|metric ton|metric tonne",
        "short ton": "US ton", "long ton": "imperial ton", "troy oz": "troy ounce|ozt",
        "lb": "lbs|pound", "oz": "ozs|ounce", "Da": "dalton", "kDa": "kilodalton",
    },
    "length": {
        "km": "kms|kilometer|kilometre", "m": "meter|metre", "cm": "cms|centimeter|centimetre",
        "mm": "millimeter|millimetre", "µm": "um|micrometer|micrometre|micron", "nm": "nanometer|nanometre",
        "pm": "picometer|picometre", "Å": "angstrom|ångström", "mi": "mile", "nautical mile": "nmi",
        "in": "inch|inches", "ft": "foot|feet",
        "yd": "yds|yard", "ly": "light-year|light year", "au": "astronomical unit", "pc": "parsec",
    },
    "area": {
        "m2": "square meter|square metre|sq m|sqm", "km2": "square kilometer|square kilometre|sq km",
        "cm2": "square centimeter|square centimetre", "ha": "hectare", "acre": "", "mi2": "square mile|sq mi",
        "ft2": "square foot|square feet|sq ft",
    },
    "volume": {
        "l": "L|liter|litre", "ml": "mL|milliliter|millilitre|cc", "dl": "dL|deciliter|decilitre",
        "cl": "cL|centiliter|centilitre", "µl": "µL|uL|microliter|microlitre|ul", "m3": "cubic meter|cubic metre",
        "cm3": "cubic centimeter|cubic centimetre",
        "km3": "cubic kilometer|cubic kilometre", "gal": "gallon|US gallon", "qt": "quart|US quart",
        "pint": "US pint", "fl oz": "fluid ounce|US fl oz|US fluid ounce",
        "imperial gallon": "UK gallon", "imperial quart": "UK quart", "imperial pint": "UK pint",
        "imperial fl oz": "imperial fluid ounce|UK fluid ounce", "tbsp": "tablespoon", "tsp": "teaspoon",
    },
    "time": {
        "s": "sec|secs|second", "min": "mins|minute", "h": "hr|hrs|hour", "d": "day", "wk": "wks|week",
        "month": "mo|mos",
        "yr": "yrs|year|year old|years old|year of age|years of age", "ms": "msec|millisecond", "µs": "us|microsecond",
        "ns": "nanosecond", "decade": "", "century": "centuries",
        "kyr": "ka|kya", "Myr": "Ma|Mya|mya", "Gyr": "Ga|Gya|bya",
    },
    "temperature": {
        "°C": "C|celsius|degree celsius|degrees celsius|deg c|degrees c|centigrade|degrees centigrade",
        "°F": "F|fahrenheit|degree fahrenheit|degrees fahrenheit|deg f|degrees f",
        "K": "kelvin|degree kelvin|degrees kelvin|deg k|degrees k",
    },
    "angle": {"°": "degree|deg", "rad": "radian"},
    "frequency": {
        "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "bpm": "beats per minute", "rpm": "",
    },
    "energy": {
        "J": "joule", "kJ": "kilojoule", "MJ": "megajoule", "cal": "calorie", "kcal": "kilocalorie|Cal|food calorie",
        "keV": "",
        "eV": "electronvolt|electron volt", "MeV": "", "GeV": "", "kWh": "kilowatt hour|kilowatt-hour|kW h", "MWh": "",
        "GWh": "", "TWh": "",
    },
    "power": {"W": "watt", "kW": "kilowatt", "MW": "megawatt", "mW": "milliwatt", "GW": "gigawatt", "hp": "horsepower"},
    "pressure": {
        "Pa": "pascal", "kPa": "kilopascal", "MPa": "megapascal", "GPa": "", "hPa": "", "bar": "", "mbar": "millibar",
        "atm": "atmosphere", "mmHg": "mm Hg|torr|Torr", "psi": "lb/in2|lbs/in2|pounds per square inch",
    },
    "electricity": {
        "V": "volt", "mV": "millivolt", "kV": "kilovolt", "A": "amp|ampere", "mA": "ma|milliampere", "Ω": "ohm",
        "coulomb": "", "farad": "", "T": "tesla",
    },
    "force": {"N": "newton", "kN": "kilonewton"},
    "amount": {
        "mol": "mole", "mmol": "millimole", "µmol": "umol|micromole", "nmol": "nanomole", "IU": "international unit",
    },
    "concentration": {
        "M": "molar|mol/L|mol/l|moles per liter|moles per litre", "mM": "millimolar|mmol/L|mmol/l",
        "µM": "uM|micromolar|µmol/L|µmol/l|umol/L|umol/l", "nM": "nanomolar|nmol/L|nmol/l", "pM": "pmol/L|pmol/l",
    },
    "sequence": {"bp": "base pair", "kb": "kbp|kilobase", "Mb": "Mbp|megabase", "Gb": "Gbp|gigabase"},
    "information": {
        "B": "byte", "kB": "KB|kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "bit": "", "KiB": "",
        "MiB": "", "GiB": "", "TiB": "",
    },
    "data rate": {
        "bps": "bit/s|b/s|bits per second", "kbps": "Kbps|kbit/s|kb/s|Kb/s|kilobits per second",
        "Mbps": "Mbit/s|Mb/s|megabits per second", "Gbps": "Gbit/s|Gb/s|gigabits per second",
        "kB/s": "kBps|KBps|KB/s|kilobytes per second", "MB/s": "MBps|megabytes per second",
        "GB/s": "GBps|gigabytes per second",
    },
    "speed": {"km/h": "kph|kmh|kilometers an hour|kilometres an hour", "mi/h": "mph|miles an hour"},
    "money": {
        "$": "USD|US$|U.S. dollar|US dollar|dollar", "€": "EUR|euro", "£": "GBP|pound sterling|pounds sterling",
        "¥": "JPY|yen", "CHF": "swiss franc", "₹": "INR|rupee", "CNY": "RMB|yuan|renminbi", "C$": "CAD|CA$",
        "A$": "AUD|AU$", "R$": "BRL", "SEK": "", "NOK": "", "DKK": "", "PLN": "", "₩": "KRW|won",
        "₽": "RUB|ruble|rouble", "MYR": "", "¢": "cents",
    },
}  # fmt: skip
CURRENCIES: Final = (*_KINDS["money"], "US$", "CA$", "AU$", *re.findall(r"\b[A-Z]{3}\b", str(_KINDS["money"])))
"""Currency signs and codes that may precede a number."""
MULTIPLES: Final = frozenset(
    (
        *(
            "pair",
            "dozen",
            "couple",
            "half",
            "halve",
            "third",
            "quarter",
            "fifth",
            "tenth",
            "time",
            "fold",
            "gross",
            "score",
        ),
        *("gros", "score", "percentile", "bc", "bce", "b.c", "b.c.e"),
    )
)
"""Words after a number, without a plural s, that change what is counted: 3 pairs are not 3."""

_BESIDE_NUMBERS: Final = (
    "in|of|for|and|or|but|on|upon|was|is|are|were|be|by|from|at|as|to|with|without|because|since|if|when|after|before"
    "|during|through|that|this|which|who|so|then|while|until|today|yesterday|now|only|about|total|overall|altogether"
)
"""Words after a number that are no unit."""
_BESIDE_MONEY: Final = lazy_pattern(
    rf"(?:{_BESIDE_NUMBERS}|combined|cash|worth|revenues?|sales?|profits?|price|costs?|fees?|salary|income|budget|prize"
    r"|fine|debt|tax|value|bill|charges?|spending|net|gross)\b",
    re.IGNORECASE,
)
"""Words after an amount of money that do not change it."""
_MAYBE_UNIT: Final = lazy_pattern(
    rf"[0-9]\s(?!(?:{_BESIDE_NUMBERS}|according|each|than|not|also|there|here|they|we|you|he|she|it"
    r"|hundred|thousand|(?:m|b|tr)illions?|mio|mrd|percent)\b)([^\W\d_]{3,})",
    re.IGNORECASE,
)
"""A word after a number that may be its unit."""
_PERIODS: Final = {
    "hourly": "h", "daily": "d", "nightly": "night", "weekly": "wk", "monthly": "month", "quarterly": "quarter",
    "yearly": "yr", "annually": "yr",
}  # fmt: skip
_RATE: Final = lazy_pattern(
    rf"(?:/\s?|(?:per|an?|each|every)\s)(?P<unit>\w+)|(?P<adverb>{'|'.join(_PERIODS)})\b", re.IGNORECASE
)
"""Words after a currency that make an amount a rate."""
_PLAIN: Final = {
    **dict(zip(map(ord, "⁰¹²³⁴⁵⁶⁷⁸⁹\u03bc\u00ba"), "0123456789\u00b5\u00b0", strict=True)),
    0x2103: "\u00b0C",
    0x2109: "\u00b0F",
}
"""Replacements for superscript digits and for variants of the micro and degree signs."""
_UNITS: Final = {
    spelling: unit
    for units in _KINDS.values()
    for unit, others in units.items()
    for spelling in (unit, *filter(None, others.split("|")))
}
_SIZES: Final[dict[str, Decimal]] = {
    unit: Decimal(size)
    for unit, size in {
        "kg": "1e3", "g": "1", "mg": "1e-3", "µg": "1e-6", "ng": "1e-9", "pg": "1e-12", "t": "1e6", "lb": "453.59237",
        "oz": "28.349523125",
        "km": "1e3", "m": "1", "cm": "1e-2", "mm": "1e-3", "µm": "1e-6", "nm": "1e-9", "pm": "1e-12", "Å": "1e-10",
        "mi": "1609.344", "in": "0.0254", "ft": "0.3048", "yd": "0.9144",
        "l": "1", "dl": "0.1", "cl": "1e-2", "ml": "1e-3", "µl": "1e-6", "m3": "1e3", "cm3": "1e-3",
        "s": "1", "min": "60", "h": "3600", "d": "86400", "wk": "604800", "ms": "1e-3", "µs": "1e-6", "ns": "1e-9",
        "J": "1", "kJ": "1e3", "MJ": "1e6", "cal": "4.184", "kcal": "4184",
        "mol": "1", "mmol": "1e-3", "µmol": "1e-6", "nmol": "1e-9",
        "Pa": "1", "kPa": "1e3", "MPa": "1e6", "hPa": "100", "bar": "1e5", "mbar": "100",
        "atm": "101325", "mmHg": "133.322387415",
    }.items()
}  # fmt: skip
"""The sizes of common units, relative to another unit of their kind."""
_DIMENSIONS: Final[dict[str, dict[str, int]]] = {
    "ratio": {}, "mass": {"mass": 1}, "length": {"length": 1}, "area": {"length": 2}, "volume": {"length": 3},
    "time": {"time": 1}, "frequency": {"time": -1}, "speed": {"length": 1, "time": -1}, "amount": {"substance": 1},
    "force": {"mass": 1, "length": 1, "time": -2}, "pressure": {"mass": 1, "length": -1, "time": -2},
    "energy": {"mass": 1, "length": 2, "time": -2}, "power": {"mass": 1, "length": 2, "time": -3},
    "concentration": {"substance": 1, "length": -3}, "information": {"information": 1},
    "data rate": {"information": 1, "time": -1},
}  # fmt: skip
"""The exponents of the dimensions of the kinds of quantities, as far as all units of a kind have the same."""
_AMBIGUOUS: Final = {
    **dict.fromkeys(("gal", "gallon"), "US gallon or imperial gallon"),
    **dict.fromkeys(("qt", "quart"), "US quart or imperial quart"),
    "pint": "US pint or imperial pint",
    **dict.fromkeys(("fl oz", "fluid ounce"), "US fluid ounce or imperial fluid ounce"),
    **dict.fromkeys(("oz", "ounce"), "ounce, fluid ounce or troy ounce"),
    "ton": "tonne, short ton or long ton",
    **dict.fromkeys(("cal", "calorie"), "calorie or kilocalorie"),
}
"""The units that a word may mean, by the word in lower case and without a plural s."""
_SAME: Final = Decimal("0.1")
"""The greatest relative difference of two numbers that may be rounded."""
_EXPONENT: Final = lazy_pattern(r"([^0-9]*[^-0-9])(-?[2-9])")
_POWER: Final = lazy_pattern(
    r"(?:(?P<before>square|sq\.?|cubic|cu\.?)\s)?(?P<base>[^\W\d]+)(?:\s(?P<after>squared|cubed))?", re.IGNORECASE
)
_LONGEST: Final = 80
_KIND_OF: Final = {unit: kind for kind, units in _KINDS.items() for unit in units}
_ANY_CASE: Final[dict[str, dict[str, str]]] = {}
for _spelling, _unit in _UNITS.items():
    _ANY_CASE.setdefault(_spelling.casefold(), {})[_spelling] = _unit


def find_unit(text: str) -> str | None:
    """Return the known unit that the whole of `text` names, in one spelling for each: "µg" for *micrograms*, and
    "mg/dl" for *mg per dL*. Returns None if it is unknown. Case only matters between units such as mW and MW.
    """
    written = " ".join(
        fold(text).translate(_PLAIN).replace("℃", "°C").replace("℉", "°F").replace("^", "").split()
    ).rstrip(".")
    if not written or len(written) > _LONGEST:
        return None
    unit = _one_unit(written)
    if unit is not None:
        return unit
    above, *below = (_one_unit(part) for part in re.split(r"\s*/\s*|\s+per\s+", written))
    if above is None or not below:
        return None
    if len(below) == 2 and below[0] == below[1] and below[0] in _KIND_OF:  # m/s/s
        below = [f"{below[0]}2"]
    known = sorted(part for part in below if part is not None)
    unit = "/".join([above, *known])
    return _UNITS.get(unit, unit) if len(known) == len(below) else None


def _one_unit(written: str) -> str | None:
    """Return the unit for a spelling, or None if it is unknown. It may have a plural s and an exponent. Case is ignored
    if only one unit matches and the case can be a matter of style.
    """
    for name in (written, written[:-1] if written.endswith("s") and len(written) > 3 else written):
        if name in _UNITS:
            return _UNITS[name]
        units = _ANY_CASE.get(name.casefold(), {})
        if len(set(units.values())) == 1 and any(_differ_only_in_style(written, spelling) for spelling in units):
            return next(iter(units.values()))
    raised = _EXPONENT.fullmatch(written)
    if raised is None and (power := _POWER.fullmatch(written)) is not None:
        words = [word for word in power.group("before", "after") if word is not None]
        if len(words) == 1:
            raised = _EXPONENT.fullmatch(f"{power['base']}{2 if words[0].casefold().startswith('s') else 3}")
    base = None if raised is None else _one_unit(raised[1])
    return None if base is None or raised is None else f"{base}{raised[2]}"


def _differ_only_in_style(written: str, spelling: str) -> bool:
    """Return whether `written` can differ from `spelling` in case as a matter of style, as in *KG*, but not in *kG*,
    *S* for s, or *ML*. M and P are other prefixes than m and p.
    """
    if len(written) > 4 or len(written) == 1:
        return len(written) > 1
    is_other_prefix = written[0] in "mMpP" and written[0] != spelling[0]
    is_bit = _KIND_OF[_UNITS[spelling]] == "information" and written[-1] != spelling[-1]
    is_style = written.isupper() or written.islower() or written.istitle()
    return is_style and not is_other_prefix and not is_bit


def kind_of_unit(unit: str) -> str:
    """Return the kind of quantity for a unit from `find_unit`, such as "mass" or "mass/volume"."""
    if unit in _KIND_OF:
        return _KIND_OF[unit]
    bases = [(part if part in _KIND_OF else part.rstrip("-0123456789"), part) for part in unit.split("/")]
    return "/".join(_KIND_OF[base] + part.removeprefix(base) for base, part in bases)


def find_meanings(unit: str) -> str:
    """Return the units that a unit as written may mean, such as *tonne, short ton or long ton* for *tons*, or an empty
    string if there is one. *Cal* always means the kilocalorie.
    """
    return "" if unit == "Cal" else _AMBIGUOUS.get(unit.casefold().removesuffix("s"), "")


def may_be_same_kind(one: str, other: str) -> bool:
    """Return whether two units from `find_unit` may be units of the same quantity: *psi* and *N/m2*, but not *mL* and
    *mL/min*. An amount of substance may be a mass, whose molar mass is unknown, and *ppm* may be *mg/L*.
    """
    kinds = [kind_of_unit(unit) for unit in (one, other)]
    if kinds[0] == kinds[1]:
        return True
    ours, theirs = (_dimensions(kind) for kind in kinds)
    if ours is None or theirs is None:
        return False
    left = {name: power for name in {**ours, **theirs} if (power := ours.get(name, 0) - theirs.get(name, 0))}
    if "ratio" in kinds and left in ({"mass": 1, "length": -3}, {"mass": -1, "length": 3}):
        return True
    return not left or (set(left) == {"mass", "substance"} and sum(left.values()) == 0)


def _dimensions(kind: str) -> dict[str, int] | None:
    """Return the exponents of the dimensions of a kind of quantity, such as *mass/volume*, or None if it has others."""
    found: dict[str, int] = {}
    for place, part in enumerate(kind.split("/")):
        base = part.rstrip("-0123456789")
        if base not in _DIMENSIONS:
            return None
        power = int(part.removeprefix(base) or 1) * (-1 if place else 1)
        for name, size in _DIMENSIONS[base].items():
            found[name] = found.get(name, 0) + power * size
    return {name: power for name, power in found.items() if power}


def find_unknown_unit(text: str, unit: str) -> str:
    """Return the word after a number that may be an unknown unit, such as *furlongs* in *5 furlongs from the coast*, or
    an empty string. It is none if `text` also contains `unit`, as in *5 whole kilometers*.
    """
    word = _MAYBE_UNIT.search(text)
    if word is None or find_unit(word[1]) is not None:
        return ""
    return "" if any(find_unit(other.strip(".,;:()")) == find_unit(unit) for other in text.split()) else word[1]


def is_money(text: str) -> bool:
    """Return whether `text` is a currency."""
    return (unit := find_unit(text)) is not None and kind_of_unit(unit) == "money"


def unit_of_amount(currency: str, words: str) -> str:
    """Return the unit of an amount of money with the words after it: *$/month* for a *$* followed by *a month*, and
    *CAD*, which is more precise, for *$5 CAD*. Words that only say what the amount is (*$5 in total*) are dropped, and
    all others kept, because they may change the amount: *$ less*.
    """
    words = words.strip(" .-")
    if (rate := _RATE.match(words)) is not None:
        return f"{currency}/{rate['unit'] or _PERIODS[rate['adverb'].casefold()]}"
    if not words[:1].isalpha():
        return f"{currency} {words}".rstrip() if words[:1] == "/" else currency
    first = words.split()[0]
    code = next((code for code in (" ".join(words.split()[:2]), first) if is_money(code)), None)
    if code is None:
        return currency if _BESIDE_MONEY.match(words) else f"{currency} {words}"
    if find_unit(currency) in ("$", find_unit(code)):
        return unit_of_amount(code, words[len(code) :])
    return f"{currency} {words}"


def contradict(number: Decimal, unit: str, other_number: Decimal, other_unit: str) -> bool:
    """Return whether two quantities in known units of the same kind, such as 5 mg and 0.5 g, cannot be the same, even
    if they are rounded: they differ by more than 10% and by more than half a step of the second number's last digit.
    Units that are unknown, of different kinds, or cannot be converted never contradict each other.
    """
    one, other = find_unit(unit), find_unit(other_unit)
    if one is None or other is None or kind_of_unit(one) != kind_of_unit(other):
        return False
    if (one, other) == ("°C", "°F"):
        number = number * Decimal("1.8") + 32
    elif (one, other) == ("°F", "°C"):
        number = (number - 32) / Decimal("1.8")
    elif one in _SIZES and other in _SIZES:
        number = number * _SIZES[one] / _SIZES[other]
    elif one != other:
        return False
    step = Decimal(1).scaleb(int(other_number.as_tuple().exponent)) / 2
    return abs(number - other_number) > max(step, _SAME * abs(number))
