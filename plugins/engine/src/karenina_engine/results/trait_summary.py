"""Summaries of rubric trait scores, updated one result at a time."""

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
"""The maximum number of traits that are counted, since each question can have traits of its own."""


class TraitSummary(BaseModel):
    """The scores of one trait.

    `n` counts scores, `not_scored` items in which the trait could not be scored, and `skipped` answers without the
    concept of a dynamic trait. `share` is the share of True among boolean scores, and `mean` the mean of numbers.
    `labels` are the counts of each class. `parts` are the means of the numbers in scores that have several (the metrics
    of a metric trait, the fields of a template).
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
    """An exact mean, which does not depend on the order of the values. It is None without values."""

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
    """The counts of one trait's scores so far."""

    __slots__ = ("labels", "n", "not_scored", "numbers", "parts", "skipped", "truths")

    def __init__(self) -> None:
        self.n = self.not_scored = self.skipped = 0
        self.truths, self.numbers = _Mean(), _Mean()
        self.labels: Counter[str] = Counter()
        self.parts: dict[str, _Mean] = {}

    def add(self, score: Any, label: str | None) -> None:
        self.n += 1
        if label is not None:
            self.labels[label] += 1  # the score is the number of a class, so its mean would be meaningless
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
    """Summaries of traits, updated with each result. Results are not kept."""

    def __init__(self) -> None:
        self._traits: dict[str, _Scores] = {}

    def add(self, rubric: VerificationResultRubric) -> None:
        """Count the traits in one result. Traits beyond the first `MAX_TRAITS` are ignored."""
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
        """Return the summary of each trait by name."""
        return {name: scores.summary() for name, scores in self._traits.items()}

    def _scores_of(self, name: str) -> _Scores | None:
        found = self._traits.get(name)
        if found is None and len(self._traits) < MAX_TRAITS:
            found = self._traits[name] = _Scores()
        return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)
