"""Agreement between judges: raw agreement, Cohen's kappa, Fleiss' kappa and Krippendorff's alpha."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from karenina_engine.results.rates import Z95, Clusters, Rate

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

LEAST_OF_A_CLASS: Final = 10
"""The number of ratings that the rarest class needs for a bootstrap interval."""
_RESAMPLES: Final = 2000
_AT_ONCE: Final = 100
_SEED: Final = 20_261_122

Ratings = Sequence[Hashable | None]
"""An item's ratings, one for each judge in order. A rating is None if the judge did not rate the item."""


@dataclass(frozen=True, slots=True)
class Kappa:
    """A coefficient of agreement beyond chance. The bounds of its 95% interval may be None."""

    value: float
    low: float | None
    high: float | None


def raw_agreement(units: Sequence[Hashable], pairs: Sequence[tuple[Hashable, Hashable]]) -> Rate:
    """Return the share of items on which two raters agree. `units` contains each item's statistical unit."""
    return _agreed(units, pairs).rate()


def _agreed(units: Sequence[Hashable], pairs: Sequence[tuple[Hashable, Hashable]]) -> Clusters:
    """Return clusters that count each unit's pairs of ratings, and as hits those in which both raters agree."""
    counted = Clusters()
    for unit, (one, other) in zip(units, pairs, strict=True):
        counted.add(unit, hit=one == other)
    return counted


def weight_effect(weights: Sequence[float]) -> float:
    """Return the effective sample size under unequal weights, as a share of the sample size.

    Source: L. Kish, Survey Sampling, 1965.
    """
    return sum(weights) ** 2 / (len(weights) * sum(weight * weight for weight in weights))


def cohen_kappa(
    units: Sequence[Hashable], pairs: Sequence[tuple[Hashable, Hashable]], weights: Sequence[float] | None = None
) -> Kappa | None:
    """Return Cohen's kappa for two raters with its 95% interval, or None if a rater always gave the same rating.
    `pairs` has both ratings of each item, `units` its statistical unit, and `weights` its sampling weight.

    `weights` are for items drawn with unequal probabilities. The interval uses the large-sample variance of the table
    at its effective size, with 1/2 added to each cell (J. L. Fleiss, J. Cohen and B. S. Everitt, Psychological Bulletin
    72, 1969). Items of a unit are correlated, so the effective size of the raw agreement is used.
    """
    if any(len({pair[side] for pair in pairs}) < 2 for side in (0, 1)):
        return None
    classes = list(dict.fromkeys(value for pair in pairs for value in pair))
    counts: dict[tuple[Hashable, Hashable], float] = defaultdict(float)
    own = weights if weights is not None else [1.0] * len(pairs)
    total = sum(own)
    for pair, weight in zip(pairs, own, strict=True):
        counts[pair] += weight
    scale = _agreed(units, pairs).effective_size() * weight_effect(own) / total
    value, _ = _kappa(dict(counts), classes)
    middle, variance = _kappa({(a, b): counts[a, b] * scale + 0.5 for a in classes for b in classes}, classes)
    half = Z95 * sqrt(variance)
    return Kappa(value, min(value, max(-1.0, middle - half)), max(value, min(1.0, middle + half)))


def _kappa(table: dict[tuple[Hashable, Hashable], float], classes: Sequence[Hashable]) -> tuple[float, float]:
    """Return kappa and its variance. `table` maps pairs of classes, one from each rater, to counts. There must be
    several classes, so that not all agreement is chance.
    """
    size = sum(table.values())
    rows = {a: sum(table.get((a, b), 0.0) for b in classes) / size for a in classes}
    columns = {b: sum(table.get((a, b), 0.0) for a in classes) / size for b in classes}
    observed = sum(table.get((a, a), 0.0) for a in classes) / size
    chance = sum(rows[a] * columns[a] for a in classes)
    spread = 0.0
    for (a, b), count in table.items():
        influence = ((a == b) - observed) / (1 - chance) - (1 - observed) / (1 - chance) ** 2 * (
            columns[a] + rows[b] - 2 * chance
        )
        spread += count / size * influence**2
    return (observed - chance) / (1 - chance), spread / size


def fleiss_kappa(units: Sequence[Hashable], items: Sequence[Ratings]) -> Kappa | None:
    """Return Fleiss' kappa over the items that all raters rated, or None if there are no such items, fewer than two
    raters, or no two different ratings. Its 95% interval resamples `units`, which has the unit of each item, and is
    None if the rarest class has too few ratings.

    Source: J. L. Fleiss, Psychological Bulletin 76, 1971.
    """
    whole = [(unit, ratings) for unit, ratings in zip(units, items, strict=True) if None not in ratings]
    raters = len(whole[0][1]) if whole else 0
    if raters < 2:
        return None

    def agreement(counts: Counter[Hashable]) -> float:
        """Return the share of pairs of raters that agree on an item, given the item's ratings per class."""
        return sum(n * (n - 1) for n in counts.values()) / (raters * (raters - 1))

    def coefficient(observed: Array, totals: Array) -> Array:
        """Return each sample's Fleiss' kappa, given its observed agreement and its ratings per class."""
        ratings = totals.sum(axis=-1)
        chance = ((totals / ratings[..., None]) ** 2).sum(axis=-1)
        coefficients: Array = (observed * raters / ratings - chance) / (1 - chance)
        return coefficients

    return _with_interval(*_sums(whole, agreement), coefficient)


def krippendorff_alpha(units: Sequence[Hashable], items: Sequence[Ratings]) -> Kappa | None:
    """Return Krippendorff's alpha for nominal data over the `items` with several ratings, or None if there are no such
    items or no two different ratings. Its 95% interval resamples `units`, which has the unit of each item, and is None
    if the rarest class has too few ratings.

    Source: K. Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011.
    """
    rated = [
        (unit, [rating for rating in ratings if rating is not None]) for unit, ratings in zip(units, items, strict=True)
    ]
    several = [(unit, ratings) for unit, ratings in rated if len(ratings) > 1]
    if not several:
        return None

    def disagreement(counts: Counter[Hashable]) -> float:
        """Return an item's ordered pairs of differing ratings, divided by its number of ratings minus 1."""
        size = counts.total()
        return (size * size - sum(n * n for n in counts.values())) / (size - 1)

    def coefficient(observed: Array, totals: Array) -> Array:
        """Return each sample's Krippendorff's alpha, given its observed disagreement and its ratings per class."""
        size = totals.sum(axis=-1)
        coefficients: Array = 1 - (size - 1) * observed / (size * size - (totals * totals).sum(axis=-1))
        return coefficients

    return _with_interval(*_sums(several, disagreement), coefficient)


def _sums(
    items: Sequence[tuple[Hashable, Ratings]], measure: Callable[[Counter[Hashable]], float]
) -> tuple[list[float], list[list[int]]]:
    """Return the sum of the measure over each unit's items, and the number of each unit's ratings per class."""
    classes = list(dict.fromkeys(rating for _, ratings in items for rating in ratings))
    measured: dict[Hashable, float] = {}
    counted: dict[Hashable, Counter[Hashable]] = {}
    for unit, ratings in items:
        counts = Counter(ratings)
        measured[unit] = measured.get(unit, 0.0) + measure(counts)
        counted.setdefault(unit, Counter()).update(counts)
    return list(measured.values()), [[counts[label] for label in classes] for counts in counted.values()]


def _with_interval(
    measured: Sequence[float], counted: Sequence[Sequence[int]], coefficient: Callable[[Array, Array], Array]
) -> Kappa | None:
    """Return the coefficient of the sums of all units, `measured` and `counted`, with a 95% percentile interval from a
    bootstrap over the units, which is None for fewer than two units or `LEAST_OF_A_CLASS` ratings of a class. Returns
    None if there is only one class.

    The sums come from `_sums`, and `coefficient` computes coefficients from their totals.
    """
    import numpy as np

    of_units, classes = np.array(measured), np.array(counted, float)
    if len(counted[0]) < 2:
        return None
    value = float(coefficient(of_units.sum(), classes.sum(axis=0)))
    units = len(measured)
    if classes.sum(axis=0).min() < LEAST_OF_A_CLASS or units < 2:
        return Kappa(value, None, None)
    random, coefficients = np.random.default_rng(_SEED), []
    for _ in range(_RESAMPLES // _AT_ONCE):
        drawn = random.multinomial(units, np.full(units, 1 / units), _AT_ONCE)
        with np.errstate(invalid="ignore", divide="ignore"):
            coefficients.append(coefficient(drawn @ of_units, drawn @ classes))
    low, high = np.nanquantile(np.concatenate(coefficients), [0.025, 0.975])
    return Kappa(value, float(low), float(high))
