"""Solves relations at single points: where an inequality can change, and whether two relations have other solutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.evaluation import NoValue, OutOfReach, Point, number, value_of
from karenina_math.solution_sets import is_true
from karenina_math.trees import Tree, contains, difference, symbols_of

_INVERSES: Final = {
    "exp": mpmath.log, "ln": mpmath.exp, "lg": lambda y: mpmath.power(10, y), "sqrt": lambda y: y**2,
    "log": mpmath.exp, "sinh": mpmath.asinh,
}  # fmt: skip
"""Functions with one number for each value, and their inverse functions."""
_STARTS: Final = ((-9.3, -7.1), (-1.2, -0.4), (0.3, 0.9), (2.1, 3.4), (8.2, 9.7))
_MOST_SYMBOLS: Final = 3
_FEW: Final = 3
_ROUNDING: Final = mpmath.mpf(10) ** -15
_STEP: Final = mpmath.mpf(10) ** -6
"""The distance from a root at which the equation must differ. Multiple roots cannot be computed well."""
_FAR: Final = mpmath.mpf(10) ** -5
"""The relative difference that the error of a root does not explain."""


class _NotSolved(Exception):
    """Raised for an equation without a formula for its solutions."""


def critical_points(relation: Tree, point: Point) -> list[Any] | None:
    """Return all numbers at which a relation of one symbol may change between true and false, or None if not known.
    They are only known if the symbol occurs in one place, and the operations around it can be inverted.
    """
    found: list[Any] = []
    try:
        for low, high in pairwise(relation[1::2]):
            side, other = (low, high) if contains((low,), "symbol") else (high, low)
            if contains((other,), "symbol"):
                return None
            found += _solutions(side, value_of(other, point), point)
            found += _edges(side, point)
    except (_NotSolved, NoValue, OutOfReach, ZeroDivisionError, OverflowError):
        return None
    return found


def have_same_solutions(one: Tree, other: Tree, points: Sequence[Point], *, positive: bool) -> bool | None:
    """Return whether two equations have the same solutions (with `positive`, the same positive ones) for each symbol
    that can be isolated, or None if not known. The other symbols have the values in `points`, and at some of them there
    must be a solution.
    """
    trees = difference(one), difference(other)
    names = symbols_of(trees[0])
    single = {name for name in names if all(_count(tree, name) == 1 for tree in trees)}
    if len(names) < 2 or names != symbols_of(trees[1]) or not single or (single != names and _is_product(one, other)):
        return None
    solved = dict.fromkeys(single, 0)
    for point in points:
        for name in single:
            try:
                found = [_solutions(_with_numbers(tree, name, point), Fraction(0), point) for tree in trees]
            except (_NotSolved, NoValue, OutOfReach, ZeroDivisionError, OverflowError):
                return None
            first, second = ([x for x in solutions if x > 0 or not positive] for solutions in found)
            if not (_all_in(first, second) and _all_in(second, first)):
                return False
            solved[name] += bool(first)
    return True if min(solved.values()) >= _FEW else None


def _is_product(*equations: Tree) -> bool:
    """Return whether an equation says that a product is zero, so that it has solutions for a single factor."""
    return any(["number", "0"] in equation and contains((equation,), "times") for equation in equations)


def _all_in(numbers: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether each number is one of the others, but for rounding."""
    return all(any(abs(x - y) <= _ROUNDING * max(1, abs(x)) for y in others) for x in numbers)


def _count(tree: object, name: str) -> int:
    """Return in how many places a tree contains a symbol."""
    if not isinstance(tree, list):
        return 0
    return 1 if tree == ["symbol", name] else sum(_count(part, name) for part in tree)


def _with_numbers(tree: Any, name: str, point: Point) -> Any:
    """Return a tree with numbers for all symbols but `name`. Raises `_NotSolved` if a number is not rational."""
    if not isinstance(tree, list) or tree == ["symbol", name]:
        return tree
    if tree[:1] == ["symbol"]:
        value = point.symbols(tree[1])
        if not isinstance(value, Fraction):
            raise _NotSolved
        return ["number", str(value)]
    return [_with_numbers(part, name, point) for part in tree]


def differ(one: Tree, other: Tree, points: Sequence[Point], *, positive: bool) -> bool:
    """Return whether a point shows that two relations differ. If none does, or if they contain unknown functions, they
    may still differ. Equations are compared at solutions of each of them near the points, with `positive` only at
    positive ones.
    """
    if contains((one, other), "apply"):
        return False
    if one[2] != "=":
        return any(is_true(one, point) is not is_true(other, point) for point in points)
    with mpmath.workdps(30):
        return any(
            not _is_root(second, at, _FAR)
            for point in points[:_FEW]
            for first, second in ((one, other), (other, one))
            for name in sorted(symbols_of([one, other]))[:_MOST_SYMBOLS]
            for at in _roots(first, name, point)
            if not positive or at.symbols(name) > 0
        )


def _roots(equation: Tree, name: str, point: Point) -> Iterator[Point]:
    """Yield points at which an equation is true, found numerically for the symbol `name` with the others fixed.
    Multiple roots are left out.
    """
    tree = difference(equation)

    def value(x: Any) -> Any:
        return number(value_of(tree, point.with_symbol(name, x)))

    for start in _STARTS:
        try:
            root = mpmath.findroot(value, start, maxsteps=60)
            is_simple = abs(value(root + _STEP * max(1, abs(root)))) > _STEP**2
        except (NoValue, OutOfReach, ValueError, ZeroDivisionError):
            continue
        at = point.with_symbol(name, mpmath.re(root))
        if mpmath.im(root) == 0 and is_simple and _is_root(equation, at):
            yield at


def _is_root(equation: Tree, point: Point, most: Any = _ROUNDING) -> bool:
    """Return whether both sides of an equation are equal at a point, but for a relative difference of up to `most`.
    They are not if one of them has no value there.
    """
    try:
        low, high = (number(value_of(side, point)) for side in (equation[1], equation[3]))
    except NoValue:
        return False
    return bool(abs(low - high) <= most * max(1, abs(low), abs(high)))


def _edges(side: Tree, point: Point) -> Iterator[Any]:
    """Yield the numbers for its only symbol at which an expression starts or stops being real, such as 0 for *1/x*.
    Raises `_NotSolved` if they cannot be computed.
    """
    if side[0] == "symbol":
        return
    inner = _inner(side)
    is_limited = (
        (side[0] == "over" and inner is side[2])
        or side[0] in ("root", "logarithm")
        or (side[0] == "function" and side[1] not in ("exp", "abs", "sinh"))
        or (side[0] == "power" and inner is side[1])
    )
    if is_limited:
        yield from _solutions(inner, Fraction(0), point)
    yield from _edges(inner, point)


def zeros(tree: Tree, name: str, point: Point) -> list[Any]:
    """Return the real numbers for the symbol `name` at which an expression is zero, or an empty list if not known."""
    try:
        return _solutions(_with_numbers(tree, name, point), Fraction(0), point)
    except (_NotSolved, NoValue, OutOfReach, ZeroDivisionError, OverflowError):
        return []


def _solutions(side: Tree, value: Any, point: Point) -> list[Any]:
    """Return the real solutions of *side = value* for the symbol in `side`. Raises `_NotSolved` if the symbol occurs in
    several places, or if an operation cannot be inverted.
    """
    if isinstance(value, mpmath.mpc) and value.imag:
        return []
    if side[0] == "symbol":
        return [value]
    inner = _inner(side)
    return [x for y in _inverse(side, inner, value, point) for x in _solutions(inner, y, point)]


def _inner(side: Tree) -> Tree:
    """Return the only operand of `side` that contains a symbol. Raises `_NotSolved` if none or several do."""
    found = [part for part in side[1:] if isinstance(part, list) and contains((part,), "symbol")]
    if len(found) != 1:
        raise _NotSolved
    return found[0]


def _inverse(side: Tree, inner: Tree, value: Any, point: Point) -> list[Any]:
    """Return the real values of the operand `inner` with which the operation `side` gives `value`. Raises `_NotSolved`
    if the operation cannot be inverted.
    """
    y = mpmath.re(number(value))
    others = [number(value_of(part, point)) for part in side[1:] if isinstance(part, list) and part is not inner]
    if side[0] in ("power", "logarithm", "root") and isinstance(others[0], mpmath.mpc):
        raise _NotSolved
    is_left = side[1] is inner
    match side[0]:
        case "sum":
            return [y - sum(others)]
        case "minus":
            return [-y]
        case "percent":
            return [y * 100]
        case "times" if others[0]:
            return [y / others[0]]
        case "over" if is_left:
            return [y * others[0]]
        case "over":
            return [others[0] / y] if y else []
        case "function" if side[1] == "abs":
            return [y, -y] if y >= 0 else []
        case "function" if side[1] in _INVERSES and not (side[1] == "log" and point.common):
            has_value = y > 0 if side[1] == "exp" else y >= 0 or side[1] != "sqrt"
            return [_INVERSES[side[1]](y)] if has_value else []
        case "logarithm" if not is_left:
            return [mpmath.power(others[0], y)]
        case "power" if not is_left and others[0] > 0 and others[0] != 1:
            return [mpmath.log(y) / mpmath.log(others[0])] if y > 0 else []
        case "power" if is_left and others[0]:
            return _real_roots(y, others[0])
        case "root" if is_left and others[0] == int(others[0]) and others[0] > 0:
            return [y ** int(others[0])] if y >= 0 or int(others[0]) % 2 else []
    raise _NotSolved


def _real_roots(y: Any, exponent: Any) -> list[Any]:
    """Return the real solutions *x* of *x^exponent = y*, for an `exponent` other than 0: none, one, or two of opposite
    sign.
    """
    if y == 0:
        return [y] if exponent > 0 else []
    root = mpmath.power(abs(y), 1 / exponent)
    if exponent != int(exponent):
        return [root] if y > 0 else []
    if int(exponent) % 2:
        return [root * mpmath.sign(y)]
    return [root, -root] if y > 0 else []
