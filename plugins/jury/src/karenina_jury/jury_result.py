"""Jury results, made from the results of the judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict

from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import ModelIdentity, StageRecord, VerificationResultTemplate
from karenina_core.models.ports import Usage
from karenina_template.templates.comparison import Comparison

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.calls.panel_model import PanelModel
    from karenina_jury.votes import Ballot
    from karenina_template.templates import BoundTemplate

EXTENSION: Final = "karenina-jury"
_COUNTS: Final = (*(one.name for one in fields(Usage)), "total_tokens")


class JudgeVote(BaseModel):
    """The vote of one judge in a jury.

    `verdict` is the judge's own verdict; None if the judge failed or is undecided. `decides` is True if the judge was
    asked after the vote. `calls` and tokens are those of this judge for this answer.
    """

    model_config = ConfigDict(extra="ignore")

    judge: str
    model: str
    outcome: Outcome
    verdict: bool | None = None
    values: dict[str, Any] | None = None
    error: str | None = None
    decides: bool = False
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class JuryRecord(BaseModel):
    """The extension `karenina-jury` of a jury result.

    The first judges are the ones that vote. `agreement` is the share of them with the most frequent vote, by field, or
    for the outcome or verdict. `escalate_to` is the judge that may be asked after the vote, and `escalated` the reason
    why it was asked (None if it was not). `undecided` is the reason why the answer has no verdict (None if it has one).
    """

    model_config = ConfigDict(extra="ignore")

    vote: str
    quorum: int
    judges: list[JudgeVote]
    agreement: dict[str, float] = {}
    escalate_to: str | None = None
    escalated: str | None = None
    undecided: str | None = None

    @property
    def unanimous(self) -> bool:
        """Whether all first judges voted alike."""
        return bool(self.agreement) and min(self.agreement.values()) == 1


def read_record(result: VerificationResult) -> JuryRecord | None:
    """Return the record of a jury result; None for the result of a single judge, and if the record is invalid."""
    found = result.extensions.get(EXTENSION)
    if found is None:
        return None
    try:
        return JuryRecord.model_validate(found)
    except ValueError:
        return None


def make_vote(ballot: Ballot, *, decides: bool = False) -> JudgeVote:
    """Return the record of a ballot. `decides` is True for the judge that was asked after the vote."""
    result = ballot.result
    used = [part for part in (result.template.usage_metadata or {}).values() if part.get("scope") == "item"]
    return JudgeVote(
        judge=ballot.judge,
        model=result.metadata.parsing_model,
        outcome=result.outcome,
        verdict=result.template.verify_result if result.outcome.has_verdict else None,
        values=result.template.parsed_llm_response,
        error=result.why() if result.outcome is Outcome.UNDECIDED else result.metadata.error,
        decides=decides,
        calls=sum(part.get("calls", 0) for part in used),
        input_tokens=sum(part.get("input_tokens", 0) for part in used),
        output_tokens=sum(part.get("output_tokens", 0) for part in used),
    )


def as_jury(
    base: VerificationResult,
    asked: Sequence[Ballot],
    model: PanelModel,
    record: JuryRecord,
    *,
    answer_stages: int,
) -> VerificationResult:
    """Return `base` as the result of the jury, with the stages, calls and tokens of all judges in `asked`.

    The first `answer_stages` stages of each result belong to the answer. They and their time are counted once, those of
    the judges are added up.
    """
    results = [one.result for one in asked]
    answered = sum(record.seconds for record in base.stages[:answer_stages])
    metadata = base.metadata.model_copy(
        update={
            "parsing_id": model.id,
            "parsing": ModelIdentity(interface=model.interface, model_name=model.model_name),
            "parsing_system_prompt": None,
            "result_id": sha256("\x1f".join(one.metadata.result_id for one in results).encode()).hexdigest()[:16],
            "execution_time": answered + sum(max(0.0, one.metadata.execution_time - answered) for one in results),
            "timestamp": max(one.metadata.timestamp for one in results),
        }
    )
    template = base.template.model_copy(update={"usage_metadata": _usage(results)})
    return base.model_copy(
        update={
            "metadata": metadata,
            "template": template,
            "stages": _stages(results, answer_stages),
            "extensions": {**base.extensions, EXTENSION: record.model_dump(mode="json")},
        }
    )


def combined(base: VerificationResult, bound: BoundTemplate, values: Mapping[str, Any]) -> VerificationResult:
    """Return `base` with the majority's `values`, which no single judge extracted, compared with the truth."""
    everything = {**(base.template.parsed_llm_response or {}), **values}
    answer = bound.bind({name: everything.get(name) for name in bound.judge_fields}, base.template.raw_llm_response)
    comparison = Comparison(answer)
    found: dict[str, Any] = {"parsed_llm_response": bound.extracted(answer)}
    try:
        passed = comparison.passed()
        decided = passed is not None or base.template.regex_overall_success is False
        granular = comparison.granular() if decided and bound.is_graded else None
        found |= {"field_results": comparison.results() or None, "field_scores": comparison.scores() or None}
        why = None if decided else comparison.why_undecided()
        found |= {"verify_granular_result": granular, "field_verification_error": why}
    except Exception as error:  # code in a template class may raise anything
        passed, granular = False, None
        found |= {"field_results": None, "field_scores": None, "verify_granular_result": None}
        found |= {"field_verification_error": f"{type(error).__name__}: {error}"}
    verdict = False if base.template.regex_overall_success is False else passed
    template = base.template.model_copy(update={**found, "verify_result": verdict})
    return base.model_copy(update={"template": template, "outcome": _outcome(template, verdict, granular)})


def undecided(base: VerificationResult, why: str, outcome: Outcome = Outcome.PARSE_ERROR) -> VerificationResult:
    """Return `base` as the result of an answer that has no verdict for the reason `why`."""
    kept = {name: getattr(base.template, name) for name in ("raw_llm_response", "trace_messages", "parsed_gt_response")}
    metadata = base.metadata.model_copy(update={"completed_without_errors": False, "error": f"jury: {why}"})
    return base.model_copy(
        update={
            "metadata": metadata,
            "outcome": outcome,
            "template": VerificationResultTemplate(**kept),
            "rubric": None,
            "deep_judgment": None,
            "deep_judgment_rubric": None,
            "vetoes": [],
            "revisions": [],
        }
    )


def _outcome(template: VerificationResultTemplate, verdict: bool | None, granular: object) -> Outcome:
    if verdict is None:
        return Outcome.UNDECIDED
    if verdict:
        return Outcome.CORRECT
    if template.response_truncated:
        return Outcome.TRUNCATED
    partly = isinstance(granular, int | float) and granular > 0
    return Outcome.PARTIAL if partly else Outcome.WRONG


def _stages(results: Sequence[VerificationResult], answer_stages: int) -> list[StageRecord]:
    """Return the stages of the answer once, and then those of each judge."""
    first = results[0].stages[:answer_stages]
    return [*first, *(stage for one in results for stage in one.stages[answer_stages:])]


def _usage(results: Sequence[VerificationResult]) -> dict[str, dict[str, Any]] | None:
    """Return the usage of the answer, and the summed usage of the judges."""
    found: dict[str, dict[str, Any]] = {}
    for result in results:
        for name, part in (result.template.usage_metadata or {}).items():
            if name == "total":
                continue
            if name not in found:
                found[name] = dict(part)
            elif part.get("scope") == "item":
                found[name] |= {count: found[name].get(count, 0) + part.get(count, 0) for count in _COUNTS}
    if not found:
        return None
    return {**found, "total": {count: sum(part.get(count, 0) for part in found.values()) for count in _COUNTS}}
