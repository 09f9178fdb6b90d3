"""Reads the text of a unit, such as *mg/(kg·d)*, *m s⁻²* and *joules per kilogram kelvin*."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from typing import Final

from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_units.unit_names import find_names, find_symbol, is_english

Unit = tuple[tuple[str, int], ...]
"""A product of units: names in pint with their exponents. Empty for a pure number."""

_LONGEST: Final = 80
_MOST_FACTORS: Final = 8
_LARGEST_EXPONENT: Final = 12
_ASCII: Final = str.maketrans(
    {
        **dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+", strict=True)),
        **dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)),
        **dict.fromkeys("µμ", "u"),
        "º": "°",
        "˚": "°",
        "⋅": "·",
        "∙": "·",
        "•": "·",
        "\u00d7": "x",
        "∆": "Δ",
        "\u2044": "/",
        "\u2215": "/",
        "℃": "°C",
        "℉": "°F",
    }
)
_FACTOR: Final = lazy_pattern(
    r"(?P<name>.*?[^\W\d_]|.*?[°%‰Å\"'])\s?(?:\^|\*\*)?\s?\(?(?P<exponent>[-+]?[0-9]{1,2})?\)?"
)
_WORD_POWERS: Final = {"square": 2, "squared": 2, "sq": 2, "sq.": 2, "cubic": 3, "cubed": 3, "cu": 3}
_CALENDAR_WORDS: Final = lazy_pattern(r"\b(?:a|an|each|every)\b(?= (?:second|minute|hour|day|week|month|year)s?\b)")

_NESTED: Final = lazy_pattern(r"\)\s?(?:\^|\*\*|[-0-9])|\([^)]*(?:[(/]|\bper\b)")
_APART: Final = lazy_pattern("(?<=[\u2070\u00b9\u00b2\u00b3\u2074-\u2079])(?=[^\\W\\d])")
"""The place between a raised exponent and the next unit, as in *kg m\u00b2s\u207b\u00b2*."""
_WITHOUT_SPACE: Final = lazy_pattern(
    r"(?<![^\W\d])(N|g|m(?=s))(m|s)(?=(?:\^|\*\*)?\(?-[1-9]|(?<=m)(?:\^|\*\*)?\(?[2-9])"
)
"""Two units before an exponent that look like another one: *Nm^2*, *gm^-3* and *ms^-1*, which may also be 1/ms."""
_PER_KELVIN: Final = lazy_pattern(r"(?<=/)\s?(kg|g|mol|m|cm)K(?![^\W\d])")
"""Two units below a slash: *J/gK*, and *W/mK*, which may also be per millikelvin."""
_BODY_SURFACE: Final = lazy_pattern(r"1[.,]73\s?m\s?\^?2")
"""The area to which kidney function is normalized, as in *mL/min/1.73 m²*."""


@lru_cache(maxsize=4_096)
def read_unit(text: str) -> tuple[Unit, ...]:
    """Return the possible meanings of a unit, the likeliest first, or an empty tuple if any part of it is unknown.

    Everything after a slash or *per* is in the denominator, except factors with a negative exponent: J/kg·K is
    J/(kg·K), and W/m² K⁻¹ is W m⁻² K⁻¹. Brackets may only contain a product.
    """
    written = " ".join(fold(_APART.sub(" ", text)).translate(_ASCII).split()).strip(" .·")
    if not written or len(written) > _LONGEST or _NESTED.search(written):
        return ()
    if names := find_names(written):
        return tuple(((name, 1),) for name in names)
    if _WITHOUT_SPACE.search(written):
        meanings = read_unit(_WITHOUT_SPACE.sub(r"\1 \2", written))
        return (*meanings, *_meanings(written)) if "ms" in written else meanings
    if _PER_KELVIN.search(written):
        meanings = read_unit(_PER_KELVIN.sub(r"\1 K", written))
        return (*meanings, *_meanings(written)) if "mK" in written else meanings
    return _meanings(written)


def _meanings(written: str) -> tuple[Unit, ...]:
    """Return the possible meanings of a unit in plain text, without trying to separate symbols such as *ms*. There are
    none for other texts.
    """
    written = _CALENDAR_WORDS.sub("per", _BODY_SURFACE.sub("1.73m2", written))
    written = re.sub(r"\bper cent\b", "percent", written)
    above, *below = re.split(r"\s*/\s*|\s*\bper\b\s*", written)
    if re.fullmatch(r"1?\s?", above):
        factors: list[tuple[tuple[str, ...], int]] | None = []
    else:
        factors = _read_product(above)
    for part in below:
        more = _read_product(part.strip("() "))
        factors = None if factors is None or more is None else [*factors, *((n, e if e < 0 else -e) for n, e in more)]
    if not factors or len(factors) > _MOST_FACTORS or any(abs(e) > _LARGEST_EXPONENT for _, e in factors):
        return ()
    exponents = [exponent for _, exponent in factors]
    return tuple(tuple(zip(names, exponents, strict=True)) for names in product(*(names for names, _ in factors)))


def _split(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the pint names of the two units in a text such as *kJmol*, as one tuple for each, or two empty tuples
    unless exactly one division fits. The symbols must be in their own case.
    """
    found = [
        (one, other)
        for place in range(1, len(name))
        if (one := find_symbol(name[:place])) and (other := find_symbol(name[place:]))
    ]
    return found[0] if len(found) == 1 else ((), ())


def is_unit(text: str) -> bool:
    """Return whether words after a number are a unit. They are not if the last one is also English, such as *in*."""
    return bool(text.strip()) and not is_english(text.split()[-1]) and bool(read_unit(text))


def _read_product(text: str) -> list[tuple[tuple[str, ...], int]] | None:
    """Return the factors of a product of units, each with its possible names and its exponent, or None if any is
    unknown.
    """
    words = [word for word in re.split(r"[\s·*()]+|(?<=[a-z])-(?=[A-Za-z])", text.replace("**", "^")) if word]
    factors: list[tuple[tuple[str, ...], int]] = []
    power = 1
    at = 0
    while at < len(words):
        if (next_power := _WORD_POWERS.get(words[at].casefold())) is not None:
            if words[at].casefold().endswith("d"):
                if not factors:
                    return None
                factors[-1] = (factors[-1][0], factors[-1][1] * next_power)
            else:
                power = next_power
            at += 1
            continue
        for size in (4, 3, 2, 1):
            names = find_names(" ".join(words[at : at + size])) if at + size <= len(words) else ()
            if names:
                factors.append((names, power))
                break
        else:
            size = 1
            match = _FACTOR.fullmatch(words[at])
            if match is None or not match["exponent"]:
                return None
            name = match["name"].rstrip("^")
            first: tuple[str, ...] = ()
            if not (names := find_names(name)):
                first, names = _split(name)
            if not names:
                return None
            factors += [(first, power)] if first else []
            factors.append((names, power * int(match["exponent"])))
        at += size
        power = 1
    return factors if power == 1 and len(factors) <= _MOST_FACTORS else None
