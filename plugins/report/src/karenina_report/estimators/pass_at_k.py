"""pass@k and pass^k: the probability that any, or that each, of k replicates is right."""

from __future__ import annotations

from math import comb


def pass_at_k(right: int, judged: int, k: int) -> float:
    """Return the probability that at least one of `k` replicates is right, drawn from those that were judged.

    Source: M. Chen et al., Evaluating Large Language Models Trained on Code, 2021. Raises `ValueError` if fewer than k
    were judged.
    """
    _check(right, judged, k)
    return 1 - comb(judged - right, k) / comb(judged, k)


def pass_hat_k(right: int, judged: int, k: int) -> float:
    """Return the probability that each of `k` replicates is right, drawn from those that were judged.

    Source: S. Yao et al., tau-bench, 2024. Raises `ValueError` if fewer than k were judged.
    """
    _check(right, judged, k)
    return comb(right, k) / comb(judged, k)


def _check(right: int, judged: int, k: int) -> None:
    if not 0 <= right <= judged or not 1 <= k <= judged:
        raise ValueError(f"{k} of {judged} replicates, {right} right, cannot be drawn")
