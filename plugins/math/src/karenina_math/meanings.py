"""Other meanings of trees that differ, with which they may be the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.constants import are_same_family, other_constant
from karenina_math.evaluation import NoValue, OutOfReach, Point, equal, number, value_of
from karenina_math.trees import (
    Tree,
    assigned,
    components,
    contains,
    contains_tree,
    has_indices,
    other_names,
    renamed,
    replaced,
    symbols_of,
    unnamed,
    with_one_form,
    with_real_roots,
    without_unit,
)

_INTEGERS: Final = frozenset("klmnKLMNz")
"""Names of integers in the solutions of periodic equations."""
_PARAMETERS: Final = frozenset({"t", "s", "r", "u", "lambda", "mu"})
"""Names of the parameter of a line."""
_I: Final[Tree] = ["constant", "i"]
_HBAR: Final[dict[str, Tree]] = {
    '["symbol", "hbar"]': ["over", ["symbol", "h"], ["times", ["number", "2"], ["constant", "pi"]]]
}
_EMPTY_SETS: Final[list[Tree]] = [["symbol", name] for name in ("phi", "varphi", "Phi")]
_BOUNDS: Final = frozenset({"O", "Theta", "Omega"})
_LARGE: Final = ((10**40, 10**80), (200, 400))
_SMALL_CHANGE: Final = 0.001
_LARGE_CHANGE: Final = 0.1


def other_meaning(truth: Tree, value: Tree, domain: str, is_same: Callable[[Tree, Tree], bool]) -> str | None:
    """Return why expressions that differ may still mean the same, an empty string if they do, or None if they do not.
    `is_same` compares them with other meanings of their notation and symbols, such as real roots if the `domain` is
    real.
    """
    for one, other, reason in (*_other_texts(truth, value, domain), *_other_letters(truth, value)):
        if is_same(one, other):
            return reason
    for one, other in ((truth, value), (value, truth)):
        others = symbols_of(other)
        for name in symbols_of(one) - others:
            if name.startswith("Delta ") and any(other.startswith(f"{name[6:]}_") for other in others):
                return f"{name} may be a difference such as {name[6:]}_2 - {name[6:]}_1"
        if one == ["set"] and other in _EMPTY_SETS:
            return "the letter may be the sign of the empty set"
        is_equation = other[0] == "relation" and set(other[2::2]) == {"="}
        if is_equation and one[0] != "relation" and all(is_same(one, side) for side in other[1::2]):
            return "one value is an equation, each side of which is equal to the other value"
    integers = _integers(truth, value)
    if _have_same_integers(
        unnamed(truth), unnamed(renamed(value, {theirs: ours for ours, theirs in integers.items()}))
    ):
        return "the values may be the same for other integers"
    if are_same_family(truth, value) or are_same_family(value, truth):
        return "the constants of an integration may have other names and values"
    if truth[0] == value[0] in ("tuple", "matrix") and _are_same_line(truth, value):
        return "the vectors may describe the same line with another parameter"
    ours, theirs = _argument(truth), _argument(value)
    if (
        ours is not None
        and theirs not in (None, ours)
        and "relation" in (truth[0], value[0])
        and is_same(unnamed(truth), renamed(unnamed(value), {str(theirs): ours}))
    ):
        return "the values may be the same with another argument"
    named = [(assigned(tree) or [None])[0] for tree in (truth, value)]
    if (has_indices(truth) or has_indices(value)) and (named[0] is None or named[0] != named[1]):
        return "the terms of a sequence may be the same with other indices"
    return None


def _argument(tree: Tree) -> str | None:
    """Return the argument of the function or sequence that an equation defines, such as *t* of *f(t) = 2t*, or the only
    symbol of an expression, or None.
    """
    named = assigned(tree)
    if named is None:
        names = symbols_of(tree) if tree[0] != "relation" else set()
        return names.pop() if len(names) == 1 else None
    match named[0]:
        case ["apply", _, ["symbol", name]]:
            return str(name)
        case ["symbol", name] if (index := name.partition("_")[2]).isalpha() and index in symbols_of(named[1]):
            return str(index)
    return None


def _other_texts(truth: Tree, value: Tree, domain: str) -> Iterator[tuple[Tree, Tree, str]]:
    """Yield both expressions with another meaning of their notation, such as real roots if the `domain` is real, and
    the reason for doubt if these are the same. The reason is empty if there is no doubt.
    """
    real = [with_real_roots(tree) for tree in (truth, value)]
    if domain in ("real", "integer") and real != [truth, value]:
        yield *real, "" if symbols_of([truth, value]) else "a root of a negative number may be real or complex"
    for one, other in ((truth, value), (value, truth)):
        items = other[3:] if other[:3] == ["interval", True, True] else other[1:] if other[0] == "tuple" else None
        if one[0] in ("list", "and") and items is not None:
            yield ["list", *one[1:]], ["list", *items], "a list and a tuple or interval have the same items"
        one, other = unnamed(one), unnamed(other)
        if one[0] == "tuple" and (parts := components(other, len(one) - 1)):
            yield one, ["tuple", *parts], "i, j and k may be unit vectors"
        if (number := without_unit(one)) is not None and without_unit(other) is None and not symbols_of(other):
            yield number, other, "the letters after a number may be a unit"


def _other_letters(truth: Tree, value: Tree) -> Iterator[tuple[Tree, Tree, str]]:
    """Yield both expressions with another meaning of a letter, and the reason for doubt if these are the same. The
    reason is empty if there is no doubt.
    """
    both = [truth, value]
    forms = [with_one_form(tree) for tree in both]
    if forms != both and all(
        len(symbols_of(one)) == len(symbols_of(other)) for one, other in zip(forms, both, strict=True)
    ):
        yield *forms, "two forms of a Greek letter may be the same symbol"
    for one, other in (both, both[::-1]):
        names = symbols_of(one)
        if contains_tree(other, _I) and "j" in names - symbols_of(other):
            yield replaced(one, {'["symbol", "j"]': _I}), other, "j may be the imaginary unit"
        if contains_tree(other, _I) and "I" in names:
            yield one, replaced(other, {json.dumps(_I): ["symbol", "I"]}), "i may be a symbol"
        if "hbar" in names:
            yield replaced(one, _HBAR), other, ""
        if zeros := {name: f"{name[:-1]}0" for name in names if name.endswith(("_o", "_O"))}:
            yield renamed(one, zeros), other, "an o may be a zero"
    for name, other_name in (pair := other_names(truth, value)).items():
        meant = [name or "the argument of a function", other_name or "the argument of a function"]
        yield renamed(truth, pair), value, f"{meant[0]} and {meant[1]} may mean the same"
    if constant := other_constant(truth, value):
        yield renamed(truth, constant), value, "the constants of an integration may have other names and values"
    if integers := _integers(truth, value):
        yield renamed(truth, integers), value, "two names may stand for any integer"


def _integers(truth: Tree, value: Tree) -> dict[str, str]:
    """Return a dict with the name of an integer in `truth` and its other name in `value`, if they differ in one name
    and both are the solutions of a periodic equation. Otherwise, return an empty dict.
    """
    names, others = symbols_of(unnamed(truth)), symbols_of(unnamed(value))
    ours, theirs = names - others, others - names
    if len(ours) != 1 or len(theirs) != 1 or not ours | theirs <= _INTEGERS or not _are_angles(truth, value):
        return {}
    return dict(zip(ours, theirs, strict=True))


def _are_angles(*trees: Tree) -> bool:
    """Return whether each tree contains *\\pi* or a degree sign."""
    return all(contains((tree,), "pi") or contains((tree,), "degrees") for tree in trees)


def with_letter_i(truth: Tree, value: Tree) -> list[Tree] | None:
    """Return the trees with a symbol for *i* if the truth contains *i^2* beside other symbols, otherwise None."""
    if not contains_tree(truth, ["power", _I, ["number", "2"]]) or not symbols_of(truth):
        return None
    return [replaced(tree, {json.dumps(_I): ["symbol", "i"]}) for tree in (truth, value)]


def _have_same_integers(one: Tree, other: Tree) -> bool:
    """Return whether two angles that are linear in the same integer, such as *\\pi/4 + n\\pi*, have the same set of
    values. Returns False for other expressions, or if they have no values.
    """
    names = symbols_of([one, other])
    if (
        contains((one, other), "apply")
        or len(names) != 1
        or not names <= _INTEGERS
        or not _are_angles(one, other)
        or contains((one,), "pm") is not contains((other,), "pm")
    ):
        return False
    points = [Point(dict.fromkeys(names, Fraction(place)).__getitem__) for place in range(3)]
    try:
        values = [[number(value_of(tree, point)) for point in points] for tree in (one, other)]
        shift = (values[1][0] - values[0][0]) / (values[0][1] - values[0][0])
    except (NoValue, OutOfReach, ZeroDivisionError):
        return False
    steps = [[b - a for a, b in pairwise(row)] for row in values]
    are_linear = all(equal(first, second) for first, second in steps) and equal(abs(steps[0][0]), abs(steps[1][0]))
    return are_linear and equal(shift, mpmath.nint(mpmath.re(shift)))


def _are_same_line(one: Tree, other: Tree) -> bool:
    """Return whether two vectors, each with one parameter such as *t* in *(1, 2 + t)*, describe the same line. Returns
    False if another letter is used, or if they have no values.
    """
    points = []
    for tree in (one, other):
        names = symbols_of(tree)
        parts = [part for row in tree[1:] for part in row] if tree[0] == "matrix" else tree[1:]
        if len(names) != 1 or not names <= _PARAMETERS:
            return False
        try:
            for place in range(3):
                point = Point(dict.fromkeys(names, Fraction(place)).__getitem__)
                points.append([number(value_of(part, point)) for part in parts])
        except (NoValue, OutOfReach):
            return False
    if len(points[0]) != len(points[3]):
        return False
    steps = [
        [b - a for a, b in zip(points[i], points[j], strict=True)] for i, j in ((0, 1), (1, 2), (3, 4), (4, 5), (0, 3))
    ]
    are_straight = all(any(step) for step in steps[:4])
    return are_straight and all(_is_parallel(steps[0], step) for step in steps[1:])


def _is_parallel(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two vectors are multiples of each other."""
    pairs = list(zip(one, other, strict=True))
    return all(equal(a * d, b * c) for (a, b), (c, d) in combinations(pairs, 2))


def compared_bounds(truth: Tree, value: Tree) -> list[Any] | None:
    """Return the verdict on two bounds of the same kind, such as *O(n^2)*: `[True]` if they grow alike, `[False]` if
    they do not, or `[None, reason]` if it is in doubt. Returns None for anything else.
    """
    one, other = unnamed(truth), unnamed(value)
    if not (one[0] == other[0] == "apply" and one[1] == other[1] and one[1] in _BOUNDS):
        return None
    if contains((one[2], other[2]), "apply"):
        return None
    names = sorted(symbols_of([one, other]))
    for order in (names, names[::-1]):
        changes = [_change(one[2], other[2], order, sizes) for sizes in _LARGE]
        change = next((found for found in changes if found is not None), None)
        if change is not None and change > _LARGE_CHANGE:
            return [False]
        if change is None or change > _SMALL_CHANGE:
            return [None, "it could not be determined whether the bounds grow alike"]
    return [True] if truth[0] == value[0] else [None, "one value is an equation with a bound, the other a bound"]


def _change(one: Tree, other: Tree, names: Sequence[str], sizes: Sequence[int]) -> float | None:
    """Return by how much the logarithm of the ratio of two expressions changes between two `sizes` of their symbols,
    without sign and at most 9. Symbols later in `names` grow faster. Returns None if the ratio has no value.
    """
    logarithms = []
    for size in sizes:
        values = {name: Fraction(size ** (place + 1)) for place, name in enumerate(names)}
        point = Point(values.__getitem__)
        try:
            logarithms.append(mpmath.log(abs(number(value_of(one, point)) / number(value_of(other, point)))))
        except (NoValue, OutOfReach, ZeroDivisionError):
            return None
    return float(min(abs(logarithms[1] - logarithms[0]), 9))
