"""The built-in page sections: outcomes, and rates by model, judge and keyword."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from karenina_core.data.outcome import Outcome
from karenina_engine.cost.price_source import to_dollars
from karenina_engine.results.summary_text import user_lines
from karenina_report.journal_notes import describe_journal
from karenina_report.page.section import BarPlot, Cell, Column, IntervalPlot, PageRuns, PageSection, TableBlock
from karenina_report.statistics.columns import Units, assign_units, make_judge_namer
from karenina_report.statistics.run_statistics import group_rates, rate_in_units

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.runs import Run
    from karenina_report.statistics.statistics_result import GroupRate

_RATE: Final = (Column("Pass rate", "share"), Column("Low", "share"), Column("High", "share"))
_UNDECIDED: Final = (Column("Undecided", "count"), Column("If these are wrong", "share"))
_PLOT: Final = IntervalPlot("Name", "Pass rate", "Low", "High")
_MOST_KEYWORDS: Final = 200
_NOTE: Final = "Low and High are the bounds of 95% intervals, without correction for the number of rows."


def run_sections(page: PageRuns) -> Sequence[PageSection]:
    """Return the built-in sections for a page (outcomes, models, judges, keywords), or none if there are no results."""
    if not any(run.results for run in page.runs):
        return ()
    units = [assign_units(run.results, page.cluster, page.questions) for run in page.runs]
    groups = [
        _group_section(page, units, "judges", "By judge", "judge"),
        _group_section(page, units, "keywords", "By keyword", "keyword"),
    ]
    return [_outcomes(page), _models(page, units), *(group for group in groups if group is not None)]


def _outcomes(page: PageRuns) -> PageSection:
    """Return the section with each run's number of items by outcome. Outcomes that no run has are left out."""
    outcomes = {name for run in page.runs for name, count in run.summary.outcomes.items() if count}
    names = [outcome.value for outcome in Outcome if outcome.value in outcomes]
    columns = [Column("Run"), *(Column(name, "count") for name in names), Column("items", "count")]
    rows: list[list[Cell]] = [
        [f"{label}: {run.name}", *(run.summary.outcomes.get(name, 0) for name in names), run.summary.items]
        for label, run in zip(page.labels, page.runs, strict=True)
    ]
    return PageSection("outcomes", "Outcomes", [TableBlock(columns, rows, plot=BarPlot("Run", tuple(names)))])


def _models(page: PageRuns, units: Sequence[Units]) -> PageSection:
    """Return the section with each run's rates, calls and cost. If there are several judges, each has its own row.
    `units` are those of each run.
    """
    undecided = any(run.summary.undecided for run in page.runs)
    columns = [
        Column("Name"),
        *_RATE,
        *(_UNDECIDED if undecided else ()),
        Column("Judged", "count"),
        Column("Not judged", "count"),
        Column("Calls", "count"),
        Column("Input tokens", "count"),
        Column("Output tokens", "count"),
        Column("Seconds", "seconds"),
        Column("Cost", "usd"),
    ]
    rows: list[list[Cell]] = []
    for label, run, of_run in zip(page.labels, page.runs, units, strict=True):
        summary, usage, cost = run.summary, run.usage, run.journal_info.cost
        dollars = float(to_dollars(cost.cost)) if cost is not None and (cost.known or cost.cost) else None
        used: list[Cell] = [usage.calls, usage.input_tokens, usage.output_tokens, run.seconds, dollars]
        if len(summary.groups) > 1:
            empty: list[Cell] = [None] * (3 + 2 * undecided)
            rows.append([f"{label}: {run.name}", *empty, summary.judged, summary.not_judged, *used])
            used = [None] * len(used)
        for group in summary.groups:
            rate = rate_in_units([item for item in run.results if item.metadata.parsing_id == group.judge], of_run)
            by = f", judged by {group.judge}" if len(summary.groups) > 1 else ""
            rows.append(
                [
                    f"{label}: {run.name}{by}",
                    *(rate.value, rate.low, rate.high),
                    *((rate.undecided, rate.if_undecided_wrong) if undecided else ()),
                    *(group.judged, group.not_judged, *used),
                ]
            )
    faults = [
        f" {label}: {line}."
        for label, run in zip(page.labels, page.runs, strict=True)
        for line in user_lines(run.summary)
    ]
    served = [
        f" {label}: {text}."
        for label, run in zip(page.labels, page.runs, strict=True)
        for text in describe_journal(run)
    ]
    note = "".join(
        [_NOTE, *faults, *served, *(_cost_note(label, run) for label, run in zip(page.labels, page.runs, strict=True))]
    )
    return PageSection("models", "By answering model", [TableBlock(columns, rows, note=note, plot=_PLOT)])


def _cost_note(label: str, run: Run) -> str:
    """Return what the run's cost leaves out or includes, or an empty text if it is the cost of all its calls alone."""
    cost = run.journal_info.cost
    if cost is None or not (cost.known or cost.cost):
        return ""
    parts = [
        *([] if cost.known else ["is at least this, because that of some calls is not known"]),
        *(["includes other models of its journal"] if run.shares_journal and cost.cost else []),
    ]
    return f" {label}: the cost {' and '.join(parts)}." if parts else ""


def _groups_by_name(results: Sequence[VerificationResult], by: str, units: Units) -> dict[str, GroupRate]:
    """Return the pass rate of each value in a column, which is named with its judge if there are several."""
    groups = group_rates(results, by, units, make_judge_namer([results]))
    several = by != "judge" and len({group.judge for group in groups}) > 1
    return {group.value + (f", judged by {group.judge}" if several else ""): group for group in groups}


def _group_section(page: PageRuns, units: Sequence[Units], id: str, title: str, by: str) -> PageSection | None:
    """Return a section with all runs' pass rates for each value of the column `by`, or None if no run has several
    values, or if there is nothing to judge, as in runs that only have scores. At most 200 values are shown, those with
    the most judged results. `units` are those of each run.
    """
    by_run = {
        label: _groups_by_name(run.results, by, of_run)
        for label, run, of_run in zip(page.labels, page.runs, units, strict=True)
    }
    counted = [group.rate.out_of or group.not_judged for groups in by_run.values() for group in groups.values()]
    if all(len(groups) < 2 for groups in by_run.values()) or not any(counted):
        return None
    judged: Counter[str] = Counter()
    for groups in by_run.values():
        for value, group in groups.items():
            judged[value] += group.rate.out_of
    several = len(by_run) > 1
    undecided = any(group.rate.undecided for groups in by_run.values() for group in groups.values())
    shown = [value for value, _ in judged.most_common(_MOST_KEYWORDS)]
    rows: list[list[Cell]] = [
        [
            value,
            *((label,) if several else ()),
            *(row_group.rate.value, row_group.rate.low, row_group.rate.high),
            *((row_group.rate.undecided, row_group.rate.if_undecided_wrong) if undecided else ()),
            *(row_group.rate.hits, row_group.rate.out_of, row_group.not_judged),
        ]
        for value in shown
        for label, groups in by_run.items()
        if (row_group := groups.get(value)) is not None
    ]
    columns = [
        Column("Name"),
        *((Column("Run"),) if several else ()),
        *_RATE,
        *(_UNDECIDED if undecided else ()),
        Column("Correct", "count"),
        Column("Judged", "count"),
        Column("Not judged", "count"),
    ]
    left = f" {len(judged) - len(shown)} more are left out." if len(judged) > len(shown) else ""
    plot = replace(_PLOT, series="Run") if several else _PLOT
    return PageSection(id, title, [TableBlock(columns, rows, note=f"{_NOTE}{left}", plot=plot)])
