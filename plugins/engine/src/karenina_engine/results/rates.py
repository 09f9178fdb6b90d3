"""Rates with confidence intervals, and summaries of trait scores, updated one result at a time.

The intervals take into account that there may be several items for the same question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from karenina_core.data.outcome import Outcome

if TYPE_CHECKING:
    from karenina_core.data.sections import VerificationResultRubric


Z95 = 1.959963984540054
"""The 97.5% quantile of the normal distribution, for two-sided 95% intervals."""
ROUGH = 20
"""An interval that is based on fewer questions than this is called rough."""


MAX_TRAITS: Final = 1000
"""The maximum number of traits that are counted. Each question can have traits of its own."""


class Rate(BaseModel):
    """A proportion: `hits` out of `out_of`, with a 95% interval.

    The value and the bounds are None if `out_of` is 0. `clusters` is the number of questions. Items of the same
    question (replicates, models, judges) are not independent. The more alike they are, the wider the interval.
    `undecided` items are not included in `out_of`. If there are none, the JSON form does not contain `undecided` and
    `if_undecided_wrong`.
    """

    model_config = ConfigDict(frozen=True)

    hits: int
    out_of: int
    value: float | None
    low: float | None
    high: float | None
    clusters: int = 0
    undecided: int = 0

    @property
    def if_undecided_wrong(self) -> float | None:
        """The rate if every undecided item were wrong."""
        return self.hits / (self.out_of + self.undecided) if self.undecided else self.value

    @model_serializer(mode="wrap")
    def _without_undecided_if_none(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Serialize the rate without the two values for undecided items if there are none."""
        values: dict[str, Any] = serialize(self)
        if not self.undecided:
            values.pop("undecided", None)
            return values
        return {**values, "if_undecided_wrong": self.if_undecided_wrong}

    @property
    def is_rough(self) -> bool:
        """Whether there are too few questions for the interval to be accurate."""
        return self.clusters < ROUGH


def wilson(hits: float, out_of: float, z: float = Z95) -> tuple[float, float]:
    """Return the bounds of the Wilson score interval for `hits` out of `out_of`, at the normal quantile `z` (95% by
    default). Raises `ValueError` unless 0 <= hits <= out_of and out_of > 0.

    Both numbers may be fractional, which allows for effective sizes. Source: E. B. Wilson, Probable inference, the law
    of succession, and statistical inference, JASA 22 (1927).
    """
    if out_of <= 0 or not 0 <= hits <= out_of:
        raise ValueError(f"{hits} of {out_of} is not a proportion")
    share = hits / out_of
    spread = z * z / out_of
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / out_of + spread / (4 * out_of)) / (1 + spread)
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == out_of else min(1.0, middle + half)
    return low, high


class Clusters:
    """The sums from which a `Rate` is computed, with items clustered by question.

    Each open question needs memory for only two numbers. Call `fold` when a question is complete.
    """

    __slots__ = ("_folded", "_hits_hits", "_hits_size", "_open", "_size_size", "hits", "items", "undecided")

    def __init__(self) -> None:
        self.hits = 0
        self.items = 0
        self.undecided = 0
        self._open: dict[Hashable, list[int]] = {}
        self._folded = 0
        self._hits_hits = self._hits_size = self._size_size = 0

    def add(self, question: Hashable, *, hit: bool) -> None:
        """Count an item for a question. Set `hit` if the item adds to the numerator of the rate. Do not add to a
        question after `fold`.
        """
        count = self._open.setdefault(question, [0, 0])
        count[0] += hit
        count[1] += 1
        self.hits += hit
        self.items += 1

    def add_outcome(self, question: Hashable, outcome: Outcome) -> None:
        """Count an item by its outcome. Correct items are hits. Items without a verdict are not included in the rate.
        Undecided items are counted separately.
        """
        if outcome.has_verdict:
            self.add(question, hit=outcome is Outcome.CORRECT)
        self.undecided += outcome is Outcome.UNDECIDED

    def fold(self, question: Hashable) -> None:
        """Free the memory used for a question that will have no more items, keeping its share in the sums."""
        count = self._open.pop(question, None)
        if count is not None:
            self._folded += 1
            self._hits_hits += count[0] * count[0]
            self._hits_size += count[0] * count[1]
            self._size_size += count[1] * count[1]

    def rate(self) -> Rate:
        """Return the rate of the items so far, with its interval. See the function `rate`. If there are no items, the
        rate's value and interval are None.
        """
        items, hits = self.items, self.hits
        if not items:
            return Rate(hits=0, out_of=0, value=None, low=None, high=None, undecided=self.undecided)
        share = hits / items
        size = self.effective_size()
        low, high = wilson(share * size, size)
        return Rate(
            hits=hits,
            out_of=items,
            value=share,
            low=low,
            high=high,
            clusters=self.questions,
            undecided=self.undecided,
        )

    @property
    def questions(self) -> int:
        """The number of questions to which the items belong."""
        return self._folded + len(self._open)

    def effective_size(self) -> float:
        """Return the size of an independent sample with the same certainty about its rate. The sample must not be
        empty.
        """
        if self.questions == self.items:
            return self.items
        still = self._open.values()
        return effective_size(
            self.questions,
            self.items,
            self.hits,
            self._hits_hits + sum(count[0] * count[0] for count in still),
            self._hits_size + sum(count[0] * count[1] for count in still),
            self._size_size + sum(count[1] * count[1] for count in still),
        )


def effective_size(
    questions: int,
    items: int,
    hits: int | Fraction,
    hits_hits: int | Fraction,
    hits_size: int | Fraction,
    size_size: int,
    *,
    graded: bool = False,
) -> float:
    """Return the size of an independent sample with the same certainty about its share of hits: at least 1 and, unless
    the hits are `graded`, at most the number of items. `hits_hits`, `hits_size` and `size_size` are sums over
    questions: of squared hits, of hits times items, and of squared items.

    The variance is that of the ratio estimator (W. G. Cochran, Sampling Techniques, 3rd ed., 1977, section 3.12). Two
    half pseudo-questions of average size are added, one with only hits and one with none, because intervals near 0 and
    1 would be too narrow otherwise (`benchmarks/coverage.py`). Graded values between 0 and 1 vary less, so their size
    may be larger.
    """
    if questions == items and not graded:
        return items
    size = Fraction(items, questions)
    everything = items + size
    share = (hits + size / 2) / everything
    spread = hits_hits - 2 * share * hits_size + share * share * size_size
    spread += size * size / 2 * ((1 - share) ** 2 + share * share)
    variance = Fraction(questions + 1, questions) * spread / (everything * everything)
    effect = variance * everything / (share * (1 - share))
    effective = float(items / effect)
    return max(1.0, effective if graded else min(items, effective))


def rate(hits: Iterable[tuple[Hashable, bool]]) -> Rate:
    """Return the share of hits among the given items, with a 95% interval that allows for several items of a question.
    Each item is a pair of its question and whether it is a hit.

    This is Wilson's interval at the `effective_size`. If every item has its own question, that is the number of items.
    """
    clusters = Clusters()
    for question, hit in hits:
        clusters.add(question, hit=hit)
    return clusters.rate()


def pass_rate(outcomes: Iterable[tuple[Hashable, Outcome]]) -> Rate:
    """Return the pass rate of the given items, pairs of a question and an outcome, as `rate` does. Items without a
    verdict are not included.
    """
    clusters = Clusters()
    for question, outcome in outcomes:
        clusters.add_outcome(question, outcome)
    return clusters.rate()


class TraitSummary(BaseModel):
    """The scores of a trait.

    `n` is the number of scores. `not_scored` is the number of items for which the trait could not be scored, and
    `skipped` is the number of answers without the concept of a dynamic trait. `share` is the share of booleans that are
    True, and `mean` is the mean of numbers. `labels` counts each class. `parts` contains means for scores that consist
    of several numbers, such as the metrics of a metric trait or the fields of a template. `fewer` is the number of
    scores that have a part, for the parts that some scores lack.
    """

    model_config = ConfigDict(frozen=True)

    n: int = 0
    not_scored: int = 0
    skipped: int = 0
    share: float | None = None
    mean: float | None = None
    labels: dict[str, int] = {}
    parts: dict[str, float] = {}
    fewer: dict[str, int] = {}


class _Mean:
    """An exact mean that does not depend on the order of its values."""

    __slots__ = ("_sum", "count")

    def __init__(self) -> None:
        self._sum: int | Fraction = 0
        self.count = 0

    def add(self, value: float) -> None:
        """Add a finite value."""
        self._sum += int(value) if value == int(value) else Fraction(value)
        self.count += 1

    def value(self) -> float | None:
        """Return the mean, or None if there are no values."""
        return float(self._sum / Fraction(self.count)) if self.count else None


class _Scores:
    """The running counts of a trait's scores."""

    __slots__ = ("labels", "n", "not_scored", "numbers", "parts", "skipped", "truths")

    def __init__(self) -> None:
        self.n = self.not_scored = self.skipped = 0
        self.truths, self.numbers = _Mean(), _Mean()
        self.labels: Counter[str] = Counter()
        self.parts: dict[str, _Mean] = {}

    def add(self, score: Any, label: str | None) -> None:
        """Count a score, as a boolean, number or label, or as a mapping of numbers. For a literal trait, `label` is the
        name of the class. A number that no float can hold counts as not scored. Scores of other types are only counted
        in `n`.
        """
        if isinstance(score, int | float) and not is_number(score):
            self.not_scored += 1
            return
        self.n += 1
        if label is not None:
            self.labels[label] += 1  # the score is the number of a class, so its mean would be meaningless
        elif isinstance(score, bool):
            self.truths.add(score)
        elif is_number(score):
            self.numbers.add(score)
        elif isinstance(score, str):
            self.labels[score] += 1
        elif isinstance(score, Mapping):
            for name, value in score.items():
                if is_number(value):
                    self.parts.setdefault(name, _Mean()).add(value)

    def summary(self) -> TraitSummary:
        """Return the summary of the scores counted so far."""
        means = {name: part.value() for name, part in self.parts.items()}
        return TraitSummary(
            n=self.n,
            not_scored=self.not_scored,
            skipped=self.skipped,
            share=self.truths.value(),
            mean=self.numbers.value(),
            labels=dict(sorted(self.labels.items())),
            parts={name: mean for name, mean in means.items() if mean is not None},
            fewer={name: part.count for name, part in self.parts.items() if part.count < self.n},
        )


class TraitTally:
    """Running summaries of the scores of traits."""

    def __init__(self) -> None:
        self._traits: dict[str, _Scores] = {}

    def add(self, rubric: VerificationResultRubric) -> None:
        """Count the scores of a result's traits, and the traits that could not be scored or were skipped. At most
        `MAX_TRAITS` different names are counted.
        """
        labels = rubric.labels()
        scores, errors = rubric.get_all_trait_scores(), rubric.trait_errors or {}
        skipped = rubric.dynamic_rubric_skipped_traits or {}
        for name in dict.fromkeys([*scores, *errors]):
            tally, score = self._scores_of(name), scores.get(name)
            if tally is None:
                continue
            if score is not None:
                tally.add(score, labels.get(name))
            elif name in errors or name not in skipped:
                tally.not_scored += 1
        for name in skipped:
            tally = self._scores_of(name)
            if tally is not None:
                tally.skipped += 1

    def summaries(self) -> dict[str, TraitSummary]:
        """Return the summary of each trait, keyed by name."""
        return {name: scores.summary() for name, scores in self._traits.items()}

    def _scores_of(self, name: str) -> _Scores | None:
        """Return the counts for a trait, creating them if necessary, or None if there are too many traits."""
        tally = self._traits.get(name)
        if tally is None and len(self._traits) < MAX_TRAITS:
            tally = self._traits[name] = _Scores()
        return tally


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number, including True and False. Integers that no float can hold are none."""
    try:
        return isinstance(value, int | float) and isfinite(value)
    except OverflowError:
        return False
