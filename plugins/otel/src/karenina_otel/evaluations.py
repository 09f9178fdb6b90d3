"""A result's evaluations: one for the verdict, and one for each trait score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from karenina_core.data.outcome import Outcome
from karenina_otel.conventions import (
    ERROR_TYPE,
    EVALUATION_EXPLANATION,
    EVALUATION_LABEL,
    EVALUATION_NAME,
    EVALUATION_VALUE,
    Value,
    clean_attributes,
)

if TYPE_CHECKING:
    from karenina_core import VerificationResult
    from karenina_core.data.sections import VerificationResultRubric

CORRECTNESS: Final = "correctness"
"""The name of the verdict's evaluation. Its value is 1 or 0 (none without a verdict), its label the item's outcome."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One verdict or score. If an error prevented it, `error` is the kind of error."""

    name: str
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    error: str | None = None

    def attributes(self) -> dict[str, Value]:
        """Return the attributes of the evaluation event, as the conventions define them."""
        return clean_attributes(
            {
                EVALUATION_NAME: self.name,
                EVALUATION_VALUE: self.value,
                EVALUATION_LABEL: self.label,
                EVALUATION_EXPLANATION: self.explanation,
                ERROR_TYPE: self.error,
            }
        )


def evaluations(result: VerificationResult, *, content: bool) -> Iterator[Evaluation]:
    """Yield all evaluations of a result.

    Without `content`, explanations contain only the names of stages, fields and traits; they quote no answer, judge or
    error message, and scores have no explanation.
    """
    if result.outcome is not Outcome.SCORED:
        verdict = result.template.verify_result if result.outcome.judged else None
        yield Evaluation(
            CORRECTNESS,
            value=None if verdict is None else float(verdict),
            label=result.outcome.value,
            explanation=result.why() if content else _why_without_content(result),
            error=None if result.outcome.judged else result.outcome.value,
        )
    if result.rubric is not None:
        labels = {**result.rubric.labels(), **_from_extensions(result, "trait_labels")}
        deep = (result.deep_judgment_rubric and result.deep_judgment_rubric.rubric_trait_reasoning) or {}
        reasons = {
            **deep,
            **result.rubric.reasons(),
            **_from_extensions(result, "trait_reasoning"),
            **(result.rubric.trait_errors or {}),
        }
        yield from _scores(result.rubric, labels, reasons if content else {})


def _why_without_content(result: VerificationResult) -> str:
    failed = [record.name for record in result.stages if record.status == "failed"]
    if result.metadata.error:
        return f"{', '.join(failed) or 'the item'} failed"
    if result.vetoes:
        return "; ".join(f"{veto.stage} vetoed" for veto in result.vetoes)
    if result.outcome is Outcome.UNDECIDED:
        return f"undecided: {', '.join(result.undecided_fields()) or 'verify()'}"
    if result.template.field_verification_error:
        return "verify() failed"
    if result.outcome is Outcome.RUBRIC_ERROR:
        names = ", ".join((result.rubric and result.rubric.trait_errors) or ()) or "some"
        return f"traits that could not be scored: {names}"
    return result.why()


def _from_extensions(result: VerificationResult, field: str) -> dict[str, str]:
    """Return, by trait, the entries of result extensions whose names end in `field`."""
    return {
        str(trait): str(text)
        for section in result.extensions.values()
        for name, entries in section.items()
        if name.endswith(field) and isinstance(entries, Mapping)
        for trait, text in entries.items()
    }


def _scores(
    rubric: VerificationResultRubric, labels: Mapping[str, str], reasons: Mapping[str, str]
) -> Iterator[Evaluation]:
    errors = rubric.trait_errors or {}
    scores = rubric.get_all_trait_scores()
    metrics = rubric.metric_trait_scores or {}
    for name in dict.fromkeys((*scores, *errors)):
        score, reason = scores.get(name), reasons.get(name)
        if name in metrics and isinstance(score, dict):
            for metric, value in score.items():
                yield Evaluation(f"{name}.{metric}", float(value), explanation=reason)
            continue
        value, label = _value(score)
        failed = score is None and name in errors
        yield Evaluation(name, value, labels.get(name, label), reason, "trait_error" if failed else None)


def _value(score: Any) -> tuple[float | None, str | None]:
    """Return a score's number and label. A score with several fields (of a trait with a template) has neither."""
    if isinstance(score, bool):
        return float(score), str(score).lower()
    if isinstance(score, (int, float)):
        return float(score), None
    return None, None
