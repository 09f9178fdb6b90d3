"""The sign-flip test: the probability of a difference at least as large if the signs of all units are random.

numpy is imported only when needed, because it starts threads, and a process with threads cannot be forked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Final

DRAWS: Final = 100_000
MOST_PARTS: Final = 10_080
"""The largest common denominator at which scores are counted in whole numbers."""
_MOST_STEPS: Final = 2_000_000_000
"""Additions after which drawing is faster than counting."""
_SEED: Final = 20_261_122
_AT_ONCE: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class SignFlip:
    """The result of the test: two-sided p, mid-p, and whether all sign patterns were counted (exact) or some drawn."""

    p: float
    mid_p: float
    exact: bool


def sign_flip(scores: Sequence[Fraction]) -> SignFlip:
    """Test whether the sum of `scores`, one for each unit, differs from 0.

    Exact by convolution if the scores are whole numbers after multiplication by at most `MOST_PARTS`; else by
    `DRAWS` seeded draws with p = (b + 1) / (m + 1). With one observation for each unit and score 1, 0 or -1 the exact
    p is that of McNemar's test.
    """
    scale = lcm(*{score.denominator for score in scores}) if scores else 1
    if scale <= MOST_PARTS:
        whole = [int(score * scale) for score in scores if score]
        if sum(map(abs, whole)) * len(whole) <= _MOST_STEPS:
            return _exact_test(whole)
    return _sampled_test([float(score) for score in scores if score])


def _exact_test(scores: Sequence[int]) -> SignFlip:
    """Count all patterns of signs: the distribution of the sum, one unit after another."""
    import numpy as np

    most = sum(map(abs, scores))
    chances = np.zeros(2 * most + 1)
    chances[most] = 1.0
    reach = 0
    for size in sorted(map(abs, scores)):
        inner = chances[most - reach : most + reach + 1] / 2
        reach += size
        outer = chances[most - reach : most + reach + 1]
        outer[:] = 0.0
        outer[: inner.size] += inner
        outer[2 * size :] += inner
    seen = abs(sum(scores))
    if not seen:
        return SignFlip(1.0, 1.0 - float(chances[most]) / 2, exact=True)
    beyond, at = float(chances[most + seen + 1 :].sum()), float(chances[most + seen])
    return SignFlip(min(1.0, 2 * (beyond + at)), min(1.0, 2 * beyond + at), exact=True)


def _sampled_test(values: Sequence[float]) -> SignFlip:
    import numpy as np

    scores = np.array(values)
    random = np.random.default_rng(_SEED)
    seen = abs(float(scores.sum()))
    tolerance = 1e-9 * max(1.0, float(np.abs(scores).sum()))
    beyond = at = 0
    chunk = max(1, _AT_ONCE // max(1, scores.size))
    for start in range(0, DRAWS, chunk):
        signs = random.integers(0, 2, (min(chunk, DRAWS - start), scores.size), dtype=np.int8) * 2.0 - 1.0
        sums = np.abs(signs @ scores)
        beyond += int((sums > seen + tolerance).sum())
        at += int((np.abs(sums - seen) <= tolerance).sum())
    return SignFlip((beyond + at + 1) / (DRAWS + 1), (beyond + at / 2 + 1) / (DRAWS + 1), exact=False)
