"""Primitives for numbers with partial credit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates.primitives import (
    NumericGraded,
    NumericMaximum,
    NumericMinimum,
    NumericRange,
    NumericRangeGraded,
    NumericThresholdGraded,
)

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("parameters", "extracted", "expected", "passes", "score"),
    [
        ({"cutoff": 0.25}, 40, 40, True, 1),
        ({"cutoff": 0.25}, 44, 40, True, 0.6),
        ({"cutoff": 0.25}, 36, 40, True, 0.6),
        ({"cutoff": 0.25}, -44, -40, True, 0.6),
        ({"cutoff": 0.25}, 50, 40, True, 0),
        ({"cutoff": 0.25}, 50.1, 40, False, 0),
        ({"cutoff": 0.25, "decay": "quadratic"}, 44, 40, True, 1 - 0.4**2),
        ({"cutoff": 2, "mode": "absolute"}, 43, 42, True, 0.5),
        ({"cutoff": 2, "mode": "absolute"}, "43", 42, True, 0.5),
        ({"cutoff": 0.1}, 0, 0, True, 1),
        ({"cutoff": 0.1}, 0.001, 0, False, 0),
        ({"cutoff": 3, "full_credit": 1, "mode": "absolute"}, 11, 10, True, 1),
        ({"cutoff": 3, "full_credit": 1, "mode": "absolute"}, 12, 10, False, 0.5),
        ({"cutoff": 3, "full_credit": 1, "mode": "absolute", "decay": "quadratic"}, 12, 10, False, 0.75),
        ({"cutoff": 3, "full_credit": 1, "mode": "absolute"}, 13, 10, False, 0),
        ({"cutoff": 3, "full_credit": 0, "mode": "absolute"}, 10, 10, True, 1),
        ({"cutoff": 3, "full_credit": 0, "mode": "absolute"}, 11.5, 10, False, 0.5),
    ],
)
def test_numeric_graded(parameters, extracted, expected, passes, score):
    primitive = NumericGraded(**parameters)
    assert primitive.check(extracted, expected) is passes
    assert primitive.score(extracted, expected) == pytest.approx(score)


@pytest.mark.parametrize(
    ("parameters", "extracted", "score"),
    [
        ({}, 0, 1),
        ({}, 5, 1),
        ({}, 10, 1),
        ({}, 11, 0.5),
        ({}, -0.5, 0.75),
        ({}, 12, 0),
        ({}, -99, 0),
        ({"decay": "quadratic"}, 11, 0.75),
        ({"mode": "relative", "margin": 0.2}, 11, 0.5),
        ({"mode": "relative", "margin": 0.2}, 12.5, 0),
    ],
)
def test_numeric_range_graded(parameters, extracted, score):
    primitive = NumericRangeGraded(**{"min": 0, "max": 10, "margin": 2} | parameters)
    assert primitive.score(extracted, "not looked at") == pytest.approx(score)
    assert primitive.check(extracted, None) is NumericRange(min=0, max=10).check(extracted, None)


def test_an_excluded_end_fails_with_full_credit():
    primitive = NumericRangeGraded(min=0, max=10, margin=2, exclusive_min=True, exclusive_max=True)
    assert [primitive.check(end, None) for end in (0, 10)] == [False, False]
    assert [primitive.score(end, None) for end in (0, 10)] == [1, 1]


@pytest.mark.parametrize(
    ("direction", "parameters", "extracted", "expected", "score"),
    [
        ("max", {}, 1e-40, 1e-30, 1),
        ("max", {}, 1e-30, 1e-30, 1),
        ("max", {}, 1.5e-30, 1e-30, 0.5),
        ("max", {}, 2e-30, 1e-30, 0),
        ("max", {}, -5, 0, 1),
        ("max", {}, 1e-9, 0, 0),
        ("min", {"margin": 0.2, "mode": "absolute"}, 12, 10, 1),
        ("min", {"margin": 0.2, "mode": "absolute"}, 9.9, 10, 0.5),
        ("min", {"margin": 0.2, "mode": "absolute", "decay": "quadratic"}, 9.9, 10, 0.75),
        ("min", {"margin": 0.2, "mode": "absolute"}, 9.7, 10, 0),
        ("min", {}, -15, -10, 0.5),
    ],
)
def test_numeric_threshold_graded(direction, parameters, extracted, expected, score):
    primitive = NumericThresholdGraded(direction=direction, **{"margin": 1} | parameters)
    plain = {"max": NumericMaximum, "min": NumericMinimum}[direction]()
    assert primitive.score(extracted, expected) == pytest.approx(score)
    assert primitive.check(extracted, expected) is plain.check(extracted, expected)


def test_an_excluded_threshold_fails_with_full_credit():
    primitive = NumericThresholdGraded(direction="max", margin=1, exclusive=True)
    assert primitive.check(10, 10) is False
    assert primitive.score(10, 10) == 1


def test_a_direction_may_be_written_out():
    assert NumericThresholdGraded(direction="minimum", margin=1) == NumericThresholdGraded(direction="min", margin=1)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (NumericGraded, {}),
        (NumericGraded, {"cutoff": 0}),
        (NumericGraded, {"cutoff": INF}),
        (NumericGraded, {"cutoff": 0.1, "full_credit": 0.1}),
        (NumericGraded, {"cutoff": 0.1, "full_credit": 0.2}),
        (NumericGraded, {"cutoff": 0.1, "full_credit": -0.1}),
        (NumericGraded, {"cutoff": 0.1, "decay": "cubic"}),
        (NumericRangeGraded, {"min": 0, "max": 1}),
        (NumericRangeGraded, {"min": 1, "max": 1, "margin": 1}),
        (NumericRangeGraded, {"min": 0, "max": 1, "margin": 0}),
        (NumericRangeGraded, {"min": 0, "max": 1, "margin": NAN}),
        (NumericThresholdGraded, {"margin": 1}),
        (NumericThresholdGraded, {"margin": 1, "direction": "sideways"}),
        (NumericThresholdGraded, {"margin": 1, "direction": 3}),
        (NumericThresholdGraded, {"margin": -1, "direction": "min"}),
    ],
)
def test_parameters_that_mean_nothing_are_refused(kind, parameters):
    with pytest.raises(ValidationError):
        kind(**parameters)


GRADED = [
    NumericGraded(cutoff=0.5),
    NumericRangeGraded(min=0, max=1, margin=1),
    NumericThresholdGraded(direction="min", margin=1),
]


@pytest.mark.parametrize("primitive", GRADED)
@pytest.mark.parametrize("extracted", [None, True, NAN, INF, "1,200", [1]])
def test_what_is_no_number_fails_without_credit(primitive, extracted):
    assert primitive.check(extracted, 1) is False
    assert primitive.score(extracted, 1) == 0


@pytest.mark.parametrize("primitive", [GRADED[0], GRADED[2]])
@pytest.mark.parametrize("expected", [None, True, NAN, "many"])
def test_a_truth_that_is_no_number_is_the_authors_error(primitive, expected):
    with pytest.raises(ValueError, match="requires a finite number"):
        primitive.score(1, expected)


numbers = st.floats(-1e6, 1e6)


@given(numbers, numbers, numbers, st.sampled_from(["relative", "absolute"]), st.sampled_from(["linear", "quadratic"]))
def test_credit_never_rises_with_the_distance(truth, near, far, mode, decay):
    primitive = NumericGraded(cutoff=3, full_credit=0.5, mode=mode, decay=decay)
    near, far = sorted((abs(near), abs(far)))
    assert 0 <= primitive.score(truth + far, truth) <= 1
    assert primitive.score(truth - far, truth) <= primitive.score(truth - near, truth)


@given(st.sampled_from(GRADED), numbers, numbers)
def test_what_passes_a_range_or_threshold_has_full_credit(primitive, extracted, truth):
    if not isinstance(primitive, NumericGraded):
        assert primitive.check(extracted, truth) is (primitive.score(extracted, truth) == 1)
    elif primitive.score(extracted, truth) > 0:
        assert primitive.check(extracted, truth)
