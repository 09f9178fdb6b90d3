"""Judge self-tests in reports: a section of the report page, and notes beside the pass rates of runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from karenina_engine.results.summary_text import percent
from karenina_report.page.section import Cell, Column, IntervalPlot, PageRuns, PageSection, TableBlock
from karenina_report.run_notes import NotedRun, RunNote
from karenina_report.runs import iterate_results
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
    """Return the section on self-tests; none if no judge of the runs was tested."""
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


NAME: Final = "Self-test"


_READ: Final = 100
"""The number of results to read from a run, enough to contain each of its judges."""


def selftest_notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
    """Return a note with the last self-test of each judge of the runs, if the judge was tested."""
    judges: dict[str, None] = {}
    for run in runs:
        results = iterate_results(run.source) if run.source is not None else ()
        judges |= {result.metadata.parsing_model: None for result in islice(results, _READ)}
    found = [scores[-1] for judge in judges if (scores := read_scores(judge))]
    return [RunNote(NAME, _text(one), one.model_dump(mode="json")) for one in found]


def _text(one: StoredScore) -> str:
    rate = one.false_pass
    bounds = f" [{percent(rate.low)}, {percent(rate.high)}]" if rate.value is not None else ""
    unreadable = f"; {one.unreadable:,} replies could not be parsed" if one.unreadable else ""
    return (
        f"{one.judge} passed {percent(rate.value)}{bounds} of {rate.out_of:,} answers that must fail, and failed "
        f"{percent(one.false_fail.value)} of {one.false_fail.out_of:,} that must pass{unreadable} "
        f"({one.when[:10]}, {one.cases})"
    )
