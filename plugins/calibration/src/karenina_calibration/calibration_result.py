"""The agreement of judges with people, and corrected pass rates. Rates are from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from karenina_calibration.answers import Kind
from karenina_engine.results.rates import Rate
from karenina_report.statistics.statistics_result import Coefficient, ReportModel
from karenina_terminal.notebook_html import SectionsView

Table = Mapping[str, Mapping[str, int]]
"""The numbers of labelled answers, first by the judge's value and then by the labellers' value."""


class VerdictAgreement(ReportModel):
    """The agreement of a judge's verdicts with people.

    Rates and kappa are weighted by the draw, so they are estimates for all answers with a verdict. `kappa` is None if
    all verdicts, or all labels, are the same.
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
    """The agreement of a judge's extracted values with people, for one field or trait.

    `kappa` and `table` compare these values with the values that people entered. If nobody entered a value, `kappa` is
    None and `table` is empty.
    """

    kind: Kind
    name: str
    judge: str
    agreement: Rate
    kappa: Coefficient | None
    table: Table


class TemplateAgreement(ReportModel):
    """The agreement of all judges' verdicts with people, for one template.

    `questions` is the number of labelled questions that share the template, and `question` is the text of one of them.
    `labels` is the number of labelled answers, each of which several judges may have judged.
    """

    template: str
    question: str
    questions: int
    labels: int
    agreement: Rate


class StratumLabels(ReportModel):
    """The numbers of answers, of usable labels, and of labels that say right, in one stratum.

    `weighted` is True if the stratum was merged from several strata that were sampled at different rates. Its labels
    then stand for different numbers of answers.
    """

    verdicts: Sequence[str]
    answers: int
    labels: int
    right: int
    weighted: bool = False


class CorrectedPassRate(ReportModel):
    """A model's share of right answers, estimated from labels.

    `missing` is the number of results without an answer. If all of them counted as wrong, the rate would be `lowest`,
    and if all of them counted as right, it would be `highest`. `more_labels` is the number of additional labels that
    would halve the interval, or None if no number would. `remaining` is the half-width of the interval if all answers
    were labelled. `questions` is the number of questions or, if `unit` is another kind of statistical unit, of these.
    """

    model: str
    value: float
    low: float
    high: float
    labels: int
    answers: int
    questions: int
    unit: str
    strata: Sequence[StratumLabels]
    missing: int
    lowest: float
    highest: float
    more_labels: int | None
    remaining: float
    powered: Coefficient | None = Field(description="The PPI++ estimate, as a cross-check for simple random draws.")


class CarriedPassRate(ReportModel):
    """A model's pass rate, corrected with the judge's sensitivity and specificity in another run.

    If the judge may be no better than chance, the value and its bounds are None.
    """

    model: str
    judge: str
    raw: Rate
    value: float | None
    low: float | None
    high: float | None


class LabellerAgreement(ReportModel):
    """The agreement of labellers with each other. No judge can be expected to agree with them more often."""

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
    """The agreement of judges with labels, and the corrected pass rates.

    `labelled` is the number of answers with a label. Rates are based on answers that a majority says are right or
    wrong, not on `unclear` and `tied` answers. `outside` is the number of labelled answers that were not drawn. They
    only count for fields, traits and the worst items. `stale` contains the question IDs of answers whose label is for a
    different ground truth. Such a label only counts for extracted values.
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
