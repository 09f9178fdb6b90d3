"""Combines field results into one verdict and one granular score.

A strategy is a tree of `AllOf`, `AnyOf` and `AtLeastN`. Its leaves are fields (`FieldCheck` or the field's name):

    AnyOf("trade_name", AllOf("generic_name", AtLeastN(2, "class", "target", "route")))

Without a tree (None), all fields must pass.

A field's result may be undecided (None or `Undecided`). A condition on such a field is undecided too, unless the
condition's result is the same whether the field passes or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import fsum, isfinite
from typing import Any

from karenina_template.templates.primitives import Undecided


@dataclass(frozen=True)
class FieldCheck:
    """A condition that passes if its field passes."""

    field: str

    def __post_init__(self) -> None:
        name: object = self.field
        if not isinstance(name, str) or not name:
            raise ValueError(f"FieldCheck requires a field name, not {self.field!r}")


@dataclass(frozen=True, init=False)
class AllOf:
    """Passes if all conditions pass: `AllOf("a", "b")` or `AllOf(conditions=[...])`."""

    conditions: tuple[Tree, ...]

    def __init__(self, *positional: Condition, conditions: Sequence[Condition] | None = None) -> None:
        object.__setattr__(self, "conditions", _conditions("AllOf", positional, conditions))


@dataclass(frozen=True, init=False)
class AnyOf:
    """Passes if any condition passes: `AnyOf("a", "b")` or `AnyOf(conditions=[...])`."""

    conditions: tuple[Tree, ...]

    def __init__(self, *positional: Condition, conditions: Sequence[Condition] | None = None) -> None:
        object.__setattr__(self, "conditions", _conditions("AnyOf", positional, conditions))


@dataclass(frozen=True, init=False)
class AtLeastN:
    """Passes if at least `n` conditions pass.

    Write `AtLeastN(2, "a", "b", "c")` or `AtLeastN(n=2, conditions=[...])`. `n` can be from 1 to the number of
    conditions.
    """

    n: int
    conditions: tuple[Tree, ...]

    def __init__(
        self, *positional: int | Condition, n: int | None = None, conditions: Sequence[Condition] | None = None
    ) -> None:
        arguments = list(positional)
        if n is None and arguments and isinstance(arguments[0], int):
            n = arguments.pop(0)  # type: ignore[assignment]  # checked on the line above
        if not isinstance(n, int) or isinstance(n, bool):
            raise ValueError(f"AtLeastN requires an integer as its first argument or as n=, not {n!r}")  # noqa: TRY004
        checked = _conditions("AtLeastN", arguments, conditions)
        if not 1 <= n <= len(checked):
            raise ValueError(f"AtLeastN requires n from 1 to {len(checked)} (the number of conditions), not {n}")
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "conditions", checked)


Tree = FieldCheck | AllOf | AnyOf | AtLeastN
Condition = Tree | str


def _conditions(node: str, positional: Iterable[object], keyword: Sequence[Condition] | None) -> tuple[Tree, ...]:
    """Return the conditions of a node as trees, from its positional arguments or its list. Raises `ValueError`, which
    contains the name `node`, if both or neither are given, or if a condition is invalid or occurs twice.
    """
    conditions = list(positional)
    if keyword is not None:
        if conditions:
            raise ValueError(f"{node}: pass the conditions as arguments or as conditions=[...], not both")
        if isinstance(keyword, str):
            raise ValueError(f"{node}: conditions must be a list, not {keyword!r}")
        conditions = list(keyword)
    if not conditions:
        raise ValueError(f"{node} has no conditions; pass at least one")
    trees = tuple(map(_condition, conditions))
    if twice := [tree for index, tree in enumerate(trees) if tree in trees[:index]]:
        raise ValueError(
            f"{node} contains the condition {twice[0]!r:.200} more than once; keep only one, so that it "
            "is not counted twice"
        )
    return trees


def _condition(condition: object) -> Tree:
    """Return `condition` as a tree. A string is taken as a field name. Raises `ValueError` for anything else."""
    if isinstance(condition, str):
        return FieldCheck(condition)
    if isinstance(condition, Tree):
        return condition
    raise ValueError(
        f"a condition must be a field name or a FieldCheck, AllOf, AnyOf or AtLeastN instance, not {condition!r:.200}"
    )


def _leaves(tree: Tree) -> Iterator[str]:
    if isinstance(tree, FieldCheck):
        yield tree.field
    else:
        for condition in tree.conditions:
            yield from _leaves(condition)


def fields_of(tree: Tree) -> tuple[str, ...]:
    """Return the fields in `tree` without duplicates, in order of first use."""
    return tuple(dict.fromkeys(_leaves(tree)))


def prune(tree: Tree, names: Collection[str]) -> Tree | None:
    """Return `tree` without the fields in `names`, or None if nothing remains. Conditions that become equal are merged,
    and the number required by `AtLeastN` is lowered if fewer conditions remain.
    """
    if isinstance(tree, FieldCheck):
        return None if tree.field in names else tree
    left = [pruned for condition in tree.conditions if (pruned := prune(condition, names)) is not None]
    if not left:
        return None
    left = list(dict.fromkeys(left))  # conditions that differed only in these fields are now the same
    if isinstance(tree, AtLeastN):
        return AtLeastN(n=min(tree.n, len(left)), conditions=left)
    return type(tree)(conditions=left)


def validate(tree: Tree | None, names: Collection[str]) -> None:
    """Raise `ValueError` if `tree` contains fields that are not in `names`."""
    unknown = [field for field in fields_of(tree) if field not in names] if tree is not None else []
    if unknown:
        hints = []
        for field in unknown:
            near = get_close_matches(field, names, n=1)
            hints.append(f"{field!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
        raise ValueError(
            f"the verification strategy uses fields that are not verified: {', '.join(hints)}; the "
            f"verified fields are {', '.join(names) or 'none'}"
        )


def describe(tree: Tree | None) -> str:
    """Return the name of the strategy: "all_of" (also for a single field), "any_of" or "at_least_n(2)"."""
    match tree:
        case None | FieldCheck() | AllOf():
            return "all_of"
        case AnyOf():
            return "any_of"
        case AtLeastN():
            return f"at_least_n({tree.n})"


Result = bool | Undecided | None
"""A field's result. None and `Undecided` both mean undecided."""


def passes(tree: Tree | None, results: Mapping[str, Result]) -> bool | None:
    """Return whether `tree` passes, or None if this depends on undecided fields. Without a tree, all fields must pass.
    Raises `ValueError` if `results` lacks a field that `tree` contains.
    """
    if tree is None:
        return _at_least(len(results), [*map(known_result, results.values())])
    validate(tree, results)
    return _passes(tree, results)


def known_result(result: Result) -> bool | None:
    """Return a field's result as a boolean, or None if it is undecided."""
    return None if result is None or isinstance(result, Undecided) else bool(result)


def _passes(tree: Tree, results: Mapping[str, Result]) -> bool | None:
    """Return whether the strategy passes with these results of fields, or None if undecided fields could change
    this.
    """
    if isinstance(tree, FieldCheck):
        return known_result(results[tree.field])
    parts = [_passes(condition, results) for condition in tree.conditions]
    match tree:
        case AllOf():
            return _at_least(len(parts), parts)
        case AnyOf():
            return _at_least(1, parts)
        case AtLeastN():
            return _at_least(tree.n, parts)


def _at_least(n: int, parts: Sequence[bool | None]) -> bool | None:
    """Return whether at least `n` of `parts` pass, or None if this depends on undecided parts."""
    passed = parts.count(True)
    if passed >= n:
        return True
    return None if passed + parts.count(None) >= n else False


def granular(tree: Tree | None, weights: Mapping[str, float], scores: Mapping[str, float | None]) -> float:
    """Return the points earned in `tree`, or in all fields if it is None, divided by the most that can be earned there,
    from 0 to 1. Undecided fields (None) earn nothing, and if nothing can be earned, the score is 0.0. Raises
    `ValueError` for a field without a valid weight or score.

    A field earns its weight times its score. `AllOf` adds up its conditions, `AnyOf` takes the best one, and `AtLeastN`
    adds up the `n` best. Without a tree, all fields in `weights` are added up. A negative or infinite weight, or a
    score outside 0 to 1, is invalid.
    """
    names = tuple(weights) if tree is None else fields_of(tree)
    points = {name: 0.0 if score is None else score for name, score in scores.items()}
    for name in names:
        weight, score = _number(weights, name, "weight"), _number(points, name, "score")
        if not (isfinite(weight) and weight >= 0):
            raise ValueError(f"the weight of field {name!r} must be finite and at least 0, not {weight}")
        if not 0 <= score <= 1:
            raise ValueError(f"the score of field {name!r} must be between 0 and 1, not {score}")
    greatest = max([weights[name] for name in names], default=0)
    if not greatest:
        return 0.0
    # fractions of the greatest weight, so that no sum can overflow
    if tree is None:
        reached = fsum([weights[name] / greatest * points[name] for name in names])
        return min(1.0, reached / fsum([weights[name] / greatest for name in names]))
    reached = _contribution(tree, lambda field: weights[field] / greatest * points[field])
    possible = _contribution(tree, lambda field: weights[field] / greatest)
    return min(1.0, reached / possible)


def _number(numbers: Mapping[str, float], name: str, quantity: str) -> float:
    """Return the number for field `name`. Raises `ValueError` if there is none, and calls the number a `quantity`."""
    if name not in numbers:
        raise ValueError(f"field {name!r} has no {quantity}")
    return numbers[name]


def _contribution(tree: Tree, of_field: Callable[[str], float]) -> float:
    """Return the sum of the fields' contributions, given by `of_field`: of all conditions, or of as many as the
    strategy needs, the best ones first.
    """
    if isinstance(tree, FieldCheck):
        return of_field(tree.field)
    contributions = sorted((_contribution(condition, of_field) for condition in tree.conditions), reverse=True)
    match tree:
        case AllOf():
            return fsum(contributions)
        case AnyOf():
            return contributions[0]
        case AtLeastN():
            return fsum(contributions[: tree.n])


def to_json(tree: Tree) -> dict[str, Any]:
    """Return the tree as a JSON-compatible dict with a `type`: "all_of", "any_of", "at_least_n" or "field_check"."""
    if isinstance(tree, FieldCheck):
        return {"type": "field_check", "field": tree.field}
    conditions = [to_json(condition) for condition in tree.conditions]
    match tree:
        case AllOf():
            return {"type": "all_of", "conditions": conditions}
        case AnyOf():
            return {"type": "any_of", "conditions": conditions}
        case AtLeastN():
            return {"type": "at_least_n", "n": tree.n, "conditions": conditions}


def from_json(data: object) -> Tree:
    """Build a tree from `data` in the format of `to_json`. A string becomes a `FieldCheck`. Raises `ValueError` if the
    data is invalid or the tree has more than 50 levels.
    """
    return _from_json(data, levels=50)


def _from_json(data: object, levels: int) -> Tree:
    """Return the tree described by JSON data, in which a string is a field's name. Raises `ValueError` if the data is
    invalid or has more than `levels` levels.
    """
    if not levels:
        raise ValueError("a verification strategy cannot have more than 50 levels of nesting")
    if isinstance(data, str):
        return FieldCheck(data)
    if not isinstance(data, Mapping):
        raise ValueError(f'a strategy must be {{"type": ..., "conditions": [...]}}, not {data!r:.200}')  # noqa: TRY004
    kind = data.get("type")
    allowed = {"field_check": {"field"}, "at_least_n": {"n", "conditions"}}.get(str(kind), {"conditions"})
    if kind not in ("field_check", "all_of", "any_of", "at_least_n"):
        raise ValueError(f"the strategy type must be all_of, any_of, at_least_n or field_check, not {kind!r}")
    if unknown := sorted(map(str, data.keys() - allowed - {"type"})):
        raise ValueError(f"{kind} accepts only {' and '.join(sorted(allowed))}, not {unknown[0]!r}")
    if kind == "field_check":
        return FieldCheck(data.get("field", ""))
    listed = data.get("conditions", [])
    if not isinstance(listed, list | tuple):
        raise ValueError(f"the conditions of {kind} must be a list, not {listed!r:.200}")  # noqa: TRY004
    conditions = [_from_json(condition, levels - 1) for condition in listed]
    if kind == "at_least_n":
        return AtLeastN(n=data.get("n"), conditions=conditions)
    return AllOf(conditions=conditions) if kind == "all_of" else AnyOf(conditions=conditions)
