"""The agreement of judges with people, and the pass rates corrected by it. Rates are shares of 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from karenina_calibration.answers import Kind
from karenina_engine.results.rates import Rate
from karenina_report.statistics.statistics_result import Coefficient, ReportModel
from karenina_terminal.notebook_html import SectionsView

Table = Mapping[str, Mapping[str, int]]
"""Counts of labelled answers, by the judge's value and then by the labellers' value."""


class VerdictAgreement(ReportModel):
    """The agreement of one judge's verdicts with people.

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
    """The agreement of people with the values that a judge extracted for one field or trait.

    `kappa` and `table` compare the judge's values with values that people gave themselves. Without such values, `kappa`
    is None and `table` empty.
    """

    kind: Kind
    name: str
    judge: str
    agreement: Rate
    kappa: Coefficient | None
    table: Table


class TemplateAgreement(ReportModel):
    """The agreement of verdicts with people for one template, over all judges.

    `questions` is the number of questions with labelled answers that share the template, and `question` the text of
    one.
    """

    template: str
    question: str
    questions: int
    agreement: Rate


class StratumLabels(ReportModel):
    """A stratum of the corrected rate: the number of its answers, of their usable labels, and of labels that say right.

    `weighted` is True if the stratum was merged from strata of which different shares were drawn. Its labels then
    represent different numbers of answers.
    """

    verdicts: Sequence[str]
    answers: int
    labels: int
    right: int
    weighted: bool = False


class CorrectedPassRate(ReportModel):
    """The share of right answers of a model, estimated from labels.

    `missing` results have no answer; if all of them counted as wrong or as right, the rate would be between `lowest`
    and `highest`. `more_labels` is the number of additional labels that would halve the interval, or None if no number
    would. `remaining` is the half width that the interval would have with all answers labelled.
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
    """A model's pass rate corrected by the sensitivity and specificity of the same judge in another run.

    The value and its bounds are None if the judge may be no better than chance.
    """

    model: str
    judge: str
    raw: Rate
    value: float | None
    low: float | None
    high: float | None


class LabellerAgreement(ReportModel):
    """The agreement of labellers with each other, which is the ceiling of what a judge can reach."""

    labellers: Sequence[str]
    answers: int = Field(description="Answers with at least two labels.")
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
    """The agreement of a run's judges with its labels, and the pass rates corrected by them.

    `labelled` is the number of answers with a label. For rates, an answer needs a majority of labellers who say right
    or wrong; `unclear` and `tied` answers are left out. `outside` labelled answers are not in the draw, and count only
    for fields, traits and the worst items. `stale` has the question ids of answers whose label was given for another
    truth; such a label counts only for extracted values.
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
