"""The section of the report page on juries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from karenina_engine.results.rates import Rate
from karenina_jury.jury_statistics import JuryStatistics, describe_juries
from karenina_report.page.section import Cell, Column, IntervalPlot, PageRuns, PageSection, TableBlock, TextBlock

_COLUMNS: Final = (
    Column("Judge"),
    Column("Pass rate", "share"),
    Column("Low", "share"),
    Column("High", "share"),
    Column("Asked", "count"),
    Column("Not judged", "count"),
    Column("Agrees with the jury", "share"),
)
_UNDECIDED: Final = (Column("Undecided", "count"), Column("If these are wrong", "share"))
_PLOT: Final = IntervalPlot("Judge", "Pass rate", "Low", "High")


def jury_sections(page: PageRuns) -> Sequence[PageSection]:
    """Return a table of each run with a jury: the jury and its judges."""
    blocks: list[TextBlock | TableBlock] = []
    for label, run in zip(page.labels, page.runs, strict=True):
        for one in describe_juries(run.results):
            rows = [_row(one.jury, one.pass_rate, one.answers, one.not_judged, None)]
            rows += [_row(j.judge, j.pass_rate, j.asked, j.failed, j.agrees.value) for j in one.judges]
            rates = [one.pass_rate, *(judge.pass_rate for judge in one.judges)]
            columns = [*_COLUMNS]
            if any(rate.undecided for rate in rates):
                columns += _UNDECIDED
                for row, rate in zip(rows, rates, strict=True):
                    row += [rate.undecided, rate.if_undecided_wrong]
            blocks += [
                TextBlock(_summary(one)),
                TableBlock(columns, rows, note=f"Run {label}: {run.name}.", plot=_PLOT),
            ]
    return [PageSection("jury", "Juries", blocks)] if blocks else ()


def _row(name: str, rate: Rate, asked: int, failed: int, agrees: float | None) -> list[Cell]:
    return [name, rate.value, rate.low, rate.high, asked, failed, agrees]


def _summary(one: JuryStatistics) -> str:
    text = f"All first judges agreed on {one.unanimous.hits:,} of {one.answers:,} answers."
    if one.escalate_to is not None:
        text += f" {one.escalate_to} was asked for {one.escalated.hits:,}."
    return text
