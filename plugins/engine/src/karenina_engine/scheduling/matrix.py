"""The matrix of a run: question x answering model x replicate are answers, and each judge of an answer is an item.

The order of the answers is that of the questions; all answers to one question stand together, then come those of the
next. A judge's prompt begins alike for all of them (its instructions, the template's schema, the question), and a
provider keeps the beginning of a prompt for some minutes: so the calls that share one follow one another. That they
also leave in this order, whatever the answering models' speed, is because a call that waits for a place goes before
those of later items (`karenina_engine.calls.concurrency_limits`). It also ends items that were begun before it begins
others: the first results come early.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from karenina_engine.journal.tasks import AnswerTask

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.models.model import ModelConfig


@dataclass(frozen=True, slots=True)
class Matrix:
    """All items of a run, never held at once."""

    questions: Sequence[Question]
    config: VerificationConfig

    @property
    def judges(self) -> tuple[ModelConfig | None, ...]:
        """The judges of each answer."""
        return self.config.core.parsing_models or (None,)

    def __len__(self) -> int:
        return len(self.questions) * self.per_question

    @property
    def per_question(self) -> int:
        """How many items there are of each question."""
        core = self.config.core
        return len(core.answering_models) * core.replicate_count * len(self.judges)

    def __iter__(self) -> Iterator[AnswerTask]:
        core = self.config.core
        judges, orders = self.judges, count()
        for question in self.questions:
            for model in core.answering_models:
                for replicate in range(1, core.replicate_count + 1):
                    yield AnswerTask(question, model, replicate, judges, next(orders))

    @property
    def answers(self) -> int:
        """How many answers there are."""
        return len(self) // len(self.judges)

    def part(self, orders: Iterable[int]) -> Iterator[AnswerTask]:
        """The answers of these orders, which ascend. No other question is read."""
        models, replicates = self.config.core.answering_models, self.config.core.replicate_count
        at, question = -1, None
        for order in orders:
            which, place = divmod(order, len(models) * replicates)
            if question is None or which != at:
                at, question = which, self.questions[which]
            model, replicate = divmod(place, replicates)
            yield AnswerTask(question, models[model], replicate + 1, self.judges, order)
