"""Jury statistics: pass rates of the jury and each judge, their agreement, and what escalation saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from karenina_engine.cost.price_source import to_dollars
from karenina_engine.results.rates import Rate, pass_rate, rate
from karenina_jury.jury_result import JudgeVote, JuryRecord, read_record

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult


class JudgeStatistics(BaseModel, defer_build=True):
    """The statistics of one judge in a jury, over the answers that it was asked about.

    `pass_rate` is the rate of the judge's own verdicts, and `agrees` the share of them that equal the jury's. `decides`
    is True for the judge that is asked only after the vote.
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
    """The statistics of one jury and answering model.

    `unanimous` is the share of answers on which all first judges (those that vote) agree, `fields` the same by field
    (or for the outcome or verdict) of the answers with a vote, and `escalated` the share of answers for which the judge
    `escalate_to` was asked. `saved_calls` and `saved_tokens` estimate what that judge would have used for the other
    answers, from its mean usage; `saved_usd` is their cost, None if unknown.
    """

    model_config = ConfigDict(frozen=True)

    jury: str
    answering: str
    answers: int
    not_judged: int
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
    results: Iterable[VerificationResult], cost_per_call: Mapping[str, float] | None = None
) -> list[JuryStatistics]:
    """Return the statistics of each jury and answering model in the results.

    `cost_per_call` has the mean cost of a call in US dollars by judge id. Results of single judges are ignored.
    """
    groups: dict[tuple[str, str], list[tuple[VerificationResult, JuryRecord]]] = {}
    for result in results:
        record = read_record(result)
        if record is not None:
            key = result.metadata.parsing_id, result.metadata.answering_id
            groups.setdefault(key, []).append((result, record))
    return [_describe(*names, group, cost_per_call or {}) for names, group in groups.items()]


def mean_call_costs(source: Path) -> dict[str, float]:
    """Return the mean cost of a call in US dollars by model id, from the journal of a result file.

    Models with calls of unknown price are left out. The result is empty if there is no readable journal.
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
) -> JuryStatistics:
    escalate_to = next((record.escalate_to for _, record in answers if record.escalate_to), None)
    escalated = rate((result.question_id, record.escalated is not None) for result, record in answers)
    judges = _judges(answers)
    strong = next((one for one in judges if one.judge == escalate_to), None)
    per_answer = (strong.calls / strong.asked, strong.tokens / strong.asked) if strong is not None else (0.0, 0.0)
    spared = escalated.out_of - escalated.hits if escalate_to is not None else 0
    cost = costs.get(escalate_to) if escalate_to is not None and strong is not None else None
    names = dict.fromkeys(name for _, record in answers for name, share in record.agreement.items() if share)
    return JuryStatistics(
        jury=jury,
        answering=answering,
        answers=len(answers),
        not_judged=sum(not result.outcome.judged for result, _ in answers),
        pass_rate=pass_rate((result.question_id, result.outcome) for result, _ in answers),
        judges=judges,
        unanimous=rate((result.question_id, record.unanimous) for result, record in answers),
        fields={
            name: rate(
                (result.question_id, record.agreement[name] == 1)
                for result, record in answers
                if record.agreement.get(name)
            )
            for name in names
        },
        escalate_to=escalate_to,
        escalated=escalated,
        saved_calls=round(per_answer[0] * spared),
        saved_tokens=round(per_answer[1] * spared),
        saved_usd=cost * per_answer[0] * spared if cost is not None else None,
    )


def _judges(answers: Sequence[tuple[VerificationResult, JuryRecord]]) -> list[JudgeStatistics]:
    """Return the statistics of the judges: first those that vote, then the one that is asked after the vote."""
    votes: dict[tuple[bool, str], list[tuple[VerificationResult, JudgeVote]]] = {}
    for result, record in answers:
        for vote in record.judges:
            votes.setdefault((vote.decides, vote.judge), []).append((result, vote))
    return [_judge(judge, found, decides=decides) for (decides, judge), found in sorted(votes.items(), key=_first)]


def _first(entry: tuple[tuple[bool, str], object]) -> bool:
    return entry[0][0]


def _judge(judge: str, votes: Sequence[tuple[VerificationResult, JudgeVote]], *, decides: bool) -> JudgeStatistics:
    with_verdict = [(result, vote) for result, vote in votes if vote.verdict is not None]
    return JudgeStatistics(
        judge=judge,
        model=votes[0][1].model,
        decides=decides,
        asked=len(votes),
        failed=sum(vote.outcome.group == "not_judged" for _, vote in votes),
        pass_rate=pass_rate((result.question_id, vote.outcome) for result, vote in votes),
        agrees=rate(
            (result.question_id, vote.verdict == result.template.verify_result)
            for result, vote in with_verdict
            if result.outcome.has_verdict
        ),
        calls=sum(vote.calls for _, vote in votes),
        tokens=sum(vote.input_tokens + vote.output_tokens for _, vote in votes),
    )
