"""Takes apart quantities that the reader of numbers does not know: *5.0 ± 0.2 mg*, *5 ft 10 in*, and LaTeX."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from karenina_template.templates.primitives.latex import plain_text

_UNCERTAIN: Final = re.compile(r"\s*(?:±|\+\s?/\s?[-\u2212]|\+[-\u2212](?=\s?[0-9]))\s*")
_IN_BRACKETS: Final = re.compile(r"\(([^()]*(?:±|\+\s?/\s?[-\u2212])[^()]*)\)")
_LAST_DIGITS: Final = re.compile(r"(?<=[0-9])\([0-9]{1,3}\)(?=\s?(?:[eE\u00d7x*\u00b7]|[^\W\d]|$))")
"""The uncertainty of the last digits, as in *1.60(2)e-19 C*."""
_UNSIGNED: Final = re.compile(r"[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?")
_NEXT_PART: Final = re.compile(r"(?<=[^\W\d_])\.?,?\s(?:and\s)?(?=[0-9])|(?<=['\"°])\s?(?=[0-9])", re.IGNORECASE)
_POWER: Final = re.compile(r"(?<=[0-9]) (?=10\^)")
_PERIODS: Final = {"daily": "d", "hourly": "h", "weekly": "wk", "yearly": "yr", "annually": "yr"}
_ADVERB: Final = re.compile(rf"(?<=[^\W\d])\s(?:once\s)?({'|'.join(_PERIODS)})\b(?!\s+[^\W\d])", re.IGNORECASE)
_TIMES: Final = {
    "qd": 1, "q.d": 1, "od": 1, "once": 1, "one time": 1, "bid": 2, "b.i.d": 2, "bd": 2, "twice": 2, "two times": 2,
    "tid": 3, "t.i.d": 3, "tds": 3, "thrice": 3, "three times": 3, "qid": 4, "q.i.d": 4, "qds": 4, "four times": 4,
}  # fmt: skip
"""How often a day a dose is given."""
_FREQUENCY: Final = re.compile(
    r",?\s(?:(?:PO|IV|IM|SC|orally|by mouth)\s)?(?:(?P<code>q\.?d|od|b\.?i\.?d|bd|t\.?i\.?d|tds|q\.?i\.?d|qds)\b\.?"
    r"|(?P<times>once|twice|thrice|(?:one|two|three|four) times?|(?P<count>[1-9]) times|(?P<x>[1-9])\s?[x\u00d7])"
    r"\s(?:a day|daily|per day|each day|every day)\b"
    r"|(?:every\s|q\.?\s?)(?P<hours>[1-9][0-9]?)\s?(?:h|hr|hrs|hours?)\b)\.?\s*\Z",
    re.IGNORECASE,
)
"""Words at the end of a text that say how often a dose is given."""
_THOUSANDS: Final = {"k": "thousand", "m": "million"}
_PER_MICROLITER: Final = re.compile(r"(?<=[0-9])\s?([kKM])(?=\s?/\s?(?:[uµμ]|mc)[lL]\b)")
"""A thousand or a million per microliter, as laboratories write counts of blood cells: *7.5 K/µL*."""
_ARCS: Final = re.compile(
    r"(?P<degrees>[0-9][0-9.]*)\s?(?:°|deg(?:rees?)?\b\.?)\s?(?P<minutes>[0-9][0-9.]*)\s?['\u2032\u2019]"
    r"(?!['\u2032\u2019])(?:\s?(?P<seconds>[0-9][0-9.]*)\s?(?:[\"\u2033\u201d]|['\u2032\u2019]{2}))?"
)
_SHARE: Final = re.compile(
    r"(?P<part>[0-9][0-9,.]*)(?:\s(?:in(?: every)?|out of)\s|\s?(?P<colon>:)\s?)(?P<whole>[1-9][0-9,]*)"
)
_MARKUP: Final = "*_` \t\n"


def clean(text: str) -> str:
    """Return the text without Markdown around it and without LaTeX."""
    text = _with_arcs(plain_text(text.strip(_MARKUP)))
    text = _PER_MICROLITER.sub(lambda match: f" {_THOUSANDS[match[1].casefold()]}", text)
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
    """Return a quantity without its uncertainty, and the uncertainty as a quantity, or None if it has none.

    *5.0 ± 0.2 mg* becomes *5.0 mg* and *0.2 mg*, and *5.0 mg ± 4 %* becomes *5.0 mg* and *4 %*.
    """
    text = _LAST_DIGITS.sub("", _IN_BRACKETS.sub(r"\1", text))
    parts = _UNCERTAIN.split(text, maxsplit=1)
    if len(parts) == 1 or not parts[0].strip():
        return text, None
    before, after = parts
    number = _UNSIGNED.match(after)
    if number is None:
        return text, None
    rest = after[number.end() :]
    return (before, after) if before[-1:].isalpha() or before[-1:] == "%" else (before + rest, after)


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
    """Return the fraction that *1 in 1000* or *1:1000* stands for, and whether it has a colon, or None."""
    found = _SHARE.fullmatch(text.strip(" ."))
    if found is None:
        return None
    part, whole = (number.replace(",", "") for number in (found["part"], found["whole"]))
    return (Fraction(part) / int(whole), bool(found["colon"])) if part.count(".") < 2 and part[-1] != "." else None


def split_frequency(text: str) -> tuple[str, Fraction | None]:
    """Return *5 mg* and 2 for *5 mg twice daily*: the text without the times a day, which are None if not said."""
    found = _FREQUENCY.search(text)
    if found is None:
        return text, None
    if found["hours"]:
        times = Fraction(24, int(found["hours"]))
    elif digit := found["count"] or found["x"]:
        times = Fraction(digit)
    else:
        times = Fraction(_TIMES[(found["code"] or found["times"]).casefold()])
    return text[: found.start()], times
