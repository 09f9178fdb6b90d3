"""Decides from the words and signs around an option's text whether a response names the option, for `Choice`."""

from __future__ import annotations

from typing import Final

from karenina_template.templates.primitives.units import find_unit, kind_of_unit
from karenina_toolkit.lazy_patterns import lazy_pattern

_SYMBOL_WORD: Final = lazy_pattern(r"[^\W\d_]{2}")
_DIGIT: Final = lazy_pattern(r"[0-9]")
_STARTS_AS_NUMBER: Final = lazy_pattern(r"[.+-]?[0-9]")
_REACH: Final = 60
"""The number of characters after an option that are searched for a rejection."""
_FORMULA_BEFORE: Final = lazy_pattern(
    r"(?:[-+\u00b1\u2213/\u2044\u2215*\u00d7\u00b7\u22c5\u00f7^<>\u2264\u2265\u2266\u2267\u2a7d\u2a7e\u2260\u221a\u221b|{}]\s*"
    r"|!=\s*|\w\(\s*|(?<![0-9])\.|[0-9][.,']|[0-9]\s+"
    r"|[0-9]\s*(?:\w+\s*)?\b(?:to|and|or|x|times)\s+"
    r"|\b(?:than|over|under|above|below|least|most|up to|exceeds|exceeding|minus|negative|half|twice|double"
    r"|half of|(?:square|cube) root of|maximum|minimum|no more|beyond|within|max|min"
    r"|sin|cos|tan|log|ln|exp|sqrt|abs|lim)(?:\s+(?:a|the|of))?\s+)\Z"
)
"""Text before a number or symbol that makes it part of another number: *2.*, *1/*, *-*, *more than*."""
_FORMULA_AFTER: Final = lazy_pattern(
    r"\s*[/<>\u2264\u2265\u2044\u2215*\u00d7\u00b7\u22c5\u00f7^\u00b1\u221a|{}]|[.,'][0-9]|\s*[-+]\s*\w|\s*\+"
    r"|\s+(?:x\s+[0-9]|per\b|to\s+[0-9]|or\s+(?:more|less|higher|lower|greater|fewer|above|below|over|under|[0-9])"
    r"|and\s+(?:above|below|more|over|up)|at (?:least|most)|minimum|maximum|times|squared|cubed"
    r"|hundred|thousand|million|billion|trillion|dozen)\b"
)
_NUMBER_AFTER: Final = lazy_pattern(r"\s+[0-9]")
_VALUE_AFTER: Final = lazy_pattern(r"\s*=")
_REJECTED_BEFORE: Final = lazy_pattern(
    r"\b(?:not|no|neither|nor|never|except|excluding|\w+n't|cannot|(?:anything|everything|all) but|other than"
    r"|apart from|far from|r(?:ule[sd]?|uling) out|excludes?d?|eliminat(?:es?|ed|ing)|reject(?:s|ed|ing)?"
    r"|discard(?:s|ed|ing)?|dismiss(?:es|ed|ing)?|wrong|incorrect|false|mistaken|avoid\w*|stop|discontinu\w+|contraindicated)\b|[\u274c\u2717\u2718\u2716]",
)
_REJECTED_AFTER: Final = lazy_pattern(
    r"(?:(?!\b(?:because|since|as|although|though|while|whereas|others?|rest|remaining|all)\b)[^.;\0])*?"
    r"(?:\b(?:not|no|never|neither|nor|\w+n't|cannot|wrong|incorrect|false|mistaken?|impossible|unlikely|excluded"
    r"|eliminated|rejected|discarded|dismissed|contraindicated|avoided|unsafe|(?:ruled|crossed) out)\b"
    r"|[\u274c\u2717\u2718\u2716])",
)
_FRAME_BEFORE: Final = lazy_pattern(
    r"(?:(?:[^=\s]+\s){0,3}[^=\s]*\s?=|(?:[^:\s]+\s){0,2}[^:\s]+\s?:"
    r"|(?:the|this|that)\s(?!opposite|converse|reverse|inverse|contrary|other)"
    r"(?:[\w-]+\s){1,5}(?:is|was|are|were|would be))?"
    r"[\W_]*(?:(?:the|an?|both|only|just|in|at|exactly|precisely|about|approximately|approx|roughly|around|circa|yes"
    r"|definitely|certainly|clearly|surely|probably|without (?:a |any )?doubt"
    r"|(?:city|town|village|country|state|year|month|element|metal|gas|drug|number|value|amount|dose|letter) of)"
    r"\b[\W_]*)*"
)
"""Words that present an option: *about*, *the city of*, *x =*, *the diagnosis is*."""
_FRAME_AFTER: Final = lazy_pattern(
    r"(?:\s\(\w{1,5}\))?[^\w%\u2030\u00b0!+/-]*\Z"
    r"|(?:\s+(?:is|are|was|were|would be|seems)\s|\s?[(,;:.\u2014-]\s*)(?:the\s|my\s)?"
    r"(?:correct|right|best|true|final|answer)(?:\s(?:answer|option|choice|one))?\W*\Z"
    r"|[\s,;:.(\u2014-]+(?:because|since|as|given)\b|,\s(?:the|an?|which|who)\b|[;,.]\s(?:it|that)\s(?:is|was)\s*\Z"
    r"|\s(?:is|was)\sthe\s(?!worst|least|second|former|previous|old|other|opposite|reverse|cause|side)\w"
)
"""Words that confirm or explain an option: *is correct*, *because*, *, the capital of*."""
_MEASURED: Final = lazy_pattern(r"\s?(?P<unit>[^\W\d]\S*)\W*\Z|\sof\s")
"""What may come after a number: a unit or a substance."""


def is_formula(option: str) -> bool:
    """Return whether an option's text has a digit or is a symbol such as *x*, so that it may be part of a formula."""
    return _DIGIT.search(option) is not None or _SYMBOL_WORD.search(option) is None


def is_part_of_formula(text: str, start: int, end: int) -> bool:
    """Return whether the number or symbol between two positions of `text` is part of another number or formula.
    Examples are *5 mg* in *2.5 mg*, *> 5 mg* and *5 mg/kg*, and *x* in *1/x*. The text is in lower case.
    """
    option = text[start:end]
    if not is_formula(option):
        return False
    is_symbol, before = _DIGIT.search(option) is None, text[max(0, start - _REACH) : start]
    if (is_symbol or _STARTS_AS_NUMBER.match(option)) and _FORMULA_BEFORE.search(before):
        return True
    if option[-1].isdigit() and _NUMBER_AFTER.match(text, end):
        return True
    return _FORMULA_AFTER.match(text, end) is not None or (is_symbol and _VALUE_AFTER.match(text, end) is not None)


def is_rejected_before(text: str, start: int) -> bool:
    """Return whether words before `start` may reject what follows: *anything but*, *not*. The text is in lower case."""
    return _REJECTED_BEFORE.search(text, 0, start) is not None


def is_rejected_after(text: str, end: int) -> bool:
    """Return whether words after `end` reject what precedes them: *is wrong*, *(incorrect)*, *isn't the answer*.

    The text is in lower case, with \\0 in place of other options.
    """
    return _REJECTED_AFTER.match(text, end, end + _REACH) is not None


def is_only_framed(text: str, start: int, end: int) -> bool:
    """Return whether the words around an option only present it, as in *the city of Lima, the capital of Peru*. Any
    other word may change what it means, as in *portal hypertension* or *Lima beans*. The text is in lower case.
    """
    if _FRAME_BEFORE.fullmatch(text, 0, start) is None and start:
        return False
    measured = _MEASURED.match(text, end) if _DIGIT.search(text, start, end) else None
    if measured is not None and (not (unit := measured["unit"]) or _is_measure(unit)):
        return True
    return _FRAME_AFTER.match(text, end) is not None


def _is_measure(unit: str) -> bool:
    known = find_unit(unit)
    return known is not None and kind_of_unit(known) not in ("ratio", "angle")
