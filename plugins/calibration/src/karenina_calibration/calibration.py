"""`calibrate`: the agreement of a run's judges with people, and the pass rate corrected by labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from karenina_calibration.agreement import template_agreement, value_agreement, verdict_agreement
from karenina_calibration.answers import SCORED, collect_answers, readable
from karenina_calibration.calibration_result import (
    Calibration,
    CarriedPassRate,
    LabellerAgreement,
    WorstItem,
)
from karenina_calibration.calibration_text import outside_text, stale_text
from karenina_calibration.corrected import ModelRate, correct_rate
from karenina_calibration.estimators.corrected_rates import JudgeQuality, rogan_gladen
from karenina_calibration.label_file import check_labels, label_command, read_labels
from karenina_calibration.label_paths import find_labels_file
from karenina_calibration.labelled_answers import LabelledAnswer, join_labels
from karenina_calibration.labelling import now
from karenina_calibration.sheets import SUFFIXES, read_sheet
from karenina_core.errors import ConfigError
from karenina_engine.results.rates import Clusters, rate
from karenina_report.estimators.agreement import krippendorff_alpha
from karenina_report.runs import read_runs
from karenina_report.statistics.clusters import Units, assign_units
from karenina_report.statistics.statistics_result import Coefficient
from karenina_toolkit.printable import shorten

if TYPE_CHECKING:
    from karenina_calibration.answers import Answers
    from karenina_calibration.draw import Draw
    from karenina_calibration.label_file import Labels
    from karenina_core.data.result import VerificationResult
    from karenina_report.runs import Source

_LONGEST = 200


class LabelledRun:
    """The results of a run with their labels, and the statistical units of their questions.

    `place` names the labels in messages; `source` is the result file. If its results were scored again after the draw,
    the strata are those of the draw. Raises `ConfigError` if the labels were drawn from other results, or none of them
    is about these.
    """

    def __init__(
        self,
        results: Sequence[VerificationResult],
        labels: Labels,
        *,
        cluster: str | None = None,
        place: str | Path = "the labels",
        source: str | Path | None = None,
    ) -> None:
        self.results = results
        self.labels = labels
        self.answers: Answers = collect_answers(results)
        self.units: Units = assign_units(results, cluster)
        self.draw: Draw | None = labels.draw
        self.place = place
        self.source = source
        check_labels(labels, self.answers, Path(place), source)
        self.labelled: list[LabelledAnswer] = join_labels(self.answers, labels, self.units.of, whole=self.draw is None)
        if not self.labelled:
            raise ConfigError(
                [
                    f"{place} has no label for an answer in the results: "
                    f"`{label_command('label', source or 'RESULTS', None)}` asks for them"
                ]
            )

    @property
    def stale(self) -> list[str]:
        """The question ids of answers with a label that was given for another truth."""
        items = {item for item, _ in self.labels.stale}
        return [answer.question_id for answer in self.answers.by_id.values() if answer.id in items]

    @property
    def representative(self) -> list[LabelledAnswer]:
        """The labelled answers from which all answers are estimated: the drawn ones, or all if there is no draw."""
        return [one for one in self.labelled if one.stratum is not None or self.draw is None]

    def corrected(self, model: str) -> ModelRate | str:
        """Return the corrected rate of a model, or why there is none."""
        return correct_rate(model, self.answers, self.labelled, self.draw, self.units.of)


def calibrate(
    results: Source,
    *labels: str | Path,
    cluster: str | None = None,
    quality_from: str | Path | None = None,
    worst: int | None = None,
) -> Calibration:
    """Return the agreement of a run's judges with labels, and its corrected pass rate.

    `labels` are label files or filled-in sheets; the label file beside the results is read too, if it exists. `cluster`
    is as in `karenina.compare`. `quality_from` is another labelled result file: then the pass rate is corrected by the
    sensitivity and specificity of the same judges there, which are assumed to carry over. `worst` is the maximum number
    of worst items; None lists all. Raises `ConfigError`, `ResultFileError` and `JournalError`.
    """
    everything = [result for run in read_runs([results]) for result in run.results]
    source = str(results) if isinstance(results, str | Path) else None
    if quality_from is not None:
        return _carried(everything, source, calibrate(quality_from, *labels), quality_from, cluster)
    files = _files(results, labels)
    sheets = [file for file in files if file.suffix.lower() in SUFFIXES]
    found = read_labels(file for file in files if file not in sheets)
    for sheet in sheets:
        answers = collect_answers(everything)
        rows, strange = read_sheet(sheet, answers, labeller=sheet.stem, time=now(), earlier=found)
        if strange:
            more = f", as {len(strange) - 1} more rows" if len(strange) > 1 else ""
            what = f"the row is about an answer that the results do not contain{more}"
            raise ConfigError([f"{strange[0]}: {what}; remove it, or give the results that it is about"])
        for one in rows:
            found.add(one)
    run = LabelledRun(everything, found, cluster=cluster, place=files[0], source=source)
    return describe_labels(run, source=source, worst=worst)


def _files(results: Source, labels: Iterable[str | Path]) -> list[Path]:
    given = [Path(one) for one in labels]
    if isinstance(results, str | Path):
        beside = find_labels_file(Path(results))
        if beside.exists() and not any(one.exists() and one.samefile(beside) for one in given):
            given.insert(0, beside)
        elif not given:
            raise ConfigError(
                [
                    f"there are no labels: {beside} does not exist. Draw and label answers with: "
                    f"{label_command('label', results, None)}"
                ]
            )
    if not given:
        raise ConfigError(["there are no labels: give a label file"])
    return given


def describe_labels(run: LabelledRun, *, source: str | None = None, worst: int | None = None) -> Calibration:
    """Return the calibration of a run from its labels."""
    notes = list(run.units.notes)
    corrected = []
    for model in run.answers.with_verdicts:
        found = run.corrected(model)
        if isinstance(found, ModelRate):
            corrected.append(found.shown)
        else:
            notes.append(f"the pass rate of {model} is not corrected: {found}")
    notes += [f"{model} has no answer" for model in run.answers.missing if model not in run.answers.with_verdicts]
    strange = sum(item not in run.answers.by_id for item in run.labels.by_item)
    if strange:
        notes.append(f"{strange} labelled answers are not in the results, and are left out")
    name = source or "RESULTS"
    file = run.place if isinstance(run.place, Path) and run.place.suffix.lower() not in SUFFIXES else None
    if run.stale:
        notes.append(f"{stale_text(run.stale)}; `{label_command('label', name, file)}` asks again")
    notes += [f"the draw in {run.labels.place} is used, not the one in {one}" for one in run.labels.other_draws]
    outside = sum(one.stratum is None for one in run.labelled) if run.draw is not None else 0
    if outside:
        notes.append(outside_text(outside, len(run.answers.by_id), name, file))
    current = run.labels.known_items
    known = [one for one in run.labelled if one.answer.verdicts != SCORED and one.answer.id in current]
    worst_items = sorted(_worst(run.labelled), key=lambda one: (-len(one.verdicts), -len(one.extractions), one.item))
    several = run.draw is not None and len(run.draw.strata) > 1
    if several and any(one.drawn_as not in (None, one.verdicts) for one in run.answers.by_id.values()):
        notes.append("the strata are the verdicts when the answers were drawn, before they were scored again")
    seen = sum(not label.blind for label in run.labels)
    if seen:
        notes.append(f"{seen} labels were given with the verdict shown, which raises agreement")
    return Calibration(
        source=source,
        labellers=dict(Counter(label.labeller for label in run.labels)),
        labelled=len(run.labelled),
        drawn=len(run.draw.items) if run.draw is not None else None,
        unclear=sum(one.right is None and not one.tied for one in known),
        tied=sum(one.tied for one in known),
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
    """Return the pass rate of each model and judge, corrected by the same judge's error rates in another run."""
    units = assign_units(results, cluster)
    qualities = {one.judge: one for one in other.verdicts}
    counts: dict[tuple[str, str], Clusters] = defaultdict(Clusters)
    for one in results:
        counts[one.metadata.answering_id, one.metadata.parsing_id].add_outcome(units.of(one.question_id), one.outcome)
    notes = [*units.notes, f"sensitivity and specificity of the judge in {name} are assumed to carry over"]
    unknown = dict.fromkeys(judge for _, judge in counts if judge not in qualities)
    notes += [f"the judge {judge} has no labels in {name}" for judge in unknown]
    carried = []
    for (model, judge), counted in counts.items():
        if judge in unknown:
            continue
        known = qualities[judge]
        raw = counted.rate()
        se, sp = known.sensitivity, known.specificity
        if raw.value is None or se.value is None or sp.value is None:
            notes.append(f"{model} by {judge} cannot be corrected: labels of both kinds and verdicts are needed")
            continue
        quality = JudgeQuality(se.value, sp.value, known.right_size, known.wrong_size)
        found = rogan_gladen(raw.value, counted.effective_size(), quality)
        if found is None:
            notes.append(f"{model} by {judge} cannot be corrected: the judge may be no better than chance")
        carried.append(
            CarriedPassRate(
                model=model,
                judge=judge,
                raw=raw,
                value=found.value if found is not None else None,
                low=found.low if found is not None else None,
                high=found.high if found is not None else None,
            )
        )
    return other.model_copy(
        update={"source": source, "corrected": [], "carried": carried, "worst": [], "notes": [*notes, *other.notes]}
    )


def _worst(labelled: Iterable[LabelledAnswer]) -> Iterator[WorstItem]:
    """Yield the labelled answers that a judge got wrong."""
    for one in labelled:
        answer = one.answer
        verdicts = [
            f"{of.judge}: {of.outcome.value} ({of.reason})"
            for of in answer.judgements.values()
            if one.right is not None and of.verdict is not None and of.verdict != one.right
        ]
        wrong = [
            f"{found.kind} {found.name} = {readable(found.value)}"
            for found in answer.extractions
            if one.extraction_right(found) is False
        ]
        if verdicts or wrong:
            yield WorstItem(
                item=answer.id,
                question_id=answer.question_id,
                question=shorten(answer.question, _LONGEST),
                answer=shorten(answer.text, _LONGEST),
                right=one.right,
                verdicts=verdicts,
                extractions=wrong,
                notes=[label.note for label in one.labels if label.note],
            )


def _ceiling(labelled: Sequence[LabelledAnswer]) -> LabellerAgreement | None:
    """Return how often labellers agree on whether answers are right; None if no answer has two labels."""
    names = sorted({label.labeller for one in labelled for label in one.labels})
    ratings = [{label.labeller: label.right for label in one.labels if label.right is not None} for one in labelled]
    several = [(one.unit, found) for one, found in zip(labelled, ratings, strict=True) if len(found) > 1]
    if not several:
        return None
    pairs: dict[object, list[tuple[object, bool]]] = defaultdict(list)
    for unit, found in several:
        pairs[unit] += [(unit, a == b) for a, b in combinations(found.values(), 2)]
    alpha = krippendorff_alpha(
        [unit for unit, _ in several], [[found.get(name) for name in names] for _, found in several]
    )
    return LabellerAgreement(
        labellers=names,
        answers=len(several),
        pairs=rate(one for some in pairs.values() for one in some),
        krippendorff=Coefficient(value=alpha.value, low=alpha.low, high=alpha.high) if alpha is not None else None,
    )
