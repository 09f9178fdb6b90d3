"""Juries, in which judges vote on an answer and a stronger judge decides if there is no quorum.

1. The first judges evaluate the answer concurrently, each as in a separate run.
2. Their votes are counted: the values of each verified field, or the verdicts (see `votes`).
3. If there is no quorum, or if a judge found no excerpt for a value, the judge `escalate_to` evaluates the answer, and
  its result becomes the jury's result. If there is no such judge, or it fails, the answer is not judged. Undecided
  judges cast no vote on verdicts, but their values count like those of other judges.
4. The result names the jury as its judge and contains every vote (`JuryRecord`).

Calls are made and stored as for single judges. They only depend on the replies, so a run that is resumed, replayed or
rescored makes the same calls. The exception is a vote on verdicts, which depends on the ground truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_engine.calls.call import PanelModel
from karenina_engine.run.panel import not_judged
from karenina_jury.jury_result import EXTENSION, JuryRecord, combined, make_vote
from karenina_jury.votes import Ballot, Count, count_fields, count_verdicts
from karenina_template.question_template import template_of
from karenina_template.templates.primitives import files_of
from karenina_template.templates.shapes.schema import is_reasoning
from karenina_toolkit.stage_support import gather_all

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_core.models.model import ModelConfig
    from karenina_engine.run.panel import PanelAnswer
    from karenina_jury.votes import Jury
    from karenina_template.templates import BoundTemplate

INTERFACE: Final = "jury"


def make_panel(config: VerificationConfig, jury: Jury) -> JuryPanel:
    """Return the jury for a run. Raises `ConfigError` if the run has no templates, if `jury.escalate_to` is not a
    judge, if fewer than two judges vote, or if the quorum is not more than half of the voting judges.
    """
    judges = config.core.parsing_models
    ids = [judge.id for judge in judges]
    if config.core.evaluation_mode == "rubric_only":
        raise ConfigError(
            [
                'a jury votes on templates, but evaluation_mode is "rubric_only"; remove `jury`, or set '
                'evaluation_mode = "template_only"'
            ]
        )
    if jury.escalate_to is not None and jury.escalate_to not in ids:
        raise ConfigError(
            [
                f"jury.escalate_to is {jury.escalate_to!r}, which is not the id of a judge in parsing_models "
                f"(--judge){did_you_mean(jury.escalate_to, ids)}"
            ]
        )
    first = [judge for judge in judges if judge.id != jury.escalate_to]
    others = [judge for judge in judges if judge.id == jury.escalate_to]
    if len(first) < 2:
        besides = " in addition to escalate_to" if others else ""
        raise ConfigError(
            [
                f"a jury needs at least two judges{besides}, but there {'is' if len(first) == 1 else 'are'} only "
                f"{len(first)}; add judges with --judge"
            ]
        )
    usual = len(first) if others else len(first) // 2 + 1
    quorum = usual if jury.quorum is None else jury.quorum
    if not len(first) / 2 < quorum <= len(first):
        least, most = len(first) // 2 + 1, len(first)
        bounds = f"from {least} to {most}" if least < most else f"{most}"
        raise ConfigError(
            [f"jury.quorum must be {bounds} (more than half of the {len(first)} voting judges), not {quorum}"]
        )
    return JuryPanel(config, jury, quorum, first, others)


@dataclass(slots=True)
class _Vote:
    """The vote on one answer: the ballots, the count, and the template if it was needed."""

    asked: list[Ballot]
    count: Count
    bound: BoundTemplate | None


class JuryPanel:
    """Several judges that vote on answers, with an optional judge that decides if there is no quorum."""

    def __init__(
        self,
        config: VerificationConfig,
        jury: Jury,
        quorum: int,
        first: Sequence[ModelConfig],
        others: Sequence[ModelConfig],
    ) -> None:
        self._config = config
        self._jury = jury
        self._quorum = quorum
        self._first = tuple(first)
        self._other = others[0] if others else None
        after = f">{self._other.id}" if self._other is not None else ""
        strong = f">{self._other.model_name}" if self._other is not None else ""
        self.model: Final = PanelModel(
            id=f"jury({','.join(judge.id for judge in first)}{after})",
            interface=INTERFACE,
            model_name="+".join(judge.model_name for judge in first) + strong,
            members=self._first,
            others=tuple(others),
        )

    async def evaluate(self, answer: PanelAnswer) -> VerificationResult:
        """Have the jury judge an answer. The result's extension `karenina-jury` contains every vote."""
        results = await gather_all(answer.ask(judge) for judge in self._first)
        ballots = [Ballot(judge.id, result) for judge, result in zip(self._first, results, strict=True)]
        vote = self._count(answer, ballots)
        record = self._record(vote)
        base = await self._decide(answer, vote, record)
        if base.outcome is Outcome.UNDECIDED and record.undecided is None:
            record.undecided = base.why()
        record.judges = [
            make_vote(ballot, decides=number >= len(self._first)) for number, ballot in enumerate(vote.asked)
        ]
        result = answer.result_of(self.model, base, [ballot.result for ballot in vote.asked])
        extensions = {**base.extensions, EXTENSION: record.model_dump(mode="json")}
        return result.model_copy(update={"extensions": extensions})

    def _count(self, answer: PanelAnswer, ballots: list[Ballot]) -> _Vote:
        """Count the ballots by verdict or by field, depending on the configuration. The template is only loaded for
        votes on fields, and only if at least one judge could judge the answer.
        """
        if self._jury.vote == "verdict":
            return _Vote(ballots, count_verdicts(ballots, self._quorum), None)
        bound = None
        if any(ballot.kind is not None for ballot in ballots):
            template = template_of(answer.question, answer.trust)
            bound = template.for_question(answer.question.id) if template is not None else None
        return _Vote(ballots, count_fields(ballots, _voted_fields(bound), self._quorum), bound)

    def _record(self, vote: _Vote) -> JuryRecord:
        """Return a record of the vote with its agreement. The judges' own votes are added later, by `evaluate`."""
        return JuryRecord(
            vote=self._jury.vote,
            quorum=self._quorum,
            judges=[],
            agreement=dict(vote.count.agreement),
            escalate_to=self._other.id if self._other is not None else None,
        )

    async def _decide(self, answer: PanelAnswer, vote: _Vote, record: JuryRecord) -> VerificationResult:
        """Return the result of the vote, or that of the stronger judge, which is asked, if there is one, if there is no
        quorum or a judge found no excerpt for a value. If neither decides, this is a copy of the first judge's result,
        marked as not judged. Why the stronger judge was asked, or why there is no verdict, is stored in `record`, and
        its ballot is added to `vote.asked`.

        If no judge could have judged the answer (see `Outcome.unjudgeable`), the first judge's result is returned.
        """
        first = vote.asked[0].result
        if all(ballot.result.outcome.unjudgeable for ballot in vote.asked):
            record.undecided = first.why()
            return first
        why = vote.count.undecided
        if self._other is not None:
            why = _describe_missing(vote.asked) or why
        if why is None:
            with files_of(self._config):
                return await _elected(vote)
        if self._other is None:
            record.undecided = why
            return not_judged(first, f"jury: {why}", _outcome_without_vote(vote.asked))
        record.escalated = why
        strong = Ballot(self._other.id, await answer.ask(self._other))
        vote.asked.append(strong)
        if strong.kind is None:
            record.undecided = f"{why}, and {strong.judge} failed: {strong.result.why()}"
            return not_judged(first, f"jury: {record.undecided}", _outcome_without_vote(vote.asked))
        return strong.result


def _outcome_without_vote(ballots: Sequence[Ballot]) -> Outcome:
    """Return the outcome without a quorum: UNDECIDED if a judge is undecided and none failed, otherwise PARSE_ERROR."""
    outcomes = {ballot.result.outcome for ballot in ballots}
    failed = any(outcome.group == "not_judged" for outcome in outcomes)
    return Outcome.PARSE_ERROR if failed or Outcome.UNDECIDED not in outcomes else Outcome.UNDECIDED


def _voted_fields(bound: BoundTemplate | None) -> list[str]:
    """Return the fields to vote on: those with a rule or, if there are none, all except reasoning fields. Returns an
    empty list if `bound` is None.
    """
    if bound is None:
        return []
    verified = [name for name in bound.judge_fields if name in bound.template.key.rules]
    return verified or [name for name in bound.judge_fields if not is_reasoning(name)]


async def _elected(vote: _Vote) -> VerificationResult:
    """Return the result of the first judge that agrees with the majority on all fields. If there is no such judge, the
    majority's values are combined into a new result.
    """
    if vote.count.agreeing:
        return vote.count.agreeing[0].result
    assert vote.bound is not None
    base = next(ballot.result for ballot in vote.asked if ballot.values)
    if vote.bound.is_slow:
        return await to_thread.run_sync(combined, base, vote.bound, vote.count.values)
    return combined(base, vote.bound, vote.count.values)


def _describe_missing(ballots: Sequence[Ballot]) -> str | None:
    """Describe which judges found no excerpts for which values. Returns None if no excerpts are missing."""
    missing = {ballot.judge: ", ".join(ballot.missing_excerpts) for ballot in ballots if ballot.missing_excerpts}
    return "; ".join(f"{judge} found no excerpt for {fields}" for judge, fields in missing.items()) or None
