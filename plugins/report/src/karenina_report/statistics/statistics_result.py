"""Models for the statistics of one run. Rates are between 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from karenina_engine.results.aggregate import Summary
from karenina_engine.results.rates import Rate
from karenina_terminal.notebook_html import SectionsView

if TYPE_CHECKING:
    from karenina_report.estimators.agreement import Kappa


class ReportModel(BaseModel):
    """The base class for report models."""

    model_config = ConfigDict(frozen=True, protected_namespaces=(), defer_build=True)


class Mean(ReportModel):
    """A metric's mean over one judge's results, with its 95% interval. `missing` counts results without a value."""

    metric: str
    judge: str
    note: str
    results: int
    missing: int
    units: int
    value: float
    low: float
    high: float


class GroupRate(ReportModel):
    """The pass rate of one judge's results with the same value in a column. It is not corrected for multiple groups."""

    value: str
    judge: str
    rate: Rate
    not_judged: int


class TurnRate(ReportModel):
    """The rate of fields that pass in one turn of conversations, as read by one judge.

    `turn` is a number, or `all`. `left_out` is the number of fields whose turn was skipped.
    """

    turn: str
    judge: str
    rate: Rate
    left_out: int


class PassAtK(ReportModel):
    """pass@k and pass^k: the probabilities that at least one of k replicates is right, and that all are.

    They are averages over `questions`. `left_out` is the number of questions with fewer than k judged replicates.
    """

    k: int
    any_right: float = Field(description="pass@k")
    all_right: float = Field(description="pass^k")
    questions: int
    left_out: int


class Variance(ReportModel):
    """Variance components as shares, over the `questions` for which all judges judged all replicates.

    `unknown` names the components that cannot be separated with these judges and replicates.
    """

    questions: int
    judges: int
    replicates: int
    shares: Mapping[str, float]
    unknown: Sequence[str]


class Coefficient(ReportModel):
    """A coefficient of agreement beyond chance. `low` and `high` are None if there is no interval."""

    value: float
    low: float | None
    high: float | None


def as_coefficient(found: Kappa | None) -> Coefficient | None:
    """Convert an estimate of agreement to a report model. None stays None."""
    return Coefficient(value=found.value, low=found.low, high=found.high) if found is not None else None


class Agreement(ReportModel):
    """The agreement between two judges on the same answers.

    `kappa` is None if a judge gave only one kind of verdict.
    """

    a: str
    b: str
    raw: Rate
    correct_by_a: float
    correct_by_b: float
    kappa: Coefficient | None


class RunStatistics(SectionsView, ReportModel):
    """The statistics of one answering model's results.

    `unit` is the kind of statistical unit: a question, or a cluster such as questions with the same text. `fleiss` and
    `krippendorff` are None if there is only one judge or all verdicts are the same. Verdicts of several judges are
    never pooled: `pass_rate` is then None, and `by_judge` contains each judge's rate.
    """

    name: str
    source: str | None
    answering_model: str
    judges: Sequence[str]
    unit: str
    notes: Sequence[str]
    summary: Summary
    pass_rate: Rate | None
    by_judge: Mapping[str, Rate]
    means: Sequence[Mean]
    by: str | None
    groups: Sequence[GroupRate]
    turns: Sequence[TurnRate] = ()
    conversations_ended: Mapping[str, int] = {}
    user_faults: Mapping[str, int] = {}
    draws: Sequence[PassAtK]
    variance: Variance | None
    agreement: Sequence[Agreement]
    fleiss: Coefficient | None
    krippendorff: Coefficient | None
