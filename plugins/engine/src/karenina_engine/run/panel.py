"""Panels: several judges of the same answer, whose results are combined into a single result.

In the matrix of a run, a panel takes the place of the judges: each answer has one item, named after the panel. To
produce its result, the panel lets any of its judges evaluate the answer, concurrently or one at a time. These are
ordinary calls of the judges: they are limited, paid for, stored in the journal, and reused when the run is resumed,
replayed or rescored. The judges' results are only parts of the panel's result, so that no answer is counted twice in a
denominator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import ModelIdentity, VerificationResultTemplate
from karenina_core.models.ports import Usage
from karenina_engine.calls.call import PanelModel

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig

__all__ = ["Panel", "PanelAnswer", "PanelModel", "not_judged"]

_COUNTS: Final = (*(field.name for field in fields(Usage)), "total_tokens")


@dataclass(frozen=True, slots=True)
class PanelAnswer:
    """An answer to be evaluated by a panel.

    `ask` lets a judge evaluate the answer, and returns the result that this judge would give alone. The first
    `answer_stages` stages of each result are those of the answer, which ran once for all judges. `trust` determines
    which of the question's code may run.
    """

    question: Question
    trust: Trust
    answer_stages: int
    ask: Callable[[ModelConfig], Awaitable[VerificationResult]]

    def result_of(
        self, model: PanelModel, base: VerificationResult, asked: Sequence[VerificationResult]
    ) -> VerificationResult:
        """Return `base` as the result of the panel `model`, including the calls, stages and time of all results
        in `asked`.

        `base` is a result in `asked`, a changed copy of one, or a result returned by `not_judged`. `asked` must not be
        empty. The answer's calls, stages and time, which the results share, are counted once.
        """
        answered = sum(record.seconds for record in base.stages[: self.answer_stages])
        ids = "\x1f".join(result.metadata.result_id for result in asked)
        judging = sum(max(0.0, result.metadata.execution_time - answered) for result in asked)
        metadata = base.metadata.model_copy(
            update={
                "parsing_id": model.id,
                "parsing": ModelIdentity(interface=model.interface, model_name=model.model_name),
                "parsing_system_prompt": None,
                "result_id": sha256(ids.encode()).hexdigest()[:16],
                "execution_time": answered + judging,
                "timestamp": max(result.metadata.timestamp for result in asked),
            }
        )
        first = asked[0].stages[: self.answer_stages]
        return base.model_copy(
            update={
                "metadata": metadata,
                "template": base.template.model_copy(update={"usage_metadata": _usage(asked)}),
                "stages": [*first, *(stage for result in asked for stage in result.stages[self.answer_stages :])],
            }
        )


class Panel(Protocol):
    """A panel of judges, which evaluates many answers concurrently. Its results contain the id and names of `model`."""

    @property
    def model(self) -> PanelModel:
        """The model that represents the panel in place of a judge."""

    async def evaluate(self, answer: PanelAnswer) -> VerificationResult:
        """Return the panel's result for an answer, built by `answer.result_of`.

        Implementations may let exceptions from `answer.ask` propagate.
        """


def not_judged(base: VerificationResult, why: str, outcome: Outcome = Outcome.PARSE_ERROR) -> VerificationResult:
    """Return a copy of `base` with the given outcome and without verdict, scores, vetoes or revisions, because the
    panel could not judge the answer.

    The answer, the known values and the ground truth are kept. `why` becomes the item's error.
    """
    kept = ("raw_llm_response", "trace_messages", "parsed_gt_response", "known_values")
    values = {name: getattr(base.template, name) for name in kept}
    metadata = base.metadata.model_copy(update={"completed_without_errors": False, "error": why})
    return base.model_copy(
        update={
            "metadata": metadata,
            "outcome": outcome,
            "template": VerificationResultTemplate(**values),
            "rubric": None,
            "deep_judgment": None,
            "deep_judgment_rubric": None,
            "vetoes": [],
            "revisions": [],
        }
    )


def _usage(results: Sequence[VerificationResult]) -> dict[str, dict[str, Any]] | None:
    """Return the usage of the answer and the totals over the judges, or None if no result has any usage."""
    usage: dict[str, dict[str, Any]] = {}
    for result in results:
        for name, part in (result.template.usage_metadata or {}).items():
            if name == "total":
                continue
            if name not in usage:
                usage[name] = dict(part)
            elif part.get("scope") == "item":
                usage[name] |= {count: usage[name].get(count, 0) + part.get(count, 0) for count in _COUNTS}
    if not usage:
        return None
    return {**usage, "total": {count: sum(part.get(count, 0) for part in usage.values()) for count in _COUNTS}}
