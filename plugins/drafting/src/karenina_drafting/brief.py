"""The parts of a draft beyond its question and answer, which are stored in the metadata of the question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from karenina_drafting.readings import boolean_in, date_of, numbers_in, plain_words

if TYPE_CHECKING:
    from karenina_core.data.question import Question

_KEY: Final = "karenina-drafting"
_MOST_OTHERS: Final = 2


class OtherAnswer(BaseModel):
    """The answer to another question, which the draft must not accept."""

    model_config = ConfigDict(frozen=True)

    question_id: str
    question: str
    answer: str


class DraftBrief(BaseModel):
    """The other answers that a draft must reject, and whether the reference answer is prose."""

    model_config = ConfigDict(frozen=True)

    others: tuple[OtherAnswer, ...] = ()
    from_response: bool = False

    def attach_to(self, question: Question) -> Question:
        """Return the question with this brief."""
        return question.changed(metadata={**question.metadata, _KEY: self.model_dump(mode="json")})

    @classmethod
    def of(cls, question: Question) -> DraftBrief:
        """Return the brief of a question; an empty one if it has none."""
        return cls.model_validate(question.metadata.get(_KEY) or {})


def choose_others(questions: Sequence[Question], place: int) -> tuple[OtherAnswer, ...]:
    """Return answers to other questions that differ from that of `questions[place]`, preferably of the same kind.

    They are the next ones after it, and from the start after the last.
    """
    own = questions[place].raw_answer or ""
    after = [*questions[place + 1 :], *questions[:place]]
    differing = [one for one in after if one.raw_answer and not _are_equal(one.raw_answer, own)]
    kind = _kind(own)
    ordered = sorted(differing, key=lambda one: _kind(one.raw_answer or "") != kind)
    return tuple(_others(ordered))


def _others(questions: Sequence[Question]) -> Iterator[OtherAnswer]:
    seen: set[str] = set()
    for one in questions:
        answer = one.raw_answer or ""
        if plain_words(answer) not in seen:
            seen.add(plain_words(answer))
            yield OtherAnswer(question_id=one.id, question=one.question, answer=answer)
        if len(seen) == _MOST_OTHERS:
            return


def _are_equal(one: str, other: str) -> bool:
    if _kind(one) == _kind(other) == "number":
        return numbers_in(one) == numbers_in(other)
    if _kind(one) == _kind(other) == "boolean":
        return boolean_in(one) is boolean_in(other)
    return plain_words(one) == plain_words(other)


def _kind(answer: str) -> str:
    if boolean_in(answer) is not None:
        return "boolean"
    if date_of(answer) is not None:
        return "date"
    words = plain_words(answer).split()
    return "number" if len(numbers_in(answer)) == 1 and len(words) <= 2 else "text"
