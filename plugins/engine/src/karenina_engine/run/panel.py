"""Panels: several judges of the same answer, combined into one result.

In the matrix, a panel takes the place of the judges, so each answer has a single item named after the panel. The panel
may have any of its judges evaluate the answer. Their calls are ordinary calls: they are limited, paid for, stored, and
reused when the run is resumed, replayed or rescored. The judges' own results are only parts of the panel's result, so
that no answer counts twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import ModelIdentity, VerificationResultTemplate
from karenina_core.models.ports import REPORTED_COUNTS
from karenina_engine.calls.call import PanelModel

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig

__all__ = ["Panel", "PanelAnswer", "PanelModel", "not_judged"]


@dataclass(frozen=True, slots=True)
class PanelAnswer:
    """An answer for a panel to evaluate.

    `ask` has a judge evaluate the answer, and returns the result that this judge alone would give. In each result, the
    first `answer_stages` stages belong to the answer and only ran once. `trust` determines which of the question's code
    may run.
    """

    question: Question
    trust: Trust
    answer_stages: int
    ask: Callable[[ModelConfig], Awaitable[VerificationResult]]

    def result_of(
        self, model: PanelModel, base: VerificationResult, asked: Sequence[VerificationResult]
    ) -> VerificationResult:
        """Return a copy of `base` as the result of the panel `model`, with the calls, stages and time of all results in
        `asked`, of which there must be at least one. What these have in common, such as the calls for the answer, is
        only counted once.

        `base` can be one of these results, a changed copy of one, or a result from `not_judged`.
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
    """A panel of judges that evaluates many answers concurrently. Results contain the id and names of `model`."""

    @property
    def model(self) -> PanelModel:
        """The model that represents the panel where a judge is expected."""

    async def evaluate(self, answer: PanelAnswer) -> VerificationResult:
        """Evaluate an answer, and return the panel's result. Use `answer.result_of` to build the result.

        There is no need to handle exceptions from `answer.ask`.
        """


def not_judged(base: VerificationResult, why: str, outcome: Outcome = Outcome.PARSE_ERROR) -> VerificationResult:
    """Return a copy of `base` for an answer that the panel could not judge: with the given outcome, `why` as its error,
    and no verdict, scores, vetoes or revisions. The answer, the known values and the ground truth are kept.
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
    """Return the usage of a panel by name and in total: that of the answer, which all results share, once, and that of
    all judges together. Returns None if there was no usage.
    """
    usage: dict[str, dict[str, Any]] = {}
    for result in results:
        for name, part in (result.template.usage_metadata or {}).items():
            if name == "total":
                continue
            if name not in usage:
                usage[name] = dict(part)
            elif part.get("scope") == "item":
                usage[name] |= {count: usage[name].get(count, 0) + part.get(count, 0) for count in REPORTED_COUNTS}
    if not usage:
        return None
    return {**usage, "total": {count: sum(part.get(count, 0) for part in usage.values()) for count in REPORTED_COUNTS}}
