"""`Comparison`: what is known about two runs or more beside each other. Rates and differences are shares of 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from karenina_engine.results.aggregate import Summary


class ReportModel(BaseModel):
    """The base of all parts of a comparison."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())


class ComparedRun(ReportModel):
    """One run by itself. `label` is what it is called in the comparison: A, B, ..."""

    label: str
    name: str
    source: str | None
    answering_model: str
    judges: Sequence[str]
    summary: Summary
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float = Field(description="Seconds that its items took, all together.")
    cost_usd: float | None = Field(description="What all runs of its journal have spent; a lower bound if not all.")
    cost_is_whole: bool = Field(description="Whether the cost of every call is known.")
    cost_is_shared: bool = Field(description="Whether the journal holds calls of other answering models, too.")


class PlainInterval(ReportModel):
    """The interval and p value of the t test without pseudo-questions, as other programs compute them."""

    low: float
    high: float
    p: float


class Flipped(ReportModel):
    """How many questions have another value in both runs, and in which run it is higher."""

    questions: int
    higher_in_a: int
    higher_in_b: int


class Bounds(ReportModel):
    """The difference if every unjudged result of one run were wrong and of the other right, and the reverse."""

    unjudged_a: int
    unjudged_b: int
    low: float
    high: float
    sign_holds: bool


class Power(ReportModel):
    """What the comparison could have shown.

    `detectable` is the difference that is found in four of five cases; if it exceeds the share of questions that flip,
    `six_flips` is True: at least six flips in one direction are needed. `questions` are those needed for differences
    of 1, 3 and 5 points. `within` is the share of the variance that more replicates would lower and `at_best` what
    would be detectable with any number of them; None if there is one replicate.
    """

    detectable: float
    six_flips: bool
    questions: Mapping[int, int]
    within: float | None
    at_best: float | None


class Difference(ReportModel):
    """One metric in both runs: A minus B, over the questions that have it in both.

    `units` are the clusters, by default questions with another text. `p` is that of the sign-flip test, `p_exact` says
    whether every pattern of signs was counted, `p_adjusted` is p for all pairs of runs together (Holm).
    """

    metric: str
    note: str
    questions: int
    units: int
    replicates: float
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    plain: PlainInterval | None
    p: float
    mid_p: float
    p_exact: bool
    p_adjusted: float | None = None
    flipped: Flipped
    bounds: Bounds | None
    power: Power | None

    def limits(self, *, turned: bool = False) -> tuple[float, float] | None:
        """Return the bounds of A minus B, or of B minus A if `turned`; None if there is no interval."""
        if self.low is None or self.high is None:
            return None
        return (-self.high, -self.low) if turned else (self.low, self.high)


class Group(ReportModel):
    """The pass rates of the questions with one value of a column; nothing is corrected for the number of groups."""

    value: str
    questions: int
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None


class Side(ReportModel):
    """A question in one run: its mean verdict, its outcomes, and the first of its answers with the reason."""

    correct: float | None
    outcomes: Mapping[str, int]
    answer: str
    why: str


class Change(ReportModel):
    """A question whose verdicts, partial credit or traits are not the same in both runs.

    `changed` names what is not the same: answer, extraction, truth, verdict. `metrics` and `fields` have the means in
    A and B of those that differ (None: not judged).
    """

    question_id: str
    question: str
    flipped: bool
    changed: Sequence[str]
    metrics: Mapping[str, tuple[float | None, float | None]]
    fields: Mapping[str, tuple[float | None, float | None]]
    a: Side
    b: Side


class Pair(ReportModel):
    """Two runs beside each other. The first of `differences` is that of the pass rate, if there are verdicts.

    `changed` are questions that were left out because their template, truth or text changed, each with what did.
    `unpaired` have a verdict in at most one of the runs. `unit` says what the clusters are.
    """

    a: str
    b: str
    judges: Sequence[str]
    same_answers: bool
    unit: str
    notes: Sequence[str]
    only_a: Sequence[str]
    only_b: Sequence[str]
    changed: Mapping[str, Sequence[str]]
    unpaired: Sequence[str]
    differences: Sequence[Difference]
    by_judge: Mapping[str, Difference]
    groups: Sequence[Group]
    changes: Sequence[Change]

    @property
    def flips(self) -> list[Change]:
        """The questions whose verdict is not the same."""
        return [change for change in self.changes if change.flipped]

    def difference(self, metric: str = "pass rate") -> Difference | None:
        """Return the difference of a metric; None if it is not in both runs."""
        return next((one for one in self.differences if one.metric == metric), None)


class Comparison(ReportModel):
    """Runs beside each other, and in pairs. `baseline` is the label of the run that others are held to."""

    runs: Sequence[ComparedRun]
    pairs: Sequence[Pair]
    baseline: str | None
    by: str | None

    def against(self, label: str) -> list[tuple[str, tuple[float, float] | None]]:
        """Return the interval of each other run's pass rate minus that of the run `label`, by the other run's label."""
        found = []
        for pair in self.pairs:
            difference = pair.difference()
            if difference is not None and label in (pair.a, pair.b):
                turned = pair.a == label
                found.append((pair.b if turned else pair.a, difference.limits(turned=turned)))
        return found
