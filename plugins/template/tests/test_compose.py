"""Composition: verdict and granular score of a tree of conditions."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_template.templates.compose import (
    AllOf,
    AnyOf,
    AtLeastN,
    FieldCheck,
    describe,
    fields_of,
    from_json,
    granular,
    passes,
    prune,
    to_json,
    validate,
)
from karenina_template.templates.primitives import Undecided

NAMES = "abcde"
NESTED = AnyOf("a", AllOf("b", AtLeastN(2, "c", "d", "e")))


def fields(passed: str) -> dict[str, bool]:
    return {name: name in passed for name in NAMES}


@pytest.mark.parametrize(
    ("tree", "passed", "verdict"),
    [
        (None, "abcde", True),
        (None, "abcd", False),
        (FieldCheck("a"), "a", True),
        (FieldCheck("a"), "b", False),
        (AllOf("a", "b"), "ab", True),
        (AllOf("a", "b"), "a", False),
        (AnyOf("a", "b"), "b", True),
        (AnyOf("a", "b"), "c", False),
        (AtLeastN(2, "a", "b", "c"), "ac", True),
        (AtLeastN(2, "a", "b", "c"), "c", False),
        (NESTED, "a", True),
        (NESTED, "bce", True),
        (NESTED, "cde", False),
        (NESTED, "bc", False),
    ],
)
def test_verdict(tree, passed, verdict):
    assert passes(tree, fields(passed)) is verdict


T, F, U = True, False, None
ABC = ("a", "b", "c")


@pytest.mark.parametrize(
    ("a", "b", "all_of", "any_of"),
    [
        (T, T, T, T),
        (T, F, F, T),
        (T, U, U, T),
        (F, T, F, T),
        (F, F, F, F),
        (F, U, F, U),
        (U, T, U, T),
        (U, F, F, U),
        (U, U, U, U),
    ],
)
def test_truth_table_of_two_conditions(a, b, all_of, any_of):
    results = {"a": a, "b": b}
    assert passes(AllOf("a", "b"), results) is passes(None, results) is passes(AtLeastN(2, "a", "b"), results) is all_of
    assert passes(AnyOf("a", "b"), results) is passes(AtLeastN(1, "a", "b"), results) is any_of
    assert passes(FieldCheck("a"), results) is a


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ((T, T, T), T),
        ((T, T, F), T),
        ((T, T, U), T),
        ((T, F, F), F),
        ((T, F, U), U),
        ((T, U, U), U),
        ((F, F, F), F),
        ((F, F, U), F),
        ((F, U, U), U),
        ((U, U, U), U),
    ],
)
def test_truth_table_of_at_least_two_of_three(results, verdict):
    for order in permutations(results):
        assert passes(AtLeastN(2, *ABC), dict(zip(ABC, order, strict=True))) is verdict


@pytest.mark.parametrize(
    ("tree", "results", "verdict"),
    [
        (NESTED, (T, U, U, U, U), T),
        (NESTED, (F, U, T, T, U), U),
        (NESTED, (F, F, U, U, U), F),
        (NESTED, (F, T, F, U, F), F),
        (NESTED, (F, T, T, U, F), U),
        (NESTED, (U, F, U, U, U), U),
        (AllOf("a", AnyOf("b", "c")), (T, U, T, U, U), T),
        (AllOf("a", AnyOf("b", "c")), (T, U, F, U, U), U),
        (AllOf("a", AnyOf("b", "c")), (U, F, F, U, U), F),
        (AtLeastN(2, "a", AllOf("b", "c"), AnyOf("d", "e")), (T, F, U, F, T), T),
        (AtLeastN(2, "a", AllOf("b", "c"), AnyOf("d", "e")), (T, F, U, F, U), U),
        (AtLeastN(2, "a", AllOf("b", "c"), AnyOf("d", "e")), (F, F, U, U, U), F),
    ],
)
def test_truth_table_of_nested_conditions(tree, results, verdict):
    assert passes(tree, dict(zip(NAMES, results, strict=True))) is verdict


def test_a_reason_makes_no_difference():
    assert passes(AllOf("a", "b"), {"a": True, "b": Undecided("two dates")}) is None
    assert passes(AnyOf("a", "b"), {"a": True, "b": Undecided("two dates")}) is True


def test_no_fields_pass():
    assert passes(None, {}) is True


def test_an_undecided_field_earns_nothing():
    assert granular(None, dict.fromkeys("ab", 1.0), {"a": 1.0, "b": None}) == 0.5
    assert granular(AnyOf("a", "b"), dict.fromkeys("ab", 1.0), {"a": 1.0, "b": None}) == 1.0


@pytest.mark.parametrize(
    ("tree", "scores", "reached"),
    [
        (None, {"a": 1, "b": 0.5, "c": 0, "d": 0, "e": 1}, (1 + 2 * 0.5 + 5) / 15),
        (AllOf("a", "b"), {"a": 1}, 1 / 3),
        (AnyOf("a", "b"), {"a": 1}, 1 / 2),
        (AnyOf("a", "b"), {"b": 1}, 1),
        (AnyOf("a", "b"), {"a": 1, "b": 1}, 1),
        (AtLeastN(2, "a", "b", "c"), {"a": 1, "b": 1, "c": 1}, 1),
        (AtLeastN(2, "a", "b", "c"), {"a": 1, "b": 1}, 3 / 5),
        (AtLeastN(2, "a", "b", "c"), {"c": 0.5}, 1.5 / 5),
        (NESTED, {"a": 1}, 1 / 11),
        (NESTED, {"b": 1, "c": 1, "e": 0.5}, (2 + 3 + 2.5) / 11),
    ],
)
def test_granular_score_is_reached_by_possible_points(tree, scores, reached):
    weights = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert granular(tree, weights, dict.fromkeys(NAMES, 0.0) | scores) == pytest.approx(reached)


@pytest.mark.parametrize("tree", [None, AllOf("a", "b"), AnyOf("a", "b"), AtLeastN(1, "a", "b")])
def test_granular_is_zero_where_all_weights_are(tree):
    assert granular(tree, {"a": 0, "b": 0.0}, {"a": 1, "b": 1}) == 0.0


def test_without_fields_nothing_fails_and_nothing_is_reached():
    assert passes(None, {}) is True
    assert granular(None, {}, {}) == 0.0


def test_weights_near_the_largest_float_do_not_overflow():
    assert granular(None, {"a": 1e308, "b": 1e308}, {"a": 1, "b": 0}) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("weights", "scores", "message"),
    [
        ({"a": -1}, {"a": 1}, "weight of field 'a'"),
        ({"a": float("nan")}, {"a": 1}, "weight of field 'a'"),
        ({"a": float("inf")}, {"a": 1}, "weight of field 'a'"),
        ({"a": 1}, {"a": 1.5}, "score of field 'a'"),
        ({"a": 1}, {"a": float("nan")}, "score of field 'a'"),
        ({"a": 1}, {}, "'a' has no score"),
        ({}, {"a": 1}, "'a' has no weight"),
    ],
)
def test_granular_refuses_numbers_that_mean_nothing(weights, scores, message):
    with pytest.raises(ValueError, match=message):
        granular(AllOf("a"), weights, scores)


def test_conditions_may_be_a_list_by_name():
    assert AllOf(conditions=["a", FieldCheck(field="b")]) == AllOf("a", "b")
    assert AtLeastN(n=1, conditions=["a", "b"]) == AtLeastN(1, "a", "b") == AtLeastN("a", "b", n=1)


@pytest.mark.parametrize(
    "build",
    [
        lambda: AllOf(),
        lambda: AnyOf(conditions=[]),
        lambda: AllOf("a", conditions=["b"]),
        lambda: AllOf(conditions="ab"),
        lambda: AllOf("a", "a"),
        lambda: AtLeastN(2, AllOf("a", "b"), AllOf("a", "b")),
        lambda: AllOf(3),
        lambda: AllOf(["a", "b"]),
        lambda: FieldCheck(""),
        lambda: AtLeastN("a", "b"),
        lambda: AtLeastN(0, "a", "b"),
        lambda: AtLeastN(3, "a", "b"),
        lambda: AtLeastN(True, "a", "b"),
        lambda: AtLeastN(1.0, "a", "b"),
        lambda: AtLeastN(n=1),
    ],
)
def test_a_tree_that_means_nothing_cannot_be_built(build):
    with pytest.raises(ValueError, match=r"AllOf|AnyOf|AtLeastN|FieldCheck"):
        build()


def test_the_fields_of_a_tree_come_once_each():
    assert fields_of(AnyOf(AllOf("b", "a"), AllOf("b", "c"))) == ("b", "a", "c")


def test_unknown_fields_are_all_named_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"'dose' \(did you mean 'doses'\?\), 'zzz'; the verified fields are doses, route"
    ):
        validate(AllOf("dose", "route", "zzz"), ["doses", "route"])


def test_a_verdict_needs_every_field_of_the_tree():
    validate(None, [])
    with pytest.raises(ValueError, match="'b'"):
        passes(AnyOf("a", "b"), {"a": True})


@pytest.mark.parametrize(
    ("tree", "word"),
    [
        (None, "all_of"),
        (FieldCheck("a"), "all_of"),
        (AllOf("a"), "all_of"),
        (NESTED, "any_of"),
        (AtLeastN(2, "a", "b"), "at_least_n(2)"),
    ],
)
def test_a_strategy_in_a_word(tree, word):
    assert describe(tree) == word


def test_a_tree_as_json():
    assert to_json(AnyOf("a", AtLeastN(1, "b", "c"))) == {
        "type": "any_of",
        "conditions": [
            {"type": "field_check", "field": "a"},
            {
                "type": "at_least_n",
                "n": 1,
                "conditions": [{"type": "field_check", "field": "b"}, {"type": "field_check", "field": "c"}],
            },
        ],
    }
    assert from_json({"type": "all_of", "conditions": ["a", "b"]}) == AllOf("a", "b")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "a strategy must be"),
        ({"type": "none_of", "conditions": ["a"]}, "not 'none_of'"),
        ({"conditions": ["a"]}, "not None"),
        ({"type": ["all_of"]}, "the strategy type must be"),
        ({"type": "all_of"}, "has no conditions"),
        ({"type": "all_of", "conditions": "ab"}, "must be a list"),
        ({"type": "all_of", "conditions": ["a"], "n": 1}, "not 'n'"),
        ({"type": "at_least_n", "conditions": ["a"]}, "AtLeastN requires an integer"),
        ({"type": "at_least_n", "n": 2, "conditions": ["a"]}, r"n from 1 to 1 \(the number of conditions\), not 2"),
        ({"type": "field_check"}, "FieldCheck requires a field name"),
        ({"type": "field_check", "field": 3}, "FieldCheck requires a field name"),
    ],
)
def test_json_that_is_no_tree_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        from_json(data)


def test_a_tree_without_end_is_refused():
    data = "a"
    for _ in range(5000):
        data = {"type": "all_of", "conditions": [data]}
    with pytest.raises(ValueError, match="more than 50 levels"):
        from_json(data)


def nodes(children):
    conditions = st.lists(children, min_size=1, max_size=4, unique=True)
    return st.one_of(
        conditions.map(lambda c: AllOf(*c)),
        conditions.map(lambda c: AnyOf(*c)),
        conditions.flatmap(lambda c: st.integers(1, len(c)).map(lambda n: AtLeastN(n, *c))),
    )


trees = st.recursive(st.sampled_from(NAMES).map(FieldCheck), nodes, max_leaves=8)
all_fields = st.fixed_dictionaries
weights = all_fields(dict.fromkeys(NAMES, st.floats(0, 1e6)))
positive = all_fields(dict.fromkeys(NAMES, st.integers(1, 9)))
scores = all_fields(dict.fromkeys(NAMES, st.floats(0, 1)))
results = all_fields(dict.fromkeys(NAMES, st.booleans()))
unsure = all_fields(dict.fromkeys(NAMES, st.sampled_from([True, False, None])))


@given(trees)
def test_a_tree_comes_back_from_json(tree):
    assert from_json(to_json(tree)) == tree


@given(st.none() | trees, weights, scores)
def test_granular_is_between_nothing_and_all(tree, weights, scores):
    assert 0.0 <= granular(tree, weights, scores) <= 1.0


@given(trees, positive, results)
def test_granular_is_one_only_for_what_passes(tree, weights, results):
    if granular(tree, weights, results) == 1.0:
        assert passes(tree, results)


@given(st.none() | trees, positive)
def test_granular_is_one_where_every_field_passes(tree, weights):
    assert granular(tree, weights, dict.fromkeys(NAMES, 1.0)) == 1.0


@given(positive, results)
def test_granular_of_all_of_is_one_exactly_where_it_passes(weights, results):
    assert (granular(None, weights, results) == 1.0) is passes(None, results)


@given(st.none() | trees, weights, scores, st.sampled_from(NAMES), st.floats(0, 1))
def test_a_better_field_never_lowers_the_score(tree, weights, scores, field, better):
    improved = scores | {field: max(scores[field], better)}
    assert granular(tree, weights, improved) >= granular(tree, weights, scores)


@given(trees, results, st.sampled_from(NAMES))
def test_a_field_that_passes_never_costs_the_verdict(tree, results, field):
    assert passes(tree, results | {field: True}) or not passes(tree, results)


@given(st.none() | trees, unsure)
def test_a_verdict_is_undecided_if_and_only_if_it_could_be_either(tree, results):
    unknown = [name for name, result in results.items() if result is None]
    possible = {
        passes(tree, {**results, **dict(zip(unknown, filled, strict=True))})
        for filled in product([True, False], repeat=len(unknown))
    }
    assert passes(tree, results) is (possible.pop() if len(possible) == 1 else None)


@given(st.none() | trees, unsure, results)
def test_a_decision_about_an_undecided_field_never_flips_a_verdict(tree, results, decided):
    later = {name: decided[name] if result is None else result for name, result in results.items()}
    assert passes(tree, results) in (None, passes(tree, later))


@pytest.mark.parametrize(
    ("tree", "names", "left"),
    [
        (AllOf("a", "b"), "b", AllOf("a")),
        (AnyOf("a", "b"), "a", AnyOf("b")),
        (AtLeastN(2, "a", "b", "c"), "c", AtLeastN(2, "a", "b")),
        (AtLeastN(2, "a", "b", "c"), "bc", AtLeastN(1, "a")),
        (NESTED, "cde", AnyOf("a", AllOf("b"))),
        (NESTED, "abcde", None),
        (AllOf(AnyOf("a", "b"), AnyOf("a", "c")), "bc", AllOf(AnyOf("a"))),
    ],
)
def test_fields_that_do_not_count_are_pruned(tree, names, left):
    assert prune(tree, names) == left


@given(trees, st.sets(st.sampled_from(NAMES)))
def test_pruning_removes_exactly_these_fields(tree, names):
    pruned = prune(tree, names)

    left = [name for name in fields_of(tree) if name not in names]
    assert (list(fields_of(pruned)) if pruned is not None else []) == left
