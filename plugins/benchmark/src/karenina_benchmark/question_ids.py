"""Ids for questions without one: short and easy to type."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_MAX_WORDS: Final = 3
_MAX_CHARACTERS: Final = 24


def make_question_id(position: int, text: str) -> str:
    """Return an id from the position of a question in its file (from 1) and its first words: `q1-which-gene-is`.

    The position distinguishes questions that begin with the same words.
    """
    words = [match[0].lower() for match in _WORD.finditer(text[:500])][:_MAX_WORDS]
    while len(words) > 1 and len("-".join(words)) > _MAX_CHARACTERS:
        words.pop()
    return "-".join([f"q{position}", *(word[:_MAX_CHARACTERS] for word in words)])
