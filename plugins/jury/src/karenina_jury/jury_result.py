"""Jury results, made from the results of the judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict

from karenina_core.data.outcome import Outcome
from karenina_template.templates.comparison import Comparison

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import VerificationResultTemplate
    from karenina_jury.votes import Ballot
    from karenina_template.templates import BoundTemplate

EXTENSION: Final = "karenina-jury"


class JudgeVote(BaseModel, defer_build=True):
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


class JuryRecord(BaseModel, defer_build=True):
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


def _outcome(template: VerificationResultTemplate, verdict: bool | None, granular: object) -> Outcome:
    if verdict is None:
        return Outcome.UNDECIDED
    if verdict:
        return Outcome.CORRECT
    if template.response_truncated:
        return Outcome.TRUNCATED
    partly = isinstance(granular, int | float) and granular > 0
    return Outcome.PARTIAL if partly else Outcome.WRONG
