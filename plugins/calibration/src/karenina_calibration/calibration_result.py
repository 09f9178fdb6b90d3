"""The agreement of judges with people, and the pass rates corrected by it. Rates are shares of 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from karenina_calibration.answers import Kind
from karenina_engine.results.rates import Rate
from karenina_report.statistics.statistics_result import Coefficient, ReportModel
from karenina_terminal.notebook_html import SectionsView

Table = Mapping[str, Mapping[str, int]]
"""Numbers of labelled answers: by the judge's value, and then by that of people."""


class VerdictAgreement(ReportModel):
    """The agreement of one judge's verdicts with people.

    Rates and kappa are weighted by the draw: they are estimates for all answers with a verdict. `kappa` is None
    (undefined) if the judge or people are constant.
    """

    judge: str
    raw: Mapping[str, Rate] = Field(description="The pass rate of each model by this judge.")
    agreement: Rate
    kappa: Coefficient | None
    sensitivity: Rate = Field(description="The share of right answers that the judge calls correct.")
    specificity: Rate = Field(description="The share of other answers that it does not call correct.")
    right_size: float = Field(description="The effective number of labels behind the sensitivity.")
    wrong_size: float = Field(description="The effective number of labels behind the specificity.")
    table: Table


class ValueAgreement(ReportModel):
    """The agreement of people with the values that a judge extracted, of one field or trait.

    `kappa` and `table` compare classes, if people gave values of their own; else `table` is empty.
    """

    kind: Kind
    name: str
    judge: str
    agreement: Rate
    kappa: Coefficient | None
    table: Table


class TemplateAgreement(ReportModel):
    """The agreement of verdicts with people for one template, over all judges.

    `question` is one of the `questions` whose answers are labelled; those of equal templates are counted together.
    """

    template: str
    question: str
    questions: int
    agreement: Rate


class StratumLabels(ReportModel):
    """A stratum of the corrected rate: its answers, usable labels, and the labels that say right."""

    verdicts: Sequence[str]
    answers: int
    labels: int
    right: int


class CorrectedPassRate(ReportModel):
    """The share of right answers of a model, estimated from labels.

    `missing` results have no answer; if all of them counted as wrong or as right, the rate would be between
    `lowest` and `highest`. `more_labels` would halve the interval; it is None if no number of labels would, because the
    run's own questions leave `remaining`, half the width of the interval with all answers labelled.
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
    powered: Coefficient | None = Field(description="The PPI++ estimate, as a cross-check of simple random labels.")


class CarriedPassRate(ReportModel):
    """A model's pass rate corrected by the sensitivity and specificity of the same judge in another run.

    The bounds and the value are None if that judge cannot be corrected.
    """

    model: str
    judge: str
    raw: Rate
    value: float | None
    low: float | None
    high: float | None


class LabellerAgreement(ReportModel):
    """How labellers agree with each other, which is the ceiling of what a judge can reach."""

    labellers: Sequence[str]
    answers: int = Field(description="Answers with two labels or more.")
    pairs: Rate = Field(description="The share of pairs of labels of one answer that are equal.")
    krippendorff: Coefficient | None


class WorstItem(ReportModel):
    """A labelled answer that a judge got wrong: `verdicts` and `extractions` are its mistakes."""

    item: str
    question_id: str
    question: str
    answer: str
    right: bool | None
    verdicts: Sequence[str]
    extractions: Sequence[str]
    notes: Sequence[str]


class Calibration(SectionsView, ReportModel):
    """The findings of the labels of a run about its judges, and about its pass rate.

    Answers count as labelled if a majority of their labellers says right or wrong; `unclear` and `tied` ones are left
    out. `outside` labelled answers are not in the draw, and count only for fields, traits and the worst items. `stale`
    are the questions of answers whose label was given for other right values, and counts for extracted values only.
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
