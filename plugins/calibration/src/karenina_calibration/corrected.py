"""Corrected pass rates, one for each answering model of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_calibration.answers import SCORED, WRONG
from karenina_calibration.calibration_result import CorrectedPassRate, StratumLabels
from karenina_calibration.estimators import (
    LEAST,
    CorrectedRate,
    Label,
    merge_small,
    more_labels,
    post_stratified,
    powered_mean,
)
from karenina_report.statistics.statistics_result import Coefficient

if TYPE_CHECKING:
    from karenina_calibration.agreement import LabelledAnswer
    from karenina_calibration.answers import Answer, Answers
    from karenina_calibration.draw import Draw
    from karenina_report.statistics.columns import Units

Stratum = Hashable


@dataclass(frozen=True, slots=True)
class ModelRate:
    """A model's corrected rate: `shown` for display, and `rate` for computing differences."""

    shown: CorrectedPassRate
    rate: CorrectedRate


def correct_rate(
    model: str,
    answers: Answers,
    labelled: Sequence[LabelledAnswer],
    draw: Draw | None,
    units: Units,
) -> ModelRate | str:
    """Return a model's corrected rate or, if there is none, the reason as text. Only drawn answers count; without a
    `draw`, all answers must be labelled. At least five answers must be labelled right or wrong, or all of them if the
    model has fewer. `units` are the statistical units of the questions.

    Strata with fewer than five usable labels are merged.
    """
    own = [answer for answer in answers.by_id.values() if answer.model == model and answer.verdicts != SCORED]
    usable = [
        entry
        for entry in labelled
        if entry.answer.model == model
        and entry.answer.verdicts != SCORED
        and entry.right is not None
        and (entry.stratum is not None or draw is None)
    ]
    needed = min(LEAST, len(own))
    if len(usable) < needed:
        return (
            f"only {len(usable)} of the {'drawn ' if draw is not None else ''}answers "
            f"{'is' if len(usable) == 1 else 'are'} labelled right or wrong, but at least {needed} must be"
        )
    if draw is None and not {answer.id for answer in own} <= {entry.answer.id for entry in labelled}:
        return (
            "the labels do not record a draw, and not all answers are labelled. Labels of answers that people chose "
            "say nothing about the other answers; use `karenina label` to draw answers"
        )
    stratum_of: Callable[[Answer], Stratum] = draw.stratum_of if draw is not None else lambda answer: answer.verdicts
    sizes = Counter(stratum_of(answer) for answer in own)
    counts = Counter(stratum_of(entry.answer) for entry in usable)
    wrong = next((stratum_of(answer) for answer in own if (answer.drawn_as or answer.verdicts) == WRONG), None)
    groups = merge_small(dict(counts), into=wrong)
    merged: dict[Stratum, Stratum] = {member: name for name, members in groups.items() for member in members}
    largest = max(groups, key=lambda name: sum(sizes[member] for member in groups[name]))
    place: Mapping[Stratum, Stratum] = {stratum: merged.get(stratum, largest) for stratum in sizes}
    rate = post_stratified(
        ((place[stratum_of(answer)], units.of(answer.question_id)) for answer in own),
        [
            Label(place[stratum_of(entry.answer)], entry.unit, float(bool(entry.right)), entry.weight)
            for entry in usable
        ],
    )
    missing = answers.missing.get(model, 0)
    total = len(own) + missing
    return ModelRate(
        CorrectedPassRate(
            model=model,
            value=rate.value,
            low=rate.low,
            high=rate.high,
            labels=len(usable),
            answers=len(own),
            questions=rate.units,
            unit=units.name,
            strata=list(_strata(own, usable, lambda answer: place[stratum_of(answer)])),
            missing=missing,
            lowest=rate.value * len(own) / total,
            highest=(rate.value * len(own) + missing) / total,
            more_labels=more_labels(rate, len(own)),
            remaining=rate.remaining,
            powered=_powered(own, usable) if draw is not None and draw.simple else None,
        ),
        rate,
    )


def _strata(
    own: Sequence[Answer], usable: Sequence[LabelledAnswer], place: Callable[[Answer], Stratum]
) -> list[StratumLabels]:
    """Return the numbers of a model's `own` answers, of their `usable` labels, and of right answers among these, in
    each stratum, where `place` returns an answer's stratum.
    """
    members: dict[Stratum, list[Answer]] = defaultdict(list)
    for answer in own:
        members[place(answer)].append(answer)
    return [
        StratumLabels(
            verdicts=sorted({answer.drawn_as or answer.verdicts for answer in some}),
            answers=len(some),
            labels=sum(place(entry.answer) == stratum for entry in usable),
            right=sum(place(entry.answer) == stratum and bool(entry.right) for entry in usable),
            weighted=len({entry.weight for entry in usable if place(entry.answer) == stratum}) > 1,
        )
        for stratum, some in members.items()
    ]


def _powered(own: Sequence[Answer], usable: Sequence[LabelledAnswer]) -> Coefficient | None:
    """Return the PPI++ estimate of the share of right answers in `own`, all of a model's answers, of which `usable` are
    labelled right or wrong, or None unless each answer has a verdict from exactly one judge, at least two answers are
    labelled, and some are not.
    """

    def verdict(answer: Answer) -> bool | None:
        return next(iter(answer.judgements.values())).verdict if len(answer.judgements) == 1 else None

    verdicts = {answer.id: verdict(answer) for answer in own}
    labelled_ids = {entry.answer.id for entry in usable}
    rest = [float(bool(verdicts[answer.id])) for answer in own if answer.id not in labelled_ids]
    if None in verdicts.values() or len(usable) < 2 or not rest:
        return None
    estimate = powered_mean(
        [float(bool(entry.right)) for entry in usable],
        [float(bool(verdicts[entry.answer.id])) for entry in usable],
        rest,
    )
    return Coefficient(value=estimate.value, low=estimate.low, high=estimate.high)
