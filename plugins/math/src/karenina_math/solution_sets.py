"""Sets of real numbers: which numbers are members, and where an inequality can change from true to false."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.evaluation import NoValue, Point, equal, number, value_of
from karenina_math.trees import Tree, as_set, contains, difference, symbols_of

_MOST_ROOTS: Final = 64
_MOST_NUMBERS: Final = 20
_MOST_NAMES: Final = 8


def is_member(x: Any, tree: Tree, point: Point) -> bool:
    """Return whether a real number is in a set, or a solution of an inequality. Raises `NoValue` for other trees."""
    match tree[0]:
        case "reals":
            return True
        case "set":
            return any(equal(x, value_of(item, point)) for item in tree[1:])
        case "interval":
            low, high = (number(value_of(end, point)) for end in tree[3:])
            low, high = mpmath.re(low), mpmath.re(high)
            if equal(x, low):
                return bool(tree[1]) and (bool(tree[2]) or not equal(x, high))
            if equal(x, high):
                return bool(tree[2])
            return bool(low < number(x) < high)
        case "relation":
            return is_true(tree, _at(x, point))
    if tree[0] not in ("union", "intersection", "difference"):
        raise NoValue(f"a {tree[0]} is not a set")
    left, right = (is_member(x, as_set(part), point) for part in tree[1:])
    return {"union": left or right, "intersection": left and right, "difference": left and not right}[tree[0]]


def have_same_members(one: Tree, other: Tree) -> bool | None:
    """Return whether two sets made of named ones, such as *A \\cup B*, are equal whatever the named sets contain.
    Returns None if they have other parts, such as intervals, or more than `_MOST_NAMES` names.
    """
    names = sorted(symbols_of([one, other]))
    if len(names) > _MOST_NAMES:
        return None
    around = [dict(zip(names, inside, strict=True)) for inside in product((True, False), repeat=len(names))]
    pairs = [(_is_inside(one, inside), _is_inside(other, inside)) for inside in around]
    return None if any(None in pair for pair in pairs) else all(left is right for left, right in pairs)


def _is_inside(tree: Tree, inside: Mapping[str, bool]) -> bool | None:
    """Return whether a member is in a set, given whether it is in each named set, or None for other parts."""
    match tree:
        case ["symbol", name]:
            return inside[name]
        case ["union" | "intersection" | "difference" as kind, one, other]:
            left, right = _is_inside(one, inside), _is_inside(other, inside)
            if left is None or right is None:
                return None
            return {"union": left or right, "intersection": left and right, "difference": left and not right}[kind]
    return None


def trial_points(relations: Sequence[Tree], point: Point) -> set[Any]:
    """Return numbers for comparing inequalities: quarters from -11 to 11, and the first numbers in `relations` and
    their roots, with both signs.
    """
    found = {Fraction(quarter, 4) for quarter in range(-44, 45)}
    for size in list(_numbers(relations))[:_MOST_NUMBERS]:
        value = value_of(["number", size], point)
        root = Fraction(str(mpmath.sqrt(number(value))))
        found |= {value, -value, root, -root}
    return found


def with_points_between(numbers: Iterable[Any]) -> list[Any]:
    """Return the distinct numbers in ascending order, then a number between each two neighbours, and one beyond each
    end. Returns [0] if there are no numbers.
    """
    found: list[Any] = []
    for one in sorted(numbers, key=number):
        if not found or not equal(found[-1], one):
            found.append(one)
    between = [(number(low) + number(high)) / 2 for low, high in pairwise(found)]
    return [*found, *between, number(found[0]) - 1, number(found[-1]) + 1] if found else [Fraction(0)]


def has_no_other_roots(relation: Tree, known: Sequence[Any], point: Point) -> bool:
    """Return whether a relation of polynomials has as many roots among the numbers in `known` as it can have at all.
    Returns False for other relations, and if that is more than `_MOST_ROOTS`.
    """
    for low, sign, high in zip(relation[1::2], relation[2::2], relation[3::2], strict=False):
        tree = difference(["relation", low, sign, high])
        degree = _degree(tree)
        most = None if degree is None else degree * 2 ** min(_count_bars(tree), 10)
        if most is None or most > _MOST_ROOTS:
            return False
        roots = [x for x in known if equal(value_of(tree, _at(x, point)), Fraction(0))]
        if len(roots) < most:
            return False
    return True


def _at(x: Any, point: Point) -> Point:
    """Return a point at which each symbol is the number *x*."""
    return Point(lambda _: x, common=point.common, degrees=point.degrees)


def is_true(relation: Tree, point: Point) -> bool:
    """Return whether a relation is true at a point. Where a side has no finite real value, it is not."""
    try:
        values = [value_of(part, point) for part in relation[1::2]]
    except NoValue:
        return False
    parts = [(part, number(value)) for part, value in zip(relation[1::2], values, strict=True)]
    if any(mpmath.isinf(x) and not contains((part,), "infty") for part, x in parts):  # a pole
        return False
    if not all(equal(mpmath.im(x), Fraction(0)) for _, x in parts):
        return False
    for (low, high), sign in zip(pairwise(values), relation[2::2], strict=True):
        order = 0 if equal(low, high) else -1 if mpmath.re(number(low)) < mpmath.re(number(high)) else 1
        if order not in {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (1, 0), "=": (0,), "!=": (-1, 1)}[sign]:
            return False
    return True


def _degree(tree: Tree) -> int | None:
    """Return an upper bound for the degree of a polynomial, which may have absolute values, or None for others."""
    if not contains((tree,), "symbol"):
        return 0
    if tree[0] == "symbol":
        return 1
    parts = [_degree(part) for part in tree[1:] if isinstance(part, list)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    match tree[0]:
        case "sum" | "minus" | "percent":
            return max(known)
        case "function" if tree[1] == "abs":
            return known[0]
        case "times":
            return sum(known)
        case "over" if not known[1]:
            return known[0]
        case "power" if tree[2][0] == "number" and tree[2][1].isdigit() and len(tree[2][1]) < 3:
            return known[0] * int(tree[2][1])
    return None


def _count_bars(tree: Tree) -> int:
    """Return the number of absolute values in a tree."""
    return (tree[:2] == ["function", "abs"]) + sum(_count_bars(part) for part in tree[1:] if isinstance(part, list))


def _numbers(trees: Sequence[object]) -> Iterator[str]:
    """Yield all numbers that occur in trees, as they are written."""
    for tree in trees:
        if isinstance(tree, list):
            if tree[:1] == ["number"]:
                yield tree[1]
            yield from _numbers(tree)
