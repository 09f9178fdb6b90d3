"""The text printed by `karenina calibrate` and related commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from karenina_calibration.agreement import NOT_RIGHT, RIGHT
from karenina_calibration.calibration_result import (
    Calibration,
    CarriedPassRate,
    CorrectedPassRate,
    LabellerAgreement,
    ValueAgreement,
    VerdictAgreement,
)
from karenina_calibration.draw import describe_verdicts
from karenina_calibration.label_file import label_command
from karenina_engine.results.summary_text import number_text, percent, undecided_text
from karenina_terminal.notebook_html import sections_of
from karenina_terminal.text_layout import Facts, Grid, Title
from karenina_toolkit.printable import in_one_line, quantity, shorten

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_engine.results.rates import Rate
    from karenina_report.statistics.statistics_result import Coefficient
    from karenina_terminal.text_layout import Section

MOST_CLASSES: Final = 12
"""The maximum number of classes for which a confusion table is printed."""
_MOST_TEMPLATES: Final = 10
_MOST_NAMES: Final = 8
_TELLS_NOTHING: Final = 0.5
"""The half-width, as a share of 1, above which an interval is not informative."""


@sections_of.register(Calibration)
def calibration_sections(found: Calibration) -> Iterator[Section]:
    """Yield the sections that describe a calibration, as `karenina calibrate` prints them."""
    yield [Facts([*_fact_rows(found)])]
    for rate in found.corrected:
        yield from _corrected(rate, several=len(found.corrected) > 1)
    if found.carried:
        yield [Title("Corrected with labels from another run"), Facts([*map(_carried, found.carried)])]
    for verdict in found.verdicts:
        yield [
            Title(in_one_line(f"Verdicts of {verdict.judge} and people")),
            Facts([*_verdict_rows(verdict)]),
            _table(verdict),
        ]
    yield from _values(found)
    if found.templates:
        several = len(found.verdicts) > 1
        rows = [
            [
                shorten(template.question, 60)
                + (f" (and {template.questions - 1:,} more)" if template.questions > 1 else ""),
                percent(template.agreement.value),
                bounds(template.agreement),
                f"{template.labels:,}",
                *([f"{template.agreement.out_of:,}"] if several else []),
            ]
            for template in found.templates[:_MOST_TEMPLATES]
        ]
        head = ["question", "agree", "95% CI", "labels", *(["verdicts"] if several else [])]
        yield [Title("By template, worst first"), Grid([head, *rows])]
    if found.worst:
        yield [Title("Worst items"), *(Facts([*_worst_rows(found, at)]) for at in range(len(found.worst)))]


def _fact_rows(calibration: Calibration) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each fact about the labels."""
    if calibration.source is not None:
        yield "Run", in_one_line(calibration.source)
    drawn = f" of {calibration.drawn:,} drawn answers" if calibration.drawn is not None else " answers"
    outside = f", {calibration.outside:,} outside the draw" if calibration.outside else ""
    other = " of the other run" if calibration.carried else ""
    yield "Labelled", f"{calibration.labelled - calibration.outside:,}{drawn}{outside}{other}"
    yield "Labellers", in_one_line(", ".join(f"{name} ({count:,})" for name, count in calibration.labellers.items()))
    if calibration.unclear or calibration.tied:
        yield "Left out", f"{calibration.unclear:,} unclear, {calibration.tied:,} with a tie"
    if calibration.ceiling is not None:
        yield "People agree", _ceiling_text(calibration.ceiling)
    for note in calibration.notes:
        yield "Note", in_one_line(note)


def _ceiling_text(agreement: LabellerAgreement) -> str:
    """Describe how often labellers agree with each other, with Krippendorff's alpha if it is defined."""
    alpha = (
        f", Krippendorff's alpha {coefficient_text(agreement.krippendorff)}"
        if agreement.krippendorff is not None
        else ""
    )
    return (
        f"{rate_text(agreement.pairs)} of {quantity(agreement.pairs.out_of, 'pair')} of labels{alpha}; the highest "
        "agreement that a judge can reach"
    )


def _corrected(rate: CorrectedPassRate, *, several: bool) -> Iterator[Section]:
    """Yield the section about a corrected rate. If there are `several` such sections, the title names the model."""
    title = "Corrected pass rate" + (f" of {in_one_line(rate.model)}" if several else "")
    rows = [("", corrected_text(rate))]
    if rate.missing:
        rows.append(
            (
                "",
                f"{quantity(rate.missing, 'result')} without an answer: {percent(rate.lowest)} if all are wrong, "
                f"{percent(rate.highest)} if all are right",
            )
        )
    if rate.powered is not None:
        rows.append(("", f"PPI++ as a cross-check: {percent(rate.powered.value)} {_range(rate.powered)}"))
    rows.append(("", more_labels_text(rate)))
    if any(stratum.weighted for stratum in rate.strata):
        rows.append(
            ("", "labels of merged verdicts count for different numbers of answers, so their share is weighted")
        )
    table = [["verdict", "answers", "labels", "right"]]
    alone = len(rate.strata) == 1
    table += [
        [
            describe_verdicts(stratum.verdicts, alone=alone),
            f"{stratum.answers:,}",
            f"{stratum.labels:,}",
            f"{stratum.right:,}",
        ]
        for stratum in rate.strata
    ]
    yield [Title(title), Facts(rows), Grid(table)]


def corrected_text(found: CorrectedPassRate) -> str:
    """Format a corrected pass rate with its interval and the numbers behind it."""
    return (
        f"{percent(found.value)}, 95% CI [{percent(found.low)}, {percent(found.high)}]: "
        f"{quantity(found.labels, 'label')} of {quantity(found.answers, 'answer')} on {_units_text(found)}"
    )


def _units_text(found: CorrectedPassRate) -> str:
    """Return the number of statistical units with their kind."""
    if found.unit == "question":
        return quantity(found.questions, "question")
    return f"{quantity(found.questions, 'unit')} of one {in_one_line(found.unit.replace('_', ' '))}"


def more_labels_text(found: CorrectedPassRate) -> str:
    """Describe how many more labels would halve the interval, or that no number would, or that too few answers are
    labelled to tell.
    """
    if found.more_labels is not None:
        return f"{found.more_labels:,} more labels would halve the interval"
    if found.remaining > _TELLS_NOTHING:
        return "too few answers are labelled to say how many more labels would help"
    return (
        f"no number of labels would halve the interval; the run's own {_units_text(found)} leave "
        f"+-{100 * found.remaining:.1f} points"
    )


def stale_text(questions: Sequence[str]) -> str:
    """Return the note about labels for a different ground truth, which do not count. It names at most 8 questions.

    `questions` contains the question ID of each answer with such a label. IDs may be repeated.
    """
    distinct = list(dict.fromkeys(questions))  # several models may have answered one
    more = f" and {len(distinct) - _MOST_NAMES} more" if len(distinct) > _MOST_NAMES else ""
    names = in_one_line(", ".join(distinct[:_MOST_NAMES])) + more
    has = "has a label" if len(questions) == 1 else "have labels"
    return (
        f"{quantity(len(questions), 'answer')} {has} from before the ground truth changed (left out of rates): {names}"
    )


def outside_text(outside: int, answers: int, results: str | Path, labels: Path | None) -> str:
    """Return the note about labels outside the draw, which do not count, with the command that includes them. `outside`
    is the number of labelled answers outside the draw, and `answers` is the total number of answers.
    """
    return (
        f"left out of rates: {quantity(outside, 'labelled answer')} outside the draw, because people may have chosen "
        f"what to label. `{label_command('label', results, labels, '--n', str(answers))}` draws all answers, and a "
        "smaller number draws some of them"
    )


def _carried(rate: CarriedPassRate) -> tuple[str, str]:
    """Return the name and text of a rate that was corrected with the labels of another run. If the rate could not be
    corrected, the text says so.
    """
    raw = f"raw {rate_text(rate.raw)}{undecided_text(rate.raw)}"
    name = in_one_line(f"{rate.model}, judged by {rate.judge}")
    if rate.value is None:
        return name, f"the rate cannot be corrected for this judge; {raw}"
    return (
        name,
        f"{percent(rate.value)}, 95% CI [{percent(rate.low)}, {percent(rate.high)}]; {raw}",
    )


def _verdict_rows(agreement: VerdictAgreement) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each of a judge's rates, such as agreement, kappa and sensitivity."""
    yield "agree", f"{rate_text(agreement.agreement)} of {quantity(agreement.agreement.out_of, 'labelled answer')}"
    undefined = "undefined because all verdicts, or all labels, are the same"
    yield "kappa", coefficient_text(agreement.kappa) if agreement.kappa is not None else undefined
    yield "sensitivity", _share_text(agreement.sensitivity, "right answers that are called correct")
    yield "specificity", _share_text(agreement.specificity, "other answers that are not called correct")
    for model, raw in agreement.raw.items():
        name = in_one_line(f"raw rate of {model}") if len(agreement.raw) > 1 else "raw rate"
        yield name, f"{rate_text(raw)} of {quantity(raw.out_of, 'verdict')}{undecided_text(raw)}"


def _share_text(rate: Rate, what: str) -> str:
    """Format a rate as a share of `what`, or say that there is no `what`."""
    return f"no {what.partition(' that')[0]}" if rate.value is None else f"{rate_text(rate)} of {rate.out_of:,} {what}"


def _table(agreement: VerdictAgreement) -> Grid:
    """Return the table with a judge's verdicts by label."""
    rows = [[name, f"{row[RIGHT]:,}", f"{row[NOT_RIGHT]:,}"] for name, row in agreement.table.items()]
    return Grid([["verdict", "people: right", "not right"], *rows])


def _values(calibration: Calibration) -> Iterator[Section]:
    """Yield the section about extracted values, if there are any values. Fields and traits with at most `MOST_CLASSES`
    values also get a confusion table.
    """
    if not calibration.values:
        return
    rows = [
        [
            in_one_line(f"{value.kind} {value.name}"),
            in_one_line(value.judge),
            percent(value.agreement.value),
            bounds(value.agreement),
            f"{value.agreement.out_of:,}",
            coefficient_text(value.kappa) if value.kappa is not None else "-",
        ]
        for value in sorted(
            calibration.values,
            key=lambda agreement: (agreement.agreement.value or 0.0, agreement.name, agreement.judge),
        )
    ]
    head = ["extracted", "judge", "agree", "95% CI", "labels", "kappa"]
    yield [Title("Extracted values and people, worst first"), Grid([head, *rows], texts=(0, 1))]
    for value in calibration.values:
        if value.table and len(value.table) <= MOST_CLASSES:
            yield [Title(in_one_line(f"{value.kind} {value.name} by {value.judge}, and people")), _confusion(value)]


def _confusion(agreement: ValueAgreement) -> Grid:
    """Return the table with a judge's values by the values that people entered."""
    classes = sorted({own for row in agreement.table.values() for own in row} | set(agreement.table))
    shown = [name for name in classes if name in agreement.table]
    return Grid(
        [
            ["judge \\ people", *(in_one_line(name) for name in classes)],
            *([in_one_line(value), *(f"{agreement.table[value].get(own, 0):,}" for own in classes)] for value in shown),
        ]
    )


def _worst_rows(calibration: Calibration, at: int) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each fact about the worst item at index `at`."""
    item = calibration.worst[at]
    verdict = {True: "right", False: "not right", None: "unclear"}[item.right]
    yield in_one_line(item.question_id), in_one_line(item.question)
    yield "  answer", in_one_line(item.answer)
    yield "  people", verdict
    yield from (("  verdict", in_one_line(text)) for text in item.verdicts)
    yield from (("  not said", in_one_line(text)) for text in item.extractions)
    yield from (("  note", in_one_line(text)) for text in item.notes)


def rate_text(found: Rate) -> str:
    """Format a rate with its interval."""
    return f"{percent(found.value)} {bounds(found)}"


def bounds(found: Rate) -> str:
    """Format the interval of a rate. It is called rough if there are few questions, and is "-" if there is none."""
    rough = "rough " if found.is_rough else ""
    return "-" if found.low is None else f"{rough}[{percent(found.low)}, {percent(found.high)}]"


def coefficient_text(found: Coefficient) -> str:
    """Format a coefficient, with its interval if it has one."""
    if found.low is None or found.high is None:
        return number_text(found.value)
    return f"{number_text(found.value)} [{number_text(found.low)}, {number_text(found.high)}]"


def _range(coefficient: Coefficient) -> str:
    """Format the interval of a coefficient in percent."""
    return f"[{percent(coefficient.low)}, {percent(coefficient.high)}]"
