"""Finds words and signs that make a quantity another one, or reject it: *maximum 5 mg*, *not 5 mg*, *5 mg less*."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from karenina_template.templates.primitives.quantity_parser import IsUnit, Quantity, known_part
from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern

_ABOUT: Final = r"(?:[~\u2248]|about|approximately|approx\.?|around|roughly|an?|the)?\s*"
_LIMIT: Final = lazy_pattern(
    rf"\b(?:more than|less than|greater than|fewer than|higher than|lower than|no more|no less)\s+{_ABOUT}[0-9]"
    rf"|\b(?:above|below|over|under|beyond|within|(?:maximum|minimum)(?: of)?)\s*{_ABOUT}[0-9]"
    rf"|(?<![0-9]\s)\b(?:max|min)\.?(?: of)?\s*{_ABOUT}[0-9]"
    r"|\b(?:at least|at most|(?:not )?exceed\w*|in excess of|upwards?(?: of)?|up to|starting (?:at|from))\b"
    r"|\b(?:or|and)\s+(?:more|less|fewer|higher|lower|greater|longer|shorter|above|below|over|under|up|beyond)\b"
    r"|(?<=[\w%°])\W{1,3}(?:max\.?|maximum|minimum)\s*(?:\Z|[,;.()])"
    r"|\A\s*from\s+[0-9]|\A(?:[A-Z]{0,3}[$€£¥₹]|[A-Z]{3})?\s?[0-9.,]+\s?[^\W\d]*\+\s*(?:\Z|[^\W\d])|[0-9]\+\s+[^\W\d]",
    re.IGNORECASE,
)
_REJECTED: Final = lazy_pattern(
    r"\b(?:not?(?! (?:more|less|fewer|greater|higher|lower) than| exceeding)|never|neither|nor|cannot|\w+n't"
    r"|(?:anything|all) but|other than|except|wrong|incorrect|false|mistaken|excluded|rejected"
    r"|r(?:ule[sd]?|uling) out)\b"
    r"|[\u274c\u2717\u2718\u2716\u2260]|!=",
    re.IGNORECASE,
)
_REASON: Final = lazy_pattern(
    r"\b(?:because|since|although|though|while|whereas|if|unless|when|provided|in case)\b|;|[.!]\s", re.IGNORECASE
)
"""Words after which a reason or a condition follows: *5 mg if not contraindicated* is 5 mg."""
_REFUSED: Final = lazy_pattern(
    r"[\s,;(\u2014-]*\b(?:(?:and|but)\s)?(?:not|rather than|instead of|as opposed to)\s+[^0-9]{0,20}[0-9]"
    r"(?:(?!\b(?:but|and|or)\b)[^;])*\Z",
    re.IGNORECASE,
)
_MORE_OR_LESS: Final = lazy_pattern(
    r"\bnot (?:more|less|fewer|greater) than\b|\b(?:is|was|are|were|be|it's)\s*\Z", re.IGNORECASE
)
_EXPRESSION: Final = lazy_pattern(
    r"[\u221a-\u221c\u2213]|\u03c0|\|[^|0-9]*[0-9][^|]*\||\A\s*[\u00b1\u2014\u2015\u207b]\s?(?=[0-9])"
    r"|(?<=[0-9])!(?!=)|(?<=[0-9])(?<!(?<![0-9.,])10)[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b]"
    r"|(?<=[0-9])(?<!(?<![0-9.,])10)(?<!(?<![0-9.,])10 )(?:\^|\*\*)\s?[-({0-9]"
    r"|[^\W\d]\s?[\u00d7*]\s?[0-9]|[^\W\d]\sx\s?[0-9]"
    r"|[0-9]\s(?:squared|cubed|factorial)\b|\b(?:squared|cubed) [0-9]|\b(?:square|cube|cubic) root\b"
    r"|\b(?:log|ln|lg|exp|sqrt|sin|cos|tan|mod|to the power|reciprocals?)\b|(?<![^\W\d])pi\b"
    r"|[0-9](?:st|nd|rd|th)s?\b|\b(?:[a-z]+-)?(?:fif|six|seven|eigh|nin|ten|eleven|twelf|[a-z]{3,6}teen|[a-z]{3,5}tie)ths?\b"
    r"|[0-9]-\s*\Z",
    re.IGNORECASE,
)
_REMARK: Final = lazy_pattern(r"\([^()0-9]*\)")
_MOST: Final = 20
"""The most quantities of a text whose units are removed before words beside them are searched."""
_COUNTS: Final = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "twice": 2, "double": 2, "pair of": 2, "couple of": 2, "thrice": 3, "triple": 3,
}  # fmt: skip
_COUNT: Final = lazy_pattern(rf"\b({'|'.join(_COUNTS)})\b(?!-)", re.IGNORECASE)
_LESS: Final = (
    r"(?:decreas\w*|declin\w*|drop\w*|fell|fall\w*|reduc\w*|shr[aiu]nk\w*|down|lower\w*)\b(?!(?:\s\w+){0,3}\sto\b)"
    r"|(?:loss|losses|lost|loses?|deficits?|below|beneath|negative|outflows?|less|fewer|lighter|shorter|smaller|cheaper"
    r"|short(?! tons?\b)|debt|owed|released?|exothermic|emitted|given off|deep|depth|in the red|ago|behind|-ve)\b"
)
_DECREASE: Final = lazy_pattern(
    rf"(?<!\w)(?:{_LESS}|(?:(?:down|back|left)wards?|to the left|(?<!-)clockwise)\b)",
    re.IGNORECASE,
)
_CHANGE: Final = lazy_pattern(
    rf"(?<!\w)(?:{_LESS}|(?:more|heavier|higher|taller|longer|larger|bigger|early|late|over the|off|discount|each"
    r"|apiece)\b|square\W*\Z)",
    re.IGNORECASE,
)
_OTHER_UNIT: Final = lazy_pattern(
    r"(?<![^\W\d_])(?:(?:gal(?:lons?)?|mpg|quarts?|qt|pints?|pt|oz|ounces?|(?<!metric )tons?"
    r"|hundredweights?|cwt|bushels?|cups?"
    r"|(?:table|tea)spoons?|tbsp|tsp)\b\.?,?\s?[(\[]?(?P<system>u\.?k\b\.?|british|imp(?:erial)?\b\.?)"
    r"|(?:oz|ounces?|lbs?|pounds?)\b\.?,?\s?[(\[]?(?P<troy>troy)|(?:mi|miles?)\b\.?,?\s?[(\[]?(?P<nautical>nautical)"
    r"|(?:seconds?|minutes?|hours?|days?|months?|years?)\b,?\s?[(\[]?(?P<sidereal>sidereal)"
    r"|tons?\b,?\s?[(\[]?(?P<ton>long|short|metric))(?![^\W\d])[)\]]?",
    re.IGNORECASE,
)
"""A unit with a word behind it that makes it another one. Behind other units, *(UK)* is only a place."""
_RATE: Final = lazy_pattern(
    r"\b(?:daily|nightly|hourly|weekly|monthly|yearly|annually|per|each|every|twice|thrice|times)\b"
    r"|\ban? (?:second|minute|hour|day|night|week|month|year)\b"
    r"|\b(?:q\.?\s?[0-9]{1,2}\s?h|[bt]\.?\s?i\.?\s?d|q\.?\s?[io]?\.?\s?d|qd|bd|tds|qds|od|q\.?\s?h\.?\s?s|p\.?r\.?n|stat)\b"
    r"|\b(?:at (?:bedtime|night|noon)|with (?:breakfast|lunch|dinner|meals)|in the (?:morning|evening))\b"
    r"|\bmorning and evening\b"
    r"|\b(?:pro|je|jede[nrs]?|täglich|stündlich|wöchentlich|monatlich|jährlich)\b"
    r"|\b(?:par|por)\b(?!\s(?:voie|vía|via|exemple|ejemplo|exemplo)\b)|\b(?:chaque|cada|ogni|elke?|diari[oa]s?)\b"
    r"|\b(?:al?|ao|à l['\u2019]|all['\u2019])\s?"
    r"(?:segundo|minuto|hora|día|dia|semana|mes|mês|año|ano|seconde|minute|heure|secondo|ora|giorno|settimana|mese|anno)\b",
    re.IGNORECASE,
)
"""Words after a unit that make it another one, also in other languages: 5 mg daily is not 5 mg."""


def find_expression(text: str) -> str:
    """Return the sign or word that makes a number part of an expression, as in *√12* and *12!*, or an empty string."""
    found = _EXPRESSION.search(text)
    return "" if found is None else found[0].strip()


def find_count(text: str) -> tuple[str, int]:
    """Return the word for a number beside digits, as in *two 5 mg tablets*, with its number, or "" and 1."""
    text = _REMARK.sub(" ", text)
    found = _COUNT.search(text) if re.search(r"[0-9]", text) else None
    return ("", 1) if found is None else (found[0], _COUNTS[found[0].casefold()])


def find_change(text: str, *, decrease: bool = False) -> str:
    """Return the word that makes a quantity a change or a difference, such as *less* in *5 mg less*, or an empty
    string. With `decrease`, only words that can make it negative are searched.
    """
    found = (_DECREASE if decrease else _CHANGE).search(_claim(text))
    return "" if found is None else found[0]


def find_other_unit(text: str, expected: str) -> str:
    """Return the unit with a word that makes it another one, such as *gallons (UK)* and *oz troy*, if only one of two
    texts has that word, or an empty string.
    """
    one, other = map(_OTHER_UNIT.search, (text, expected))
    if (one and one.lastgroup) == (other and other.lastgroup) and (
        one is None or other is None or one.lastgroup != "ton" or one["ton"].casefold() == other["ton"].casefold()
    ):
        return ""
    return next(found[0] for found in (one, other) if found is not None)


def rate_beside(text: str, quantities: Sequence[Quantity], is_unit: IsUnit) -> str:
    """Return a word such as *daily* that makes a quantity a rate and is not part of its unit, or an empty string."""
    text = " ".join(fold(text).split())
    for quantity in quantities[:_MOST]:
        text = text.replace(quantity.unit if is_unit(quantity.unit) else known_part(quantity.unit, is_unit), " ", 1)
    word = _RATE.search(text)
    return word[0] if word is not None else ""


def without_refused(text: str) -> str:
    """Return *5 mg* for *5 mg, not 10 mg*: the text without a final part that rejects another quantity."""
    refused = _REFUSED.search(text)
    if refused is None or not re.search(r"[0-9]", text[: refused.start()]):
        return text
    is_limit = _MORE_OR_LESS.search(text[: refused.start()]) or _MORE_OR_LESS.search(refused[0])
    return text if is_limit else text[: refused.start()]


def find_limit_or_rejection(text: str, quantities: Sequence[Quantity]) -> str:
    """Return the words that make the quantities of `text` limits or reject them, or an empty string. If the parser has
    already read one of `quantities` as a limit, with a `sign`, only rejections are found.
    """
    claim = _claim(text)
    found = _REJECTED.search(claim)
    if found is None and not any(quantity.sign for quantity in quantities):
        found = _LIMIT.search(claim)
    return "" if found is None else found[0].strip(" ,;.()")


def _claim(text: str) -> str:
    """Return the text before a reason or condition."""
    reason = _REASON.search(text)
    return text if reason is None or not re.search(r"[0-9]", text[: reason.start()]) else text[: reason.start()]
