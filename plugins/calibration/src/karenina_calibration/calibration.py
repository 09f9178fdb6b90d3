"""Comparing the judges of a run with people, and using labels to correct the pass rate."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from karenina_calibration.agreement import (
    LabelledAnswer,
    join_labels,
    template_agreement,
    value_agreement,
    verdict_agreement,
)
from karenina_calibration.answers import SCORED, collect_answers, readable
from karenina_calibration.calibration_result import (
    Calibration,
    CarriedPassRate,
    LabellerAgreement,
    WorstItem,
)
from karenina_calibration.calibration_text import outside_text, stale_text
from karenina_calibration.corrected import ModelRate, correct_rate
from karenina_calibration.estimators import JudgeQuality, rogan_gladen
from karenina_calibration.label_file import check_labels, label_command, read_labels
from karenina_calibration.label_paths import find_labels_file
from karenina_calibration.labelling import now
from karenina_calibration.sheets import SUFFIXES, read_sheet
from karenina_core.errors import ConfigError
from karenina_engine.results.rates import Clusters, rate
from karenina_report.estimators.agreement import krippendorff_alpha
from karenina_report.runs import read_runs
from karenina_report.statistics.columns import Units, assign_units
from karenina_report.statistics.statistics_result import as_coefficient
from karenina_toolkit.printable import quantity, shorten

if TYPE_CHECKING:
    from karenina_calibration.answers import Answers
    from karenina_calibration.draw import Draw
    from karenina_calibration.label_file import Labels
    from karenina_core.data.result import VerificationResult
    from karenina_report.benchmark_questions import BenchmarkQuestions
    from karenina_report.runs import Source

_LONGEST = 200


class LabelledRun:
    """The results of a run, with their labels and the statistical units of their questions.

    Questions with the same value in the column `cluster` are one unit; `questions` adds the columns of a benchmark.

    `place` is the name of the labels for messages, and `source` is the result file. If the results were scored again
    after the draw, the strata are those at the time of the draw. Raises `ConfigError` if the labels were drawn from
    other results, or if there are no labels for these results.
    """

    def __init__(
        self,
        results: Sequence[VerificationResult],
        labels: Labels,
        *,
        cluster: str | None = None,
        questions: BenchmarkQuestions | None = None,
        place: str | Path = "the labels",
        source: str | Path | None = None,
    ) -> None:
        self.results = results
        self.labels = labels
        self.answers: Answers = collect_answers(results)
        self.units: Units = assign_units(results, cluster, questions)
        self.draw: Draw | None = labels.draw
        self.place = place
        self.source = source
        check_labels(labels, self.answers, Path(place), source)
        self.labelled: list[LabelledAnswer] = join_labels(self.answers, labels, self.units.of, whole=self.draw is None)
        if not self.labelled:
            raise ConfigError(
                [
                    f"no answer in the results has a label in {place}; to add labels, use "
                    f"`{label_command('label', source or 'RESULTS', None)}`"
                ]
            )

    @property
    def stale(self) -> list[str]:
        """The question IDs of answers with a label for a different ground truth."""
        items = {item for item, _ in self.labels.stale}
        return [answer.question_id for answer in self.answers.by_id.values() if answer.id in items]

    @property
    def representative(self) -> list[LabelledAnswer]:
        """The labelled answers that represent all answers: the drawn answers or, without a draw, all labelled
        answers.
        """
        return [entry for entry in self.labelled if entry.stratum is not None or self.draw is None]

    def corrected(self, model: str) -> ModelRate | str:
        """Return a model's corrected rate, or a text with the reason why there is none."""
        return correct_rate(model, self.answers, self.labelled, self.draw, self.units)


def calibrate(
    results: Source,
    *labels: str | Path,
    cluster: str | None = None,
    quality_from: str | Path | None = None,
    worst: int | None = None,
) -> Calibration:
    """Return the agreement of a run's judges with `labels` and those in the label file next to the results, and the
    run's corrected pass rate. With `quality_from`, another labelled run, the agreement is that of the other run, whose
    error rates correct the pass rate. No model is called. Raises `ConfigError` if there are no labels, if labels are
    malformed or belong to other results, or if the labels of `quality_from` are for other judges.

    `labels` are label files or filled-in sheets; with `quality_from`, they belong to that run. For `cluster`, see
    `karenina.compare`. The judges' sensitivity and specificity in `quality_from` are assumed to carry over. `worst` is
    the maximum number of worst items; if it is None, all of them are listed.

    Raises `ResultFileError` or `JournalError` if results cannot be read.
    """
    everything = [result for run in read_runs([results]) for result in run.results]
    source = str(results) if isinstance(results, str | Path) else None
    if quality_from is not None:
        return _carried(everything, source, calibrate(quality_from, *labels), quality_from, cluster)
    files = _files(results, labels)
    sheets = [file for file in files if file.suffix.lower() in SUFFIXES]
    collected = read_labels(file for file in files if file not in sheets)
    for sheet in sheets:
        answers = collect_answers(everything)
        rows, strange = read_sheet(sheet, answers, labeller=sheet.stem, time=now(), earlier=collected)
        if strange:
            left = len(strange) - 1
            more = f" ({quantity(left, 'more row')} {'has' if left == 1 else 'have'} the same problem)" if left else ""
            what = f"the row is for an answer that the results do not contain{more}"
            raise ConfigError([f"{strange[0]}: {what}; remove the row, or pass the results that contain the answer"])
        for row in rows:
            collected.add(row)
    run = LabelledRun(everything, collected, cluster=cluster, place=files[0], source=source)
    return describe_labels(run, source=source, worst=worst)


def _files(results: Source, labels: Iterable[str | Path]) -> list[Path]:
    """Return the label files, starting with the one next to the results, if it exists. Raises `ConfigError` if there
    are no label files.
    """
    paths = [Path(label) for label in labels]
    if isinstance(results, str | Path):
        beside = find_labels_file(Path(results))
        if beside.exists() and not any(path.exists() and path.samefile(beside) for path in paths):
            paths.insert(0, beside)
        elif not paths:
            raise ConfigError(
                [
                    f"there are no labels because {beside} does not exist. Draw and label answers with: "
                    f"{label_command('label', results, None)}"
                ]
            )
    if not paths:
        raise ConfigError(["there are no labels; pass a label file"])
    return paths


def describe_labels(run: LabelledRun, *, source: str | None = None, worst: int | None = None) -> Calibration:
    """Return the calibration of a labelled run, with at most `worst` of the worst items, or with all of them if that is
    None. `source` is the path of the results, for commands in the notes.
    """
    notes = list(run.units.notes)
    corrected = []
    for model in run.answers.with_verdicts:
        model_rate = run.corrected(model)
        if isinstance(model_rate, ModelRate):
            corrected.append(model_rate.shown)
        else:
            notes.append(f"the pass rate of {model} was not corrected: {model_rate}")
    notes += [f"{model} has no answers" for model in run.answers.missing if model not in run.answers.with_verdicts]
    strange = sum(item not in run.answers.by_id for item in run.labels.by_item)
    if strange:
        notes.append(f"left out {quantity(strange, 'labelled answer')} that the results do not contain")
    name = source or "RESULTS"
    file = run.place if isinstance(run.place, Path) and run.place.suffix.lower() not in SUFFIXES else None
    if run.stale:
        notes.append(f"{stale_text(run.stale)}; to label again, use `{label_command('label', name, file)}`")
    notes += [f"the draw in {run.labels.place} is used, not the one in {draw}" for draw in run.labels.other_draws]
    outside = sum(entry.stratum is None for entry in run.labelled) if run.draw is not None else 0
    if outside:
        notes.append(outside_text(outside, len(run.answers.by_id), name, file))
    current = run.labels.known_items
    counted = [entry for entry in run.labelled if entry.answer.verdicts != SCORED and entry.answer.id in current]
    worst_items = sorted(
        _worst(run.labelled), key=lambda item: (-len(item.verdicts), -len(item.extractions), item.item)
    )
    several = run.draw is not None and len(run.draw.strata) > 1
    if several and any(answer.drawn_as not in (None, answer.verdicts) for answer in run.answers.by_id.values()):
        notes.append(
            "the strata are based on the verdicts at the time of the draw, before the answers were scored again"
        )
    seen = sum(not label.blind for label in run.labels)
    if seen:
        notes.append(
            f"{quantity(seen, 'label')} {'was' if seen == 1 else 'were'} given while the verdict was shown, which "
            "raises agreement"
        )
    return Calibration(
        source=source,
        labellers=dict(Counter(label.labeller for label in run.labels)),
        labelled=len(run.labelled),
        drawn=len(run.draw.items) if run.draw is not None else None,
        unclear=sum(entry.right is None and not entry.tied for entry in counted),
        tied=sum(entry.tied for entry in counted),
        outside=outside,
        stale=run.stale,
        corrected=corrected,
        carried=[],
        verdicts=verdict_agreement(run.results, run.representative, run.units),
        values=value_agreement(run.labelled),
        templates=template_agreement(run.representative),
        ceiling=_ceiling(run.labelled),
        worst=worst_items if worst is None else worst_items[:worst],
        notes=notes,
    )


def _carried(
    results: Sequence[VerificationResult],
    source: str | None,
    other: Calibration,
    name: str | Path,
    cluster: str | None,
) -> Calibration:
    """Return a calibration with the pass rate of each model and judge, corrected with the judges' error rates in
    `other`, the calibration of another run, which are assumed to hold here. For each rate that cannot be corrected, a
    note is added. Raises `ConfigError` if no judge of this run has labels there.

    `name` is the file of the other run. Agreement and counts are taken from `other`, without its worst items.
    """
    units = assign_units(results, cluster)
    qualities = {verdict.judge: verdict for verdict in other.verdicts}
    counts: dict[tuple[str, str], Clusters] = defaultdict(Clusters)
    for result in results:
        counts[result.metadata.answering_id, result.metadata.parsing_id].add_outcome(
            units.of(result.question_id), result.outcome
        )
    notes = [*units.notes, f"the judge's sensitivity and specificity in {name} are assumed to carry over"]
    unknown = dict.fromkeys(judge for _, judge in counts if judge not in qualities)
    if all(judge in unknown for _, judge in counts):
        which = f"it has those of {', '.join(qualities)}" if qualities else "it has none for a verdict"
        raise ConfigError(
            [f"there are no labels in {name} for the verdicts of this run's judges ({', '.join(unknown)}): {which}"]
        )
    notes += [f"the judge {judge} has no labels in {name}" for judge in unknown]
    carried = []
    for (model, judge), counted in counts.items():
        if judge in unknown:
            continue
        agreement = qualities[judge]
        raw = counted.rate()
        se, sp = agreement.sensitivity, agreement.specificity
        if raw.value is None or se.value is None or sp.value is None:
            notes.append(
                f"the pass rate of {model}, judged by {judge}, cannot be corrected because verdicts and labels of both "
                "kinds (right and wrong) are needed"
            )
            continue
        quality = JudgeQuality(se.value, sp.value, agreement.right_size, agreement.wrong_size)
        corrected = rogan_gladen(raw.value, counted.effective_size(), quality)
        if corrected is None:
            notes.append(
                f"the pass rate of {model}, judged by {judge}, cannot be corrected because the judge may be no better "
                "than chance"
            )
        carried.append(
            CarriedPassRate(
                model=model,
                judge=judge,
                raw=raw,
                value=corrected.value if corrected is not None else None,
                low=corrected.low if corrected is not None else None,
                high=corrected.high if corrected is not None else None,
            )
        )
    return other.model_copy(
        update={"source": source, "corrected": [], "carried": carried, "worst": [], "notes": [*notes, *other.notes]}
    )


def _worst(labelled: Iterable[LabelledAnswer]) -> Iterator[WorstItem]:
    """Yield an item for each labelled answer for which a verdict or an extracted value is wrong."""
    for entry in labelled:
        answer = entry.answer
        verdicts = [
            f"{of.judge}: {of.outcome.value} ({of.reason})"
            for of in answer.judgements.values()
            if entry.right is not None and of.verdict is not None and of.verdict != entry.right
        ]
        wrong = [
            f"{extraction.kind} {extraction.name} = {readable(extraction.value)}"
            for extraction in answer.extractions
            if entry.extraction_right(extraction) is False
        ]
        if verdicts or wrong:
            yield WorstItem(
                item=answer.id,
                question_id=answer.question_id,
                question=shorten(answer.question, _LONGEST),
                answer=shorten(answer.text, _LONGEST),
                right=entry.right,
                verdicts=verdicts,
                extractions=wrong,
                notes=[label.note for label in entry.labels if label.note],
            )


def _ceiling(labelled: Sequence[LabelledAnswer]) -> LabellerAgreement | None:
    """Return how often labellers agree with each other on whether answers are right, or None if no answer has two
    labels that say right or wrong. Other labels do not count.
    """
    names = sorted({label.labeller for entry in labelled for label in entry.labels})
    ratings = [{label.labeller: label.right for label in entry.labels if label.right is not None} for entry in labelled]
    several = [
        (entry.unit, by_labeller) for entry, by_labeller in zip(labelled, ratings, strict=True) if len(by_labeller) > 1
    ]
    if not several:
        return None
    pairs: dict[object, list[tuple[object, bool]]] = defaultdict(list)
    for unit, by_labeller in several:
        pairs[unit] += [(unit, a == b) for a, b in combinations(by_labeller.values(), 2)]
    alpha = krippendorff_alpha(
        [unit for unit, _ in several], [[by_labeller.get(name) for name in names] for _, by_labeller in several]
    )
    return LabellerAgreement(
        labellers=names,
        answers=len(several),
        pairs=rate(pair for some in pairs.values() for pair in some),
        krippendorff=as_coefficient(alpha),
    )
