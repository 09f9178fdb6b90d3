"""Corrected pass rates beside raw ones: in `karenina show` and `compare`, and on the report page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_calibration.agreement import verdict_agreement
from karenina_calibration.calibration import LabelledRun
from karenina_calibration.calibration_text import corrected_text, stale_text
from karenina_calibration.corrected import ModelRate
from karenina_calibration.estimators.stratified import corrected_difference
from karenina_calibration.label_file import label_command, read_labels
from karenina_calibration.label_paths import find_labels_file
from karenina_core.errors import KareninaError
from karenina_report.comparison.comparison_text import points
from karenina_report.page.section import Column, IntervalPlot, PageSection, TableBlock, TextBlock
from karenina_report.run_notes import NotedRun, RunNote
from karenina_report.runs import read_runs

if TYPE_CHECKING:
    from karenina_report.page.section import Cell, PageRuns

NAME: Final = "Corrected"
_RATE: Final = (Column("Corrected", "share"), Column("Low", "share"), Column("High", "share"))


@dataclass(frozen=True, slots=True)
class RunLabels:
    """The corrected rate of one answering model in a run with labels, or why there is none.

    `label` is the letter of the run; `run` is None if the labels cannot be used.
    """

    label: str
    model: str
    rate: ModelRate | str
    run: LabelledRun | None

    @property
    def found(self) -> ModelRate | None:
        """The corrected rate, if there is one."""
        return self.rate if isinstance(self.rate, ModelRate) else None


def find_labels(runs: Sequence[NotedRun]) -> list[RunLabels]:
    """Return the corrected rates of the runs whose result file has a label file."""
    opened: dict[Path, LabelledRun | str] = {}
    found = []
    for run in runs:
        if run.source is None:
            continue
        file = find_labels_file(run.source)
        if not file.exists():
            continue
        if run.source not in opened:
            opened[run.source] = _open(run.source, file)
        labelled = opened[run.source]
        if isinstance(labelled, str):
            found.append(RunLabels(run.label, run.model or "", labelled, None))
            continue
        models = [run.model] if run.model is not None else labelled.answers.with_verdicts
        known = [model for model in models if model in labelled.answers.with_verdicts]
        found += [RunLabels(run.label, model, labelled.corrected(model), labelled) for model in known]
    return found


def _open(source: Path, labels: Path) -> LabelledRun | str:
    """Return the labelled run, or why its labels cannot be used."""
    try:
        results = [result for run in read_runs([source]) for result in run.results]
        return LabelledRun(results, read_labels([labels]), place=labels, source=source)
    except KareninaError as error:
        return str(error)


def corrected_notes(runs: Sequence[NotedRun]) -> list[RunNote]:
    """Return the corrected rate of each run with labels, and the corrected difference of each pair."""
    return _notes(runs, find_labels(runs))


def _notes(runs: Sequence[NotedRun], found: Sequence[RunLabels]) -> list[RunNote]:
    several = len(found) > 1 or len(runs) > 1
    return [*(_rate_note(one, several=several) for one in found), *_difference_notes(runs, found)]


def _rate_note(one: RunLabels, *, several: bool) -> RunNote:
    name = f"{NAME} {one.label}".strip()
    of = f"{one.model}: " if several and not one.label and one.model else ""
    stale = f"; {text}" if (text := _stale(one)) else ""
    if one.found is None:
        return RunNote(name, f"{of}not available: {one.rate}{stale}")
    shown = one.found.shown
    return RunNote(name, of + corrected_text(shown) + stale, {"label": one.label, **shown.model_dump(mode="json")})


def _stale(one: RunLabels) -> str:
    """Return a note on labels of this model's answers that were given for another truth; empty if there are none."""
    if one.run is None:
        return ""
    items = {item for item, _ in one.run.labels.stale}
    found = [of.question_id for of in one.run.answers.by_id.values() if of.id in items and of.model == one.model]
    how = label_command("label", one.run.source or "RESULTS", None)
    return f"{stale_text(found)}; `{how}` asks again" if found else ""


def _difference_notes(runs: Sequence[NotedRun], found: Sequence[RunLabels]) -> Iterator[RunNote]:
    known = {one.label: one for one in found if one.label and one.found is not None}
    for a, b in combinations([run.label for run in runs if run.label], 2):
        if a in known and b in known:
            yield _difference(known[a], known[b])
        elif a in known or b in known:
            without = b if a in known else a
            yield RunNote(
                f"{NAME} {a} - {b}",
                f"not available: {without} has no corrected rate, so the difference assumes equal errors of the judge",
            )


def _difference(a: RunLabels, b: RunLabels) -> RunNote:
    assert a.found is not None
    assert b.found is not None
    found = corrected_difference(a.found.rate, b.found.rate)
    return RunNote(
        f"{NAME} {a.label} - {b.label}",
        f"{points(found.value)} points, 95% CI [{points(found.low)}, {points(found.high)}], by labels of both runs",
        {"a": a.label, "b": b.label, "value": found.value, "low": found.low, "high": found.high},
    )


def corrected_section(page: PageRuns) -> Sequence[PageSection]:
    """Return the report section on corrected rates; none without labels."""
    runs = [
        NotedRun(label, run.model, Path(run.source) if run.source is not None else None)
        for label, run in zip(page.labels, page.runs, strict=True)
    ]
    found = find_labels(runs)
    if not found:
        return ()
    summaries = {label: run.summary for label, run in zip(page.labels, page.runs, strict=True)}
    undecided = any(summary.undecided for summary in summaries.values())
    columns = [Column("Name"), *_RATE, Column("Raw", "share"), Column("Labels", "count"), Column("Answers", "count")]
    if undecided:
        columns += [Column("Undecided", "count"), Column("Raw if these are wrong", "share")]
    rows: list[list[Cell]] = [
        [
            *(f"{of.label}: {of.model}", shown.value, shown.low, shown.high, raw.value if raw is not None else None),
            *(shown.labels, shown.answers),
            *(
                (summaries[of.label].undecided, raw.if_undecided_wrong if raw is not None else None)
                if undecided
                else ()
            ),
        ]
        for of in found
        if of.found is not None
        for shown, raw in [(of.found.shown, summaries[of.label].pass_rate)]
    ]
    note = "Low and High are the bounds of 95% intervals of the share of right answers, estimated from human labels."
    blocks: list[TextBlock | TableBlock] = []
    if rows:
        blocks.append(TableBlock(columns, rows, note=note, plot=IntervalPlot("Name", "Corrected", "Low", "High")))
    judges = _judge_rows(found)
    if judges:
        head = [Column("Judge"), Column("Agree", "share"), Column("Low", "share"), Column("High", "share")]
        kappa = [Column("Kappa", "number"), Column("Labels", "count")]
        blocks.append(TableBlock([*head, *kappa], judges, note="The agreement of verdicts with people."))
    others = [one for one in _notes(runs, found) if not one.values or "a" in one.values]
    blocks.extend(TextBlock(f"{one.name}: {one.text}") for one in others)
    stale = ((one.label, _stale(one)) for one in found if one.found is not None)
    blocks.extend(TextBlock(f"{label}: {text}.") for label, text in stale if text)
    return [PageSection("corrected", "Corrected by people", blocks)]


def _judge_rows(found: Sequence[RunLabels]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for one in found:
        if one.run is None:
            continue
        own = [of for of in one.run.representative if of.answer.model == one.model]
        results = [of for of in one.run.results if of.metadata.answering_id == one.model]
        for judge in verdict_agreement(results, own, one.run.units):
            rate, kappa = judge.agreement, judge.kappa.value if judge.kappa is not None else None
            rows.append([f"{one.label}: {judge.judge}", rate.value, rate.low, rate.high, kappa, rate.out_of])
    return rows
