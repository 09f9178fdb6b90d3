"""The votes of judges, and counting them.

Values are compared with each other but never with the ground truth, so a run's calls do not depend on the ground truth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from karenina_core.data.outcome import Outcome
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings
from karenina_toolkit.folding import fold

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult


FIELDS: Final = "fields"
"""The kind of a ballot with extracted values. If a check failed the answer, the kind is the outcome instead."""
VERDICT: Final = "verdict"
OUTCOME: Final = "outcome"


Vote = Literal["field", "verdict"]


class Jury(StrictSettings):
    """The configuration of a jury: how the judges of a run vote."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    vote: Vote = Field(default="field", description="What is voted on: the value of each field, or the verdict.")
    quorum: int | None = Field(
        default=None,
        ge=1,
        description="The number of equal votes that decide, more than half. Default: all votes with escalate_to, "
        "otherwise a majority.",
    )
    escalate_to: str | None = Field(
        default=None,
        description="The id of a judge that does not vote, but decides alone if there is no quorum or an excerpt is "
        "missing.",
    )


class JurySettings(BaseModel, defer_build=True):
    """The settings of juries."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    jury: Jury | None = Field(
        default=None,
        description="Let the judges vote, so that each answer has one result; by default, each judge gives a result of "
        "its own.",
    )


class Ballot(NamedTuple):
    """A judge's ID, and the judge's result for the answer."""

    judge: str
    result: VerificationResult

    @property
    def kind(self) -> str | None:
        """The subject of the vote: `FIELDS`, or the outcome if a check failed the answer. None if the judge failed. If
        the values cannot be compared with the ground truth, the kind is still `FIELDS`.
        """
        if self.result.outcome is Outcome.UNDECIDED:
            return FIELDS
        if not self.result.outcome.judged:
            return None
        return self.result.outcome.value if self.result.vetoes else FIELDS

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that the judge extracted."""
        return self.result.template.parsed_llm_response or {}

    @property
    def missing_excerpts(self) -> Sequence[str]:
        """The fields for which the judge found no excerpt. Without deep judgment, this is always empty."""
        judgment = self.result.deep_judgment
        return (judgment.attributes_without_excerpts or ()) if judgment is not None else ()


@dataclass(frozen=True, slots=True)
class Count:
    """The result of counting votes.

    `agreement` maps each field, or the outcome or verdict, to the share of judges that cast the most frequent vote.
    `values` contains the values of fields with a quorum, and `agreeing` contains the ballots with all of these values.
    `undecided` is the reason why there is no quorum, or None if there is one.
    """

    agreement: Mapping[str, float]
    values: Mapping[str, Any] = field(default_factory=dict)
    agreeing: Sequence[Ballot] = ()
    undecided: str | None = None


def count_fields(ballots: Sequence[Ballot], fields: Iterable[str], quorum: int) -> Count:
    """Return the counts of the votes on each field, with the values on which at least `quorum` judges agree, or, if any
    field has no quorum, the reason instead of the values. Judges first vote on whether a check failed the answer;
    fields are only counted if there is a quorum against this. Failed judges do not vote, but count in the denominator.
    """
    votes = {ballot.judge: ballot.kind for ballot in ballots if ballot.kind is not None}
    kind, share, undecided = _winner(OUTCOME, votes, len(ballots), quorum)
    if undecided is not None or kind != FIELDS:
        return Count({OUTCOME: share}, agreeing=_ballots_for(ballots, votes, kind), undecided=undecided)
    voting = [ballot for ballot in ballots if ballot.kind == FIELDS]
    agreement: dict[str, float] = {}
    values: dict[str, Any] = {}
    open: list[str] = []
    agreeing = voting
    for name in fields:
        votes_on = {ballot.judge: comparable(ballot.values.get(name)) for ballot in voting}
        winner, agreement[name], why = _winner(name, votes_on, len(ballots), quorum, _shown(voting, name))
        if why is not None:
            open.append(why)
            continue
        with_it = _ballots_for(voting, votes_on, winner)
        values[name] = with_it[0].values.get(name)
        agreeing = [ballot for ballot in agreeing if ballot in with_it]
    if open:
        return Count(agreement, undecided="; ".join(open))
    return Count(agreement, values, agreeing)


def count_verdicts(ballots: Sequence[Ballot], quorum: int) -> Count:
    """Return the count of the votes on the verdict, with the reason why it is undecided if fewer than `quorum` judges
    agree. Failed and undecided judges do not vote, but count in the denominator.
    """
    votes = {ballot.judge: ballot.result.template.verify_result for ballot in ballots if ballot.result.outcome.judged}
    winner, share, undecided = _winner(VERDICT, votes, len(ballots), quorum)
    without = [ballot.judge for ballot in ballots if ballot.result.outcome is Outcome.UNDECIDED]
    if undecided is not None and without:
        undecided += f"; undecided: {', '.join(without)}"
    return Count({VERDICT: share}, agreeing=_ballots_for(ballots, votes, winner), undecided=undecided)


def comparable(value: object) -> Hashable:
    """Return a hashable key that is equal for values that mean the same: strings that only differ in case, spaces,
    outer punctuation, or characters that look the same; lists that only differ in order; and equal numbers. A number is
    never equivalent to a string or boolean.
    """
    match value:
        case str():
            return "text", _plain(value)
        case bool() | None:
            return "other", value
        case int() | float():
            number = float(value) if abs(value) < 2**53 else value
            return "number", "nan" if isinstance(number, float) and math.isnan(number) else number
        case Mapping():
            return "table", frozenset((str(name), comparable(part)) for name, part in value.items())
        case list() | tuple():
            return "list", frozenset(Counter(comparable(part) for part in value).items())
        case _:
            return "other", repr(value)


def _plain(text: str) -> str:
    """Normalize case and spacing, and remove outer punctuation unless the text consists only of punctuation."""
    words = fold(" ".join(fold(text).casefold().split()))
    return words.strip(" .,;:!?\"'`*()[]«»“”") or words


def _winner(
    what: str, votes: Mapping[str, Hashable], judges: int, quorum: int, shown: Mapping[str, str] | None = None
) -> tuple[Hashable, float, str | None]:
    """Return the most frequent vote (the first of several, or None without votes), its share of all judges, and why
    there is no quorum, or None if there is one. The reason names the subject `what`, and the judges' votes in the form
    that `shown` maps them to.
    """
    if not votes:
        return None, 0.0, "no judge could judge the answer"
    ((winner, most),) = Counter(votes.values()).most_common(1)
    if most >= quorum:
        return winner, most / judges, None
    each = "; ".join(f"{judge}: {(shown or {}).get(judge, vote)}" for judge, vote in votes.items())
    return winner, most / judges, f"fewer than {quorum} of {judges} judges agree on {what} ({each})"


def _ballots_for(ballots: Iterable[Ballot], votes: Mapping[str, Hashable], winner: Hashable) -> list[Ballot]:
    """Return the ballots whose vote is `winner`. Judges without a vote are skipped."""
    return [ballot for ballot in ballots if ballot.judge in votes and votes[ballot.judge] == winner]


def _shown(ballots: Iterable[Ballot], name: str) -> dict[str, str]:
    """Return each judge's value for the given field as a string of at most 80 characters."""
    return {ballot.judge: repr(ballot.values.get(name))[:80] for ballot in ballots}
