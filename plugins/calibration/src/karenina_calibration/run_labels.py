"""Corrected pass rates alongside raw ones, in `karenina show` and `compare` and in reports."""

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
from karenina_calibration.estimators import corrected_difference
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
    """A model's corrected rate in a run with labels, or the reason why there is none.

    `label` is the letter of the run. `run` is None if the labels cannot be used.
    """

    label: str
    model: str
    rate: ModelRate | str
    run: LabelledRun | None

    @property
    def found(self) -> ModelRate | None:
        """The corrected rate, or None if there is none."""
        return self.rate if isinstance(self.rate, ModelRate) else None


def find_labels(runs: Sequence[NotedRun]) -> list[RunLabels]:
    """Return the corrected rate of each run with a label file, or the reason why there is none. A run without a `model`
    has one entry per model, or a single one if its labels cannot be used, for which nothing is raised. Runs without
    labels, and models with only trait scores, have no entry.
    """
    opened: dict[Path, LabelledRun | str] = {}
    run_labels = []
    for run in runs:
        if run.source is None:
            continue
        file = find_labels_file(run.source)
        if not file.exists():
            continue
        if run.source not in opened:
            opened[run.source] = _open(run, run.source, file)
        labelled = opened[run.source]
        if isinstance(labelled, str):
            run_labels.append(RunLabels(run.label, run.model or "", labelled, None))
            continue
        models = [run.model] if run.model is not None else labelled.answers.with_verdicts
        judged = [model for model in models if model in labelled.answers.with_verdicts]
        run_labels += [RunLabels(run.label, model, labelled.corrected(model), labelled) for model in judged]
    return run_labels


def _open(run: NotedRun, source: Path, labels: Path) -> LabelledRun | str:
    """Return the run in the file `source`, which is that of `run`, with the labels in the file `labels`, or the reason
    why they cannot be used.
    """
    try:
        results = [result for read in read_runs([source]) for result in read.results]
        found, cluster, questions = read_labels([labels]), run.cluster, run.questions
        return LabelledRun(results, found, cluster=cluster, questions=questions, place=labels, source=source)
    except KareninaError as error:
        return str(error)


def corrected_notes(runs: Sequence[NotedRun]) -> list[RunNote]:
    """Return notes about the corrected rate of each run, and about the difference between each pair of runs."""
    return _notes(runs, find_labels(runs))


def _notes(runs: Sequence[NotedRun], run_labels: Sequence[RunLabels]) -> list[RunNote]:
    """Return the notes about corrected rates, followed by those about differences."""
    several = len(run_labels) > 1 or len(runs) > 1
    return [*(_rate_note(label, several=several) for label in run_labels), *_difference_notes(runs, run_labels)]


def _rate_note(labels: RunLabels, *, several: bool) -> RunNote:
    """Return the note about a corrected rate. If there is none, the note gives the reason. If there are `several` notes
    and the run has no letter, the note names the model.
    """
    name = f"{NAME} {labels.label}".strip()
    of = f"{labels.model}: " if several and not labels.label and labels.model else ""
    stale = f"; {text}" if (text := _stale_note(labels)) else ""
    if labels.found is None:
        return RunNote(name, f"{of}not available: {labels.rate}{stale}")
    shown = labels.found.shown
    return RunNote(name, of + corrected_text(shown) + stale, {"label": labels.label, **shown.model_dump(mode="json")})


def _stale_note(labels: RunLabels) -> str:
    """Return the note about labels for a different ground truth, or an empty string if there are none."""
    if labels.run is None:
        return ""
    items = {item for item, _ in labels.run.labels.stale}
    questions = [
        of.question_id for of in labels.run.answers.by_id.values() if of.id in items and of.model == labels.model
    ]
    how = label_command("label", labels.run.source or "RESULTS", None)
    return f"{stale_text(questions)}; to label again, use `{how}`" if questions else ""


def _difference_notes(runs: Sequence[NotedRun], run_labels: Sequence[RunLabels]) -> Iterator[RunNote]:
    """Yield a note on the difference, or why it is not available, for each pair of runs if at least one has a corrected
    rate.
    """
    by_label = {label.label: label for label in run_labels if label.label and label.found is not None}
    for a, b in combinations([run.label for run in runs if run.label], 2):
        if a in by_label and b in by_label:
            yield _difference(by_label[a], by_label[b])
        elif a in by_label or b in by_label:
            without = b if a in by_label else a
            yield RunNote(
                f"{NAME} {a} - {b}",
                f"not available: {without} has no corrected rate, so the difference assumes that the judge's "
                "error rates are equal",
            )


def _difference(a: RunLabels, b: RunLabels) -> RunNote:
    """Return the note about the difference between two runs with corrected rates."""
    assert a.found is not None
    assert b.found is not None
    change = corrected_difference(a.found.rate, b.found.rate)
    return RunNote(
        f"{NAME} {a.label} - {b.label}",
        f"{points(change.value)} points, 95% CI [{points(change.low)}, {points(change.high)}], using the labels of "
        f"both runs",
        {"a": a.label, "b": b.label, "value": change.value, "low": change.low, "high": change.high},
    )


def corrected_section(page: PageRuns) -> Sequence[PageSection]:
    """Return a list with the section about pass rates corrected with people's labels, or an empty tuple if there are no
    labels for the runs of the page.
    """
    runs = [
        NotedRun(label, run.model, Path(run.source) if run.source is not None else None, page.cluster, page.questions)
        for label, run in zip(page.labels, page.runs, strict=True)
    ]
    run_labels = find_labels(runs)
    if not run_labels:
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
        for of in run_labels
        if of.found is not None
        for shown, raw in [(of.found.shown, summaries[of.label].pass_rate)]
    ]
    note = (
        "Low and High are the bounds of the 95% interval for the share of correct answers, estimated from human labels."
    )
    blocks: list[TextBlock | TableBlock] = []
    if rows:
        blocks.append(TableBlock(columns, rows, note=note, plot=IntervalPlot("Name", "Corrected", "Low", "High")))
    judges = _judge_rows(run_labels)
    if judges:
        head = [Column("Judge"), Column("Agree", "share"), Column("Low", "share"), Column("High", "share")]
        kappa = [Column("Kappa", "number"), Column("Labels", "count")]
        blocks.append(TableBlock([*head, *kappa], judges, note="The agreement between verdicts and human labels."))
    others = [run_note for run_note in _notes(runs, run_labels) if not run_note.values or "a" in run_note.values]
    blocks.extend(TextBlock(f"{other.name}: {other.text}") for other in others)
    stale = ((labels.label, _stale_note(labels)) for labels in run_labels if labels.found is not None)
    blocks.extend(TextBlock(f"{label}: {text}.") for label, text in stale if text)
    return [PageSection("corrected", "Corrected by people", blocks)]


def _judge_rows(run_labels: Sequence[RunLabels]) -> list[list[Cell]]:
    """Return a table row for each judge in each run. Runs whose labels cannot be used are skipped."""
    rows: list[list[Cell]] = []
    for label in run_labels:
        if label.run is None:
            continue
        own = [of for of in label.run.representative if of.answer.model == label.model]
        results = [of for of in label.run.results if of.metadata.answering_id == label.model]
        for judge in verdict_agreement(results, own, label.run.units):
            rate, kappa = judge.agreement, judge.kappa.value if judge.kappa is not None else None
            rows.append([f"{label.label}: {judge.judge}", rate.value, rate.low, rate.high, kappa, rate.out_of])
    return rows
