"""The constants of integrations: whether two solutions are the same family, such as *x^2 + C* and *x^2 + 1 - K*."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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

    A constant of the truth is *C* or *K*, as a term of its own or before a power of *e*, or one of several, such as
    *A* and *B*, in which the truth is linear.
    """
    if any(
        tree[0] in ("list", "and", "or") or (tree[0] == "relation" and tree[2:3] != ["="]) for tree in (truth, value)
    ):
        return False
    found = [name for name in symbols_of(truth) if _CONSTANT.fullmatch(name)]
    several = [name for name in symbols_of(truth) if _SEVERAL.fullmatch(name)]
    constants = several if len(several) > 1 else found
    variables = symbols_of(truth) - {*constants}
    others = [name for name in symbols_of(value) - variables if _OTHER_NAME.fullmatch(name)]
    if not variables or len(constants) != len(others) or symbols_of(value) != variables | {*others}:
        return False
    one, other = _equations(truth, value)
    if contains((one, other), "apply"):
        return False
    if len(constants) > 1:
        return _span_the_same(unnamed(truth), unnamed(value), sorted(constants), sorted(others))
    if len(constants) != 1 or not (_is_added(truth, constants[0]) or contains_tree(truth, ["constant", "e"])):
        return False
    return _depend_on_each_other(
        one, constants[0], other, others[0], sorted(symbols_of([one, other]) - {constants[0], others[0]})
    )


def _is_added(tree: Tree, name: str) -> bool:
    """Return whether a symbol is a term of its own in an expression or a side of an equation."""
    sides = tree[1::2] if tree[0] == "relation" else [tree]
    return any(["symbol", name] in (side[1:] if side[0] == "sum" else [side]) for side in sides)


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
    """Return whether each constant is a function of the other one: at trial points, their gradients are parallel."""
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
    """Return whether two expressions, linear in `constants` and in `others` respectively, describe the same family of
    functions. Returns False if one of them is not linear in its constants or cannot be computed.
    """
    try:
        first, second = _basis(one, constants), _basis(other, others)
    except (NoValue, OutOfReach):
        return False
    if first is None or second is None:
        return False
    (base, vectors), (other_base, other_vectors) = first, second
    shift = [a - b for a, b in zip(base, other_base, strict=True)]
    return all(_is_in_span(vectors, vector) for vector in (*other_vectors, shift)) and all(
        _is_in_span(other_vectors, vector) for vector in vectors
    )


def _basis(tree: Tree, constants: Sequence[str]) -> tuple[list[Any], list[list[Any]]] | None:
    """Return an expression's values with constants of 0 and, for each constant, by how much a constant of 1 changes
    them, or None if it is not linear. The values are those at some trial points.
    """
    trials = [TrialNumbers(index, "positive", set()) for index in range(2 * len(constants) + 2)]

    def values(numbers: Mapping[str, Fraction]) -> list[Any]:
        """Return the values of the expression at all trial points, with these numbers for its constants."""
        found = []
        for trial in trials:
            point = Point({**{name: trial(name) for name in symbols_of(tree)}, **numbers}.__getitem__)
            found.append(number(value_of(tree, point)))
        return found

    base = values(dict.fromkeys(constants, Fraction(0)))
    units = [values({name: Fraction(name == one) for name in constants}) for one in constants]
    vectors = [[a - b for a, b in zip(unit, base, strict=True)] for unit in units]
    numbers = {name: Fraction(place + 2) for place, name in enumerate(constants)}
    for start, found, *column in zip(base, values(numbers), *vectors, strict=True):
        total = start + sum(number(numbers[name]) * x for name, x in zip(constants, column, strict=True))
        if abs(total - found) > _ROUNDING * max(1, abs(found)):
            return None
    return base, vectors


def _is_in_span(vectors: Sequence[Sequence[Any]], vector: Sequence[Any]) -> bool:
    """Return whether a vector is a linear combination of others, or False if these depend on each other."""
    columns = mpmath.matrix([list(row) for row in zip(*vectors, strict=True)])
    try:
        rest = columns * mpmath.lu_solve(columns, mpmath.matrix(list(vector))) - mpmath.matrix(list(vector))
    except (ZeroDivisionError, ValueError):  # vectors that depend on each other
        return False
    return bool(mpmath.norm(rest) <= _ROUNDING * max(1, mpmath.norm(mpmath.matrix(list(vector)))))
