"""The share of hits among items that were sampled with unequal probabilities."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from karenina_engine.results.rates import Clusters, Rate, wilson
from karenina_report.estimators.agreement import weight_effect


def weighted_rate(units: Sequence[Hashable], hits: Sequence[bool], weights: Sequence[float]) -> Rate:
    """Return the weighted share of hits, each item given with the unit it belongs to, and its interval.

    The interval is Wilson's at the effective size, which is smaller if items of one unit are alike and if weights
    differ. With equal weights it is the interval of pass rates.
    """
    plain = _count(units, hits).rate()
    if not hits or len(set(weights)) == 1:
        return plain
    value = sum(weight for weight, hit in zip(weights, hits, strict=True) if hit) / sum(weights)
    value = min(1.0, max(0.0, value))
    size = effective_labels(units, hits, weights)
    low, high = wilson(value * size, size)
    return plain.model_copy(update={"value": value, "low": min(low, value), "high": max(high, value)})


def effective_labels(units: Sequence[Hashable], hits: Sequence[bool], weights: Sequence[float]) -> float:
    """Return the size of a simple random sample whose share of hits is as certain; 0 without items."""
    return max(1.0, _count(units, hits).effective_size() * weight_effect(weights)) if hits else 0.0


def _count(units: Sequence[Hashable], hits: Sequence[bool]) -> Clusters:
    counted = Clusters()
    for unit, hit in zip(units, hits, strict=True):
        counted.add(unit, hit=hit)
    return counted
