"""Summaries with honest denominators: out of how many, how sure, and what the unjudged items could change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from fractions import Fraction
from math import isfinite, sqrt
from statistics import fmean

from pydantic import BaseModel, ConfigDict

from karenina_core.data.outcome import Outcome
from karenina_engine.results.trait_summary import TraitSummary

Z95 = 1.959963984540054
"""The 97.5% quantile of the normal distribution: two-sided 95%."""
ROUGH = 20
"""The number of questions below which an interval is rough."""


class Rate(BaseModel):
    """A proportion: `hits` of `out_of`, its value, and the bounds of its 95% interval (None of 0).

    `clusters` is the number of questions that the items are about. Several items of one question (replicates, models,
    judges) are not independent; the interval is as wide as their likeness asks for.
    """

    model_config = ConfigDict(frozen=True)

    hits: int
    out_of: int
    value: float | None
    low: float | None
    high: float | None
    clusters: int = 0

    @property
    def is_rough(self) -> bool:
        """Whether there are so few questions that the interval is only roughly of 95%."""
        return self.clusters < ROUGH


class Summary(BaseModel):
    """A count of outcomes and what follows from it.

    `items` is every item of the run; `judged` those with a verdict; `not_judged` those that ended in errors; `scored`
    those that have trait scores only. `pass_rate` is correct out of judged. `worst` and `best` are correct out of
    judged and not judged together, were every unjudged item wrong or right; items without a score of some trait, which
    would have no verdict, are not among them. `traits` are the summaries of rubric traits by name.
    """

    model_config = ConfigDict(frozen=True)

    items: int
    judged: int
    not_judged: int
    scored: int
    outcomes: dict[str, int]
    pass_rate: Rate
    worst: float | None
    best: float | None
    mean_granular: float | None = None
    granular_out_of: int = 0
    traits: dict[str, TraitSummary] = {}


def wilson(hits: float, out_of: float, z: float = Z95) -> tuple[float, float]:
    """The bounds of the score interval of `hits` in `out_of`, which need not be whole (effective sizes are not).

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    Raises `ValueError` unless 0 <= hits <= out_of and out_of > 0.
    """
    if out_of <= 0 or not 0 <= hits <= out_of:
        raise ValueError(f"{hits} of {out_of} is no proportion")
    share = hits / out_of
    spread = z * z / out_of
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / out_of + spread / (4 * out_of)) / (1 + spread)
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == out_of else min(1.0, middle + half)
    return low, high


class Clusters:
    """Hits of items that belong to questions, counted one at a time: all that a `Rate` needs, and no more.

    Keeps two numbers for each question that is `open`; those of one that is complete are folded into the sums.
    """

    __slots__ = ("_folded", "_hits_hits", "_hits_size", "_open", "_size_size", "hits", "items")

    def __init__(self) -> None:
        self.hits = 0
        self.items = 0
        self._open: dict[Hashable, list[int]] = {}
        self._folded = 0
        self._hits_hits = self._hits_size = self._size_size = 0

    def add(self, question: Hashable, *, hit: bool) -> None:
        """Count one item."""
        count = self._open.setdefault(question, [0, 0])
        count[0] += hit
        count[1] += 1
        self.hits += hit
        self.items += 1

    def fold(self, question: Hashable) -> None:
        """Forget a question that has no further items."""
        count = self._open.pop(question, None)
        if count is not None:
            self._folded += 1
            self._hits_hits += count[0] * count[0]
            self._hits_size += count[0] * count[1]
            self._size_size += count[1] * count[1]

    def rate(self) -> Rate:
        """The rate of the items so far, and its interval; see `rate`."""
        items, hits = self.items, self.hits
        if not items:
            return Rate(hits=0, out_of=0, value=None, low=None, high=None)
        share = hits / items
        size = self.effective_size()
        low, high = wilson(share * size, size)
        return Rate(hits=hits, out_of=items, value=share, low=low, high=high, clusters=self.questions)

    @property
    def questions(self) -> int:
        """How many questions the items are about."""
        return self._folded + len(self._open)

    def effective_size(self) -> float:
        """Return the size of an independent sample that says as much; see the function of this name."""
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
    """Return the size of an independent sample whose share of hits is as sure as that of these items.

    The last three are sums over questions: of squared hits, of hits times items, and of squared items. The variance is
    the ratio estimator's (W. G. Cochran, Sampling Techniques, 3rd ed., 1977, section 3.12), with two half
    pseudo-questions of average size added, of one all items hit and of the other none: without them intervals near 0
    and 1 are too narrow (`benchmarks/coverage.py`). At least 1, and at most the number of items, unless hits are
    `graded`: values between 0 and 1 vary less than hits.
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
    found = float(items / effect)
    return max(1.0, found if graded else min(items, found))


def rate(hits: Iterable[tuple[Hashable, bool]]) -> Rate:
    """Return the rate of items, each given with the question it is about, and its interval.

    If every item has a question of its own, the interval is Wilson's. Else it is Wilson's at the `effective_size`.
    """
    clusters = Clusters()
    for question, hit in hits:
        clusters.add(question, hit=hit)
    return clusters.rate()


class OutcomeTally:
    """A summary that grows with a run, result by result, and holds none of them.

    `per_question` is how many items each question has, where that is known: a question that has them all takes no
    more memory.
    """

    def __init__(self, per_question: int | None = None) -> None:
        self._per_question = per_question
        self._counts: Counter[Outcome] = Counter()
        self._verdicts = Clusters()
        self._seen: dict[Hashable, int] = {}
        self._grades = Fraction(0)  # exact, so that the order does not matter; it is slow
        self._whole_grades = 0
        self._graded = 0

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, outcome: Outcome, question: Hashable, granular: object = None) -> None:
        """Count an item with this outcome, about this question, and with this granular result, if it is a number."""
        self._counts[outcome] += 1
        if outcome.has_verdict:
            self._verdicts.add(question, hit=outcome is Outcome.CORRECT)
            if isinstance(granular, (int, float)) and isfinite(granular):
                if granular == int(granular):
                    self._whole_grades += int(granular)
                else:
                    self._grades += Fraction(granular)
                self._graded += 1
        if self._per_question is not None:
            seen = self._seen.get(question, 0) + 1
            if seen < self._per_question:
                self._seen[question] = seen
            else:
                self._seen.pop(question, None)
                self._verdicts.fold(question)

    def summary(self) -> Summary:
        """The summary of the items so far."""
        counts = self._counts
        correct = counts[Outcome.CORRECT]
        not_judged = sum(count for outcome, count in counts.items() if not outcome.judged)
        unjudged = not_judged - counts[Outcome.RUBRIC_ERROR]
        asked = self._verdicts.items + unjudged
        return Summary(
            items=len(self),
            judged=self._verdicts.items,
            not_judged=not_judged,
            scored=counts[Outcome.SCORED],
            outcomes={outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]},
            pass_rate=self._verdicts.rate(),
            worst=correct / asked if asked else None,
            best=(correct + unjudged) / asked if asked else None,
            mean_granular=float((self._grades + self._whole_grades) / self._graded) if self._graded else None,
            granular_out_of=self._graded,
        )


def summarize(
    outcomes: Iterable[Outcome], granular: Iterable[float] = (), questions: Iterable[Hashable] | None = None
) -> Summary:
    """The summary of items with these outcomes, and of the granular results of those that have one.

    `questions` says of each item which question it is about; without it each is taken for a question of its own.
    """
    tally = OutcomeTally()
    if questions is None:
        for number, outcome in enumerate(outcomes):
            tally.add(outcome, number)
    else:
        for outcome, question in zip(outcomes, questions, strict=True):
            tally.add(outcome, question)
    grades = list(granular)
    found = {"mean_granular": fmean(grades) if grades else None, "granular_out_of": len(grades)}
    return tally.summary().model_copy(update=found)
