"""Summaries with honest denominators: out of how many, how sure, and what the unjudged items could change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import sqrt

from pydantic import BaseModel, ConfigDict

from karenina_core.outcome import Outcome

Z95 = 1.959963984540054
"""The 97.5% quantile of the normal distribution: two-sided 95%."""


class Rate(BaseModel):
    """A proportion: `hits` of `out_of`, its value, and the bounds of its 95% Wilson score interval (None of 0)."""

    model_config = ConfigDict(frozen=True)

    hits: int
    out_of: int
    value: float | None
    low: float | None
    high: float | None


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


def wilson(hits: int, out_of: int, z: float = Z95) -> Rate:
    """The rate of `hits` in `out_of` with its score interval.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    Raises `ValueError` unless 0 <= hits <= out_of.
    """
    if not 0 <= hits <= out_of:
        raise ValueError(f"{hits} of {out_of} is no proportion")
    if out_of == 0:
        return Rate(hits=0, out_of=0, value=None, low=None, high=None)
    share = hits / out_of
    spread = z * z / out_of
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / out_of + spread / (4 * out_of)) / (1 + spread)
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == out_of else min(1.0, middle + half)
    return Rate(hits=hits, out_of=out_of, value=share, low=low, high=high)


def summarize(outcomes: Iterable[Outcome], granular: Iterable[float] = ()) -> Summary:
    """The summary of items with these outcomes, and of the granular results of those that have one."""
    counts = Counter(outcomes)
    correct = counts[Outcome.CORRECT]
    judged = sum(count for outcome, count in counts.items() if outcome.has_verdict)
    not_judged = sum(count for outcome, count in counts.items() if not outcome.judged)
    asked = judged + not_judged
    grades = list(granular)
    return Summary(
        items=sum(counts.values()),
        judged=judged,
        not_judged=not_judged,
        scored=counts[Outcome.SCORED],
        outcomes={outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]},
        pass_rate=wilson(correct, judged),
        worst=correct / asked if asked else None,
        best=(correct + not_judged) / asked if asked else None,
        mean_granular=sum(grades) / len(grades) if grades else None,
        granular_out_of=len(grades),
    )
