"""What a draft has to satisfy in addition to the question and answer. It is stored in the question's metadata.

This module also reads numbers, dates and booleans from the text of an answer, without a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from karenina_template.templates.normalize import normalize
from karenina_template.templates.primitives.date_parser import read_date
from karenina_toolkit.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from karenina_core.data.question import Question


_NUMBER: Final = lazy_pattern(
    r"(?<![\w.])[+\-\u2212]?(?:[0-9]{1,3}(?:[,\u202f\u00a0][0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
)
_YES: Final = frozenset(("yes", "true"))
_NO: Final = frozenset(("no", "false"))
_WORDS: Final = ("lowercase", "remove_punctuation", "collapse_whitespace")

_SHORT_MONTH: Final = 3


def plain_words(text: str) -> str:
    """Return the text in lower case, without punctuation or repeated spaces. If nothing would be left, only the case
    and the surrounding spaces are changed.
    """
    return normalize(text, _WORDS) or text.strip().casefold()


def numbers_in(text: str) -> list[Decimal]:
    """Return the numbers in a text, in order. Numbers directly after a letter or a point (`B12`) are ignored. The
    decimal separator is a point; commas and no-break spaces between groups of three digits are removed.
    """
    cleaned = (re.sub(r"[,\u202f\u00a0]", "", number).replace("\u2212", "-") for number in _NUMBER.findall(text))
    return [Decimal(number) for number in cleaned]


def boolean_in(text: str) -> bool | None:
    """Return True if a text starts with "yes" or "true", False for "no" or "false", and otherwise None."""
    first, _, _ = plain_words(text).partition(" ")
    return True if first in _YES else False if first in _NO else None


def date_of(text: str) -> date | None:
    """Return the date if the whole text is a date, and otherwise None."""
    parsed = read_date(text)
    return parsed.at.date() if parsed is not None else None


def contains_date(text: str, day: date) -> bool:
    """Return whether a text contains the year, month and day of a date, in any order. The month may be a number, a name
    or an abbreviation.
    """
    if date_of(text) == day or day.isoformat() in text:
        return True
    words = re.findall(r"[0-9]+|[^\W\d_]+", text.casefold())
    month = day.strftime("%B").casefold()
    named = any(len(word) >= _SHORT_MONTH and month.startswith(word) for word in words)
    numbers = [int(word) for word in words if word.isdecimal()]
    return {day.year, day.day} <= set(numbers) and (named or day.month in numbers)


def contains_words(text: str, part: str) -> bool:
    """Return whether `text` contains `part` as whole words, ignoring case and punctuation."""
    return f" {plain_words(part)} " in f" {plain_words(text)} "


_KEY: Final = "karenina-drafting"
_MOST_OTHERS: Final = 2


class OtherAnswer(BaseModel, defer_build=True):
    """An answer to a different question. The draft must reject it."""

    model_config = ConfigDict(frozen=True)

    question_id: str
    question: str
    answer: str


class DraftBrief(BaseModel, defer_build=True):
    """The answers to other questions that a draft must reject, and whether the reference answer is prose."""

    model_config = ConfigDict(frozen=True)

    others: tuple[OtherAnswer, ...] = ()
    from_response: bool = False

    def attach_to(self, question: Question) -> Question:
        """Return the question with this brief in its metadata."""
        return question.changed(metadata={**question.metadata, _KEY: self.model_dump(mode="json")})

    @classmethod
    def of(cls, question: Question) -> DraftBrief:
        """Return the question's brief, or an empty one if it has none."""
        return cls.model_validate(question.metadata.get(_KEY) or {})


def choose_others(questions: Sequence[Question], place: int) -> tuple[OtherAnswer, ...]:
    """Choose up to two answers to other questions that differ from the answer to `questions[place]`. Answers of the
    same kind are preferred, so that a draft is tried on what it could confuse. The search starts with the next
    question.
    """
    own = questions[place].raw_answer or ""
    after = [*questions[place + 1 :], *questions[:place]]
    differing = [question for question in after if question.raw_answer and not _are_equal(question.raw_answer, own)]
    kind = _kind(own)
    ordered = sorted(differing, key=lambda question: _kind(question.raw_answer or "") != kind)
    return tuple(_others(ordered))


def _others(questions: Sequence[Question]) -> Iterator[OtherAnswer]:
    """Yield the first two answers that differ from each other in more than case and punctuation, with their
    questions.
    """
    seen: set[str] = set()
    for question in questions:
        answer = question.raw_answer or ""
        if _read(answer)[2] not in seen:
            seen.add(_read(answer)[2])
            yield OtherAnswer(question_id=question.id, question=question.question, answer=answer)
        if len(seen) == _MOST_OTHERS:
            return


def _are_equal(one: str, other: str) -> bool:
    """Compare two answers as numbers or booleans if both have this kind, and otherwise as words."""
    kind, value, words = _read(one)
    other_kind, other_value, other_words = _read(other)
    return words == other_words if value is None or kind != other_kind else value == other_value


def _kind(answer: str) -> str:
    """Return an answer's kind: `boolean`, `date`, `number` (one, in at most two words), or `text`."""
    return _read(answer)[0]


@lru_cache(maxsize=10_000)  # each answer of a table is compared with all others
def _read(answer: str) -> tuple[str, list[Decimal] | bool | None, str]:
    """Return an answer's kind, its numbers or boolean if it has this kind, and its words."""
    words = plain_words(answer)
    value = boolean_in(answer)
    if value is not None:
        return "boolean", value, words
    if date_of(answer) is not None:
        return "date", None, words
    numbers = numbers_in(answer)
    return ("number", numbers, words) if len(numbers) == 1 and len(words.split()) <= 2 else ("text", None, words)
