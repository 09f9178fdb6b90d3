"""Detects what a question asks for by its wording: yes or no, a number and its unit, a name, or an option."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase
from typing import Final

from karenina_template.templates.primitives.units import MULTIPLES, find_unit

_VERBS: Final = (
    "is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must|isn't|aren't|"
    "doesn't|don't|didn't|ist|sind|war|hat|kann|gibt|est-ce"
)
_WHETHER: Final = re.compile(
    rf"(?:^|[.!:,;\n]\s*|\b(?:and|so|then)\s+)(?:{_VERBS})\b[^.!?]*(?:\?|$)|\bwhether\b|"
    r"\b(?:true|yes)\s*(?:/|or)\s*(?:false|no)\b",
    re.IGNORECASE,
)
_TRUE_OR_FALSE: Final = re.compile(r"\btrue\s*(?:/|or)\s*false\b|\bT\s*/\s*F\b", re.IGNORECASE)
_THING: Final = re.compile(r"\b(?:what|which|who|whom|whose|when|where|why|how)\b", re.IGNORECASE)
_AMOUNT: Final = re.compile(
    r"\bhow (?:many|much|long|old|far|tall|high|heavy|fast|big|large|deep|wide|often|hot|cold)\b", re.IGNORECASE
)
_COMPUTED: Final = re.compile(
    r"\$(?=\S)[^$\n]{1,200}(?<=\S)\$(?![0-9])|\\[(\[]|"
    r"\b(?:compute|calculate|evaluate|remainder|integers?|probability|perimeter|area of|sum of|product of|"
    r"[a-z]\s?\+\s?[a-z])\b",
    re.IGNORECASE,
)
"""Mathematics, in LaTeX or in words. The `$` of two prices enclose no LaTeX."""
_DIGITS: Final = re.compile(
    r"\b(?:codes?|combinations?|PINs?|passwords?|prefix|binary|octal|hex|hexadecimal|bits?)\b", re.IGNORECASE
)
"""Words for answers whose leading zeros count."""
_NAME: Final = re.compile(
    r"^\W*(?:who|whose|whom)\b|\b(?:tele)?phone\b|\bfax\b|\b(?:zip|post|postal|area|error|status|country|dial(?:l)?ing)"
    r"[- ]codes?\b|\bpostcode|\bversions?\b|\bISBN\b|\bDOI\b|\bserial\b|\baccession\b|\bidentifiers?\b|\bids?\b|"
    r"\bIP address|\b(?:which|what) (?:\w+ )?(?:well|gene|code|film|song|band|album|book|group|room|release|"
    r"chapter|section|paragraph|article|clause|figure|track|gate|platform|flight)s?\b|\bcode (?:of|for)\b",
    re.IGNORECASE,
)
_HOW_MANY: Final = re.compile(
    r"\bhow many (?:(?:total|more|extra|additional|other|whole|full|fewer|combined) )*"
    r"([\w°%$€£/^-]+(?: [\w/^-]+){0,3})(?![\w&'\u2019])",
    re.IGNORECASE,
)
_HOW_OLD: Final = re.compile(r"\bhow old\b", re.IGNORECASE)
_IN_UNIT: Final = re.compile(
    r"(?:(?<!\w)\(\s*(?P<in_brackets>in\s+)?|\b(?:in|as)\s+)(?P<unit>[\w°%$€£/^²³-]+(?:\s[\w°/^²³-]+){0,2})", re.I
)
_AFTER_UNIT: Final = re.compile(
    rf"\s*(?:$|[?.,;:!)])|\s+(?:{_VERBS}|of|for|from|to|at|on|during|over|between|after|before|when|if|and|or)\b",
    re.IGNORECASE,
)
_SENTENCES: Final = re.compile(r"[^.!?]*(?:[.!?](?!\s|$)[^.!?]*)*[.!?]?")
_OTHER_WORDS: Final = frozenset(("in", "us", "won"))
"""Words that are spelled like units but rarely used as units in questions."""
_MONEY: Final = re.compile(r"£|\b(?:costs?|priced?|pays?|paid|spend|spent|earns?|salary|money)\b", re.IGNORECASE)
_PERCENT: Final = re.compile(r"\b(?:what|which) (?:percentage|percent)\b|\bhow many percent\b", re.IGNORECASE)
_MARKED: Final = re.compile(r"(?:^|(?<=[\s(,;]))\(?([A-Z](?=[.):]\s)|[1-9][0-9]?(?=[.):]\s)|[a-z](?=\)\s))")


def asks_whether(question: str) -> bool:
    """Return whether a question is answered with yes or no: it contains *whether* or starts with a verb."""
    return _WHETHER.search(question.strip()) is not None


def asks_true_or_false(question: str) -> bool:
    """Return whether a question contains *true or false*."""
    return _TRUE_OR_FALSE.search(question) is not None


def asks_a_thing(question: str) -> bool:
    """Return whether a question asks what, which, who or similar, and is not a yes-no question."""
    return _THING.search(question) is not None and not asks_whether(question)


def asks_an_amount(question: str) -> bool:
    """Return whether a question asks how many, how much, how long or something similar."""
    return _AMOUNT.search(question) is not None


def asks_to_compute(question: str) -> bool:
    """Return whether a question is a mathematical problem, so that an answer of digits is a number and not a code."""
    is_code = asks_a_name(question) or _DIGITS.search(question) is not None
    return not is_code and _COMPUTED.search(question) is not None


def asks_a_name(question: str) -> bool:
    """Return whether a question asks for a person, a code or a name, so that the answer is never a number."""
    return _NAME.search(question) is not None and not asks_an_amount(question)


def asked_unit(question: str) -> str | None:
    """Return the unit that a question asks for, such as *km* in "How long is it in km?", or None if there is no unit or
    it is unclear.
    """
    asking = _asking_part(question)
    if _PERCENT.search(asking):
        return "%"
    counted = _HOW_MANY.search(asking)
    if counted is not None:
        words = counted[1].split()
        named = _longest_unit(words)
        multiple = words[0] if words[0].casefold().removesuffix("s") in MULTIPLES else None
        return multiple if named is None else named if _is_certain(named, question) else None
    units: dict[str, str] = {}
    for match in _IN_UNIT.finditer(asking):
        named = _longest_unit(match["unit"].split(), letters=match["in_brackets"] is not None)
        if named is not None and _AFTER_UNIT.match(asking, match.start("unit") + len(named)):
            units.setdefault(find_unit(named) or named, named)
    if not units and _HOW_OLD.search(asking):
        return "years"
    named = next(iter(units.values())) if len(units) == 1 else None
    return named if named is not None and _is_certain(named, question) else None


def _asking_part(question: str) -> str:
    """Return the sentences with a question mark or in brackets, or the whole text if it has no question mark."""
    asking = [part for part in _SENTENCES.findall(question) if part.endswith("?") or part.lstrip().startswith("(")]
    return " ".join(asking) if any(part.endswith("?") for part in asking) else question


def _is_certain(unit: str, question: str) -> bool:
    """Return whether a unit is unambiguous in the question. For example, *pounds* may be money."""
    return find_unit(unit) != "lb" or not _MONEY.search(question)


def _longest_unit(words: Sequence[str], *, letters: bool = False) -> str | None:
    """Return the longest unit at the start of `words`, or None. Single letters are only accepted if `letters` is
    set.
    """
    names = (" ".join(words[:size]) for size in range(min(len(words), 4), 0, -1))
    return next((name for name in names if find_unit(name) is not None and _may_be_unit(name, letters)), None)


def _may_be_unit(name: str, letters: bool) -> bool:
    """Return whether a name is probably a unit here, and not a word, a letter or an abbreviation. Single letters are
    only accepted if `letters` is set.
    """
    if name.casefold() in _OTHER_WORDS or (len(name) == 1 and name.isalpha() and (not letters or name in "aA")):
        return False
    return not (len(name) == 2 and name.isupper() and find_unit(name) != name)  # AU, PC and PM have other meanings


def offered_labels(question: str) -> tuple[str, ...]:
    """Return the labels of the options in a question's text, such as *A) iron B) gold*, or nothing unless there are at
    least two without a gap, starting at A or 1. Letters are returned in upper case.
    """
    marks = [mark.upper() for mark in dict.fromkeys(_MARKED.findall(question))]
    for labels in (list(ascii_uppercase), [str(number) for number in range(1, 27)]):
        count = next((at for at, label in enumerate(labels) if label not in marks), len(labels))
        if count > 1:
            return tuple(labels[:count])
    return ()
