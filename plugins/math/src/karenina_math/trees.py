"""Questions about trees, the lists that `reading.read` makes of texts: what they name, contain and are sets of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from karenina_math.tokens import NotReadable, TooLarge

Tree = list[Any]
"""The kind of a node, and its parts. JSON can carry it to a child process."""
_VARIABLE: Final = ("symbol", "apply")
"""What an inequality can limit: *x* or *f(x)*."""
MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_UNITS: Final = frozenset(
    ("m", "cm", "mm", "km", "nm", "g", "kg", "mg", "s", "ms", "h", "N", "J", "kJ", "W", "kW", "V", "A", "K", "L", "ml",
     "mL", "Pa", "kPa", "Hz", "mol", "ft", "lb", "mph", "C")
)  # fmt: skip
"""Units that a product of symbols may be."""
_CONSTANTS: Final = frozenset({"C", "c", "K", "k", "C_1", "c_1", "K_1", "k_1"})
SETS: Final = frozenset({"set", "interval", "union", "intersection", "difference", "reals"})


def contains(trees: Sequence[object], word: str) -> bool:
    """Return whether a word is part of any of the trees."""
    return any(tree == word or (isinstance(tree, list | tuple) and contains(tree, word)) for tree in trees)


def contains_tree(tree: object, part: Tree) -> bool:
    """Return whether a tree is another one, or contains it."""
    return tree == part or (isinstance(tree, list) and any(contains_tree(one, part) for one in tree))


def items_of(tree: Tree) -> list[Tree]:
    """Return the items of a list or set, of which a single expression is the only one."""
    return tree[1:] if tree[0] in ("list", "and", "or", "solutions", "set") else [tree]


def membership(tree: Tree) -> Tree:
    """Return the set of a relation such as *x in (0, 1)*, and other trees unchanged."""
    return tree[3] if tree[0] == "relation" and len(tree) == 4 and tree[2] == "in" else tree


def assigned(tree: Tree) -> tuple[Tree, Tree] | None:
    """Return the name (such as *x* or *f(x)*) and the expression of an equation with a name on one side, or None."""
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


def is_index(tree: Tree) -> bool:
    """Return whether a tree can be the index of a sum: a symbol, or *i*."""
    return tree[0] == "symbol" or tree == ["constant", "i"]


def named_values(items: Sequence[Tree]) -> dict[str, Tree] | None:
    """Return the values of items such as *x = 2, y = 1* by their names, or None if there are others, or one alone."""
    pairs = [assigned(item) for item in items]
    found = {json.dumps(pair[0]): pair[1] for pair in pairs if pair is not None}
    return found if len(found) == len(items) > 1 else None


def spread(tree: Tree) -> Tree:
    """Return *(x, y) = (1, 2)* as the list *x = 1, y = 2*, and other trees unchanged."""
    named = assigned(tree)
    if named is None or not named[0][0] == named[1][0] == "tuple" or len(named[0]) != len(named[1]):
        return tree
    return ["list", *(["relation", *pair[:1], "=", *pair[1:]] for pair in zip(named[0][1:], named[1][1:], strict=True))]


def grouped(items: Sequence[Tree]) -> Sequence[Tree]:
    """Return *x = 1, y = 2, x = 3, y = 4* as *(x, y) = (1, 2)* and *(x, y) = (3, 4)*, and other items unchanged."""
    pairs = [pair for item in items if (pair := assigned(item)) is not None]
    names = sorted({json.dumps(name) for name, _ in pairs})
    size = len(names)
    if len(pairs) != len(items) or size < 2 or len(items) % size or len(items) == size:
        return items
    found = []
    for start in range(0, len(pairs), size):
        values = {json.dumps(name): value for name, value in pairs[start : start + size]}
        if len(values) != size:
            return items
        found.append(["relation", ["tuple", *map(json.loads, names)], "=", ["tuple", *(values[n] for n in names)]])
    return found


def unnamed_set(tree: Tree) -> Tree:
    """Return the set of *S = {1, 3}* or *x in {1, 3}*, and other trees unchanged."""
    named = assigned(tree)
    return named[1] if named is not None and named[1][0] in SETS else membership(tree)


def terms(tree: Tree) -> list[Tree]:
    """Return the terms of a ratio, or the numerator and denominator of a number."""
    return tree[1:] if tree[0] in ("ratio", "time") else [tree, ["number", "1"]]


def bases(tree: object) -> set[int]:
    """Return the bases of the numbers in a tree that are written with one."""
    if not isinstance(tree, list):
        return set()
    return {tree[2]} if tree[:1] == ["based"] else set().union(*map(bases, tree))


def unnamed(tree: Tree) -> Tree:
    """Return the expression of an equation such as *x = 2*, and other trees unchanged."""
    if tree[0] == "signed":
        return [*tree[:2], unnamed(tree[2])]
    named = assigned(tree)
    return tree if named is None else named[1]


def difference(tree: Tree) -> Tree:
    """Return the left side of a relation minus its right side."""
    return ["sum", tree[1], ["minus", tree[3]]]


def as_set(tree: Tree) -> Tree:
    """Return a pair or a simple inequality as an interval: *(1, 2)*, *x < 2* or *1 <= x < 2*; others are unchanged. *x
    = 2* becomes a set of one number, and *x != 2* a difference from the real numbers.
    """
    if tree[0] == "tuple" and len(tree) == 3:
        return ["interval", False, False, tree[1], tree[2]]
    if tree[0] != "relation" or not (is_real_set(tree) or _is_value(tree)):
        return tree
    infinity: Tree = ["constant", "infty"]
    if len(tree) == 4:
        left, sign, right = tree[1:]
        if right[0] in _VARIABLE:
            left, right, sign = right, left, MIRRORED.get(sign, sign)
        if sign == "=":
            return ["set", right]
        if sign == "!=":
            return ["difference", ["reals"], ["set", right]]
        if sign in ("<", "<="):
            return ["interval", False, sign == "<=", ["minus", infinity], right]
        return ["interval", sign == ">=", False, right, infinity]
    low, first, _, second, high = tree[1:]
    if first in (">", ">="):
        low, high, first, second = high, low, MIRRORED[second], MIRRORED[first]
    return ["interval", first == "<=", second == "<=", low, high]


def readings(tree: Tree) -> list[Tree]:
    """Return the possible meanings of a list, or of conditions joined by *and* or *or*: the union or the intersection
    of inequalities of one symbol (both if they are separated by commas), otherwise the list. Any other tree has one
    meaning, itself.
    """
    if tree[0] not in ("list", "and", "or"):
        return [tree]
    items = [readings(item)[0] for item in tree[1:]]
    named = [item for item in items if item[0] != "relation" or item[2:] != ["in", ["reals"]]]
    if len(named) == 1 and named[0][0] == "relation":  # x > 2, x \\in R
        return named
    if items[0][0] == "relation" and items[0][2:3] == ["!="] and not symbols_of(items[1:]):  # x \\ne 1, 2
        items = [items[0], *(["relation", items[0][1], "!=", item] for item in items[1:])]
    if not all(map(_is_condition, items)) or len(symbols_of(items)) != 1 or not any(map(is_solution_set, items)):
        return [["list", *items]]
    kinds = {"list": ("union", "intersection"), "or": ("union",), "and": ("intersection",)}[tree[0]]
    if kinds != ("union",) and all(item[2:3] == ["!="] for item in items):
        kinds = ("intersection",)
    return [reduce(lambda one, other: [kind, one, other], items) for kind in kinds]


def is_solution_set(tree: Tree) -> bool:
    """Return whether a tree is a set of real numbers, or one or more joined inequalities of the same symbol."""
    if is_real_set(tree):
        return True
    if tree[0] in ("union", "intersection"):
        return all(map(_is_condition, tree[1:])) and len(symbols_of(tree)) == 1
    return tree[0] == "relation" and _is_condition(tree) and set(tree[2::2]) != {"="} and len(symbols_of(tree)) == 1


def _is_condition(tree: Tree) -> bool:
    """Return whether a tree is a solution set, or a relation without functions, tuples and other objects."""
    if tree[0] != "relation":
        return is_solution_set(tree)
    others = ("apply", "i", "in", "pm", "mp", "tuple", "matrix", "ratio", "time", *SETS)
    return not any(contains((tree,), other) for other in others)


def _is_value(tree: Tree) -> bool:
    """Return whether a relation is an equation of a symbol and a number."""
    named = assigned(tree)
    return named is not None and named[0][0] == "symbol" and not contains((named[1],), "symbol")


def hard_relations(tree: Tree) -> Iterator[Tree]:
    """Yield the relations in a set, or in the parts of a union and the like, that are no intervals: *x^2 < 4*."""
    if tree[0] == "relation" and as_set(tree) is tree:
        yield tree
    elif tree[0] in ("union", "intersection", "difference"):
        for part in tree[1:]:
            yield from hard_relations(part)


def symbols_of(tree: object) -> set[str]:
    """Return the names of the symbols in a tree."""
    if not isinstance(tree, list):
        return set()
    return {tree[1]} if tree[:1] == ["symbol"] else set().union(*map(symbols_of, tree))


def counts(tree: object) -> set[str]:
    """Return the symbols in the bounds of sums, which stand for integers."""
    if not isinstance(tree, list):
        return set()
    return symbols_of(tree[3:5]) if tree[:1] == ["series"] else set().union(*map(counts, tree))


def has_indices(tree: object) -> bool:
    """Return whether a tree contains a subscript that is an expression, such as *a_{n+1}*."""
    if not isinstance(tree, list):
        return False
    return (tree[:1] == ["apply"] and tree[1].endswith("_")) or any(map(has_indices, tree))


def other_names(truth: Tree, value: Tree) -> dict[str, str]:
    """Return a dict with the symbol of `truth` and that of `value` if these differ in one symbol each, and both may
    mean the same, otherwise an empty dict. They may if both are constants of an integration, such as *C* and *c*, or if
    one is an unnamed argument of a function.
    """
    truth, value = unnamed(truth), unnamed(value)
    ours, theirs = (symbols_of(one) - symbols_of(other) for one, other in ((truth, value), (value, truth)))
    if len(ours) != 1 or len(theirs) != 1:
        return {}
    pair = dict(zip(ours, theirs, strict=True))
    constants = [
        {part[1] for part in tree[1:] if tree[0] == "sum" and part[0] == "symbol"} & _CONSTANTS
        for tree in (truth, value)
    ]
    return pair if "" in ours | theirs or (ours <= constants[0] and theirs <= constants[1]) else {}


def without_unit(tree: Tree) -> Tree | None:
    """Return the number of an expression whose letters may be a unit, such as *3* for *3 cm^2*, or None for others."""
    if tree[0] == "over" and _letters(tree[2]) in _UNITS:
        tree = tree[1]
    letters = ""
    while tree[0] == "times" and (letter := _letters(tree[2])):
        letters, tree = letter + letters, tree[1]
    return tree if letters in _UNITS and not symbols_of(tree) else None


def _letters(tree: Tree) -> str:
    """Return the letters of a symbol, of a power's base, or of a product of these, or an empty string for any other
    tree.
    """
    if tree[0] == "power":
        return _letters(tree[1])
    if tree[0] == "times" and (first := _letters(tree[1])):
        return first + _letters(tree[2])
    return str(tree[1]) if tree[0] == "symbol" else ""


def renamed(tree: Any, names: Mapping[str, str]) -> Any:
    """Return a copy of a tree with the new names for symbols. Symbols that are not in `names` keep theirs."""
    if not isinstance(tree, list):
        return tree
    return (
        ["symbol", names.get(tree[1], tree[1])] if tree[:1] == ["symbol"] else [renamed(part, names) for part in tree]
    )


def with_real_roots(tree: Any) -> Any:
    """Return a copy with real odd roots for powers such as *x^{2/3}*, which are otherwise complex for negative *x*."""
    if not isinstance(tree, list):
        return tree
    tree = [with_real_roots(part) for part in tree]
    if tree[:1] != ["power"]:
        return tree
    exponent = tree[2][1] if tree[2][0] == "minus" else tree[2]
    if exponent[0] != "over" or exponent[2][0] != "number" or exponent[2][1][-1:] not in ("1", "3", "5", "7", "9"):
        return tree
    above = ["minus", exponent[1]] if tree[2][0] == "minus" else exponent[1]
    return ["power", ["root", tree[1], exponent[2]], above]


def with_one_form(tree: Any) -> Any:
    """Return a tree with *\\phi* for *\\varphi*, and so on for all letters with two forms."""
    if not isinstance(tree, list):
        return tree
    if tree[:1] == ["symbol"] and tree[1].startswith("var"):
        return ["symbol", tree[1].removeprefix("var")]
    return [with_one_form(part) for part in tree]


def as_matrix(tree: Tree) -> Tree:
    """Return nested rows in brackets such as *[[1, 2], [3, 4]]* as a matrix, a single row as a tuple, others as is."""
    row = _row(tree)
    if row is None:
        return tree
    rows = [_row(part) for part in row]
    return ["matrix", *rows] if len(rows) > 1 and all(rows) else ["tuple", *row]


def _row(tree: Tree) -> list[Tree] | None:
    """Return the items in brackets, or None for other trees."""
    if tree[0] == "interval" and tree[1] and tree[2]:
        return tree[3:]
    return tree[1:] if tree[0] == "tuple" else None


def components(tree: Tree, size: int) -> list[Tree] | None:
    """Return the `size` components of a sum of unit vectors, such as *i + 2j + 3k*, or None for other trees."""
    units = [["constant", "i"], ["symbol", "j"], ["symbol", "k"]][:size]
    if size not in (2, 3) or not contains_tree(tree, units[0]) or not symbols_of(tree) & {"j", "k"}:
        return None
    return [replaced(tree, {json.dumps(unit): ["number", str(int(unit == axis))] for unit in units}) for axis in units]


def replaced(tree: Any, others: Mapping[str, Tree]) -> Any:
    """Return a copy of a tree in which parts are replaced. `others` maps the JSON of a part to its replacement. Only
    parts of two elements, such as symbols and numbers, can be replaced.
    """
    if not isinstance(tree, list):
        return tree
    if len(tree) == 2 and (other := others.get(json.dumps(tree))) is not None:
        return other
    return [replaced(part, others) for part in tree]


def is_real_set(tree: Tree) -> bool:
    """Return whether a tree is a set, or an inequality of a name and bounds, whose ends contain no symbols."""
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
    """Yield the ends of intervals and the elements of sets in a set and its parts, or nothing for other trees."""
    match tree[0]:
        case "interval":
            yield from tree[3:]
        case "set":
            yield from tree[1:]
        case "union" | "intersection" | "difference":
            for part in tree[1:]:
                yield from ends(as_set(part))


def _is_mixed(left: Tree, right: Tree) -> bool:
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


def beside(left: Tree, right: Tree) -> Tree:
    """Return what two operands side by side mean: a product, or a mixed number such as *12\\frac{1}{2}*. Raises
    `TooLarge` if a sign such as *!* after a mixed number has two readings.
    """
    if _is_mixed(left, right):
        return ["sum", left, right]
    if right[0] in ("percent", "degrees") and _is_mixed(left, right[1]):
        return [right[0], ["sum", left, right[1]]]
    if right[0] in ("power", "factorial", "double factorial") and _is_mixed(left, right[1]):
        raise TooLarge("an operator after a mixed number is ambiguous")
    return ["times", commuted(left), right]


def product(left: Tree, right: Tree, sign: str) -> Tree:
    """Return a product of two trees: a "cross" or "dot", if it has such a sign and may be one of vectors or the size of
    a matrix, otherwise "times".
    """
    kind = {"\\times": "cross", "\\cdot": "dot"}.get(sign)
    bold = [tree[0] == "symbol" and tree[2:] == ["bold"] for tree in (left[2] if left[0] == "times" else left, right)]
    if kind is not None and all(bold):
        return ["times", left[1], [kind, left[2], right]] if left[0] == "times" else [kind, left, right]
    are_letters = all(tree[0] == "symbol" or tree == ["constant", "i"] for tree in (left, right))
    are_sizes = sign == "\\times" and left[0] == right[0] == "number"
    return [kind, left, right] if kind is not None and (are_letters or are_sizes) else ["times", commuted(left), right]


def commuted(tree: Tree) -> Tree:
    """Return a product of numbers for one of letters without bold type, which other factors follow."""
    is_other = tree[0] in ("cross", "dot") and any(part[2:] != ["bold"] for part in tree[1:])
    return ["times", *tree[1:]] if is_other else tree


def quotient(above: Tree, below: Tree) -> Tree:
    """Return a quotient. Raises `NotReadable` for a derivative, such as *\\frac{dy}{dx}*."""
    if below[0] == "times" and _is_differential(above) and _is_differential(below):
        raise NotReadable("derivatives are not supported")
    return ["over", above, below]


def _is_differential(tree: Tree) -> bool:
    """Return whether a tree is *d*, *dx* or *d^2 y*, as in a derivative."""
    while tree[0] == "times":
        tree = tree[1]
    return tree == ["symbol", "d"] or (tree[0] == "power" and tree[1] == ["symbol", "d"])
