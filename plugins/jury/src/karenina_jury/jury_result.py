"""Jury results, and statistics about them.

The statistics are pass rates, the agreement between judges, and the savings from escalation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict

from karenina_core.data.outcome import Outcome
from karenina_engine.cost.price_source import to_dollars
from karenina_engine.results.question_units import unit_of_result
from karenina_engine.results.rates import Rate, pass_rate, rate
from karenina_jury.votes import OUTCOME
from karenina_toolkit.conversations import read_conversation

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import VerificationResultTemplate
    from karenina_jury.votes import Ballot
    from karenina_template.templates import BoundTemplate


EXTENSION: Final = "karenina-jury"


class JudgeVote(BaseModel, defer_build=True):
    """The vote of one judge.

    `verdict` is None if the judge failed or is undecided. `decides` is True if the judge was asked after the vote.
    `calls`, `input_tokens` and `output_tokens` are the judge's usage for this answer.
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

    @property
    def was_asked(self) -> bool:
        """Whether there was something to judge: an answer and a valid template."""
        return self.outcome is not Outcome.MODEL_ERROR and self.outcome is not Outcome.TEMPLATE_ERROR

    @property
    def is_on_fields(self) -> bool:
        """Whether the judge voted on fields: it did not fail, and no check failed the answer."""
        return self.outcome.group not in ("not_judged", "failed") or self.outcome is Outcome.TRUNCATED


class JuryRecord(BaseModel, defer_build=True):
    """The votes of a jury on an answer. The record is stored in the result as the extension `karenina-jury`.

    The voting judges come first in `judges`. `agreement` maps each field, or the outcome or verdict, to the share of
    voting judges that cast the most frequent vote. `escalate_to` is the judge that may be asked after the vote.
    `escalated` is the reason for asking it, or None if it was not asked. `undecided` is the reason why the answer has
    no verdict, or None if it has one.
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
        """Whether votes were counted and all voting judges agreed on everything."""
        return bool(self.agreement) and min(self.agreement.values()) == 1

    @property
    def was_asked(self) -> bool:
        """Whether there was something to judge."""
        return any(vote.was_asked for vote in self.judges)

    def agrees_on(self, name: str) -> bool | None:
        """Return whether all voting judges agreed on a field, the outcome or the verdict, or None if none voted on it.

        Votes on fields are only counted after a vote on the outcome, which is not recorded then.
        """
        share = self.agreement.get(name)
        if name == OUTCOME and share is None and self.agreement and self.vote == "field":
            return all(vote.is_on_fields for vote in self.judges if not vote.decides)
        return share == 1 if share else None


def read_record(result: VerificationResult) -> JuryRecord | None:
    """Return the jury's record, or None if the result comes from a single judge or its record is invalid."""
    record = result.extensions.get(EXTENSION)
    if record is None:
        return None
    try:
        return JuryRecord.model_validate(record)
    except ValueError:
        return None


def make_vote(ballot: Ballot, *, decides: bool = False) -> JudgeVote:
    """Make the record of a ballot. `decides` is True if the judge was asked after the vote."""
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
    """Return a copy of `base` with the majority's `values`, which no single judge may have extracted, and a new verdict
    based on them: None if undecided, and False if one of the template's regular expressions failed, or if the values
    cannot be compared with the ground truth, in which case the error is recorded.
    """
    from karenina_template.templates.comparison import Comparison  # not loaded to show a jury's results
    from karenina_template.turns import read_turns

    everything = {**(base.template.parsed_llm_response or {}), **values}
    judged = {name: everything.get(name) for name in bound.judge_fields}
    answer = bound.bind(judged, base.template.raw_llm_response, base.template.known_values or {})
    conversation = read_conversation(base)
    if conversation is not None:
        read_turns(bound, answer, conversation)
    comparison = Comparison(answer)
    fields: dict[str, Any] = {"parsed_llm_response": bound.extracted(answer)}
    try:
        passed = comparison.passed()
        decided = passed is not None or base.template.regex_overall_success is False
        granular = comparison.granular() if decided and bound.is_graded else None
        fields |= {"field_results": comparison.results() or None, "field_scores": comparison.scores() or None}
        why = None if decided else comparison.why_undecided()
        fields |= {"verify_granular_result": granular, "field_verification_error": why}
    except Exception as error:  # code in a template class may raise anything
        passed, granular = False, None
        fields |= {"field_results": None, "field_scores": None, "verify_granular_result": None}
        fields |= {"field_verification_error": f"{type(error).__name__}: {error}"}
    verdict = False if base.template.regex_overall_success is False else passed
    template = base.template.model_copy(update={**fields, "verify_result": verdict})
    return base.model_copy(update={"template": template, "outcome": _outcome(template, verdict, granular)})


def _outcome(template: VerificationResultTemplate, verdict: bool | None, granular: object) -> Outcome:
    """Return the outcome for a verdict. If the verdict is None, the outcome is undecided. A wrong answer counts as
    truncated if the response was cut off. Otherwise, it counts as partial if the score `granular` is greater than 0.
    """
    if verdict is None:
        return Outcome.UNDECIDED
    if verdict:
        return Outcome.CORRECT
    if template.response_truncated:
        return Outcome.TRUNCATED
    partly = isinstance(granular, int | float) and granular > 0
    return Outcome.PARTIAL if partly else Outcome.WRONG


class JudgeStatistics(BaseModel, defer_build=True):
    """One judge's votes on the answers that it was asked about.

    `pass_rate` is based on the judge's own verdicts. `agrees` is the share of answers with the same verdict as the
    jury's, among the answers for which both have a verdict. `decides` is True for a judge that is only asked after the
    vote.
    """

    model_config = ConfigDict(frozen=True)

    judge: str
    model: str
    decides: bool
    asked: int
    failed: int
    pass_rate: Rate
    agrees: Rate
    calls: int
    tokens: int


class JuryStatistics(BaseModel, defer_build=True):
    """One jury's votes on the answers of one model.

    `not_judged` is the number of answers without a verdict, and `failed` of those that are not undecided. For `unasked`
    of these, no judge was asked, because there was no answer or no valid template. They are in none of the shares.
    `unanimous` is the share of answers on which all voting judges agree. `fields` gives this share for each field,
    outcome or verdict, among the answers with a vote on it. `escalated` is the share of answers for which the judge
    `escalate_to` was asked. `saved_calls` and `saved_tokens` estimate this judge's usage if it had been asked for the
    other answers too. `saved_usd` is the cost of these calls, or None if it is unknown.
    """

    model_config = ConfigDict(frozen=True)

    jury: str
    answering: str
    answers: int
    not_judged: int
    failed: int
    unasked: int = 0
    pass_rate: Rate
    judges: list[JudgeStatistics]
    unanimous: Rate
    fields: dict[str, Rate]
    escalate_to: str | None
    escalated: Rate
    saved_calls: int = 0
    saved_tokens: int = 0
    saved_usd: float | None = None


def describe_juries(
    results: Iterable[VerificationResult],
    cost_per_call: Mapping[str, float] | None = None,
    unit_of: Callable[[VerificationResult], Hashable] = unit_of_result,
) -> list[JuryStatistics]:
    """Compute the statistics for each jury and answering model. Results of single judges are ignored. `cost_per_call`
    maps the IDs of judges to their mean cost per call in US dollars. `unit_of` returns a result's statistical unit.
    """
    groups: dict[tuple[str, str], list[tuple[VerificationResult, JuryRecord]]] = {}
    for result in results:
        record = read_record(result)
        if record is not None:
            key = result.metadata.parsing_id, result.metadata.answering_id
            groups.setdefault(key, []).append((result, record))
    return [_describe(*names, group, cost_per_call or {}, unit_of) for names, group in groups.items()]


def mean_call_costs(source: Path) -> dict[str, float]:
    """Return the mean cost per call in US dollars, by model ID, from a result file's journal. Models with any call of
    unknown price are omitted. If there is no readable journal, the result is empty.
    """
    from karenina_engine.journal.file import JournalError
    from karenina_engine.journal.view import JournalView
    from karenina_report.runs import find_journal

    journal = find_journal(source)
    if journal is None:
        return {}
    sums: dict[str, tuple[int, int, int]] = {}
    try:
        with JournalView(journal) as view:
            for line in view.spent():
                calls, cost, unknown = sums.get(line.model, (0, 0, 0))
                spent = line.spent
                sums[line.model] = calls + spent.calls, cost + spent.cost, unknown + spent.unpriced
    except JournalError:
        return {}
    return {id: float(to_dollars(cost)) / calls for id, (calls, cost, unknown) in sums.items() if calls and not unknown}


def _describe(
    jury: str,
    answering: str,
    answers: Sequence[tuple[VerificationResult, JuryRecord]],
    costs: Mapping[str, float],
    unit_of: Callable[[VerificationResult], Hashable],
) -> JuryStatistics:
    """Compute the statistics for one jury and answering model. `costs` maps the IDs of judges to their mean cost per
    call in US dollars, and `unit_of` returns a result's statistical unit. The savings are 0 if the judge `escalate_to`
    was never asked.
    """
    escalate_to = next((record.escalate_to for _, record in answers if record.escalate_to), None)
    asked = [(result, record) for result, record in answers if record.was_asked]
    escalated = rate((unit_of(result), record.escalated is not None) for result, record in asked)
    judges = _judges(answers, unit_of)
    strong = next((judge for judge in judges if judge.judge == escalate_to), None)
    per_answer = (strong.calls / strong.asked, strong.tokens / strong.asked) if strong is not None else (0.0, 0.0)
    spared = escalated.out_of - escalated.hits if escalate_to is not None else 0
    cost = costs.get(escalate_to) if escalate_to is not None and strong is not None else None
    names = dict.fromkeys(name for _, record in answers for name, share in record.agreement.items() if share)
    return JuryStatistics(
        jury=jury,
        answering=answering,
        answers=len(answers),
        not_judged=sum(not result.outcome.judged for result, _ in answers),
        failed=sum(result.outcome.group == "not_judged" for result, _ in answers),
        unasked=len(answers) - len(asked),
        pass_rate=pass_rate((unit_of(result), result.outcome) for result, _ in answers),
        judges=judges,
        unanimous=rate((unit_of(result), record.unanimous) for result, record in asked),
        fields={
            name: rate(
                (unit_of(result), agreed)
                for result, record in answers
                if (agreed := record.agrees_on(name)) is not None
            )
            for name in names
        },
        escalate_to=escalate_to,
        escalated=escalated,
        saved_calls=round(per_answer[0] * spared),
        saved_tokens=round(per_answer[1] * spared),
        saved_usd=cost * per_answer[0] * spared if cost is not None else None,
    )


def _judges(
    answers: Sequence[tuple[VerificationResult, JuryRecord]], unit_of: Callable[[VerificationResult], Hashable]
) -> list[JudgeStatistics]:
    """Compute the statistics for each judge, with the results' units from `unit_of`. The voting judges come first."""
    votes: dict[tuple[bool, str], list[tuple[VerificationResult, JudgeVote]]] = {}
    for result, record in answers:
        for vote in record.judges:
            if vote.was_asked:
                votes.setdefault((vote.decides, vote.judge), []).append((result, vote))
    return [
        _judge(judge, judge_votes, unit_of, decides=decides)
        for (decides, judge), judge_votes in sorted(votes.items(), key=_voters_first)
    ]


def _voters_first(entry: tuple[tuple[bool, str], object]) -> bool:
    """Return a sort key that puts the voting judges before the deciding judge."""
    return entry[0][0]


def _judge(
    judge: str,
    votes: Sequence[tuple[VerificationResult, JudgeVote]],
    unit_of: Callable[[VerificationResult], Hashable],
    *,
    decides: bool,
) -> JudgeStatistics:
    """Return the statistics for one judge. `votes` contains pairs of a result and the judge's vote, and must not be
    empty. `unit_of` returns a result's statistical unit. `decides` is True if the judge was asked after the vote.
    """
    with_verdict = [(result, vote) for result, vote in votes if vote.verdict is not None]
    return JudgeStatistics(
        judge=judge,
        model=votes[0][1].model,
        decides=decides,
        asked=len(votes),
        failed=sum(vote.outcome.group == "not_judged" for _, vote in votes),
        pass_rate=pass_rate((unit_of(result), vote.outcome) for result, vote in votes),
        agrees=rate(
            (unit_of(result), vote.verdict == result.template.verify_result)
            for result, vote in with_verdict
            if result.outcome.has_verdict
        ),
        calls=sum(vote.calls for _, vote in votes),
        tokens=sum(vote.input_tokens + vote.output_tokens for _, vote in votes),
    )
