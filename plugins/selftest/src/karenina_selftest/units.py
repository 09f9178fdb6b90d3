"""Values in another unit than the one that a field's description names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

Convert = Callable[[Decimal], Decimal]


def _times(factor: str) -> Convert:
    return lambda value: value * Decimal(factor)


_UNITS: Final[Sequence[tuple[str, str, Convert]]] = (
    (r"degrees? celsius|°\s?c\b", "degrees Fahrenheit", lambda value: value * Decimal("1.8") + 32),
    (r"kilomet(er|re)s?|\bkm\b", "metres", _times("1000")),
    (r"centimet(er|re)s?|\bcm\b", "millimetres", _times("10")),
    (r"millimet(er|re)s?|\bmm\b", "micrometres", _times("1000")),
    (r"\bmet(er|re)s?\b", "centimetres", _times("100")),
    (r"kilograms?|\bkg\b", "grams", _times("1000")),
    (r"milligrams?|\bmg\b", "micrograms", _times("1000")),
    (r"\bgrams?\b", "milligrams", _times("1000")),
    (r"millilit(er|re)s?|\bml\b", "microlitres", _times("1000")),
    (r"\blit(er|re)s?\b", "millilitres", _times("1000")),
    (r"\bdays\b|number of days", "hours", _times("24")),
    (r"\bhours\b", "minutes", _times("60")),
    (r"\bminutes\b", "seconds", _times("60")),
    (r"\bweeks\b", "days", _times("7")),
    (r"per ?cent(age)?\b|%", "parts per thousand", _times("10")),
)


def in_another_unit(description: str, value: object) -> str | None:
    """Return a number in another unit than the one in `description`; None if there is no known unit, or several."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    text, found = description.casefold(), []
    for pattern, unit, convert in _UNITS:
        text, hits = re.subn(pattern, " ", text)
        if hits:
            found.append((unit, convert))
    if len(found) != 1:
        return None
    unit, convert = found[0]
    number = convert(Decimal(str(value))).normalize()
    return f"{number:f} {unit}"
