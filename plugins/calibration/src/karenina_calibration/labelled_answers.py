"""Answers joined with their labels: majority votes, statistical units, and sampling weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_calibration.answers import SCORED

if TYPE_CHECKING:
    from karenina_calibration.answers import Answer, Answers, Extraction
    from karenina_calibration.label_file import Label, Labels

Unit = Hashable


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """An answer with its labels.

    `right` is the majority vote of its labellers, or None if there is no majority. `weight` is the number of answers
    that it represents, and `stratum` the index of its stratum in the draw; None outside of the draw.
    """

    answer: Answer
    labels: Sequence[Label]
    unit: Unit
    right: bool | None
    tied: bool
    stratum: int | None
    weight: float

    def extraction_right(self, one: Extraction) -> bool | None:
        """Return whether the majority says that an extracted value is right; None without a majority."""
        found = [label.extraction(one) for label in self.labels]
        return majority([one.right for one in found if one is not None])[0]

    def own_value(self, one: Extraction) -> str | None:
        """Return the value that most labellers would extract; None if they gave none, or are tied."""
        found = Counter(
            own.own for label in self.labels if (own := label.extraction(one)) is not None and own.own is not None
        )
        return _most_common(found)


def majority(votes: Sequence[bool | None]) -> tuple[bool | None, bool]:
    """Return the majority vote (None if there is none), and whether votes are tied. Votes of None do not count."""
    right, wrong = votes.count(True), votes.count(False)
    return (None, bool(right)) if right == wrong else (right > wrong, False)


def _most_common(found: Counter[str]) -> str | None:
    top = found.most_common(2)
    return top[0][0] if top and (len(top) == 1 or top[0][1] > top[1][1]) else None


def join_labels(
    answers: Answers, labels: Labels, unit_of: Callable[[str], Unit], *, whole: bool
) -> list[LabelledAnswer]:
    """Return the labelled answers with their weights. `unit_of` returns the statistical unit of a question id.

    With `whole`, the draw is ignored: all answers are labelled, and each has weight 1.
    """
    draw = labels.draw if not whole else None
    strata = {one.item: one.stratum for one in draw.items} if draw is not None else {}
    votes = {
        item: majority([label.right for label in found.values()])
        for item, found in labels.by_item.items()
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
    found = []
    for item, (right, tied) in votes.items():
        answer = answers.by_id[item]
        stratum = strata.get(item)
        weight = weights.get(stratum, 1.0) if stratum is not None else 1.0
        of = list(labels.by_item[item].values())
        found.append(LabelledAnswer(answer, of, unit_of(answer.question_id), right, tied, stratum, weight))
    return found
