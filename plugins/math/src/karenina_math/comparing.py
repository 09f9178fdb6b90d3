"""Compares two trees. `compare` runs in a child process, because a comparison may take long."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction
from itertools import combinations
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.evaluation import (
    DIGITS,
    NoValue,
    OutOfReach,
    Point,
    TrialNumbers,
    equal,
    number,
    still_equal,
    value_of,
)
from karenina_math.matrices import is_sign_of, matrices, order_counts, same_as_matrices, written_out
from karenina_math.meanings import compared_bounds, other_meaning, with_letter_i
from karenina_math.notations import both_readings, two_readings, unknown_values
from karenina_math.relations import critical_points, differ, have_same_solutions
from karenina_math.solution_sets import (
    has_no_other_roots,
    have_same_members,
    is_member,
    trial_points,
    with_points_between,
)
from karenina_math.trees import (
    MIRRORED,
    SETS,
    Tree,
    as_matrix,
    as_set,
    assigned,
    bases,
    contains,
    contains_tree,
    counts,
    difference,
    ends,
    grouped,
    hard_relations,
    is_name,
    is_real_set,
    is_solution_set,
    items_of,
    named_values,
    readings,
    spread,
    symbols_of,
    terms,
    unnamed,
    unnamed_set,
)

_TRIALS: Final = 8
_MANY_TRIALS: Final = 24
_WHOLE: Final = frozenset("klmn")
"""Symbols that often stand for integers."""
_ENOUGH: Final = 3
"""Number of points at which both expressions must have a value."""


def compare(truth: Tree, value: Tree, domain: str, ordered: bool, tolerance: str) -> list[Any]:
    """Return whether two parsed expressions are equal: [True], [False], [None, why], or ["no value", why]. None means
    that this is undecided, for example because a notation has two readings. `domain`, `ordered` and `tolerance`, a
    fraction as text, are as in `MathEqual`.
    """
    pairs = both_readings(truth, value)
    if (verdict := compared_bounds(*pairs[0])) is not None:
        return verdict
    replies = []
    for pair in pairs:
        replies.append(_compare_lists(*pair, domain, ordered, tolerance))
        if replies[0][0] is True:
            break
    functions = [unknown_values(tree) for tree in pairs[0]]
    if replies[0] != replies[-1]:
        return replies[0] if replies[0][0] is None else [None, two_readings(pairs)]
    if replies[0] == [False] and functions[0] != functions[1]:
        name = json.loads(min(functions[0] ^ functions[1]))[1]
        return [None, f"which values the function {name} has is not known"]
    names = matrices(truth, value)
    if isinstance(replies[0][0], bool) and order_counts(pairs[-1], names):
        same = same_as_matrices(*pairs[-1], names)
        if same is not replies[0][0] and (same is not None or replies[0][0]):
            return [None, f"the order of factors counts if {', '.join(sorted(names))} are matrices"]
    return replies[0]


def _compare_lists(truth: Tree, value: Tree, domain: str, ordered: bool, tolerance: str) -> list[Any]:
    """Compare two expressions as `compare` does, for one reading of functions and products. If commas between
    inequalities can mean *and* or *or*, both must give the same reply.
    """
    firsts, seconds = readings(truth), readings(value)
    pairs = list(zip(firsts, seconds, strict=False))
    if len(firsts) != len(seconds):
        pairs = [(first, second) for first in firsts for second in seconds]
    found = [_compare(first, second, domain, ordered, tolerance) for first, second in pairs]
    if any(reply != found[0] for reply in found):
        reason = "the commas between inequalities may mean 'and' or 'or'"
        return next((reply for reply in found if not isinstance(reply[0], bool)), [None, reason])
    if found[0] == [True] and {truth[0], value[0]} == {"and", "or"} and firsts[0][0] == "list":
        return [None, "one value says 'and', the other 'or'"]
    one_or = [tree for tree in (truth, value) if tree[0] == "or"]
    if found[0] == [True] and len(one_or) == 1 and named_values(one_or[0][1:]) is not None:
        return [None, "the word 'or' is between the values of different symbols"]
    return found[0]


def _compare(truth: Tree, value: Tree, domain: str, ordered: bool, tolerance: str) -> list[Any]:
    """Compare two expressions as `compare` does, for one reading of each. Other meanings of their symbols and notation
    are tried too, which may make them equal or undecided.
    """

    def is_same(one: Tree, other: Tree) -> bool:
        """Return whether two trees mean the same, or False if one has no value."""
        try:
            return rules.same(_expanded(one), _expanded(other))
        except NoValue:
            return False

    try:
        truth, value = written_out(truth), written_out(value)
        rules = _Rules(domain, ordered, Fraction(tolerance), common=False)
        verdict = rules.same(_expanded(truth), _expanded(value))
        if contains((truth, value), "log"):
            common = _Rules(domain, ordered, Fraction(tolerance), common=True)
            if common.same(_expanded(truth), _expanded(value)) is not verdict:
                return [None, "log may be the natural or the common logarithm"]
        if not verdict and contains((truth,), "degrees") is not contains((value,), "degrees"):
            radians = _Rules(domain, ordered, Fraction(tolerance), common=False, degrees=False)
            if radians.same(_expanded(truth), _expanded(value)):
                return [None, "the angle has no degree sign"]
        if not verdict and (reason := other_meaning(truth, value, domain, is_same)) is not None:
            return [True] if reason == "" else [None, reason]
        if not verdict and (_solve(truth, value) or _solve(value, truth)):
            return [None, "one value is an equation that the other solves"]
        whole = symbols_of([truth, value]) & _WHOLE
        if not verdict and whole and domain == "real":
            integers = _Rules(domain, ordered, Fraction(tolerance), common=False, whole=whole)
            if integers.same(_expanded(truth), _expanded(value)):
                return [
                    None,
                    f"the values are equal only for integer {', '.join(sorted(whole))} (set `domain` in the rule)",
                ]
        if verdict and domain != "complex" and (letters := with_letter_i(truth, value)) and not is_same(*letters):
            return [None, "i may be a symbol"]
        if verdict and rules.untrue:
            return [None, "the parts of an equation with several signs are not equal"]
        if verdict and bases(truth) != bases(value):
            return [None, "the number is written in another base"]
    except NoValue as error:
        return ["no value", str(error)]
    except OutOfReach as error:
        return [None, str(error)]
    return [verdict]


def _solve(solutions: Tree, equation: Tree) -> bool:
    """Return whether several numbers, such as *x = 2, x = -2* and *2, -2*, solve an equation of one symbol, such as
    *x^2 = 4*.
    """
    items = [unnamed(item) for item in items_of(_expanded(solutions))]
    names = symbols_of(equation)
    if equation[0] != "relation" or equation[2::2] != ["="] or len(names) != 1 or len(items) < 2 or symbols_of(items):
        return False
    if {json.loads(name)[1] for name in named_values(items_of(solutions)) or ()} - names:
        return False
    try:
        for item in items:
            sign, tree = item[1:] if item[0] == "signed" else (1, item)
            root = value_of(tree, Point(lambda _: Fraction(0), sign=sign))
            point = Point(lambda _: Fraction(0)).with_symbol(next(iter(names)), root)
            if not equal(value_of(equation[1], point), value_of(equation[3], point)):
                return False
    except NoValue:
        return False
    return True


def _expanded(tree: Tree) -> Tree:
    """Return an unordered list (`solutions`) with two items for each that contains *±*, or the tree if none does."""
    items = tree[1:] if tree[0] == "list" else [tree]
    found, is_expanded = [], False
    for item in items:
        if contains((item,), "pm") or contains((item,), "mp"):
            found += [["signed", 1, item], ["signed", -1, item]]
            is_expanded = True
        else:
            found.append(item)
    if is_expanded:
        return ["solutions", *found]
    return tree


class _Rules:
    """The rules of a comparison."""

    def __init__(
        self,
        domain: str,
        ordered: bool,
        tolerance: Fraction,
        common: bool,
        degrees: bool = True,
        whole: Set[str] = frozenset(),
    ) -> None:
        self.domain, self.ordered, self.tolerance = domain, ordered, tolerance
        self.common, self.degrees = common, degrees
        self._whole = {*whole}
        """Symbols in the bounds of sums, which stand for integers."""
        self.untrue = False
        """Whether an equation with several signs, such as *x = 12/2 = 5*, was found not to be true."""

    def same(self, one: Tree, other: Tree) -> bool:
        """Return whether two expressions mean the same under these rules. Raises `NoValue` if one has no value, and
        `OutOfReach` if this cannot be decided.
        """
        if one == other:
            return True
        if "sign" in (one[0], other[0]):
            return False
        self._whole |= counts(one) | counts(other)
        are_rows = all(tree[0] == "interval" and as_matrix(tree)[0] == "matrix" for tree in (one, other))
        if are_rows or "matrix" in (one[0], other[0]):
            one, other = as_matrix(one), as_matrix(other)
        lists = ("list", "solutions", "set")
        one, other = (unnamed_set(self._unchained(tree)) for tree in (one, other))
        if all(tree[0] in lists or spread(tree) is not tree for tree in (one, other)):
            one, other = spread(one), spread(other)
        if one[0] in lists or other[0] in lists:
            return self._same_lists(one, other)
        if "signed" in (one[0], other[0]):
            return self._same_numbers(unnamed(one), unnamed(other))
        if self.tolerance and one[0] == other[0] and one[0] in ("tuple", "interval") and self._same_rows(one, other):
            return True
        real = [is_real_set(tree) for tree in (one, other)]
        are_relations = one[0] == other[0] == "relation"
        are_sets = all(is_solution_set(tree if tree[0] == "relation" else as_set(tree)) for tree in (one, other))
        if all(real) or ((any(real) or are_sets) and not are_relations):
            return self._same_sets(one, other)
        if one[0] == "relation" or other[0] == "relation":
            return self._same_relations(one, other, are_sets)
        for kind in ("tuple", "matrix", "interval"):
            if kind in (one[0], other[0]):
                return self._same_rows(one, other)
        if "ratio" in (one[0], other[0]) or "time" in (one[0], other[0]):
            return self._same_ratios(one, other)
        return self._same_numbers(one, other)

    def _unchained(self, tree: Tree) -> Tree:
        """Return *x = 10/2 = 5* as *x = 5*, *x = y = 0* as *x = 0, y = 0*, and other trees unchanged. Sets `untrue` if
        the values in such a chain are not equal.
        """
        if tree[0] != "relation" or len(tree) < 6 or set(tree[2::2]) != {"="}:
            return tree
        names = [part for part in tree[1::2] if is_name(part)]
        values = [part for part in tree[1::2] if not is_name(part)]
        if not values:
            return tree
        self.untrue |= not all(self.same(values[-1], value) for value in values[:-1])
        found: list[Tree] = [["relation", name, "=", values[-1]] for name in names]
        return ["list", *found] if len(found) > 1 else found[0] if found else values[-1]

    def _same_ratios(self, one: Tree, other: Tree) -> bool:
        """Return whether two ratios, or a ratio of two numbers and a number, are equal. Raises `NoValue` if all terms
        are zero, and `OutOfReach` if one of them may be a time of the day.
        """
        first, second = terms(one), terms(other)
        if len(first) != len(second):
            return False
        for ratio in (first, second):
            if all(equal(value_of(term, self._point()), Fraction(0)) for term in ratio):
                raise NoValue("all terms of the ratio are zero")
        pairs = list(zip(first, second, strict=True))
        crossed = ((["times", a, d], ["times", c, b]) for (a, b), (c, d) in combinations(pairs, 2))
        if not all(self._same_numbers(*pair) for pair in crossed):
            return False
        if "time" in (one[0], other[0]):
            if any(equal(value_of(term, self._point()), Fraction(0)) for term in (*first, *second)):
                return False
            raise OutOfReach("a value may be either a ratio or a time of day")
        return True

    def _point(self, trial: int = 0) -> Point:
        """Return a point."""
        return Point(TrialNumbers(trial, self.domain, self._whole), common=self.common, degrees=self.degrees)

    def _same_rows(self, one: Tree, other: Tree) -> bool:
        """Return whether two tuples, matrices or intervals have the same parts in the same order. Raises `OutOfReach`
        if a matrix of one row or column has the parts of a tuple, or if one value is a sign for a zero or unit matrix.
        """
        if {one[0], other[0]} == {"matrix", "tuple"}:
            vector, pair = (one, other) if one[0] == "matrix" else (other, one)
            items = vector[1] if len(vector) == 2 else [row[0] for row in vector[1:] if len(row) == 1]
            if len(items) == len(pair) - 1 and all(map(self.same, items, pair[1:])):
                raise OutOfReach("one value is a vector and the other a tuple with the same items")
        for matrix, sign in ((one, other), (other, one)):
            if matrix[0] == "matrix" and is_sign_of(sign, matrix):
                raise OutOfReach("one value is a zero or unit matrix and the other a sign for it")
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
        """Return whether two lists or sets have the same items, in the same order only if `ordered` is set (never for
        sets in braces and items with *±*). Raises `OutOfReach` if only one list names its values or repeats one.
        """
        kinds = {one[0], other[0]}
        if (is_real_set(one) or is_real_set(other)) and not kinds & {"list", "solutions"} and kinds != {"set"}:
            return self._same_sets(one, other)
        first, second = grouped(items_of(one)), grouped(items_of(other))
        named, others = named_values(first), named_values(second)
        if named is not None and others is not None:
            return named.keys() == others.keys() and all(self.same(named[name], others[name]) for name in named)
        if named is not None and len(second) == 1 and second[0][0] == "tuple":
            return self._same_pairs(named, second[0])
        if others is not None and len(first) == 1 and first[0][0] == "tuple":
            return self._same_pairs(others, first[0])
        is_system = all(item[0] == "relation" and assigned(item) is None for item in (*first, *second))
        if self.ordered and kinds <= {"list"} and not is_system:
            pairs = zip(first, second, strict=False)
            return len(first) == len(second) and all(self.same(*pair) for pair in pairs)
        distinct = self._distinct(first), self._distinct(second)
        if len(distinct[0]) != len(distinct[1]) or not all(self._count(item, distinct[1]) for item in distinct[0]):
            return False
        if len({str(json.loads(name)[1])[:1] for name in named or others or ()}) > 1:  # x = 2, y = 3 for 2, 3
            raise OutOfReach("only one of the texts states which value belongs to which symbol")
        if "set" in kinds or "solutions" in kinds:
            return True
        if all(self._count(item, first) == self._count(item, second) for item in distinct[0]):
            return True
        if len(distinct[0]) in (len(first), len(second)):
            raise OutOfReach("one value repeats an item, perhaps to indicate its multiplicity")
        return False

    def _count(self, item: Tree, items: Sequence[Tree]) -> int:
        """Return how many of the items are equal to an item."""
        return sum(self.same(item, other) for other in items)

    def _same_pairs(self, named: Mapping[str, Tree], pair: Tree) -> bool:
        """Return whether the values in `named`, in the alphabetical order of their names, are the tuple `pair`: *y = 1,
        x = 2* is *(2, 1)*. Raises `OutOfReach` if only the order in which they are written fits.
        """
        in_order = [named[name] for name in sorted(named)]
        if self.same(["tuple", *in_order], pair):
            return True
        if self.same(["tuple", *named.values()], pair):
            raise OutOfReach("the order of the named values is unclear")
        return False

    def _distinct(self, items: Sequence[Tree]) -> list[Tree]:
        """Return the items without those that mean the same as an earlier one."""
        found: list[Tree] = []
        for item in items:
            if not any(self.same(item, known) for known in found):
                found.append(item)
        return found

    def _same_relations(self, one: Tree, other: Tree, are_sets: bool) -> bool:
        """Return whether two equations or inequalities, or *x = 2* and the expression *2*, mean the same; with
        `are_sets`, whether they describe the same set. Raises `OutOfReach` if this cannot be decided.
        """
        first, second = assigned(one), assigned(other)
        if one[0] != "relation" or other[0] != "relation":
            named = first if first is not None else second
            return named is not None and self.same(named[1], other if first is not None else one)
        if first is not None and second is not None:
            names = {name[0]: name for name in (first[0], second[0])}
            is_function = names.keys() == {"apply", "symbol"} and symbols_of(names["apply"])  # f(x) = 2x and y = 2x
            if (first[0] == second[0] or is_function) and self.same(first[1], second[1]):
                return True
            if is_function and names["apply"][1] == names["symbol"][1]:
                return False
            if first[0] == second[0] and not any(contains_tree(pair[1], pair[0]) for pair in (first, second)):
                return False
        if len(one) != 4 or len(other) != 4:
            if one[2] != other[2]:  # a < b < c is c > b > a
                other = [other[0], *(MIRRORED.get(x, x) if isinstance(x, str) else x for x in reversed(other[1:]))]
            if len(one) == len(other) and all(
                left == right if isinstance(left, str) else self.same(left, right)
                for left, right in zip(one[1:], other[1:], strict=True)
            ):
                return True
        elif other[2] not in (one[2], MIRRORED.get(one[2])) or one[2] not in MIRRORED:
            return are_sets and self._same_sets(one, other)
        elif self._is_multiple(difference(one), difference(other), one[2], other[2]):
            return True
        if are_sets:
            return self._same_sets(one, other)
        same = self._have_same_solutions(one, other)
        if same is not None:
            return same
        raise OutOfReach("it could not be determined whether the relations have the same solutions")

    def _have_same_solutions(self, one: Tree, other: Tree) -> bool | None:
        """Return whether two relations are true for the same numbers, by trying some, or None if that is not known.
        Raises `OutOfReach` if equations have the same solutions only for positive symbols.
        """
        points = [self._point(trial) for trial in range(_MANY_TRIALS)]
        is_positive = self.domain == "positive"
        same = None
        if one[2] == "=" and len(one) == len(other) == 4 and not contains((one, other), "apply"):
            same = have_same_solutions(one, other, points, positive=is_positive)
            if same is False and self.domain == "real":
                positive = _Rules("positive", self.ordered, self.tolerance, self.common, self.degrees)
                if positive._have_same_solutions(one, other):
                    raise OutOfReach(
                        "the equations are equivalent only if all symbols are positive (if they are, set "
                        "`domain` in the rule)"
                    )
        if same is not False and differ(one, other, points, positive=is_positive):
            return False
        return same

    def _is_multiple(self, one: Tree, other: Tree, sign: str, other_sign: str) -> bool:
        """Return whether one expression is a constant multiple of the other, with a sign that keeps the relation true.
        `sign` and `other_sign` relate the expressions to zero, such as `<`.
        """
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
        """Return whether two expressions have the same values, up to the tolerance, at all points that are tried and at
        which both have one. Raises `NoValue` if there is no such point.
        """
        pairs = []
        for first, second in self._values(one, other):
            if not equal(first, second, self.tolerance):
                return False
            pairs.append((first, second))
        if not pairs:
            raise NoValue("the expressions have no value")
        if self.tolerance or all(isinstance(value, Fraction) for pair in pairs for value in pair):
            return True
        with mpmath.workdps(2 * DIGITS):
            return all(map(still_equal, pairs, self._values(one, other)))

    def _values(self, one: Tree, other: Tree) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of values of two expressions, or of the items of two tuples, at points where both have one. Other
        kinds of trees give one pair: equal numbers if the trees are the same, and otherwise different ones.
        """
        signs = [tree[1] if tree[0] == "signed" else 1 for tree in (one, other)]
        trees = [tree[2] if tree[0] == "signed" else tree for tree in (one, other)]
        for kind in ("tuple", "matrix", "relation", *SETS):
            if any(tree[0] == kind for tree in trees):
                if trees[0] == trees[1] and signs[0] == signs[1]:
                    yield Fraction(0), Fraction(0)
                elif trees[0][0] == trees[1][0] == "tuple":
                    for pair in zip(trees[0][1:], trees[1][1:], strict=False):
                        yield from self._values(*(["signed", *x] for x in zip(signs, pair, strict=True)))
                else:
                    yield Fraction(0), Fraction(not self._same_named_sets(*trees))
                return
        for trial in range(_TRIALS if contains(trees, "symbol") or contains(trees, "apply") else 1):
            points = [
                Point(
                    TrialNumbers(trial, self.domain, self._whole), common=self.common, degrees=self.degrees, sign=sign
                )
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

    def _same_named_sets(self, one: Tree, other: Tree) -> bool:
        """Return whether two unions, intersections or differences of named sets are equal. Raises `OutOfReach` if they
        have the same symbols and other parts, such as intervals. Other trees are not equal.
        """
        if not any(tree[0] in ("union", "intersection", "difference") for tree in (one, other)):
            return False
        same = have_same_members(one, other)
        if same is None and symbols_of([one]) == symbols_of([other]) != set():
            raise OutOfReach("sets that contain symbols can only be compared if they are written in the same way")
        return bool(same)

    def _same_sets(self, one: Tree, other: Tree) -> bool:
        """Return whether two sets or inequalities have the same real numbers, by trying their ends and points between.
        Raises `OutOfReach` if this cannot be decided in this way.
        """
        names = symbols_of([one, other])
        one, other = as_set(one), as_set(other)
        relations = [*hard_relations(one), *hard_relations(other)]
        if not (is_solution_set(one) and is_solution_set(other)):
            return False
        point = self._point()
        found: list[Any] = []
        for end in (*ends(one), *ends(other)):
            value = value_of(end, point)
            if isinstance(number(value), mpmath.mpc) and mpmath.im(value) != 0:
                return False
            value = value if isinstance(value, Fraction) else mpmath.re(value)
            if not any(equal(value, known) for known in found):
                found.append(value)
        finite = [end for end in found if not mpmath.isinf(number(end))]
        critical = [critical_points(relation, point) for relation in relations]
        if relations:
            finite = [*finite, *trial_points(relations, point), *(x for points in critical for x in points or ())]
        tried = with_points_between(finite)
        if not all(is_member(x, one, point) is is_member(x, other, point) for x in tried):
            whole = [mpmath.floor(number(end)) + step for end in finite for step in (-1, 0, 1, 2)]
            is_close = all(is_member(x, one, point) is is_member(x, other, point) for x in whole)
            if (relations and self.domain == "positive") or (self.domain == "integer" and (relations or is_close)):
                raise OutOfReach("inequalities can only be compared over all real numbers")
            return False
        if len(names) > 1:
            raise OutOfReach("the inequalities contain different symbols")
        pairs = zip(relations, critical, strict=True)
        if not all(points is not None or has_no_other_roots(relation, tried, point) for relation, points in pairs):
            raise OutOfReach("it could not be determined whether the inequalities have the same solutions")
        return True
