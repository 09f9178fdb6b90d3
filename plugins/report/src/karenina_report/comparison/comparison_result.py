"""The result of comparing runs. Rates and differences are shares of 1."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, computed_field

from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_core.text import compose, did_you_mean
from karenina_engine.results.aggregate import Summary
from karenina_report.registered_notes import Note
from karenina_report.statistics.statistics_result import ReportModel
from karenina_terminal.notebook_html import SectionsView

Direction = Literal["better", "worse"]
"""The direction of a flip: whether the verdict is worse or better in the second run of a pair."""


class ComparedRun(ReportModel):
    """A run in a comparison. `label` is its letter (A, B, ...) and `model` the id of its answering model."""

    label: str
    name: str
    source: str | None
    model: str
    answering_model: str
    judges: Sequence[str]
    summary: Summary
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float = Field(description="The total time of the run's items in seconds.")
    cost_usd: float | None = Field(description="The cost of all runs in the journal; a lower bound if some is unknown.")
    cost_is_whole: bool = Field(description="Whether the cost of every call is known.")
    missing_cost: str | None = Field(description="Why the cost is unknown or incomplete, and how to fix it.")
    cost_is_shared: bool = Field(description="Whether the journal also contains calls of other answering models.")


class PlainInterval(ReportModel):
    """The interval and p value of a plain t test, as other programs compute it."""

    low: float
    high: float
    p: float


class Flipped(ReportModel):
    """The number of questions whose value differs, in total and by the run with the higher value."""

    questions: int
    higher_in_a: int
    higher_in_b: int


class Bounds(ReportModel):
    """The bounds of the difference if unjudged results were wrong in one run and correct in the other.

    `sign_holds` is true if both bounds have the same sign as the difference.
    """

    unjudged_a: int
    unjudged_b: int
    low: float
    high: float
    sign_holds: bool


class Power(ReportModel):
    """The power of a comparison.

    `detectable` is the difference that is found with 80% power. `six_flips` is true if it exceeds the share of
    questions that flip; at least six flips in one direction are then needed. `questions` maps differences of 1, 3 and 5
    points to the number of questions needed to find them. `within` is the share of the variance that more replicates
    would reduce, and `at_best` is the smallest difference that could be found with any number of replicates. Both are
    None with one replicate, and if the differences do not vary.
    """

    detectable: float
    six_flips: bool
    questions: Mapping[int, int]
    within: float | None
    at_best: float | None


class Difference(ReportModel):
    """The difference A minus B in one metric, over the questions with a value in both runs.

    `units` is the number of statistical units, that is, clusters of correlated questions. By default, questions with
    the same text are a cluster. `p` is the p value of the sign-flip test. `p_exact` is true if the test counted all
    sign patterns. `p_adjusted` is the p value adjusted for all pairs of runs (Holm). Metrics are between 0 and 1, so
    the interval is clipped to [-1, 1].
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
        """Return the bounds of A minus B, or of B minus A if `turned`. Returns None if there is no interval."""
        if self.low is None or self.high is None:
            return None
        return (-self.high, -self.low) if turned else (self.low, self.high)


class Group(ReportModel):
    """The pass rates of the questions that share a value in a column, in a number of statistical `units`. They are not
    corrected for multiple groups.
    """

    value: str
    questions: int
    units: int
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None


class Side(ReportModel):
    """One run's results for a question: mean verdict, count of each outcome, first answer and its reason."""

    correct: float | None
    outcomes: Mapping[str, int]
    answer: str
    why: str


class FieldValues(ReportModel):
    """The values extracted for a field in A and B, with the ground truth and the rule.

    `a` and `b` map each value, as a string, to its number of results. `truths` has several values if the ground truth
    changed. `rule` describes the rule in words, and is None if the benchmark is not known.
    """

    name: str
    a: Mapping[str, int]
    b: Mapping[str, int]
    truths: Sequence[str]
    rule: str | None


class Change(ReportModel):
    """A question whose verdicts, partial credit or traits differ between the runs.

    `changed` names the parts that differ: "answer", "extraction", "known values", "truth" or "verdict". `metrics` and
    `fields` map names to the means in A and B where they differ. A mean is None if nothing was judged. `values` lists
    the fields whose results or values differ.
    """

    question_id: str
    question: str
    keywords: Sequence[str]
    flipped: bool
    changed: Sequence[str]
    metrics: Mapping[str, tuple[float | None, float | None]]
    fields: Mapping[str, tuple[float | None, float | None]]
    values: Sequence[FieldValues]
    a: Side
    b: Side

    @computed_field  # type: ignore[prop-decorator]
    @property
    def higher_in(self) -> Literal["a", "b"] | None:
        """The run with the higher mean verdict, or None if the question did not flip or the means are equal."""
        a, b = self.a.correct, self.b.correct
        if not self.flipped or a is None or b is None or a == b:
            return None
        return "a" if a > b else "b"

    @property
    def undecided(self) -> int:
        """-1 if the question is undecided more often in A, 1 if more often in B, otherwise 0."""
        shares = [
            side.outcomes.get(Outcome.UNDECIDED, 0) / (sum(side.outcomes.values()) or 1) for side in (self.a, self.b)
        ]
        return (shares[1] > shares[0]) - (shares[1] < shares[0])


class Pair(ReportModel):
    """A comparison of two runs. The first of the `differences` is the pass rate, if there are verdicts.

    `lowest` and `highest` are the pass rate difference with undecided results decided in favor of B and of A. Results
    with the same values get the same verdict in both runs. Both are None if nothing is undecided. `changed` maps the
    questions that are not compared to the parts that changed: "template", "truth", "attachments" or "question" (its
    text). With `any_template`, these questions are compared and named in a note. `unpaired` questions have a verdict in
    at most one run. `unit` is the kind of statistical unit. `more_undecided` counts the questions that are undecided
    more often in A and in B. `rescored` contains the labels of the runs that `karenina rescore` wrote.
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
    lowest: Difference | None = None
    highest: Difference | None = None
    by_judge: Mapping[str, Difference]
    groups: Sequence[Group]
    changes: Sequence[Change]
    more_undecided: tuple[int, int] = (0, 0)
    rescored: Sequence[str] = ()

    @property
    def flips(self) -> list[Change]:
        """The questions whose verdict differs."""
        return [change for change in self.changes if change.flipped]

    def difference(self, metric: str = "pass rate") -> Difference | None:
        """Return the difference in the given metric, or None if it was not compared."""
        return next((difference for difference in self.differences if difference.metric == metric), None)


class Comparison(SectionsView, ReportModel):
    """Several runs, compared in pairs.

    `baseline` is the label of the run that all others are compared with, or None.
    """

    runs: Sequence[ComparedRun]
    pairs: Sequence[Pair]
    baseline: str | None
    by: str | None
    notes: Sequence[Note] = ()

    def bases(self) -> dict[str, str | None]:
        """Return the label of the run that each run must not be worse than, by label: the baseline, or by default the
        first run, which have no entry. If the first file has several models, or another file has one of its models,
        that file's runs are compared with the first file's run of the same model, or with None if there is none.
        """
        first = self.runs[0]
        before = [run for run in self.runs if run.source == first.source]
        after = [run for run in self.runs if run.source != first.source]
        base = self.baseline or first.label
        if self.baseline is not None or not after:
            return {run.label: base for run in self.runs if run.label != base}
        of_model = {run.model: run.label for run in before}
        by_model = {run.source for run in after if len(before) > 1 or run.model in of_model}
        return {run.label: of_model.get(run.model) if run.source in by_model else base for run in after}

    def select_changes(self, direction: Direction | None = None, keywords: Collection[str] = ()) -> Self:
        """Return a copy with only the `changes` that are flips to a `worse` or `better` verdict in the second run of a
        pair, if `direction` is given, and have at least one of the `keywords`, if there are any. Raises `ConfigError`
        for a keyword that no changed question has.
        """
        selected = set(map(compose, keywords))
        all_keywords = dict.fromkeys(word for pair in self.pairs for change in pair.changes for word in change.keywords)
        for word in sorted(selected - all_keywords.keys()):
            there = did_you_mean(word, all_keywords) or "; no changed question has any keywords"
            raise ConfigError([f"no changed question has the keyword {word!r}{there}"])
        higher = {None: None, "worse": "a", "better": "b"}[direction]
        pairs = [
            pair.model_copy(
                update={
                    "changes": [
                        change
                        for change in pair.changes
                        if higher in (None, change.higher_in) and (not selected or selected & set(change.keywords))
                    ]
                }
            )
            for pair in self.pairs
        ]
        return self.model_copy(update={"pairs": pairs})

    def against(self, label: str, other: str) -> list[tuple[str, tuple[float, float] | None]]:
        """Return pairs of a condition and the interval of the pass rate of `other` minus that of `label` under it, or
        None for fewer than two units. Returns an empty list if the runs are not compared or no question has a verdict
        in both.

        The first interval is over all results, and its condition is empty. If there are several judges, each has an
        interval. Another one counts undecided results as wrong in `other` and as correct in `label`. Conditions are
        phrases for messages.
        """
        limits: list[tuple[str, tuple[float, float] | None]] = []
        for pair in self.pairs:
            if {pair.a, pair.b} == {label, other}:
                turned = pair.a == label
                worst = pair.highest if turned else pair.lowest
                intervals = [
                    ("", pair.difference()),
                    *((f", judged by {judge},", difference) for judge, difference in pair.by_judge.items()),
                    (f", with undecided results counted as wrong in {other} and as right in {label},", worst),
                ]
                limits += [
                    (what, difference.limits(turned=turned)) for what, difference in intervals if difference is not None
                ]
        return limits
