"""Notes on the self-tests of judges beside the pass rates of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from karenina_report.comparison_text import percent
from karenina_report.run_notes import NotedRun, RunNote
from karenina_report.runs import iterate_results
from karenina_selftest.store import StoredScore, read_scores

NAME: Final = "Self-test"
_READ: Final = 100
"""The results that are read of a run: each of its judges has one among the first."""


def selftest_notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
    """Return the last self-test of each judge of the runs that has one."""
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
