"""The answers of which the matrix of a run consists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_core.data.item_id import ItemId

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

    def item(self, judge: int) -> ItemId:
        """Return the key of a judge's item, as in its result."""
        model = self.judges[judge]
        return ItemId.of(self.question.id, self.answering_model.id, model.id if model else None, self.replicate)
