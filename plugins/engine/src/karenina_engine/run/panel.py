"""Panels: several judges of one answer whose results are combined into one.

In the matrix of a run, a panel takes the place of the judges: each answer has one item, named after the panel. To make
its result, the panel lets any of its judges evaluate the answer, concurrently or one at a time. Their calls are
ordinary calls of these judges: limited, paid for, stored in the journal, and found again when the run is resumed,
replayed or rescored. Their results are only parts of the panel's result, so that no denominator counts an answer twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_engine.calls.panel_model import PanelModel


@dataclass(frozen=True, slots=True)
class PanelAnswer:
    """An answer that a panel evaluates.

    `ask` lets one judge evaluate the answer and returns the result that this judge alone would give. The first
    `answer_stages` stages of each result are those of the answer, which ran once for all judges. `trust` says which
    code of the question may run.
    """

    question: Question
    trust: Trust
    answer_stages: int
    ask: Callable[[ModelConfig], Awaitable[VerificationResult]]


class Panel(Protocol):
    """A panel of judges. `model` names its results. One instance evaluates many answers concurrently."""

    @property
    def model(self) -> PanelModel:
        """The model that stands for the panel in the place of a judge."""

    async def evaluate(self, answer: PanelAnswer) -> VerificationResult:
        """Return the result of the panel, whose `item` names `model`. May raise what `answer.ask` raises."""
