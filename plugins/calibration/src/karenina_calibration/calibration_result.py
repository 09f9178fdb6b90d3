"""The agreement of judges with people, and the resulting corrected pass rates. Rates are shares of 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from karenina_calibration.answers import Kind
from karenina_engine.results.rates import Rate
from karenina_report.statistics.statistics_result import Coefficient, ReportModel
from karenina_terminal.notebook_html import SectionsView

Table = Mapping[str, Mapping[str, int]]
"""Counts of labelled answers, keyed by the judge's value and then the labellers' value."""


class VerdictAgreement(ReportModel):
    """How well one judge's verdicts agree with people.

    Rates and kappa are weighted by the draw, so they are estimates for all answers with a verdict. `kappa` is None
    (undefined) if all verdicts, or all labels, are the same.
    """

    judge: str
    raw: Mapping[str, Rate] = Field(description="The pass rate of each model by this judge.")
    agreement: Rate
    kappa: Coefficient | None
    sensitivity: Rate = Field(description="The proportion of right answers that the judge calls correct.")
    specificity: Rate = Field(description="The proportion of other answers that the judge does not call correct.")
    right_size: float = Field(description="The effective number of labels behind the sensitivity.")
    wrong_size: float = Field(description="The effective number of labels behind the specificity.")
    table: Table


class ValueAgreement(ReportModel):
    """How well the values that a judge extracted for one field or trait agree with people.

    `kappa` and `table` compare the judge's values with values entered by people. Without such values, `kappa` is None
    and `table` is empty.
    """

    kind: Kind
    name: str
    judge: str
    agreement: Rate
    kappa: Coefficient | None
    table: Table


class TemplateAgreement(ReportModel):
    """How well verdicts for one template agree with people, over all judges.

    `questions` is the number of questions with labelled answers that share the template, and `question` is the text of
    one of them.
    """

    template: str
    question: str
    questions: int
    agreement: Rate


class StratumLabels(ReportModel):
    """A stratum of the corrected rate: the numbers of answers, usable labels, and labels that say right.

    `weighted` is True if the stratum was merged from strata that were sampled at different rates, so that its labels
    represent different numbers of answers.
    """

    verdicts: Sequence[str]
    answers: int
    labels: int
    right: int
    weighted: bool = False


class CorrectedPassRate(ReportModel):
    """A model's share of right answers, estimated from labels.

    `missing` is the number of results without an answer; depending on whether these count as wrong or right, the rate
    lies between `lowest` and `highest`. `more_labels` is the number of additional labels that would halve the interval,
    or None if no number would. `remaining` is the interval's half-width if all answers were labelled.
    """

    model: str
    value: float
    low: float
    high: float
    labels: int
    answers: int
    questions: int
    strata: Sequence[StratumLabels]
    missing: int
    lowest: float
    highest: float
    more_labels: int | None
    remaining: float
    powered: Coefficient | None = Field(description="The PPI++ estimate, as a cross-check for simple random draws.")


class CarriedPassRate(ReportModel):
    """A model's pass rate, corrected using the same judge's sensitivity and specificity in another run.

    The value and its bounds are None if the judge may be no better than chance.
    """

    model: str
    judge: str
    raw: Rate
    value: float | None
    low: float | None
    high: float | None


class LabellerAgreement(ReportModel):
    """The agreement of labellers with each other, which is the highest agreement that a judge can reach."""

    labellers: Sequence[str]
    answers: int = Field(description="The number of answers with at least two labels.")
    pairs: Rate = Field(description="The proportion of equal labels among pairs of labels for the same answer.")
    krippendorff: Coefficient | None


class WorstItem(ReportModel):
    """A labelled answer that a judge got wrong. `verdicts` and `extractions` describe the mistakes."""

    item: str
    question_id: str
    question: str
    answer: str
    right: bool | None
    verdicts: Sequence[str]
    extractions: Sequence[str]
    notes: Sequence[str]


class Calibration(SectionsView, ReportModel):
    """The agreement of a run's judges with its labels, and the resulting corrected pass rates.

    `labelled` is the number of answers with a label. An answer counts towards the rates only if a majority of labellers
    say right or wrong; `unclear` and `tied` answers are left out. `outside` is the number of labelled answers that are
    not in the draw, which count only for fields, traits and the worst items. `stale` contains the question ids of
    answers whose label was based on a different ground truth; such a label counts only for extracted values.
    """

    source: str | None
    labellers: Mapping[str, int]
    labelled: int
    drawn: int | None
    unclear: int
    tied: int
    outside: int
    stale: Sequence[str]
    corrected: Sequence[CorrectedPassRate]
    carried: Sequence[CarriedPassRate]
    verdicts: Sequence[VerdictAgreement]
    values: Sequence[ValueAgreement]
    templates: Sequence[TemplateAgreement]
    ceiling: LabellerAgreement | None
    worst: Sequence[WorstItem]
    notes: Sequence[str]
