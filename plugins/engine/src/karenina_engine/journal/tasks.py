"""The answers of which the matrix of a run consists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.models.model import ModelConfig


@dataclass(slots=True)
class AnswerTask:
    """One answer to get, and its judges (one None if the run has no judge).

    `order` is its index among the answers of the run, in the order of the benchmark and the configuration.
    """

    question: Question
    answering_model: ModelConfig
    replicate: int
    judges: tuple[ModelConfig | None, ...]
    order: int = 0

    def index(self, judge: int) -> int:
        """Return the index of a judge's item among all items of the run."""
        return self.order * len(self.judges) + judge

    def item(self, judge: int) -> tuple[str, str, str, int]:
        """Return the id of a judge's item, as in its result: without a judge, the answering model takes its place."""
        model = self.judges[judge] or self.answering_model
        return self.question.id, self.answering_model.id, model.id, self.replicate
