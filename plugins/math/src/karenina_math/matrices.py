"""Matrices that are written out, and products of symbols that may be matrices, whose order counts. These are compared
with matrices of random numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.evaluation import NoValue, OutOfReach, Point, TrialNumbers, number, value_of
from karenina_math.trees import Tree, as_matrix, symbols_of, unnamed

_SIZE: Final = 3
_TRANSPOSES: Final[list[Tree]] = [["symbol", "T"], ["symbol", "t"]]
_POINT: Final = Point(TrialNumbers(0, "real", set()))
_INVERSE: Final[Tree] = ["minus", ["number", "1"]]
_GREEK: Final = frozenset({"Sigma", "Lambda", "Omega", "Phi", "Psi", "Gamma", "Theta", "Xi", "Pi"})


_ROWS: Final = ("matrix", "tuple")


class _NoMatrix(Exception):
    """Raised for an expression that is not computed with matrices."""


def matrices(tree: Tree, others: Tree) -> set[str]:
    """Return the names of the symbols in two expressions that may be matrices: bold letters, and all letters if the
    expressions are written as with matrices.

    All letters may be matrices if there is a transpose *A^T*, if a product contains a letter and its inverse or two
    capital letters of which one is inverted, if a sum contains both *AB* and *BA*, or if *e^A* is multiplied by *e^B*.
    """
    found = {part[1] for part in _parts([tree, others]) if part[0] == "symbol" and part[2:] == ["bold"]}
    if any(map(_has_matrices, _parts([tree, others]))):
        letters = symbols_of([tree, others])
        if any(part[0] == "power" and part[2] == _TRANSPOSES[0] for part in _parts([tree, others])):
            letters -= {"T", "t"}
        found |= {name for name in letters if len(name.partition("_")[0].rstrip("'")) == 1 or name in _GREEK}
    return found


def written_out(tree: Any) -> Any:
    """Return a tree in which multiples, sums and transposes of matrices and tuples, such as *(2, 4)/2*, are computed.
    Raises `OutOfReach` for other operations with them.
    """
    if not isinstance(tree, list) or tree[:1] not in (["sum"], ["minus"], ["times"], ["over"], ["power"]):
        return [written_out(part) for part in tree] if isinstance(tree, list) else tree
    parts = [as_matrix(part) for part in map(written_out, tree[1:]) if isinstance(part, list)]
    if tree[0] == "sum" and any(part[0] in _ROWS for part in parts):  # t(3, 4) beside (1, 2) is a multiple
        for place, part in enumerate(parts):
            if part[0] == "apply" and part[2][0] == "tuple":
                parts[place] = written_out(["times", ["symbol", part[1]], part[2]])
    kinds = [part[0] for part in parts]
    if not any(kind in _ROWS for kind in kinds):
        return [tree[0], *parts, *tree[len(parts) + 1 :]]
    match tree[0]:
        case "minus":
            return _entries(lambda entry: ["minus", entry], parts[0])
        case "times" if kinds[0] not in _ROWS:
            return _entries(lambda entry: ["times", parts[0], entry], parts[1])
        case "times" | "over" if kinds[1] not in _ROWS:
            return _entries(lambda entry: [tree[0], entry, parts[1]], parts[0])
        case "sum" if len(set(kinds)) == 1 and len({len(_leaves(part)) for part in parts}) == 1:
            if len({len(part) for part in parts}) == 1:
                leaves = [_leaves(part) for part in parts]
                sums = iter([["sum", *entries] for entries in zip(*leaves, strict=True)])
                return _entries(lambda _: next(sums), parts[0])
        case "power" if parts[1] in _TRANSPOSES:
            rows = parts[0][1:] if kinds[0] == "matrix" else [parts[0][1:]]
            return ["matrix", *map(list, zip(*rows, strict=True))]
    raise OutOfReach("this operation with a matrix or vector is not supported")


def is_sign_of(tree: Tree, matrix: Tree) -> bool:
    """Return whether a tree may be the sign of a written matrix: *0*, or *I* and the like for a unit matrix."""
    rows = matrix[1:]
    is_unit = all(entry == ["number", str(int(i == j))] for i, row in enumerate(rows) for j, entry in enumerate(row))
    is_zero = all(entry == ["number", "0"] for row in rows for entry in row)
    if tree[0] == "symbol":
        return is_unit and tree[1].partition("_")[0] in ("I", "E")
    return is_zero and tree == ["number", "0"]


def _entries(changed: Callable[[Tree], Tree], tree: Tree) -> Tree:
    """Return a matrix or tuple with each entry changed."""
    rows = [[changed(entry) for entry in row] if tree[0] == "matrix" else changed(row) for row in tree[1:]]
    return [tree[0], *rows]


def _leaves(tree: Tree) -> list[Tree]:
    """Return the entries of a matrix or tuple."""
    return [entry for row in tree[1:] for entry in row] if tree[0] == "matrix" else tree[1:]


def order_counts(trees: Sequence[Tree], names: set[str]) -> bool:
    """Return whether a product in an expression contains two of the named symbols, or the transpose of one."""
    kinds = ("times", "over", "power")
    return any(
        part[0] in kinds and len(_named_in(_factors(part), names)) > (part[0] != "power" or part[2] not in _TRANSPOSES)
        for part in _parts(list(trees))
    )


def same_as_matrices(one: Tree, other: Tree, names: set[str]) -> bool | None:
    """Return whether two expressions, or the right sides of two equations, are equal if `names` are random matrices.
    Returns None if they cannot be computed, if only one is an equation, or if the left sides differ.
    """
    if (one[0] == "relation") is not (other[0] == "relation") or (one[0] == "relation" and one[1] != other[1]):
        return None
    try:
        tall = {base[1] for part in _parts([one, other]) for base in _doubled(part)}
        values = [_matrix(unnamed(tree), names, tall) for tree in (one, other)]
        return all(abs(x) < mpmath.mpf(10) ** -30 for x in _sum(values[0], -values[1]))
    except (_NoMatrix, NoValue, ValueError, ZeroDivisionError):
        return None


def _doubled(tree: Tree) -> list[Tree]:
    """Return the symbols that are multiplied by their own transposes. These matrices need not be square."""
    factors = _factors(tree)
    found = [factor[1] for factor in factors if factor[0] == "power" and factor[2] == _TRANSPOSES[0]]
    return [base for base in found if base[0] == "symbol" and base in factors]


def _has_matrices(tree: Tree) -> bool:
    """Return whether a sum or product, without its parts, is written as with matrices: *AB* beside *BA*, a transpose of
    a capital letter or beside the same symbol, an inverse beside the same symbol or another capital letter, or *e^A*
    times *e^B*.
    """
    if tree[0] == "sum":
        products = [_factors(part[1] if part[0] == "minus" else part) for part in tree[1:]]
        capitals = [[factor for factor in product if _is_capital(factor)] for product in products]
        return any(one != other and sorted(one) == sorted(other) for one in capitals for other in capitals)
    factors = _factors(tree)
    bases = [factor[1] if factor[0] == "power" else factor for factor in factors]
    powers = [factor[2] for factor in factors if factor[0] == "power"]
    if _TRANSPOSES[0] in powers:
        return any(_is_capital(base) or bases.count(base) > 1 for base in bases)
    inverses = [factor[1] for factor in factors if factor[0] == "power" and factor[2] == _INVERSE]
    capitals = [base for base in bases if _is_capital(base)]
    exponents = [factor[2] for factor in factors if factor[:2] == ["power", ["constant", "e"]]]
    return (
        any(base[0] == "symbol" and bases.count(base) > 1 for base in inverses)
        or (len(capitals) > 1 and any(map(_is_capital, inverses)))
        or sum(map(_is_capital, exponents)) > 1
    )


def _is_capital(tree: Tree) -> bool:
    """Return whether a tree is a capital letter."""
    return tree[0] == "symbol" and ((len(tree[1]) == 1 and tree[1].isupper()) or tree[1] in _GREEK)


def _factors(tree: Tree) -> list[Tree]:
    """Return the factors of a product in their order."""
    return [*_factors(tree[1]), *_factors(tree[2])] if tree[0] == "times" else [tree]


def _named_in(factors: Sequence[Tree], names: set[str]) -> list[str]:
    """Return the given names that occur in the factors, once for each occurrence."""
    return [name for name in (part[1] for part in _parts(list(factors)) if part[0] == "symbol") if name in names]


def _parts(tree: Any) -> Iterator[Tree]:
    """Yield a tree and all parts of it, at any depth, or those of a list of trees."""
    if isinstance(tree, list):
        if tree and isinstance(tree[0], str):
            yield tree
        for part in tree:
            yield from _parts(part)


def _matrix(tree: Tree, names: set[str], tall: set[str]) -> Any:
    """Return the value of an expression as a matrix, or as a number if it contains none of `names`. Each name stands
    for a random matrix, which is always the same, and not square if the name is in `tall`. Raises `_NoMatrix` if this
    is not computed, and `ValueError` if sizes do not fit.
    """
    if tree[0] == "symbol" and tree[1].endswith("'") and tree[1][:-1] in names:
        return _matrix(["symbol", tree[1][:-1]], names, tall).T
    if tree[0] == "symbol" and tree[1] in names:
        source = random.Random(f"matrix {tree[1]}")  # noqa: S311 - trial values, not secrets
        matrix = mpmath.matrix(_SIZE, _SIZE - (tree[1] in tall))
        return matrix.apply(lambda _: mpmath.mpf(source.randint(1, 99)) / 7)
    if not symbols_of(tree) & names:
        return number(value_of(tree, _POINT))
    match tree:
        case ["sum", *terms]:
            return reduce(_sum, (_matrix(term, names, tall) for term in terms))
        case ["minus", term]:
            return -_matrix(term, names, tall)
        case ["times", left, right]:
            return _matrix(left, names, tall) * _matrix(right, names, tall)
        case ["over", above, below] if not symbols_of(below) & names:
            return _matrix(above, names, tall) / number(value_of(below, _POINT))
        case ["power", base, exponent] if exponent in _TRANSPOSES:
            return _matrix(base, names, tall).T
        case ["power", ["constant", "e"], exponent]:
            return mpmath.expm(_matrix(exponent, names, tall))
        case ["power", base, exponent] if not symbols_of(exponent):
            power = value_of(exponent, _POINT)
            if power in range(-20, 21):
                return _matrix(base, names, tall) ** int(power)
    raise _NoMatrix


def _sum(one: Any, other: Any) -> Any:
    """Return a sum of matrices. A number beside one is a multiple of the unit matrix. Raises `_NoMatrix` if that is not
    square.
    """
    if not isinstance(one, mpmath.matrix):
        one, other = other, one
    if isinstance(one, mpmath.matrix) and not isinstance(other, mpmath.matrix):
        if one.rows != one.cols:
            raise _NoMatrix
        other = other * mpmath.eye(one.rows)
    return one + other
