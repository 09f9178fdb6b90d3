"""Ids of questions that a file gives none: short, and fit to be typed."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_WORDS: Final = 3
_LONGEST: Final = 24


def make_question_id(place: int, text: str) -> str:
    """Return the id of the question that is the `place`-th of its file, from 1: `q1-which-gene-is`.

    It depends on the place, which tells questions of one beginning apart, and on the first words of the text.
    """
    words = [match[0].lower() for match in _WORD.finditer(text[:500])][:_WORDS]
    while len(words) > 1 and len("-".join(words)) > _LONGEST:
        words.pop()
    return "-".join([f"q{place}", *(word[:_LONGEST] for word in words)])
