"""Takes apart quantities that the reader of numbers does not know: *5.0 ± 0.2 mg*, *5 ft 10 in*, and LaTeX."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

from karenina_template.templates.primitives.latex import plain_text
from karenina_template.templates.primitives.quantity_parser import (
    DecimalMark,
    known_part,
    other_readings,
    read_quantity,
)
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_units.unit_text import is_unit

_UNCERTAIN: Final = lazy_pattern(r"\s*(?:±|\+\s?/\s?[-\u2212]|\+[-\u2212](?=\s?[0-9]))\s*")
_IN_BRACKETS: Final = lazy_pattern(r"\(([^()]*(?:±|\+\s?/\s?[-\u2212])[^()]*)\)")
_LAST_DIGITS: Final = lazy_pattern(
    r"(?<![0-9])([0-9][0-9\s.,']*)(?<=[0-9])\(([0-9]{1,3})\)(?=\s?(?:[eE\u00d7x*\u00b7]|[^\W\d]|$))"
)
"""The uncertainty of the last digits, as in *1.60(2)e-19 C*."""
_UNSIGNED: Final = lazy_pattern(r"[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?")
_NEXT_PART: Final = lazy_pattern(
    r"(?<=[^\W\d_])\.?,?\s(?:(?:and|&)\s)?(?=[0-9])|(?<=['\"°])\s?(?=[0-9])", re.IGNORECASE
)
_TIME_IN_WORDS: Final = lazy_pattern(
    r"\b(?:hours?|minutes?|days?|weeks?|months?|years?)\b.{1,30}\b(?:hours?|minutes?|seconds?|days?|weeks?|months?)\b"
    r"|\A[^\W\d_]+\s(?:in|out of)(?: every)?\s[^\W\d_]+\W*\Z",
    re.IGNORECASE,
)
_HOURS: Final = lazy_pattern(r"\b([0-9]{1,3})\s?h\s?([0-5]?[0-9])(?:\s?m(?:ins?)?)?(?![\w/^.,])")
"""*2h30m*, which is 2 h 30 min."""
_SYMBOL: Final = lazy_pattern(r"\A\s*[^\W\d][\w/{}()^]{0,12}\s*[=\u2248\u2243]\s*(?=[-+\u2212.0-9])")
"""A symbol before a quantity, as in *t = 5 s*."""
_QUOTED: Final = lazy_pattern(
    r"\A[\"'\u2018\u201c\u201e\u00ab]([^\"'\u2018-\u201e\u00ab\u00bb]+)[\"'\u2019\u201c\u201d\u00bb]\Z"
)
_BY_VOLUME: Final = lazy_pattern(r"(?<=[0-9])\s?%\s?\(?[wm]/v\)?")
_PER: Final = lazy_pattern(
    r"\s*/\s*|\s+(?:per|(?P<loose>in|for every))\s+"
    r"|\s+(?:an?|each|every)\s+(?=(?:second|minute|hour|day|week|month|year)\b)"
)
_POWER: Final = lazy_pattern(r"(?<=[0-9]) (?=10\^)")
_PERIODS: Final = {"daily": "d", "hourly": "h", "weekly": "wk", "monthly": "mo", "yearly": "yr", "annually": "yr"}
_ADVERB: Final = lazy_pattern(rf"(?<=[^\W\d])\s(?:once\s)?({'|'.join(_PERIODS)})\b(?!\s+[^\W\d])", re.IGNORECASE)
_CODES: Final[dict[str, tuple[int | Fraction, str]]] = {
    "qd": (1, "d"), "od": (1, "d"), "qam": (1, "d"), "qpm": (1, "d"), "mane": (1, "d"), "nocte": (1, "d"),
    "bid": (2, "d"), "bd": (2, "d"), "tid": (3, "d"), "tds": (3, "d"), "qid": (4, "d"), "qds": (4, "d"),
    "qod": (Fraction(1, 2), "d"), "alternate days": (Fraction(1, 2), "d"), "biw": (2, "wk"), "tiw": (3, "wk"),
    "fortnightly": (Fraction(1, 2), "wk"), "quarterly": (4, "yr"), "semiannually": (2, "yr"),
}  # fmt: skip
"""How often in a period a dose is given."""
_WITH_TWO_MEANINGS: Final = {"biweekly": "wk", "bimonthly": "mo", "biannually": "yr"}
"""Words for twice in a period, or once in two."""
_COUNTS: Final = {
    "once": 1, "one": 1, "twice": 2, "two": 2, "other": 2, "second": 2, "alternate": 2, "thrice": 3, "three": 3,
    "third": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
}  # fmt: skip
_NUMBER: Final = f"[1-9][0-9]?|{'|'.join(_COUNTS)}"
_FREQUENCY: Final = lazy_pattern(
    r",?\s(?:(?:PO|IV|IM|SC|orally|by mouth)\s)?(?:(?:on\s)?"
    rf"(?P<code>{'|'.join('[.]?'.join(code) for code in _CODES)}|{'|'.join(_WITH_TWO_MEANINGS)})\b\.?"
    rf"|(?P<times>once|twice|thrice|(?:{_NUMBER})\stimes?|[1-9]\s?[x\u00d7])\s"
    rf"(?:(?:an?|per|each|every)\s(?P<each>second|minute|hour|day|week|fortnight|month|year)|(?P<adverb>{'|'.join(_PERIODS)}))\b"
    rf"|(?:every\s|each\s|q\.?\s?)(?:(?P<every>{_NUMBER})\s?)?"
    r"(?P<period>s|sec(?:ond)?s?|min(?:ute)?s?|h|hrs?|hours?|d|days?|w|wks?|weeks?|fortnights?|mo|mths?|months?|m|y|yrs?|years?)\b"
    r")\.?\s*\Z",
    re.IGNORECASE,
)
"""Words at the end of a text that say how often a dose is given."""
Frequency = tuple[Fraction, str]
"""How often a dose is given, and in which unit of time: two in *wk*."""
_THOUSANDS: Final = {"k": "thousand", "m": "million", "g": "billion"}
_PER_VOLUME: Final = lazy_pattern(r"(?<=[0-9])\s?(?:([kKMG])(?=\s?/\s?(?:[uµμm]|mc)[lL]\b)|(G)(?=\s?/\s?[lL]\b))")
"""A thousand, million or billion per volume, as laboratories write counts of blood cells: *7.5 K/µL*."""
_ARCS: Final = lazy_pattern(
    r"(?P<degrees>[0-9][0-9.]*)\s?(?:°|deg(?:rees?)?\b\.?)\s?(?P<minutes>[0-9][0-9.]*)\s?(?:min(?:utes?)?\b|['\u2032\u2019])"
    r"(?!['\u2032\u2019])(?:\s?(?P<seconds>[0-9][0-9.]*)\s?(?:[\"\u2033\u201d]|['\u2032\u2019]{2}))?"
)
_SHARE: Final = lazy_pattern(
    r"(?P<part>[0-9][0-9,.]*)"
    r"(?:(?:\s(?P<noun>[^\W\d_]{3,}))?\s(?:in(?: every)?|out of(?: every)?|per|for every)\s|\s?(?P<colon>:)\s?)"
    r"(?P<whole>[1-9][0-9]{0,2}(?: [0-9]{3})+|[1-9][0-9,]*|hundred|thousand|million)(?P<after>(?:\s[^\W\d_]+){0,2})"
)
_TON: Final = lazy_pattern(r"(?<!metric )(?<!short )(?<!long )(?<!imperial )(?<!us )\btons?\b", re.IGNORECASE)
_SYSTEM: Final = (
    r"(?:(?P<us>u\.?s\.?(?:a\.?)?(?: liquid)?|american)|(?:u\.?k\.?|british|english|imp(?:erial)?\.?))(?: customary)?"
)
_OF_SYSTEMS: Final = r"(?P<unit>gal(?:lons?)?|quarts?|qt|pints?|fl(?:uid|\.)? (?:oz|ounces?)|tons?)\b"
_KIND: Final = r"(?P<kind>(?:metric|short|long)\s)?"
_WITH_SYSTEM: Final = (
    lazy_pattern(rf"\b(?P<kind>){_SYSTEM}\s{_OF_SYSTEMS}", re.IGNORECASE),
    lazy_pattern(rf"(?<![^\W\d_]){_KIND}{_OF_SYSTEMS}\.?,?\s?[(\[]{_SYSTEM}[)\]]", re.IGNORECASE),
    lazy_pattern(rf"(?<![^\W\d_]){_KIND}{_OF_SYSTEMS}\.?,?\s{_SYSTEM}(?=[\s.,;)]*\Z)", re.IGNORECASE),
)
"""A unit that is another in the US than in the imperial system, with the system before or after it. The `kind` of a ton
already determines it.
"""
_KIND_AFTER: Final = lazy_pattern(
    r"(?<![^\W\d_])(?P<unit>(?P<mass>oz|ounces?)|(?P<way>mi|miles?)|tons?)\b\.?,?\s?[(\[]?"
    r"(?P<kind>(?(mass)troy|(?(way)nautical|(?:long|short|metric))))\b[)\]]?",
    re.IGNORECASE,
)
"""A unit with a word after it that makes it another one, as in *oz (troy)* and *tons, long*."""
_COUNTED: Final = (
    lazy_pattern(r"\bbeats?\b|\bbpm\b", re.IGNORECASE),
    lazy_pattern(r"\bbreaths?\b", re.IGNORECASE),
    lazy_pattern(r"\b(?:revolutions?|rotations?|turns?|rev|rpm)\b", re.IGNORECASE),
)
"""Words for events of different kinds, all of which are turns to the conversion."""
_OTHER_SYMBOLS: Final = (
    (lazy_pattern(r"(?<=[0-9])\s?A\b"), " \u00c5"),
    (lazy_pattern(r"(?<=[0-9])\s(?:molecule|atom|ion|photon|electron|proton|neutron)s?(?=\s?/|\sper\b)"), " "),
    (_BY_VOLUME, " %"),
    (lazy_pattern(r"\bcalories?\b"), "kcal"),
    (lazy_pattern(r"(?<=[0-9])\s?kt\b"), " knots"),
    (lazy_pattern(r"(?<=[0-9])\s?m\b(?![\^/\u00b2\u00b3 ])"), " min"),
    (lazy_pattern(r"(?<=[0-9])\s?gr\b"), " g"),
    (lazy_pattern(r"(?<=[0-9])\s?([mµu]?)N\b(?![\^/\u00b7 ])"), r" \1Eq/L"),
    (lazy_pattern(r"(?<=[0-9])\s?([kKMG])b\b"), r" \1bit"),
    (lazy_pattern(r"\b(?:BTU|british thermal unit)s?\b", re.IGNORECASE), "international british thermal units"),
    (lazy_pattern(r"(?<=[0-9])\s?(k?cal)\b"), r" \1_IT"),
    (lazy_pattern(r"(?<!metric )\b(horsepower|hp)\b"), r"metric \1"),
    (
        re.compile(r"(?<!imperial )(?<!us )\b(gal(?:lons?)?|quarts?|qt|pints?|fl(?:uid|\.)? (?:oz|ounces?))\b", re.I),
        r"imperial \1",
    ),
    (lazy_pattern(r"(?<=[0-9])\s?(?:oz|ounces?)\b", re.IGNORECASE), " fl oz"),
    (lazy_pattern(r"(?<=[0-9])\s?(?:oz|ounces?)\b(?! t\b)", re.IGNORECASE), " troy oz"),
)
"""Symbols and words that are often written for other units, with those."""
_DIRECTION: Final = lazy_pattern(
    r"(?<=[^\W\d]|[°'\"\u2032\u2033])\s((?:due\s)?(?:[NESW]{1,3}|up|(?i:(?:north|south|east|west)+)))"
    r"(?=[\s.,;)]*\Z|,?\s[a-z]{2})"
    r"|(?<=g)\s([NPCSK])(?=\s?/)"
)
"""A direction or element after a unit: *N* is also newton and nitrogen, *NW* any nanowatt, and *up* any micropoise."""
_PREFIX: Final = lazy_pattern(
    r"\\(femto|pico|nano|micro|milli|centi|deci|hecto|kilo|mega|giga|tera|peta)\s*\\(?=[a-z])"
)
"""A prefix before a unit in siunitx, as in `\\kilo\\gram`."""
_RANGE: Final = lazy_pattern(
    r"\bbetween\b|(?<=[\w°%])\s?(?:\b(?:to|until|till|through|thru)\b|\.{2,3}|…)\s?(?=[-+\u2212]?\.?[0-9])",
    re.IGNORECASE,
)
_DASH: Final = lazy_pattern(r"(?<=[\w°%])(?<![0-9][eE])\s?[-\u2010-\u2015\u2212]\s?(?=\.?[0-9])")
_MARKUP: Final = "*_` \t\n"


def clean(text: str) -> str:
    """Return a quantity without Markdown and LaTeX, with some notations spelled out, such as *45° 30'* and *2h30m*, and
    with digits for numbers in words if it is a time.

    Numbers in words become digits if the text is a time in words.
    """
    text = _QUOTED.sub(r"\1", text.strip(_MARKUP))
    text = _SYMBOL.sub("", plain_text(_PREFIX.sub(r"\\\1", text)))
    if _TIME_IN_WORDS.search(text):
        from karenina_template.templates.primitives.numbers_in_text import with_digits

        text = with_digits(text)
    text = _HOURS.sub(r"\1 h \2 min", _with_arcs(_BY_VOLUME.sub(" g/dL", text)))
    for pattern in _WITH_SYSTEM:
        text = pattern.sub(
            lambda match: f"{match['kind'] or ('US ' if match['us'] else 'imperial ')}{match['unit']}", text
        )
    text = _KIND_AFTER.sub(r"\g<kind> \g<unit>", text)
    text = _PER_VOLUME.sub(lambda match: f" {_THOUSANDS[(match[1] or match[2]).casefold()]}", text)
    return _POWER.sub(" x ", text)


def _with_arcs(text: str) -> str:
    """Return *45° 30 arcmin* for *45° 30'*: the marks after degrees are those of arcs, not of feet and inches."""
    return _ARCS.sub(
        lambda match: (
            f"{match['degrees']}° {match['minutes']} arcmin"
            + (f" {match['seconds']} arcsec" if match["seconds"] else "")
        ),
        text,
    )


def split_uncertainty(text: str) -> tuple[str, str | None]:
    """Return a quantity without its uncertainty, and the uncertainty as a quantity, or None if it has none: *5.0 ± 0.2
    mg* and *5.0(2) mg* become *5.0 mg* and *0.2 mg*, and *5.0 mg ± 4 %* becomes *5.0 mg* and *4 %*.
    """
    text = _IN_BRACKETS.sub(r"\1", text)
    digits = _LAST_DIGITS.search(text)
    text = _LAST_DIGITS.sub(r"\1", text)
    parts = _UNCERTAIN.split(text, maxsplit=1)
    if len(parts) == 1 or not parts[0].strip():
        return text, None if digits is None else _in_last_digits(digits[1], digits[2]) + text[digits.end(1) :]
    before, after = parts
    number = _UNSIGNED.match(after)
    if number is None:
        return text, None
    rest = after[number.end() :]
    return (before, after) if before[-1:].isalpha() or before[-1:] == "%" else (before + rest, after)


def _in_last_digits(number: str, uncertainty: str) -> str:
    """Return *0.03* for *5.00* and *3*: an uncertainty in the last digits, as a number.

    The last point or comma is read as the decimal mark. If it separates thousands, the uncertainty is too small.
    """
    mark = max(number.rfind("."), number.rfind(","))
    places = sum(map(str.isdigit, number[mark + 1 :])) if mark >= 0 else 0
    return f"{Decimal(int(uncertainty)).scaleb(-places):f}"


def has_two_signs(text: str) -> bool:
    """Return whether the text contains ±, so that it means two numbers unless an uncertainty was split off."""
    return _UNCERTAIN.search(text) is not None


def split_sum(text: str) -> list[str]:
    """Return the parts of a quantity that is written in several units, such as *5 ft* and *10 in*."""
    return _NEXT_PART.split(text)


def with_rate(text: str) -> str:
    """Return *5 mg/d* for *5 mg daily*: the text with a unit of time for an adverb behind a unit."""
    return _ADVERB.sub(lambda match: f"/{_PERIODS[match[1].casefold()]}", text)


def read_share(text: str) -> tuple[Fraction, bool] | None:
    """Return the fraction that *1 in 1000* or *1:1000* stands for, and whether it has a colon, or None for other texts.
    If a word beside the numbers is a unit, the text is no share.
    """
    found = _SHARE.fullmatch(text.strip(" ."))
    if found is None:
        return None
    if any(noun and known_part(noun.strip(), is_unit) for noun in (found["noun"], found["after"])):
        return None
    part, whole = (re.sub("[, ]", "", number) for number in (found["part"], found["whole"]))
    size = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}.get(whole) or int(whole)
    return (Fraction(part) / size, bool(found["colon"])) if part.count(".") < 2 and part[-1] != "." else None


def read_ratio(text: str, decimal: DecimalMark) -> tuple[Fraction, str, bool] | None:
    """Return (0.05, *g/mL*, True) for *5 g per 100 mL*: number, unit, and whether all was read. Not all is read if the
    unit contains other words, as in *5 g of salt per 100 mL*, or the text says *in*. Other texts, with no other number
    or word or with an unknown unit, give None.
    """
    parts = _PER.split(text.strip(" ."))[::2]
    first = read_quantity(parts[0], decimal, is_unit)
    if len(parts) < 2 or first is None or len(first.numbers) != 1 or first.high or first.sign:
        return None
    number, is_full, units, has_number = Fraction(first.numbers[0]), True, [], False
    for place, part in enumerate(parts):
        one = first if not place else read_quantity(part, decimal, is_unit)
        if place and one is not None:
            if len(one.numbers) != 1 or one.high or one.sign or one.numbers[0] <= 0:
                return None
            number, has_number = number / Fraction(one.numbers[0]), True
        unit = part if one is None else one.unit
        known = unit if is_unit(unit) else known_part(unit, is_unit)
        if not known:
            return None
        units.append(known)
        is_full = is_full and known == unit
    is_loose = any(match["loose"] for match in _PER.finditer(text))
    return (number, "/".join(units), is_full and not is_loose) if has_number or not is_full else None


def split_frequency(text: str) -> tuple[str, tuple[Frequency, ...]]:
    """Return *5 mg* and ((2, *d*),) for *5 mg twice daily*: the dose, and how often it is given in which period. The
    second item is empty if this is not stated, and has two pairs for words with two meanings, such as *biweekly*.
    """
    found = _FREQUENCY.search(text)
    if found is None:
        return text, ()
    dose = text[: found.start()]
    if found["code"]:
        code = found["code"].casefold()
        if code in _WITH_TWO_MEANINGS:
            return dose, tuple((often, _WITH_TWO_MEANINGS[code]) for often in (Fraction(2), Fraction(1, 2)))
        often, unit = _CODES[code.replace(".", "")]
        return dose, ((Fraction(often), unit),)
    if found["times"]:
        unit = _PERIODS[found["adverb"].casefold()] if found["adverb"] else found["each"].casefold()
        return dose, _in_unit(Fraction(_count(re.split(r"[\sx\u00d7]", found["times"], flags=re.IGNORECASE)[0])), unit)
    return dose, _in_unit(Fraction(1, _count(found["every"] or "1")), found["period"].casefold())


def _count(number: str) -> int:
    """Return the number that digits or a word such as *twice* and *other* stand for."""
    return _COUNTS.get(number.casefold()) or int(number)


def _in_unit(often: Fraction, period: str) -> tuple[Frequency, ...]:
    """Return how often something happens, with the symbol of a unit of time for a period such as *weeks*. For *m*,
    there are two such pairs, because it may be a month or a minute.
    """
    if period.startswith("fortnight"):
        return ((often / 2, "wk"),)
    if period == "m":
        return ((often, "mo"), (often, "min"))
    return ((often, {"w": "wk"}.get(period, period)),)


def other_spellings(text: str, beside: str) -> list[str]:
    """Return other readings of a quantity: with another unit (*1.5 \u00c5* for *1.5 A*), with the number read
    differently, or without its direction (*5 m/s* for *5 m/s N*), unless the text that is compared, `beside`, has
    another direction.
    """
    others = [pattern.sub(unit, text) for pattern, unit in _OTHER_SYMBOLS]
    one, other = (_direction(each) for each in (text, beside))
    if one and other in ("", one):
        others.append(_DIRECTION.sub("", text))
    return [*other_readings(text), *(each for each in others if each != text)]


def _direction(text: str) -> str:
    """Return *nw* for *50 km NW* and *50 km due northwest*, *n* for *5 mg N/L*, or "" for other texts."""
    found = _DIRECTION.search(text)
    return "" if found is None else re.sub("due |orth|outh|ast|est", "", found[0].strip().casefold())


def as_range(text: str) -> str:
    """Return *30 h to 50 h* for *30 h - 50 h*: a text that may be a range, without its dash; empty for other texts."""
    without_dash = _DASH.sub(" to ", text)
    return without_dash if _RANGE.search(without_dash) else ""


def may_differ(text: str, expected: str) -> bool:
    """Return whether two texts may mean different units: a ton is metric, long or short, and a beat is no breath."""
    counted = [{place for place, noun in enumerate(_COUNTED) if noun.search(one)} for one in (text, expected)]
    is_other_noun = all(counted) and counted[0] != counted[1]
    return is_other_noun or bool(_TON.search(text)) is not bool(_TON.search(expected))
