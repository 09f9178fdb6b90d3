"""Compares two trees. `compare` runs in a child process, because a comparison may take long."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.evaluation import NoValue, OutOfReach, Point, equal, number, value_of
from karenina_math.reading import Tree

_TRIALS: Final = 8
_ENOUGH: Final = 3
"""Number of points at which both expressions must have a value."""
_MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_SETS: Final = frozenset({"set", "interval", "union", "intersection", "difference", "reals"})


def compare(truth: Tree, value: Tree, domain: str, ordered: bool, tolerance: str) -> list[Any]:
    """Return [True] or [False], or a list of None and the reason why the trees cannot be compared."""
    try:
        verdicts = []
        for common in (False, True) if _contains((truth, value), "log") else (False,):
            rules = _Rules(domain, ordered, Fraction(tolerance), common)
            verdicts.append(rules.same(_expanded(truth), _expanded(value)))
        if len(set(verdicts)) > 1:
            return [None, "log may be the natural or the common logarithm"]
        verdict = verdicts[0]
        if not verdict and _contains((truth,), "degrees") is not _contains((value,), "degrees"):
            rules = _Rules(domain, ordered, Fraction(tolerance), common=False, degrees=False)
            if rules.same(_expanded(truth), _expanded(value)):
                return [None, "an angle without a sign for degrees"]
    except NoValue as error:
        return ["no value", str(error)]
    except OutOfReach as error:
        return [None, str(error)]
    return [verdict]


def _contains(trees: Sequence[object], word: str) -> bool:
    """Return whether a word is part of any of the trees."""
    return any(tree == word or (isinstance(tree, list | tuple) and _contains(tree, word)) for tree in trees)


def _expanded(tree: Tree) -> Tree:
    """Return the tree with each item that contains *±* as two items, in a list without order (`solutions`)."""
    items = tree[1:] if tree[0] == "list" else [tree]
    found, is_expanded = [], False
    for item in items:
        if _contains((item,), "pm") or _contains((item,), "mp"):
            found += [["signed", 1, item], ["signed", -1, item]]
            is_expanded = True
        else:
            found.append(item)
    if is_expanded:
        return ["solutions", *found]
    return tree


class _Rules:
    """The rules of a comparison."""

    def __init__(self, domain: str, ordered: bool, tolerance: Fraction, common: bool, degrees: bool = True) -> None:
        self.domain, self.ordered, self.tolerance = domain, ordered, tolerance
        self.common, self.degrees = common, degrees

    def same(self, one: Tree, other: Tree) -> bool:
        """Return whether two trees mean the same. Raises `NoValue` and `OutOfReach`."""
        if one == other:
            return True
        lists = ("list", "solutions", "set")
        if one[0] in lists or other[0] in lists:
            return self._same_lists(one, other)
        if "signed" in (one[0], other[0]):
            return self._same_numbers(_unnamed(one), _unnamed(other))
        one, other = _membership(one), _membership(other)
        if _is_real_set(one) or _is_real_set(other):
            return self._same_sets(one, other)
        if one[0] == "relation" or other[0] == "relation":
            return self._same_relations(one, other)
        for kind in ("tuple", "matrix", "interval"):
            if kind in (one[0], other[0]):
                return self._same_rows(one, other)
        return self._same_numbers(one, other)

    def _same_rows(self, one: Tree, other: Tree) -> bool:
        """Return whether two tuples, matrices or intervals have the same parts in the same order."""
        if one[0] != other[0] or len(one) != len(other):
            return False
        if one[0] == "matrix":
            rows = list(zip(one[1:], other[1:], strict=True))
            if any(len(first) != len(second) for first, second in rows):
                return False
            pairs = [pair for first, second in rows for pair in zip(first, second, strict=True)]
        elif one[0] == "interval":
            if one[1:3] != other[1:3]:
                return False
            pairs = list(zip(one[3:], other[3:], strict=True))
        else:
            pairs = list(zip(one[1:], other[1:], strict=True))
        return all(self.same(first, second) for first, second in pairs)

    def _same_lists(self, one: Tree, other: Tree) -> bool:
        """Return whether two lists or sets have the same items. Those in braces, or with *±*, have no order."""
        kinds = {one[0], other[0]}
        if (_is_real_set(one) or _is_real_set(other)) and not kinds & {"list", "solutions"} and kinds != {"set"}:
            return self._same_sets(one, other)
        first, second = _items(one), _items(other)
        if self.ordered and kinds <= {"list"}:
            pairs = zip(first, second, strict=False)
            return len(first) == len(second) and all(self.same(*pair) for pair in pairs)
        first, second = self._distinct(first), self._distinct(second)
        return len(first) == len(second) and all(any(self.same(item, right) for right in second) for item in first)

    def _distinct(self, items: Sequence[Tree]) -> list[Tree]:
        """Return the items without those that are equal to an earlier one."""
        found: list[Tree] = []
        for item in items:
            if not any(self.same(item, known) for known in found):
                found.append(item)
        return found

    def _same_relations(self, one: Tree, other: Tree) -> bool:
        """Return whether two equations or inequalities, or one and an expression, mean the same."""
        first, second = _assigned(one), _assigned(other)
        if one[0] != "relation" or other[0] != "relation":
            named = first if first is not None else second
            return named is not None and self.same(named[1], other if first is not None else one)
        if first is not None and second is not None and first[0] == second[0] and self.same(first[1], second[1]):
            return True
        if len(one) != 4 or len(other) != 4:
            return len(one) == len(other) and all(
                left == right if isinstance(left, str) else self.same(left, right)
                for left, right in zip(one[1:], other[1:], strict=True)
            )
        if other[2] not in (one[2], _MIRRORED.get(one[2])) or one[2] not in _MIRRORED:
            return False
        return self._is_multiple(_difference(one), _difference(other), one[2], other[2])

    def _is_multiple(self, one: Tree, other: Tree, sign: str, other_sign: str) -> bool:
        """Return whether one expression is the other times a constant, whose sign fits the relations."""
        ratios = []
        for first, second in self._values(one, other):
            if equal(second, Fraction(0)):
                continue
            ratios.append(number(first) / number(second))
        if len(ratios) < _ENOUGH or not all(equal(ratio, ratios[0]) for ratio in ratios) or equal(ratios[0], 0):
            return False
        if sign in ("=", "!="):
            return sign == other_sign
        return bool(mpmath.im(ratios[0]) == 0 and (mpmath.re(ratios[0]) > 0) is (sign == other_sign))

    def _same_numbers(self, one: Tree, other: Tree) -> bool:
        """Return whether two expressions have the same values at all points that are tried."""
        compared = 0
        for first, second in self._values(one, other):
            if not equal(first, second, self.tolerance):
                return False
            compared += 1
        if not compared:
            raise NoValue("the expressions have no value")
        return True

    def _values(self, one: Tree, other: Tree) -> Iterator[tuple[Any, Any]]:
        """Yield the values of two expressions at points where both have one."""
        signs = [tree[1] if tree[0] == "signed" else 1 for tree in (one, other)]
        trees = [tree[2] if tree[0] == "signed" else tree for tree in (one, other)]
        for kind in ("tuple", "matrix", "relation", *_SETS):
            if any(tree[0] == kind for tree in trees):
                if trees[0] == trees[1] and signs[0] == signs[1]:
                    yield Fraction(0), Fraction(0)
                elif trees[0][0] == trees[1][0] == "tuple":
                    for pair in zip(trees[0][1:], trees[1][1:], strict=False):
                        yield from self._values(*(["signed", *x] for x in zip(signs, pair, strict=True)))
                else:
                    yield Fraction(0), Fraction(1)
                return
        for trial in range(_TRIALS if _contains(trees, "symbol") or _contains(trees, "apply") else 1):
            points = [
                Point(_Symbols(trial, self.domain), common=self.common, degrees=self.degrees, sign=sign)
                for sign in signs
            ]
            values = []
            for tree, point in zip(trees, points, strict=True):
                try:
                    values.append(value_of(tree, point))
                except NoValue:
                    values.append(None)
            if None not in values:
                yield values[0], values[1]

    def _same_sets(self, one: Tree, other: Tree) -> bool:
        """Return whether two sets of real numbers are equal: whether they agree at and between all their ends."""
        one, other = _as_set(one), _as_set(other)
        if not (_is_real_set(one) and _is_real_set(other)):
            return False
        point = Point(_Symbols(0, self.domain), common=self.common, degrees=self.degrees)
        ends: list[Any] = []
        for end in (*_ends(one), *_ends(other)):
            value = value_of(end, point)
            if isinstance(number(value), mpmath.mpc) and mpmath.im(value) != 0:
                return False
            value = value if isinstance(value, Fraction) else mpmath.re(value)
            if not any(equal(value, known) for known in ends):
                ends.append(value)
        finite = sorted((end for end in ends if not mpmath.isinf(number(end))), key=number)
        tried = [*finite, *((number(low) + number(high)) / 2 for low, high in pairwise(finite))]
        tried += [number(finite[0]) - 1, number(finite[-1]) + 1] if finite else [Fraction(0)]
        return all(_is_member(x, one, point) is _is_member(x, other, point) for x in tried)


class _Symbols:
    """Numbers for symbols that depend on their names and on the trial alone."""

    def __init__(self, trial: int, domain: str) -> None:
        self._trial, self._domain = trial, domain

    def __call__(self, name: str) -> Any:
        """Return the number for a symbol."""
        source = random.Random(f"{self._trial} {name}")  # noqa: S311 - points, not secrets
        sign = 1 if (source.random() < 0.5) ^ bool(self._trial % 2) else -1
        if "(" in name:
            sign = 1
        if self._domain == "integer":
            return Fraction(source.randint(1, 12))
        size = Fraction(source.randint(10**8, 3 * 10**9), 10**9)
        if self._domain == "complex":
            return mpmath.mpc(number(size * sign), source.uniform(-2, 2))
        return size if self._domain == "positive" else size * sign


def _items(tree: Tree) -> list[Tree]:
    """Return the items of a list or set, of which a single expression is the only one."""
    return tree[1:] if tree[0] in ("list", "solutions", "set") else [tree]


def _membership(tree: Tree) -> Tree:
    """Return the set of a relation such as *x in (0, 1)*, and other trees unchanged."""
    return tree[3] if tree[0] == "relation" and len(tree) == 4 and tree[2] == "in" else tree


def _assigned(tree: Tree) -> tuple[Tree, Tree] | None:
    """Return the symbol or *f(x)* of an equation and the expression that it equals, or None."""
    if tree[0] != "relation" or len(tree) != 4 or tree[2] != "=":
        return None
    for name, value in ((tree[1], tree[3]), (tree[3], tree[1])):
        if name[0] in ("symbol", "apply"):
            return name, value
    return None


def _unnamed(tree: Tree) -> Tree:
    """Return the expression that a symbol equals, and other trees unchanged."""
    if tree[0] == "signed":
        return [*tree[:2], _unnamed(tree[2])]
    named = _assigned(tree)
    return tree if named is None else named[1]


def _difference(tree: Tree) -> Tree:
    """Return the left side of a relation minus its right side."""
    return ["sum", tree[1], ["minus", tree[3]]]


def _as_set(tree: Tree) -> Tree:
    """Return a pair in parentheses as an open interval, an inequality as one with its ends, and others unchanged."""
    if tree[0] == "tuple" and len(tree) == 3:
        return ["interval", False, False, tree[1], tree[2]]
    if tree[0] != "relation":
        return tree
    infinity: Tree = ["constant", "infty"]
    if len(tree) == 4:
        left, sign, right = tree[1:]
        if right[0] == "symbol":
            left, right, sign = right, left, _MIRRORED.get(sign, sign)
        if sign == "!=":
            return ["difference", ["reals"], ["set", right]]
        if sign in ("<", "<="):
            return ["interval", False, sign == "<=", ["minus", infinity], right]
        return ["interval", sign == ">=", False, right, infinity]
    low, first, _, second, high = tree[1:]
    if first in (">", ">="):
        low, high, first, second = high, low, _MIRRORED[second], _MIRRORED[first]
    return ["interval", first == "<=", second == "<=", low, high]


def _is_real_set(tree: Tree) -> bool:
    """Return whether a tree is a set of real numbers, with ends without symbols."""
    if tree[0] == "relation":
        parts = tree[1:]
        if len(parts) == 3 and parts[1] in ("<", "<=", ">", ">=", "!="):
            is_bound = [part[0] == "symbol" for part in (parts[0], parts[2])]
            other = parts[2] if is_bound[0] else parts[0]
            return any(is_bound) and not _contains((other,), "symbol")
        same_way = len(parts) == 5 and any({parts[1], parts[3]} <= set(way) for way in (("<", "<="), (">", ">=")))
        return same_way and parts[2][0] == "symbol" and not _contains((parts[0], parts[4]), "symbol")
    return tree[0] in _SETS and not _contains((tree,), "symbol") and not _contains((tree,), "i")


def _ends(tree: Tree) -> Iterator[Tree]:
    """Yield the ends of the intervals and the elements of a set."""
    match tree[0]:
        case "interval":
            yield from tree[3:]
        case "set":
            yield from tree[1:]
        case "union" | "intersection" | "difference":
            for part in tree[1:]:
                yield from _ends(_as_set(part))


def _is_member(x: Any, tree: Tree, point: Point) -> bool:
    """Return whether a real number is in a set."""
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
    if tree[0] not in ("union", "intersection", "difference"):
        raise NoValue(f"a {tree[0]} is no set")
    left, right = (_is_member(x, _as_set(part), point) for part in tree[1:])
    return {"union": left or right, "intersection": left and right, "difference": left and not right}[tree[0]]
