"""Joining answers with their labels, and comparing verdicts and values with the labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_calibration.answers import CORRECT, NOT_JUDGED, SCORED, UNDECIDED, WRONG, readable
from karenina_calibration.calibration_result import TemplateAgreement, ValueAgreement, VerdictAgreement
from karenina_calibration.estimators import effective_labels, weighted_rate
from karenina_core.data.outcome import Outcome
from karenina_engine.results.aggregate import has_verdict
from karenina_engine.results.rates import pass_rate
from karenina_report.estimators.agreement import cohen_kappa
from karenina_report.statistics.statistics_result import Coefficient, as_coefficient

if TYPE_CHECKING:
    from karenina_calibration.answers import Answer, Answers, Extraction, Kind
    from karenina_calibration.calibration_result import Table
    from karenina_calibration.label_file import Label, Labels
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.rates import Rate
    from karenina_report.statistics.columns import Units


Unit = Hashable

RIGHT = "right"
NOT_RIGHT = "not right"
_LEAST_OF_A_TEMPLATE = 5


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """An answer with its labels.

    `right` is the majority's label, or None if there is no majority. `tied` is True if equal numbers of labellers say
    right and wrong. `weight` is the number of answers that this answer stands for. `stratum` is the index of its
    stratum in the draw, or None if it was not drawn.
    """

    answer: Answer
    labels: Sequence[Label]
    unit: Unit
    right: bool | None
    tied: bool
    stratum: int | None
    weight: float

    def extraction_right(self, one: Extraction) -> bool | None:
        """Return the majority's label for an extracted value, or None if there is no majority."""
        labels = [label.extraction(one) for label in self.labels]
        return majority([label.right for label in labels if label is not None])[0]

    def own_value(self, one: Extraction) -> str | None:
        """Return the value that most labellers would extract. Returns None if there is a tie or no value."""
        counts = Counter(
            own.own for label in self.labels if (own := label.extraction(one)) is not None and own.own is not None
        )
        return _most_common(counts)


def majority(votes: Sequence[bool | None]) -> tuple[bool | None, bool]:
    """Return the majority of the votes, and whether the votes are tied. The majority is None if they are tied or if
    there are none. Votes of None are ignored.
    """
    right, wrong = votes.count(True), votes.count(False)
    return (None, bool(right)) if right == wrong else (right > wrong, False)


def _most_common(counts: Counter[str]) -> str | None:
    """Return the most frequent value. Returns None if there is a tie or no value."""
    top = counts.most_common(2)
    return top[0][0] if top and (len(top) == 1 or top[0][1] > top[1][1]) else None


def join_labels(
    answers: Answers, labels: Labels, unit_of: Callable[[str], Unit], *, whole: bool
) -> list[LabelledAnswer]:
    """Return each labelled answer with its labels, its stratum and its weight: the stratum's size divided by its usable
    labels. Outside the draw, or for all answers if `whole` is set, there is no stratum, and the weight is 1. Labels for
    unknown answers are ignored, and answers without a label are left out.

    `unit_of` returns the statistical unit for a question ID.
    """
    draw = labels.draw if not whole else None
    strata = {drawn.item: drawn.stratum for drawn in draw.items} if draw is not None else {}
    votes = {
        item: majority([label.right for label in by_labeller.values()])
        for item, by_labeller in labels.by_item.items()
        if item in answers.by_id
    }
    weights: Mapping[int, float] = {}
    if draw is not None:
        usable = Counter(
            strata[item]
            for item, (right, _) in votes.items()
            if item in strata and (right is not None or answers.by_id[item].verdicts == SCORED)
        )
        weights = {number: draw.strata[number].size / count for number, count in usable.items()}
    labelled = []
    for item, (right, tied) in votes.items():
        answer = answers.by_id[item]
        stratum = strata.get(item)
        weight = weights.get(stratum, 1.0) if stratum is not None else 1.0
        of = list(labels.by_item[item].values())
        labelled.append(LabelledAnswer(answer, of, unit_of(answer.question_id), right, tied, stratum, weight))
    return labelled


def verdict_agreement(
    results: Iterable[VerificationResult], labelled: Sequence[LabelledAnswer], units: Units
) -> list[VerdictAgreement]:
    """Return how far each judge's verdicts agree with labels of right and wrong, leaving out judges without a labelled
    verdict. `results` must be all of the run's results, from which raw pass rates are computed.
    """
    raw: dict[str, dict[str, list[tuple[Hashable, Outcome]]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if has_verdict(result) or result.outcome is Outcome.UNDECIDED:
            meta = result.metadata
            raw[meta.parsing_id][meta.answering_id].append((units.of(result.question_id), result.outcome))
    return [
        agreement
        for judge, models in raw.items()
        if (agreement := _judge_agreement(judge, models, labelled)) is not None
    ]


def _judge_agreement(
    judge: str, models: Mapping[str, Sequence[tuple[Hashable, Outcome]]], labelled: Sequence[LabelledAnswer]
) -> VerdictAgreement | None:
    """Return how far one judge's verdicts agree with the labels, or None if none of the answers labelled right or wrong
    has a verdict from this judge. `models` contains the units and outcomes for each model.
    """
    rated = [entry for entry in labelled if entry.right is not None and judge in entry.answer.judgements]
    table = {name: {RIGHT: 0, NOT_RIGHT: 0} for name in (CORRECT, WRONG, UNDECIDED, NOT_JUDGED)}
    judged: list[tuple[LabelledAnswer, bool, bool]] = []
    for entry in rated:
        judgement = entry.answer.judgements[judge]
        verdict, right = judgement.verdict, bool(entry.right)
        without = UNDECIDED if judgement.outcome is Outcome.UNDECIDED else NOT_JUDGED
        table[without if verdict is None else CORRECT if verdict else WRONG][RIGHT if right else NOT_RIGHT] += 1
        if verdict is not None:
            judged.append((entry, verdict, right))
    if not judged:
        return None
    of_right = [(entry, verdict) for entry, verdict, right in judged if right]
    of_wrong = [(entry, not verdict) for entry, verdict, right in judged if not right]
    return VerdictAgreement(
        judge=judge,
        raw={model: pass_rate(outcomes) for model, outcomes in models.items()},
        agreement=_agreed([(entry, verdict == right) for entry, verdict, right in judged]),
        kappa=_kappa(judged),
        sensitivity=_agreed(of_right),
        specificity=_agreed(of_wrong),
        right_size=_size(of_right),
        wrong_size=_size(of_wrong),
        table={name: row for name, row in table.items() if name in (CORRECT, WRONG) or any(row.values())},
    )


def value_agreement(labelled: Sequence[LabelledAnswer]) -> list[ValueAgreement]:
    """Return how far the values that each judge extracted agree with the labels, by field and trait. A value only
    counts if a majority says that it is right or that it is wrong.
    """
    hits: dict[tuple[Kind, str, str], list[tuple[LabelledAnswer, bool]]] = defaultdict(list)
    values: dict[tuple[Kind, str, str], list[tuple[LabelledAnswer, str, str]]] = defaultdict(list)
    for entry in labelled:
        for judge, judgement in entry.answer.judgements.items():
            for extraction in judgement.extractions:
                key = (extraction.kind, extraction.name, judge)
                right = entry.extraction_right(extraction)
                if right is not None:
                    hits[key].append((entry, right))
                own = entry.own_value(extraction)
                if own is not None:
                    values[key].append((entry, extraction.value, own))
    return [
        ValueAgreement(
            kind=key[0],
            name=key[1],
            judge=key[2],
            agreement=_agreed(hits[key]),
            kappa=_kappa(values[key]) if key in values else None,
            table=_count((readable(value), readable(own)) for _, value, own in values.get(key, ())),
        )
        for key in hits
    ]


def template_agreement(labelled: Sequence[LabelledAnswer]) -> list[TemplateAgreement]:
    """Return how far verdicts agree with the labels for each template with at least five labelled answers, with the
    worst template first. A label is compared with the verdict of each judge. If all labelled answers share one
    template, the list is empty.
    """
    hits: dict[str, list[tuple[LabelledAnswer, bool]]] = defaultdict(list)
    questions: dict[str, dict[str, str]] = defaultdict(dict)
    labels: dict[str, set[str]] = defaultdict(set)
    for entry in labelled:
        for judgement in entry.answer.judgements.values():
            if entry.right is not None and judgement.verdict is not None:
                hits[judgement.template].append((entry, judgement.verdict == entry.right))
                questions[judgement.template][entry.answer.question_id] = entry.answer.question
                labels[judgement.template].add(entry.answer.id)
    if len(hits) < 2:
        return []
    agreements = [
        TemplateAgreement(
            template=template,
            question=next(iter(questions[template].values())),
            questions=len(questions[template]),
            labels=len(labels[template]),
            agreement=_agreed(some),
        )
        for template, some in hits.items()
        if len(labels[template]) >= _LEAST_OF_A_TEMPLATE
    ]
    return sorted(agreements, key=lambda agreement: (agreement.agreement.value or 0.0, agreement.template))


_Hits = Sequence[tuple["LabelledAnswer", bool]]


def _agreed(hits: _Hits) -> Rate:
    """Return the weighted share of hits, with its interval."""
    return weighted_rate(*_columns(hits))


def _size(hits: _Hits) -> float:
    """Return the effective number of labels behind a share of hits, or 0 if there are no labels."""
    return effective_labels(*_columns(hits))


def _columns(hits: _Hits) -> tuple[list[Hashable], list[bool], list[float]]:
    """Split pairs of an answer and a hit into separate lists of units, hits and weights."""
    return [entry.unit for entry, _ in hits], [hit for _, hit in hits], [entry.weight for entry, _ in hits]


def _kappa(rated: Sequence[tuple[LabelledAnswer, Hashable, Hashable]]) -> Coefficient | None:
    """Return Cohen's kappa, weighted by the draw, or None if all ratings on one side are the same."""
    pairs = [(a, b) for _, a, b in rated]
    return as_coefficient(
        cohen_kappa([entry.unit for entry, *_ in rated], pairs, [entry.weight for entry, *_ in rated])
    )


def _count(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return how often each pair of values occurs, first by the judge's value and then by the labellers' value."""
    table: dict[str, dict[str, int]] = {}
    for value, own in pairs:
        row = table.setdefault(value, {})
        row[own] = row.get(own, 0) + 1
    return table
