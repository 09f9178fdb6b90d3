"""Other meanings of trees that differ, with which they may be the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.evaluation import NoValue, OutOfReach, Point, number, value_of
from karenina_math.trees import (
    Tree,
    components,
    contains,
    contains_tree,
    renamed,
    replaced,
    symbols_of,
    unnamed,
    with_one_form,
    with_real_roots,
)

_INTEGERS: Final = frozenset("klmnKLMNz")
"""Names of integers in the solutions of periodic equations."""
_BOUNDS: Final = frozenset({"O", "Theta", "Omega"})
_LARGE: Final = ((10**40, 10**80), (200, 400))
_SMALL_CHANGE: Final = 0.001
_LARGE_CHANGE: Final = 0.1


def other_meaning(truth: Tree, value: Tree, domain: str, is_same: Callable[[Tree, Tree], bool]) -> str | None:
    """Return the reason why trees that differ may be the same, an empty text if they are, or None if they are not."""
    both = (truth, value)
    if domain in ("real", "integer"):
        real = [with_real_roots(tree) for tree in both]
        if real != [*both] and is_same(*real):
            return "" if symbols_of([*both]) else "a root of a negative number may be real or complex"
    forms = [with_one_form(tree) for tree in both]
    are_unique = all(len(symbols_of(one)) == len(symbols_of(tree)) for one, tree in zip(forms, both, strict=True))
    if forms != [*both] and are_unique and is_same(*forms):
        return "two forms of a Greek letter may be the same symbol"
    for one, other in (both, both[::-1]):
        one, other = unnamed(one), unnamed(other)
        if one[0] == "tuple" and (parts := components(other, len(one) - 1)) and is_same(one, ["tuple", *parts]):
            return "i, j and k may be unit vectors"
        has_j = contains_tree(one, ["constant", "i"]) and "j" in symbols_of(other) - symbols_of(one)
        if has_j and is_same(one, replaced(other, {'["symbol", "j"]': ["constant", "i"]})):
            return "j may be the imaginary unit"
    ours, theirs = (symbols_of(one) - symbols_of(other) for one, other in (both, both[::-1]))
    for name, others in [*((name, theirs) for name in ours), *((name, ours) for name in theirs)]:
        if name.startswith("Delta ") and any(other.startswith(f"{name[6:]}_") for other in others):
            return f"{name} may be a difference such as {name[6:]}_2 - {name[6:]}_1"
    are_integers = (
        len(ours) == len(theirs) == 1 and ours | theirs <= _INTEGERS and all(contains((t,), "pi") for t in both)
    )
    if are_integers and is_same(renamed(truth, dict(zip(ours, theirs, strict=True))), value):
        return "two names may stand for any integer"
    return None


def compared_bounds(truth: Tree, value: Tree) -> list[Any] | None:
    """Return the verdict on two bounds such as *O(n^2)*, which are equal if they grow alike, or None for others."""
    one, other = unnamed(truth), unnamed(value)
    if not (one[0] == other[0] == "apply" and one[1] == other[1] and one[1] in _BOUNDS):
        return None
    names = sorted(symbols_of([one, other]))
    for order in (names, names[::-1]):
        change = next(
            (found for sizes in _LARGE if (found := _change(one[2], other[2], order, sizes)) is not None), 0.01
        )
        if change > _LARGE_CHANGE:
            return [False]
        if change > _SMALL_CHANGE:
            return [None, "whether the bounds grow alike is not decided"]
    return [True] if truth[0] == value[0] else [None, "one value is an equation with a bound, the other a bound"]


def _change(one: Tree, other: Tree, names: Sequence[str], sizes: Sequence[int]) -> float | None:
    """Return how much the ratio of two expressions changes between two sizes, or None if it has no value."""
    logarithms = []
    for size in sizes:
        values = {name: Fraction(size ** (place + 1)) for place, name in enumerate(names)}
        point = Point(values.__getitem__)
        try:
            logarithms.append(mpmath.log(abs(number(value_of(one, point)) / number(value_of(other, point)))))
        except (NoValue, OutOfReach, ZeroDivisionError):
            return None
    return float(min(abs(logarithms[1] - logarithms[0]), 9))
