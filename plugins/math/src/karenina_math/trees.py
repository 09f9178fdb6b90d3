"""Questions about trees, the lists that `reading.read` makes of texts: what they name, contain and are sets of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

Tree = list[Any]
"""The kind of a node, and its parts. JSON can carry it to a child process."""
_VARIABLE: Final = ("symbol", "apply")
"""What an inequality can limit: *x* or *f(x)*."""
MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
SETS: Final = frozenset({"set", "interval", "union", "intersection", "difference", "reals"})


def contains(trees: Sequence[object], word: str) -> bool:
    """Return whether a word is part of any of the trees."""
    return any(tree == word or (isinstance(tree, list | tuple) and contains(tree, word)) for tree in trees)


def items_of(tree: Tree) -> list[Tree]:
    """Return the items of a list or set, of which a single expression is the only one."""
    return tree[1:] if tree[0] in ("list", "solutions", "set") else [tree]


def membership(tree: Tree) -> Tree:
    """Return the set of a relation such as *x in (0, 1)*, and other trees unchanged."""
    return tree[3] if tree[0] == "relation" and len(tree) == 4 and tree[2] == "in" else tree


def assigned(tree: Tree) -> tuple[Tree, Tree] | None:
    """Return the symbol or *f(x)* of an equation and the expression that it equals, or None."""
    if tree[0] != "relation" or len(tree) != 4 or tree[2] != "=":
        return None
    for name, value in ((tree[1], tree[3]), (tree[3], tree[1])):
        if is_name(name):
            return name, value
    return None


def is_name(tree: Tree) -> bool:
    """Return whether a tree names something: *x*, *f(x)*, *(x, y)*, or in geometry *AB*, *|AB|* and *AB:CD*."""
    match tree[0]:
        case kind if kind in _VARIABLE:
            return True
        case "tuple" | "ratio" | "over":
            return all(map(is_name, tree[1:])) and (tree[0] != "over" or not all(p[0] == "symbol" for p in tree[1:]))
        case "times":
            parts = [tree[1:] if tree[0] == "times" else [tree] for tree in tree[1:]]
            return all(p[0] == "symbol" and len(p[1]) == 1 and p[1].isupper() for part in parts for p in part)
        case "function":
            return bool(tree[1] == "abs" and is_name(tree[2]) and tree[2][0] == "times")
    return False


def named_values(items: Sequence[Tree]) -> dict[str, Tree] | None:
    """Return the values of items such as *x = 2, y = 1* by their names, or None if there are others, or one alone."""
    pairs = [assigned(item) for item in items]
    found = {json.dumps(pair[0]): pair[1] for pair in pairs if pair is not None}
    return found if len(found) == len(items) > 1 else None


def terms(tree: Tree) -> list[Tree]:
    """Return the terms of a ratio, or the numerator and denominator of a number."""
    return tree[1:] if tree[0] in ("ratio", "time") else [tree, ["number", "1"]]


def bases(tree: object) -> set[int]:
    """Return the bases of the numbers in a tree that are written with one."""
    if not isinstance(tree, list):
        return set()
    return {tree[2]} if tree[:1] == ["based"] else set().union(*map(bases, tree))


def unnamed(tree: Tree) -> Tree:
    """Return the expression that a symbol equals, and other trees unchanged."""
    if tree[0] == "signed":
        return [*tree[:2], unnamed(tree[2])]
    named = assigned(tree)
    return tree if named is None else named[1]


def difference(tree: Tree) -> Tree:
    """Return the left side of a relation minus its right side."""
    return ["sum", tree[1], ["minus", tree[3]]]


def as_set(tree: Tree) -> Tree:
    """Return a pair in parentheses as an open interval, an inequality as one with its ends, and others unchanged."""
    if tree[0] == "tuple" and len(tree) == 3:
        return ["interval", False, False, tree[1], tree[2]]
    if tree[0] != "relation":
        return tree
    infinity: Tree = ["constant", "infty"]
    if len(tree) == 4:
        left, sign, right = tree[1:]
        if right[0] in _VARIABLE:
            left, right, sign = right, left, MIRRORED.get(sign, sign)
        if sign == "!=":
            return ["difference", ["reals"], ["set", right]]
        if sign in ("<", "<="):
            return ["interval", False, sign == "<=", ["minus", infinity], right]
        return ["interval", sign == ">=", False, right, infinity]
    low, first, _, second, high = tree[1:]
    if first in (">", ">="):
        low, high, first, second = high, low, MIRRORED[second], MIRRORED[first]
    return ["interval", first == "<=", second == "<=", low, high]


def is_real_set(tree: Tree) -> bool:
    """Return whether a tree is a set of real numbers, with ends without symbols."""
    if tree[0] == "relation":
        parts = tree[1:]
        if len(parts) == 3 and parts[1] in ("<", "<=", ">", ">=", "!="):
            is_bound = [part[0] in _VARIABLE for part in (parts[0], parts[2])]
            other = parts[2] if is_bound[0] else parts[0]
            return any(is_bound) and not contains((other,), "symbol")
        same_way = len(parts) == 5 and any({parts[1], parts[3]} <= set(way) for way in (("<", "<="), (">", ">=")))
        return same_way and parts[2][0] in _VARIABLE and not contains((parts[0], parts[4]), "symbol")
    return tree[0] in SETS and not contains((tree,), "symbol") and not contains((tree,), "i")


def ends(tree: Tree) -> Iterator[Tree]:
    """Yield the ends of the intervals and the elements of a set."""
    match tree[0]:
        case "interval":
            yield from tree[3:]
        case "set":
            yield from tree[1:]
        case "union" | "intersection" | "difference":
            for part in tree[1:]:
                yield from ends(as_set(part))


def is_mixed(left: Tree, right: Tree) -> bool:
    """Return whether an integer before a proper fraction is a mixed number, such as two and a half."""
    if left[0] != "number" or not left[1].isdigit() or right[0] != "over":
        return False
    above, below = right[1], right[2]
    return bool(
        above[0] == below[0] == "number"
        and above[1].isdigit()
        and below[1].isdigit()
        and 0 < int(above[1]) < int(below[1])
    )
