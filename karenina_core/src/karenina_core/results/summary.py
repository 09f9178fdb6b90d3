"""Summaries with honest denominators: out of how many, how sure, and what the unjudged items could change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from math import sqrt

from pydantic import BaseModel, ConfigDict

from karenina_core.outcome import Outcome

Z95 = 1.959963984540054
"""The 97.5% quantile of the normal distribution: two-sided 95%."""


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


class Summary(BaseModel):
    """A count of outcomes and what follows from it.

    `items` is every item of the run; `judged` those with a verdict; `not_judged` those that ended in errors; `scored`
    those that have trait scores only. `pass_rate` is correct out of judged. `worst` and `best` are correct out of
    judged and not judged together, were every unjudged item wrong or right.
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


def rate(hits: Iterable[tuple[Hashable, bool]]) -> Rate:
    """The rate of items, each given with the question it is about, and its interval.

    Where every item has a question of its own the interval is Wilson's. Else it is Wilson's at the effective sample
    size: the size of an independent sample whose share varies as much as this one does between questions (the ratio
    estimator's variance; W. G. Cochran, Sampling Techniques, 3rd ed., 1977, section 3.12), never above the number of
    items, and the number of questions where all items agree.
    """
    counts: dict[Hashable, list[int]] = {}
    for question, hit in hits:
        count = counts.setdefault(question, [0, 0])
        count[0] += hit
        count[1] += 1
    correct = sum(count[0] for count in counts.values())
    items = sum(count[1] for count in counts.values())
    if not items:
        return Rate(hits=0, out_of=0, value=None, low=None, high=None)
    share = correct / items
    low, high = wilson(share * (size := _effective_size(counts.values(), share, items)), size)
    return Rate(hits=correct, out_of=items, value=share, low=low, high=high, clusters=len(counts))


def _effective_size(counts: Collection[Sequence[int]], share: float, items: int) -> float:
    questions = len(counts)
    if questions == items:
        return items
    spread = sum((hits - share * size) ** 2 for hits, size in counts)
    if questions == 1 or not 0 < share < 1 or not spread:
        return questions
    variance = questions / (questions - 1) * spread / items**2
    return min(items, share * (1 - share) / variance)


def summarize(
    outcomes: Iterable[Outcome], granular: Iterable[float] = (), questions: Iterable[Hashable] | None = None
) -> Summary:
    """The summary of items with these outcomes, and of the granular results of those that have one.

    `questions` says of each item which question it is about; without it each is taken for a question of its own.
    """
    listed = list(outcomes)
    asked_about = list(range(len(listed))) if questions is None else list(questions)
    counts = Counter(listed)
    verdicts = [
        (question, outcome is Outcome.CORRECT)
        for question, outcome in zip(asked_about, listed, strict=True)
        if outcome.has_verdict
    ]
    correct = counts[Outcome.CORRECT]
    not_judged = sum(count for outcome, count in counts.items() if not outcome.judged)
    asked = len(verdicts) + not_judged
    grades = list(granular)
    return Summary(
        items=len(listed),
        judged=len(verdicts),
        not_judged=not_judged,
        scored=counts[Outcome.SCORED],
        outcomes={outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]},
        pass_rate=rate(verdicts),
        worst=correct / asked if asked else None,
        best=(correct + not_judged) / asked if asked else None,
        mean_granular=sum(grades) / len(grades) if grades else None,
        granular_out_of=len(grades),
    )
