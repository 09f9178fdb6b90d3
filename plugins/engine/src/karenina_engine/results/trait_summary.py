"""Summaries of the scores of each rubric trait, computed one result at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from karenina_core.data.sections import VerificationResultRubric

MAX_TRAITS: Final = 1000
"""The most traits that are counted: each question can have traits of its own."""


class TraitSummary(BaseModel):
    """The scores of one trait.

    `n` is the number of scores, `not_scored` that of items in which the trait could not be scored, and `skipped` that
    of answers without the concept of a dynamic trait. `share` is the share of True among boolean scores, `mean` the
    mean of numbers, `labels` the count of each class, and `parts` the mean of each number in scores with several (the
    metrics of a metric trait, the fields of a template).
    """

    model_config = ConfigDict(frozen=True)

    n: int = 0
    not_scored: int = 0
    skipped: int = 0
    share: float | None = None
    mean: float | None = None
    labels: dict[str, int] = {}
    parts: dict[str, float] = {}


class _Mean:
    """An exact mean, so that the order of the values does not matter. It is None without values."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._sum: int | Fraction = 0
        self._count = 0

    def add(self, value: float) -> None:
        self._sum += int(value) if value == int(value) else Fraction(value)
        self._count += 1

    def value(self) -> float | None:
        return float(self._sum / Fraction(self._count)) if self._count else None


class _Scores:
    """The counts of the scores of one trait so far."""

    __slots__ = ("labels", "n", "not_scored", "numbers", "parts", "skipped", "truths")

    def __init__(self) -> None:
        self.n = self.not_scored = self.skipped = 0
        self.truths, self.numbers = _Mean(), _Mean()
        self.labels: Counter[str] = Counter()
        self.parts: dict[str, _Mean] = {}

    def add(self, score: Any, label: str | None) -> None:
        self.n += 1
        if label is not None:
            self.labels[label] += 1  # the score is the number of a class, whose mean says nothing
        elif isinstance(score, bool):
            self.truths.add(score)
        elif _is_number(score):
            self.numbers.add(score)
        elif isinstance(score, str):
            self.labels[score] += 1
        elif isinstance(score, Mapping):
            for name, value in score.items():
                if _is_number(value):
                    self.parts.setdefault(name, _Mean()).add(value)

    def summary(self) -> TraitSummary:
        means = {name: part.value() for name, part in self.parts.items()}
        return TraitSummary(
            n=self.n,
            not_scored=self.not_scored,
            skipped=self.skipped,
            share=self.truths.value(),
            mean=self.numbers.value(),
            labels=dict(sorted(self.labels.items())),
            parts={name: mean for name, mean in means.items() if mean is not None},
        )


class TraitTally:
    """Summaries of traits that grow with each result. It keeps no results."""

    def __init__(self) -> None:
        self._traits: dict[str, _Scores] = {}

    def add(self, rubric: VerificationResultRubric) -> None:
        """Count the traits of one result. Traits beyond the first `MAX_TRAITS` are ignored."""
        labels = rubric.labels()
        scores = rubric.get_all_trait_scores()
        for name, score in scores.items():
            found = self._scores_of(name)
            if found is not None and score is not None:
                found.add(score, labels.get(name))
        for name in rubric.trait_errors or ():
            found = self._scores_of(name)
            if found is not None and scores.get(name) is None:
                found.not_scored += 1
        for name in rubric.dynamic_rubric_skipped_traits or ():
            found = self._scores_of(name)
            if found is not None:
                found.skipped += 1

    def summaries(self) -> dict[str, TraitSummary]:
        """Return the summary of each trait by its name."""
        return {name: scores.summary() for name, scores in self._traits.items()}

    def _scores_of(self, name: str) -> _Scores | None:
        found = self._traits.get(name)
        if found is None and len(self._traits) < MAX_TRAITS:
            found = self._traits[name] = _Scores()
        return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)
