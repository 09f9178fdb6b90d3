"""Agreement of verdicts and extracted values with human labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from karenina_calibration.answers import CORRECT, NOT_JUDGED, UNDECIDED, WRONG, readable
from karenina_calibration.calibration_result import TemplateAgreement, ValueAgreement, VerdictAgreement
from karenina_calibration.estimators.stratified import effective_labels, weighted_rate
from karenina_core.data.outcome import Outcome
from karenina_engine.results.rates import pass_rate
from karenina_report.estimators.agreement import cohen_kappa
from karenina_report.statistics.statistics_result import Coefficient

if TYPE_CHECKING:
    from karenina_calibration.answers import Kind
    from karenina_calibration.calibration_result import Table
    from karenina_calibration.labelled_answers import LabelledAnswer
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.rates import Rate
    from karenina_report.statistics.clusters import Units

RIGHT = "right"
NOT_RIGHT = "not right"
_LEAST_OF_A_TEMPLATE = 5


def verdict_agreement(
    results: Iterable[VerificationResult], labelled: Sequence[LabelledAnswer], units: Units
) -> list[VerdictAgreement]:
    """Return the agreement of each judge's verdicts with people, over the answers labelled right or wrong.

    `results` are all results of the run, for the raw pass rates; judges without a labelled verdict are left out.
    """
    raw: dict[str, dict[str, list[tuple[Hashable, Outcome]]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result.outcome.has_verdict or result.outcome is Outcome.UNDECIDED:
            meta = result.metadata
            raw[meta.parsing_id][meta.answering_id].append((units.of(result.question_id), result.outcome))
    return [found for judge, models in raw.items() if (found := _of_judge(judge, models, labelled)) is not None]


def _of_judge(
    judge: str, models: Mapping[str, Sequence[tuple[Hashable, Outcome]]], labelled: Sequence[LabelledAnswer]
) -> VerdictAgreement | None:
    known = [one for one in labelled if one.right is not None and judge in one.answer.judgements]
    table = {name: {RIGHT: 0, NOT_RIGHT: 0} for name in (CORRECT, WRONG, UNDECIDED, NOT_JUDGED)}
    judged: list[tuple[LabelledAnswer, bool, bool]] = []
    for one in known:
        judgement = one.answer.judgements[judge]
        verdict, right = judgement.verdict, bool(one.right)
        without = UNDECIDED if judgement.outcome is Outcome.UNDECIDED else NOT_JUDGED
        table[without if verdict is None else CORRECT if verdict else WRONG][RIGHT if right else NOT_RIGHT] += 1
        if verdict is not None:
            judged.append((one, verdict, right))
    if not judged:
        return None
    of_right = [(one, verdict) for one, verdict, right in judged if right]
    of_wrong = [(one, not verdict) for one, verdict, right in judged if not right]
    return VerdictAgreement(
        judge=judge,
        raw={model: pass_rate(outcomes) for model, outcomes in models.items()},
        agreement=_agreed([(one, verdict == right) for one, verdict, right in judged]),
        kappa=_kappa(judged),
        sensitivity=_agreed(of_right),
        specificity=_agreed(of_wrong),
        right_size=_size(of_right),
        wrong_size=_size(of_wrong),
        table={name: row for name, row in table.items() if name in (CORRECT, WRONG) or any(row.values())},
    )


def value_agreement(labelled: Sequence[LabelledAnswer]) -> list[ValueAgreement]:
    """Return the agreement of people with the values that each judge extracted, by field and trait."""
    hits: dict[tuple[Kind, str, str], list[tuple[LabelledAnswer, bool]]] = defaultdict(list)
    values: dict[tuple[Kind, str, str], list[tuple[LabelledAnswer, str, str]]] = defaultdict(list)
    for one in labelled:
        for judge, judgement in one.answer.judgements.items():
            for found in judgement.extractions:
                key = (found.kind, found.name, judge)
                right = one.extraction_right(found)
                if right is not None:
                    hits[key].append((one, right))
                own = one.own_value(found)
                if own is not None:
                    values[key].append((one, found.value, own))
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
    """Return the agreement of verdicts with people for each template with at least five labels, the worst first.

    Empty if all labelled answers have the same template.
    """
    hits: dict[str, list[tuple[LabelledAnswer, bool]]] = defaultdict(list)
    questions: dict[str, dict[str, str]] = defaultdict(dict)
    for one in labelled:
        for judgement in one.answer.judgements.values():
            if one.right is not None and judgement.verdict is not None:
                hits[judgement.template].append((one, judgement.verdict == one.right))
                questions[judgement.template][one.answer.question_id] = one.answer.question
    if len(hits) < 2:
        return []
    found = [
        TemplateAgreement(
            template=template,
            question=next(iter(questions[template].values())),
            questions=len(questions[template]),
            agreement=_agreed(some),
        )
        for template, some in hits.items()
        if len(some) >= _LEAST_OF_A_TEMPLATE
    ]
    return sorted(found, key=lambda one: (one.agreement.value or 0.0, one.template))


_Hits = Sequence[tuple["LabelledAnswer", bool]]


def _agreed(hits: _Hits) -> Rate:
    return weighted_rate(*_columns(hits))


def _size(hits: _Hits) -> float:
    return effective_labels(*_columns(hits))


def _columns(hits: _Hits) -> tuple[list[Hashable], list[bool], list[float]]:
    return [one.unit for one, _ in hits], [hit for _, hit in hits], [one.weight for one, _ in hits]


def _kappa(rated: Sequence[tuple[LabelledAnswer, Hashable, Hashable]]) -> Coefficient | None:
    found = cohen_kappa(
        [one.unit for one, *_ in rated], [(a, b) for _, a, b in rated], [one.weight for one, *_ in rated]
    )
    return Coefficient(value=found.value, low=found.low, high=found.high) if found is not None else None


def _count(pairs: Iterable[tuple[str, str]]) -> Table:
    found: dict[str, dict[str, int]] = {}
    for value, own in pairs:
        row = found.setdefault(value, {})
        row[own] = row.get(own, 0) + 1
    return found
