"""Juries in reports: a section on the page, and notes next to pass rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Final

from karenina_engine.cost.price_source import format_cost, to_picodollars
from karenina_engine.results.rates import Rate
from karenina_engine.results.summary_text import percent, undecided_text
from karenina_jury.jury_result import EXTENSION, JuryStatistics, describe_juries, mean_call_costs
from karenina_report.page.section import Cell, Column, IntervalPlot, PageRuns, PageSection, TableBlock, TextBlock
from karenina_report.run_notes import NotedRun, RunNote
from karenina_report.runs import iterate_results
from karenina_report.statistics.columns import assign_units
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

_COLUMNS: Final = (
    Column("Judge"),
    Column("Pass rate", "share"),
    Column("Low", "share"),
    Column("High", "share"),
    Column("Asked", "count"),
    Column("Failed", "count"),
    Column("Agrees with the jury", "share"),
)


_UNDECIDED: Final = (Column("Undecided", "count"), Column("If these are wrong", "share"))


_PLOT: Final = IntervalPlot("Judge", "Pass rate", "Low", "High")


def jury_sections(page: PageRuns) -> Sequence[PageSection]:
    """Return a section with a table of rates for each jury in each run. Returns nothing if no run has a jury."""
    blocks: list[TextBlock | TableBlock] = []
    for label, run in zip(page.labels, page.runs, strict=True):
        units = assign_units(run.results, page.cluster, page.questions)
        for jury in describe_juries(run.results, unit_of=units.of_result):
            asked, failed = jury.answers - jury.unasked, jury.failed - jury.unasked
            rows = [_row(jury.jury, jury.pass_rate, asked, failed, None)]
            rows += [_row(j.judge, j.pass_rate, j.asked, j.failed, j.agrees.value) for j in jury.judges]
            rates = [jury.pass_rate, *(judge.pass_rate for judge in jury.judges)]
            columns = [*_COLUMNS]
            if any(rate.undecided for rate in rates):
                columns += _UNDECIDED
                for row, rate in zip(rows, rates, strict=True):
                    row += [rate.undecided, rate.if_undecided_wrong]
            blocks += [
                TextBlock(f"Run {label}, {run.name}: {_summary(jury)}" if len(page.runs) > 1 else _summary(jury)),
                TableBlock(columns, rows, note=f"Run {label}: {run.name}.", plot=_PLOT),
            ]
    return [PageSection("jury", "Juries", blocks)] if blocks else ()


def _row(name: str, rate: Rate, asked: int, failed: int, agrees: float | None) -> list[Cell]:
    """Return a table row. For the jury's own row, `agrees` is None."""
    return [name, rate.value, rate.low, rate.high, asked, failed, agrees]


def _summary(statistics: JuryStatistics) -> str:
    """Return a sentence about how often the judges agreed and how often the stronger judge was asked."""
    text = f"All first judges agreed on {statistics.unanimous.hits:,} of {statistics.unanimous.out_of:,} answers."
    if statistics.escalate_to is not None:
        text += f" {statistics.escalate_to} was asked for {statistics.escalated.hits:,}."
    return text


NAME: Final = "Jury"


def jury_notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
    """Return a note about each jury in the runs that have a source file. A file is only read to the end if its first
    result comes from a jury.
    """
    notes = []
    for run in runs:
        results = list(_results(run)) if run.source is not None else []
        if run.source is None or not results:
            continue
        units = assign_units(results, run.cluster, run.questions)
        juries = describe_juries(results, mean_call_costs(run.source), units.of_result)
        several = len({statistics.answering for statistics in juries}) > 1
        for statistics in juries:
            name = f"{NAME} {run.label}" if run.label else NAME
            of = f"{statistics.answering}: " if several else ""
            notes.append(RunNote(name, of + _text(statistics), statistics.model_dump(mode="json")))
    return notes


def _results(run: NotedRun) -> Iterator[VerificationResult]:
    """Yield the results for a note. Yields nothing if the first result in the file does not come from a jury. If
    `run.model` is set, only that model's results are included. `run.source` must be set.
    """
    assert run.source is not None
    results = iter(iterate_results(run.source))
    first = next(results, None)
    if first is None or EXTENSION not in first.extensions:
        return
    for result in chain([first], results):
        if run.model in (None, result.metadata.answering_id):
            yield result


def _text(statistics: JuryStatistics) -> str:
    """Format a note: the judges' rates, their agreement, and the savings from escalation."""
    alone = ", ".join(f"{judge.judge} {_rate(judge.pass_rate)}" for judge in statistics.judges)
    text = f"{statistics.jury}; alone: {alone}; the first judges agree on {percent(statistics.unanimous.value)}"
    if statistics.escalate_to is None:
        return text
    cost = "" if statistics.saved_usd is None else f", {format_cost(to_picodollars(Decimal(statistics.saved_usd)))}"
    saved = f", which saved about {quantity(statistics.saved_calls, 'call')}{cost}" if statistics.saved_calls else ""
    escalated = f"{statistics.escalated.hits:,} of {statistics.escalated.out_of:,} answers"
    return f"{text}; {statistics.escalate_to} asked for {escalated}{saved}"


def _rate(rate: Rate) -> str:
    """Format a rate with its denominator and any undecided answers. A rate without a value is "without a verdict"."""
    text = "without a verdict" if rate.value is None else f"{percent(rate.value)} of {rate.out_of:,}"
    return text + (f" ({undecided_text(rate).removeprefix('; ')})" if rate.undecided else "")
