"""How many answers of each stratum are labelled."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

LEAST: Final = 5
"""The least labels of a stratum."""

Key = TypeVar("Key", bound=Hashable)


def merge_small(sizes: Mapping[Key, int], least: int = LEAST) -> dict[Key, tuple[Key, ...]]:
    """Return the members of each stratum after those with fewer than `least` answers are merged.

    The smallest is merged into the next in size, until none is too small or one is left. Those without answers
    are left out.
    """
    groups: dict[Key, tuple[Key, ...]] = {key: (key,) for key, size in sizes.items() if size}
    total = {key: sizes[key] for key in groups}
    while len(groups) > 1:
        small, larger = sorted(groups, key=total.__getitem__)[:2]
        if total[small] >= least:
            break
        groups[larger] += groups.pop(small)
        total[larger] += total.pop(small)
    return groups


def allocate(sizes: Mapping[Key, int], labels: int, least: int = LEAST) -> dict[Key, int]:
    """Return how many answers of each stratum are drawn, `labels` in all if there are as many.

    Each stratum gets `least`, or all it has, and the rest is shared in proportion to the sizes; so the sum may be above
    `labels`.
    """
    found = {key: min(size, least) for key, size in sizes.items()}
    total = sum(sizes.values())
    left = min(labels, total) - sum(found.values())
    while left > 0:
        behind = {key: size * labels / total - found[key] for key, size in sizes.items() if found[key] < size}
        chosen = max(behind, key=lambda key: behind[key])
        found[chosen] += 1
        left -= 1
    return found
