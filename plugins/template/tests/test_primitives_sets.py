"""Primitives for collections."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates.primitives import OrderedMatch, SetContainment

NAN = float("nan")


@pytest.mark.parametrize(
    ("extracted", "expected", "exact", "subset", "superset"),
    [
        (["c", "a", "b"], ["a", "b", "c"], True, True, True),
        (["a", "a", "b"], ["b", "a", "b"], True, True, True),
        (["a"], ["a", "b"], False, True, False),
        (["a", "b"], ["a"], False, False, True),
        (["a", "x"], ["a", "b"], False, False, False),
        ([], ["a"], False, True, False),
        ({"a"}, ("a",), True, True, True),
        (["A"], ["a"], False, False, False),
        ([1, 2.0], [1.0, 2], True, True, True),
        (["1"], [1], False, False, False),
        ([True], [1], False, False, False),
        ([None, "a"], ["a"], False, False, True),
        ([NAN], [1], False, False, False),
        ([["a", 1]], [("a", 1)], True, True, True),
        ([{"a": 1}], [{"a": 1.0}], True, True, True),
        ([date(2024, 1, 15)], ["2024-01-15"], True, True, True),
        (None, ["a"], False, False, False),
        ("a", ["a"], False, False, False),
        ({"a": 1}, ["a"], False, False, False),
    ],
)
def test_set_containment(extracted, expected, exact, subset, superset):
    modes = {"exact": exact, "subset": subset, "superset": superset}
    assert {mode: SetContainment(mode=mode).check(extracted, expected) for mode in modes} == modes


@pytest.mark.parametrize(
    ("min_overlap", "extracted", "passes"),
    [
        (None, ["a"], True),
        (None, ["x"], False),
        (None, [], False),
        (2, ["a", "b", "x"], True),
        (2, ["a", "a", "x"], False),
    ],
)
def test_overlap_counts_different_items_in_common(min_overlap, extracted, passes):
    primitive = SetContainment(mode="overlap", min_overlap=min_overlap)
    assert primitive.check(extracted, ["a", "b", "c"]) is passes


def test_texts_of_a_set_are_normalised_where_asked():
    primitive = SetContainment(normalize=["lowercase", "strip"])
    assert primitive.check([" Nausea", "HEADACHE"], ["nausea", "headache"])


def test_an_empty_answer_passes_for_an_empty_truth():
    assert SetContainment().check([], []) is True
    assert SetContainment().check(["a"], []) is False


@pytest.mark.parametrize(
    ("extracted", "expected", "passes"),
    [
        (["BCL2 ", "TP53"], ["bcl2", "tp53"], True),
        (["TP53", "BCL2"], ["bcl2", "tp53"], False),
        (["BCL2"], ["bcl2", "tp53"], False),
        (["a", "a"], ["a"], False),
        (("a", 1), ["a", "1"], True),
        ([], [], True),
        ([], ["a"], False),
        ([None], ["none"], False),
        ([["a"]], ["a"], False),
        ({"a"}, ["a"], False),
        ("ab", ["a", "b"], False),
        (None, ["a"], False),
    ],
)
def test_ordered_match(extracted, expected, passes):
    assert OrderedMatch().check(extracted, expected) is passes


def test_case_counts_in_order_where_nothing_is_normalised():
    assert OrderedMatch(normalize=[]).check(["A"], ["a"]) is False


@pytest.mark.parametrize(
    ("primitive", "expected"),
    [
        (SetContainment(), None),
        (SetContainment(), "abc"),
        (SetContainment(), {"a": 1}),
        (SetContainment(), ["a", None]),
        (SetContainment(), [NAN]),
        (SetContainment(), [[NAN]]),
        (SetContainment(mode="superset"), []),
        (SetContainment(mode="overlap"), []),
        (SetContainment(mode="overlap", min_overlap=2), ["a", "a"]),
        (SetContainment(mode="overlap", min_overlap=2, normalize=["lowercase"]), ["a", "A"]),
        (OrderedMatch(), None),
        (OrderedMatch(), "abc"),
        (OrderedMatch(), {"a"}),
        (OrderedMatch(), ["a", None]),
        (OrderedMatch(), [["a"]]),
    ],
)
def test_a_wrong_truth_is_the_authors_error(primitive, expected):
    with pytest.raises(ValueError, match="as the ground truth"):
        primitive.check_expected(expected)
    with pytest.raises(ValueError, match="as the ground truth"):
        primitive.check(["a"], expected)


@pytest.mark.parametrize(
    "parameters",
    [
        {"mode": "equal"},
        {"min_overlap": 1},
        {"mode": "overlap", "min_overlap": 0},
        {"mode": "overlap", "min_overlap": True},
        {"normalize": ["upper"]},
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters):
    with pytest.raises(ValidationError):
        SetContainment(**parameters)


items = st.lists(st.sampled_from(["a", "b", 1, 2.5, True]), min_size=1, max_size=6)


@given(items, items, st.sampled_from(["exact", "subset", "superset", "overlap"]), st.randoms())
def test_order_and_duplicates_do_not_count(extracted, expected, mode, random):
    primitive = SetContainment(mode=mode)
    again = extracted + extracted
    random.shuffle(again)
    assert primitive.check(again, expected) is primitive.check(extracted, expected)


@given(items, items)
def test_exact_is_subset_and_superset(extracted, expected):
    exact, subset, superset = (
        SetContainment(mode=mode).check(extracted, expected) for mode in ("exact", "subset", "superset")
    )
    assert exact is (subset and superset)
