"""The matrix of a run: all of its answers and items.

Each combination of question, answering model and replicate is an answer, and each of its judges has an item.

Answers are ordered by question, because a judge's prompts for the same question start with the same text (instructions,
the template's schema, the question). Providers cache the start of a prompt for some minutes, so these calls should be
made close together. Calls keep this order even if answering models differ in speed, since calls of earlier items go
first (`karenina_engine.calls.concurrency_limits`). Items that have started also finish before others start, so the
first results come early.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from karenina_core.data.result import ItemId

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.models.model import ModelConfig
    from karenina_core.pipeline import Pipeline
    from karenina_engine.check.attachments import AttachmentCheck
    from karenina_engine.check.planner import QuestionPipelines
    from karenina_engine.run.panel import Panel
    from karenina_template.rules import RuleLines


@dataclass(slots=True)
class AnswerTask:
    """An answer to generate, with its judges. If there is no judge, `judges` contains a single None.

    `pipeline` contains the question's plan. `order` is the answer's index in the run.
    """

    question: Question
    pipeline: Pipeline
    answering_model: ModelConfig
    replicate: int
    judges: tuple[ModelConfig | None, ...]
    order: int = 0

    def index(self, judge: int) -> int:
        """Return the index of the given judge's item in the run."""
        return self.order * len(self.judges) + judge

    def item(self, judge: int) -> ItemId:
        """Return the key that identifies the given judge's item in results."""
        model = self.judges[judge]
        return ItemId.of(self.question.id, self.answering_model.id, model.id if model else None, self.replicate)


class IndexedResult(NamedTuple):
    """A result with the index of its item in the matrix (`place`, from 0).

    `text` is the result as stored in the journal, or None if there is no journal. It is also used for the result file,
    so that the result is only serialized once.
    """

    place: int
    result: VerificationResult
    text: str | None = None


def judges_of(config: VerificationConfig, panel: Panel | None) -> tuple[ModelConfig | None, ...]:
    """Return the judges of each answer: the panel, if there is one, or else the configured judges. If there are no
    judges, returns a single None.
    """
    return (panel.model,) if panel is not None else config.core.parsing_models or (None,)


@dataclass(frozen=True, slots=True)
class Matrix:
    """All items of a run, computed during iteration. If there is a `panel`, it takes the place of the judges.

    `attachments` is the check of the files that the questions attach, and `rules` describes their templates.
    `repeated` contains the number of questions in each statistical unit with several questions.
    """

    questions: Sequence[Question]
    config: VerificationConfig
    pipelines: QuestionPipelines
    panel: Panel | None = None
    attachments: AttachmentCheck | None = None
    rules: RuleLines | None = None
    repeated: Mapping[Hashable, int] = field(default_factory=dict)

    @property
    def judges(self) -> tuple[ModelConfig | None, ...]:
        """The judges of each answer."""
        return judges_of(self.config, self.panel)

    def __len__(self) -> int:
        """Return the number of items, which is the number of answers times the number of judges."""
        return len(self.questions) * self.per_question

    @property
    def per_question(self) -> int:
        """The number of items for each question."""
        core = self.config.core
        return len(core.answering_models) * core.replicate_count * len(self.judges)

    def __iter__(self) -> Iterator[AnswerTask]:
        """Yield all answers, ordered by question, model and replicate."""
        core = self.config.core
        judges, orders = self.judges, count()
        for question, pipeline in zip(self.questions, self.pipelines, strict=True):
            for model in core.answering_models:
                for replicate in range(1, core.replicate_count + 1):
                    yield AnswerTask(question, pipeline, model, replicate, judges, next(orders))

    @property
    def answers(self) -> int:
        """The number of answers in the run."""
        return len(self) // len(self.judges)

    def part(self, orders: Iterable[int]) -> Iterator[AnswerTask]:
        """Yield the answers with the given orders, which must be ascending. Other questions are not read."""
        models, replicates = self.config.core.answering_models, self.config.core.replicate_count
        at, question = -1, None
        for order in orders:
            which, place = divmod(order, len(models) * replicates)
            if question is None or which != at:
                at, question = which, self.questions[which]
            model, replicate = divmod(place, replicates)
            yield AnswerTask(question, self.pipelines[which], models[model], replicate + 1, self.judges, order)
