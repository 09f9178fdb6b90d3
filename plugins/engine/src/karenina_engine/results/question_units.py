"""The statistical unit of a question: equal questions under several ids are one unit.

Answers to the same question are alike, whatever ids the question has, so they are not independent evidence.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from karenina_toolkit.answers.answer_keys import NO_QUESTION

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult


def unit_of_result(result: VerificationResult) -> Hashable:
    """Return the statistical unit of a result. Results with equal questions have the same unit.

    If files are attached to the question, or if the result is an output without a question, its text does not identify
    it. The unit is then the question's id.
    """
    meta = result.metadata
    if any("attachments" in values for values in result.extensions.values()):
        return meta.question_id
    return _unit_of_text(meta.question_text, meta.question_id)


def unit_of_question(question: Question) -> Hashable:
    """Return the statistical unit of the results of a question, like `unit_of_result`."""
    return question.id if question.attachments else _unit_of_text(question.question, question.id)


class UnitCounts:
    """The number of questions that have results in each statistical unit. Results that do not state the attached files,
    because they failed before the answer, are in the unit of the text.
    """

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}

    def add(self, question: Question) -> None:
        """Count a question."""
        unit = _unit_of_text(question.question, question.id)
        self._counts[unit] = self._counts.get(unit, 0) + 1

    def repeated(self) -> Mapping[Hashable, int]:
        """Return the number of questions in each unit with several questions."""
        return {unit: count for unit, count in self._counts.items() if count > 1}


def _unit_of_text(text: str, id: str) -> Hashable:
    """Return a hash of the text without regard to white space, which takes less memory, or the id if there is none."""
    words = " ".join(text.split())
    return hash(words) if words and words != NO_QUESTION else id
