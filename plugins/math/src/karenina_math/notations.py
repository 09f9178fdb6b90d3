"""Notations with two readings: *x(2)* may be a product or the value of a function, and *u \\times v* one of vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from karenina_math.trees import Tree, contains, items_of, unnamed

_SIGNS: Final = {"cross": "\u00d7", "dot": "·"}
_AFTER: Final = ("power", "factorial", "double factorial", "percent", "degrees")
"""Signs after a factor. As a product, *x(2)^2* is *x* times 4."""


def both_readings(truth: Tree, value: Tree) -> list[tuple[Tree, Tree]]:
    """Return the pair of trees in each reading of an ambiguous notation: first with *f(2)* as the value of a function
    and *u \\cdot v* as a product of vectors, then with both as products of numbers. There is only one pair if both are
    the same.
    """
    names = {json.dumps(name) for name in (*_defined(truth), *_defined(value))}
    is_size = truth[0] == "cross" and truth[1][0] == "number"
    are_vectors = is_size or any(_has_letters(tree) for tree in _vectors(truth))
    found = [
        tuple(_read(tree, is_function=is_function, names=names, are_vectors=are_vectors) for tree in (truth, value))
        for is_function in (True, False)
    ]
    return [(one, other) for one, other in (found if found[0] != found[1] else found[:1])]


def unknown_values(tree: Tree) -> set[str]:
    """Return the values of functions in a tree, but for what its equations define."""
    return {json.dumps(value) for item in items_of(tree) for value in _values(unnamed(item))}


def two_readings(pairs: Sequence[tuple[Tree, Tree]]) -> str:
    """Return a sentence that names the notation in which two readings, from `both_readings`, differ."""
    functions, products = ({name for tree in pair for name in unknown_values(tree)} for pair in pairs)
    name = json.loads(min(functions - products, default='["", ""]'))[1]
    if name in _SIGNS.values():
        return f"{name} may stand for a product of vectors, or in the size of a matrix"
    return f"{name} before brackets may be a factor or a function" if name else "the notation is ambiguous"


def _values(tree: object) -> Iterator[Tree]:
    """Yield the parts of a tree that are values of functions, such as *f(2)*, but not subscripts such as *a_n*."""
    if isinstance(tree, list):
        if tree[:1] == ["apply"] and not tree[1].endswith("_"):
            yield tree
        for part in tree:
            yield from _values(part)


def _defined(tree: object) -> Iterator[Tree]:
    """Yield the names of the functions that an equation in a tree defines, as *f* in *f(x) = x + 1*."""
    if isinstance(tree, list):
        if tree[:1] == ["relation"]:
            yield from (part[1] for part in tree[1::2] if part[0] == "call")
        for part in tree:
            yield from _defined(part)


def _vectors(tree: object) -> Iterator[Tree]:
    """Yield the products in a tree that may be products of vectors."""
    if isinstance(tree, list):
        if tree[:1] in (["cross"], ["dot"]):
            yield tree
        for part in tree:
            yield from _vectors(part)


def _has_letters(tree: Tree) -> bool:
    """Return whether a product may be one of vectors: *u \\times v*, or also *u \\cdot v* in bold type."""
    return contains((tree,), "bold") or (tree[0] == "cross" and tree[1][0] != "number")


def _read(tree: Any, *, is_function: bool, names: set[str], are_vectors: bool) -> Any:
    """Return a tree with ambiguous notations read in one way: calls as functions if `is_function` is set or the JSON of
    the name is in `names`, and otherwise as products; and crosses and dots as products of vectors if `is_function` and
    `are_vectors` are set, and otherwise of numbers.
    """
    if not isinstance(tree, list):
        return tree
    parts = [_read(part, is_function=is_function, names=names, are_vectors=are_vectors) for part in tree]
    match parts:
        case ["call", name, argument]:
            is_sure = is_function or json.dumps(name) in names
            return ["apply", name[1], argument] if is_sure else ["times", name, argument]
        case ["cross" | "dot" as kind, left, right]:
            if not (is_function and are_vectors):
                return ["times", left, right]
            return ["apply", _SIGNS[kind], ["tuple", *([left, right] if kind == "cross" else sorted((left, right)))]]
        case ["symbol", name, "bold"]:
            return ["symbol", name]
        case [str(kind), ["times", name, argument], *others] if kind in _AFTER and tree[1][0] == "call":
            return ["times", name, [kind, argument, *others]]
    return parts
