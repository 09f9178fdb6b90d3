"""Finds words and signs that make a quantity a limit, or reject it: *5 mg or more*, *maximum 5 mg*, *not 5 mg*."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from karenina_template.templates.primitives.quantity_parser import Quantity
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


def without_refused(text: str) -> str:
    """Return *5 mg* for *5 mg, not 10 mg*: the text without a final part that rejects another quantity."""
    refused = _REFUSED.search(text)
    if refused is None or not re.search(r"[0-9]", text[: refused.start()]):
        return text
    is_limit = _MORE_OR_LESS.search(text[: refused.start()]) or _MORE_OR_LESS.search(refused[0])
    return text if is_limit else text[: refused.start()]


def find_limit_or_rejection(text: str, quantities: Sequence[Quantity]) -> str:
    """Return the words that make the quantities of `text` limits or reject them, or an empty string.

    Quantities that the parser has already read as limits, which have a `sign`, are not searched.
    """
    reason = _REASON.search(text)
    claim = text if reason is None or not re.search(r"[0-9]", text[: reason.start()]) else text[: reason.start()]
    found = _REJECTED.search(claim)
    if found is None and not any(quantity.sign for quantity in quantities):
        found = _LIMIT.search(claim)
    return "" if found is None else found[0].strip(" ,;.()")
