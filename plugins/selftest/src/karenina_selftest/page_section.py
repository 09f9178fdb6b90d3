"""The section of the report page on the self-tests of the judges of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from karenina_report.page.section import Cell, Column, IntervalPlot, PageRuns, PageSection, TableBlock
from karenina_selftest.store import StoredScore, read_scores

_COLUMNS: Final = (
    Column("Judge"),
    Column("False passes", "share"),
    Column("Low", "share"),
    Column("High", "share"),
    Column("Must fail", "count"),
    Column("False fails", "share"),
    Column("Must pass", "count"),
    Column("Not judged", "count"),
    Column("Cases"),
    Column("When"),
)
_NOTE: Final = (
    "Stored results of `karenina selftest` on this machine, each with the settings of that test. Low and High are the "
    "bounds of the 95% interval of false passes. A judge without a row of numbers was not tested."
)


def selftest_sections(page: PageRuns) -> Sequence[PageSection]:
    """Return the table of self-tests, if a judge of the runs has one."""
    results = [result for run in page.runs for result in run.results if result.outcome.has_verdict]
    judges = sorted({result.metadata.parsing_model for result in results})
    stored = {judge: read_scores(judge) for judge in judges}
    if not any(stored.values()):
        return ()
    rows = [row for judge in judges for row in _rows(judge, stored[judge])]
    plot = IntervalPlot("Judge", "False passes", "Low", "High")
    return [PageSection("selftest", "Self-tests of the judges", [TableBlock(_COLUMNS, rows, note=_NOTE, plot=plot)])]


def _rows(judge: str, scores: Sequence[StoredScore]) -> list[list[Cell]]:
    if not scores:
        return [[judge, *[None] * 7, "not tested", ""]]
    return [
        [
            judge,
            *(one.false_pass.value, one.false_pass.low, one.false_pass.high, one.false_pass.out_of),
            *(one.false_fail.value, one.false_fail.out_of, one.unreadable + one.failed + one.undecided),
            one.cases,
            one.when,
        ]
        for one in scores
    ]
