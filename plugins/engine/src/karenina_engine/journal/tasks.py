"""One answer of a run: what the matrix of a run consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.models.model import ModelConfig


@dataclass(slots=True)
class AnswerTask:
    """One answer to get, and the judges that will look at it (one None where the run has no judge).

    `order` is its place among the answers of the run, from 0, in the order of the benchmark and the configuration.
    """

    question: Question
    answering_model: ModelConfig
    replicate: int
    judges: tuple[ModelConfig | None, ...]
    order: int = 0

    def place(self, judge: int) -> int:
        """The place of a judge's item among all items of the run, from 0."""
        return self.order * len(self.judges) + judge

    def item(self, judge: int) -> tuple[str, str, str, int]:
        """What tells the item of a judge from the others, as in its result: without a judge the model stands there."""
        model = self.judges[judge] or self.answering_model
        return self.question.id, self.answering_model.id, model.id, self.replicate
