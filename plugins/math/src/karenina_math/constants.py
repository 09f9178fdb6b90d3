"""The constants of integrations: whether two solutions are the same family, such as *x^2 + C* and *x^2 + 1 - K*."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from fractions import Fraction
from itertools import combinations
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.evaluation import NoValue, OutOfReach, Point, TrialNumbers, number, value_of
from karenina_math.relations import zeros
from karenina_math.trees import Tree, assigned, contains, contains_tree, difference, symbols_of, unnamed

_CONSTANT: Final = re.compile(r"[CK](?:_\w)?'*")
_SEVERAL: Final = re.compile(r"[A-D]|[CcKk]_\w")
"""Names of constants if there are at least two in an expression."""
_OTHER_NAME: Final = re.compile(r"[A-DKabcdk](?:_\w)?'*")
_LEFT: Final = "="
"""The symbol that stands for the left side of *y = ...*."""
_POINTS: Final = 4
_STEP: Final = Fraction(1, 10**12)
_ROUNDING: Final = mpmath.mpf(10) ** -15


def are_same_family(truth: Tree, value: Tree) -> bool:
    """Return whether two solutions are equal but for the names or values of their constants of integration.

    A constant is *C* or *K*, as a term of its own, beside a power of *e*, or anywhere if it has another name in the
    other solution; or it is one of several, such as *A* and *B*, in which the truth is linear. What both equations
    define on their left, as in *K = mv^2/2*, is no constant.
    """
    if any(
        tree[0] in ("list", "and", "or") or (tree[0] == "relation" and tree[2:3] != ["="]) for tree in (truth, value)
    ):
        return False
    left = truth[1] if truth[0] == "relation" else []
    if left[:1] == ["symbol"] and _CONSTANT.fullmatch(left[1]) and value[:2] == ["relation", left]:
        return False
    one, other = _equations(truth, value)
    names, other_names = symbols_of(one), symbols_of(other)
    found = [name for name in names if _CONSTANT.fullmatch(name)]
    several = [name for name in names if _SEVERAL.fullmatch(name)]
    if not found and any(_CONSTANT.fullmatch(name) for name in other_names):
        found = [name for name in names - other_names if _OTHER_NAME.fullmatch(name)]
    constants = several if len(several) > 1 else found
    variables = names - {*constants}
    others = sorted(other_names - variables)
    if not variables - {_LEFT} or len(constants) != len(others) or not other_names >= variables:
        return False
    if contains((one, other), "apply"):
        return False
    if len(constants) > 1:
        return _span_the_same(unnamed(truth), unnamed(value), sorted(constants), others)
    if len(constants) != 1 or not _OTHER_NAME.fullmatch(others[0]):
        return False
    is_constant = contains_tree(truth, ["constant", "e"]) or _is_added(truth, constants[0])
    return (is_constant or _is_other_name(constants[0], others[0], variables)) and _depend_on_each_other(
        one, constants[0], other, others[0], sorted(symbols_of([one, other]) - {constants[0], others[0]})
    )


def other_constant(truth: Tree, value: Tree) -> dict[str, str]:
    """Return a dict with the constant of an integration in `truth` and its other name in `value`, if they differ in
    this name only and have other symbols, or an empty dict.
    """
    ours, theirs = symbols_of(truth), symbols_of(value)
    one, other = ours - theirs, theirs - ours
    if len(one) != 1 or len(other) != 1 or not ours & theirs:
        return {}
    pair = dict(zip(one, other, strict=True))
    return pair if all(_is_other_name(*names, ours & theirs) for names in pair.items()) else {}


def _is_other_name(one: str, other: str, beside: Set[str]) -> bool:
    """Return whether two names may be the same constant. Names that differ in case only, and those beside letters such
    as *A* and *B*, which may be matrices, are not.
    """
    return (
        one.casefold() != other.casefold()
        and any(map(_CONSTANT.fullmatch, (one, other)))
        and all(map(_OTHER_NAME.fullmatch, (one, other)))
        and not any(map(_SEVERAL.fullmatch, beside))
    )


def _is_added(tree: object, name: str) -> bool:
    """Return whether a symbol is a term of a sum, also inside a root or fraction, or a side of an equation."""
    if not isinstance(tree, list):
        return False
    parts = tree[1::2] if tree[:1] == ["relation"] else tree[1:] if tree[:1] == ["sum"] else []
    return any(part in (["symbol", name], ["minus", ["symbol", name]]) for part in parts) or any(
        _is_added(part, name) for part in tree
    )


def _equations(truth: Tree, value: Tree) -> list[Tree]:
    """Return, for each of two solutions, an expression that is zero for it. If each is a value or defines a name such
    as *y*, the name is replaced by the same symbol in both. Otherwise, it is the difference of an equation's sides, or
    the solution itself.
    """
    names = [(assigned(tree) or [[""]])[0] for tree in (truth, value)]
    are_named = [
        tree[0] != "relation" or (name[0] != "" and not _OTHER_NAME.fullmatch(str(name[1])))
        for name, tree in zip(names, (truth, value), strict=True)
    ]
    if all(are_named):
        return [["sum", ["symbol", _LEFT], ["minus", _without_signs(unnamed(tree))]] for tree in (truth, value)]
    return [_without_signs(difference(tree)) if tree[0] == "relation" else tree for tree in (truth, value)]


def _without_signs(tree: Any) -> Any:
    """Return a tree with a plus for each *±*."""
    if not isinstance(tree, list):
        return tree
    return _without_signs(tree[1]) if tree[:1] == ["pm"] else [_without_signs(part) for part in tree]


def _depend_on_each_other(one: Tree, constant: str, other: Tree, other_constant: str, names: Sequence[str]) -> bool:
    """Return whether each of two constants, which the equations `one = 0` and `other = 0` define as functions of the
    symbols `names`, is a function of the other one: the gradients of both constants are parallel at all trial points.
    Returns False if fewer than two points give gradients other than zero, as for constants that do not change.
    """
    compared = 0
    for trial in range(_POINTS):
        numbers = {name: TrialNumbers(trial, "positive", set())(name) for name in names}
        slopes = [_slopes(tree, name, numbers) for tree, name in ((one, constant), (other, other_constant))]
        if slopes[0] is None or slopes[1] is None:
            continue
        for (a, b), (c, d) in combinations(list(zip(*slopes, strict=True)), 2):
            if abs(a * d - b * c) > _ROUNDING * max(1, abs(a * d), abs(b * c)):
                return False
        compared += any(slopes[0]) and any(slopes[1])
    return compared > 1


def _slopes(tree: Tree, name: str, numbers: dict[str, Fraction]) -> list[Any] | None:
    """Return the slopes of the symbol `name`, as the equation *tree = 0* defines it, along each of the other symbols,
    or None if it has no solution. `numbers` are the other symbols with their values.
    """
    found = []
    for other in numbers:
        pair = []
        for step in (_STEP, -_STEP):
            at = {**numbers, other: numbers[other] + step}
            solutions = zeros(tree, name, Point(at.__getitem__))
            if not solutions:
                return None
            pair.append(solutions[0])
        found.append((number(pair[0]) - number(pair[1])) / number(2 * _STEP))
    return found


def _span_the_same(one: Tree, other: Tree, constants: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether two expressions, of which the first is linear in `constants`, describe the same family of
    functions: whatever the constants `others` of the second are, it is in the first family, and each of them counts.
    Returns False if the first is not linear or one of them cannot be computed.
    """
    try:
        (base, vectors), (other_base, other_vectors) = _basis(one, constants), _basis(other, others)
        numbers = {name: Fraction(place + 2) for place, name in enumerate(constants)}
        linear = [
            start + sum(number(numbers[name] - 1) * x for name, x in zip(constants, column, strict=True))
            for start, *column in zip(base, *vectors, strict=True)
        ]
        if any(
            abs(total - found) > _ROUNDING * max(1, abs(found))
            for total, found in zip(linear, _values(one, constants, numbers), strict=True)
        ):
            return False
        members = [
            _values(other, others, {name: Fraction(place + turn, 3) for place, name in enumerate(others)})
            for turn in range(1, _POINTS)
        ]
    except (NoValue, OutOfReach):
        return False
    shifts = [[a - b for a, b in zip(base, member, strict=True)] for member in (other_base, *members)]
    return all(_is_in_span(vectors, vector) for vector in (*other_vectors, *shifts)) and all(
        _is_in_span(other_vectors, vector) for vector in vectors
    )


def _values(tree: Tree, constants: Sequence[str], numbers: Mapping[str, Fraction]) -> list[Any]:
    """Return the values of an expression at some trial points, with the given numbers for its constants."""
    found = []
    for trial in (TrialNumbers(index, "positive", set()) for index in range(2 * len(constants) + 2)):
        point = Point({**{name: trial(name) for name in symbols_of(tree)}, **numbers}.__getitem__)
        found.append(number(value_of(tree, point)))
    return found


def _basis(tree: Tree, constants: Sequence[str]) -> tuple[list[Any], list[list[Any]]]:
    """Return an expression's values at some trial points with constants of 1 and, for each constant, by how much
    these change if it is 2.
    """
    ones = dict.fromkeys(constants, Fraction(1))
    base = _values(tree, constants, ones)
    return base, [
        [a - b for a, b in zip(_values(tree, constants, {**ones, name: Fraction(2)}), base, strict=True)]
        for name in constants
    ]


def _is_in_span(vectors: Sequence[Sequence[Any]], vector: Sequence[Any]) -> bool:
    """Return whether a vector is a linear combination of others, or False if these depend on each other."""
    columns = mpmath.matrix([list(row) for row in zip(*vectors, strict=True)])
    try:
        rest = columns * mpmath.lu_solve(columns, mpmath.matrix(list(vector))) - mpmath.matrix(list(vector))
    except (ZeroDivisionError, ValueError):  # vectors that depend on each other
        return False
    return bool(mpmath.norm(rest) <= _ROUNDING * max(1, mpmath.norm(mpmath.matrix(list(vector)))))
