"""Primitives for numbers: what is a number, and what passes."""

from __future__ import annotations

from decimal import Decimal
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates.primitives import (
    NumericExact,
    NumericMaximum,
    NumericMinimum,
    NumericRange,
    NumericTolerance,
)

NAN, INF = float("nan"), float("inf")


class Count(IntEnum):
    FIVE = 5


@pytest.mark.parametrize(
    ("extracted", "expected", "passes"),
    [
        (5, 5, True),
        (5, 5.0, True),
        (5, 6, False),
        ("5", 5, True),
        (" +5.0 ", 5, True),
        (".5", 0.5, True),
        ("1e3", 1000, True),
        ("5", "5.0", True),
        (-0.0, 0, True),
        (0.1, Decimal("0.1"), True),
        ("0.1", 0.1, True),
        (Count.FIVE, 5, True),
        (2**53 + 1, 2**53, False),
        (None, 0, False),
        (True, 1, False),
        (NAN, 0, False),
        (INF, 10**400, False),
        (Decimal("NaN"), 0, False),
        (Decimal("sNaN"), 0, False),
        ("", 0, False),
        ("1,200", 1200, False),
        ("3.5 %", 3.5, False),
        ("5 mg", 5, False),
        ("1_000", 1000, False),
        ("nan", 0, False),
        ("0x10", 16, False),
        ("\N{ARABIC-INDIC DIGIT ONE}", 1, False),
        ("1e99999999999999999999", 1, False),
        ([5], 5, False),
        ({"value": 5}, 5, False),
    ],
)
def test_numeric_exact(extracted, expected, passes):
    assert NumericExact().check(extracted, expected) is passes


def test_integers_of_any_length_are_compared_exactly():
    assert NumericExact().check(10**5000, 10**5000) is True
    assert NumericExact().check(10**5000 + 1, 10**5000) is False


@pytest.mark.parametrize(
    ("mode", "tolerance", "extracted", "expected", "passes"),
    [
        ("relative", 0.1, 5.5, 5, True),
        ("relative", 0.1, 5.51, 5, False),
        ("relative", 0.1, -5.5, -5, True),
        ("relative", 0.1, 1.1, 1, True),
        ("relative", 0.5, 0, 0, True),
        ("relative", 0.5, 1e-12, 0, False),
        ("relative", 0, 5, 5, True),
        ("absolute", 0.1, 1.1, 1, True),
        ("absolute", 0.1, 0.9, 1, True),
        ("absolute", 0.1, 1.1001, 1, False),
        ("absolute", 0.1, 0.1, 0, True),
        ("absolute", 1, 2**60 + 1, 2**60, True),
        ("absolute", 0, 2**60 + 1, 2**60, False),
        ("relative", 0.1, None, 0, False),
        ("absolute", 10, "1,2", 1, False),
        ("absolute", 1e308, INF, 1, False),
        ("absolute", 1e308, "1e999999999", 1, False),
        ("relative", 1e308, 1, "1e999999999999999", True),
        ("relative", 0.1, 1222222222222222222222222222221, 1111111111111111111111111111110, True),
        ("relative", 0.1, 1222222222222222222222222222222, 1111111111111111111111111111110, False),
    ],
)
def test_numeric_tolerance(mode, tolerance, extracted, expected, passes):
    assert NumericTolerance(tolerance=tolerance, mode=mode).check(extracted, expected) is passes


def test_a_tolerance_is_relative_unless_said():
    assert NumericTolerance(tolerance=0.1).check(109, 100)


@pytest.mark.parametrize(
    ("bounds", "extracted", "passes"),
    [
        ({"min": 1, "max": 10}, 1, True),
        ({"min": 1, "max": 10}, 10, True),
        ({"min": 1, "max": 10}, 0.999, False),
        ({"min": 1, "max": 10}, 10.001, False),
        ({"min": 1, "max": 10, "exclusive_min": True}, 1, False),
        ({"min": 1, "max": 10, "exclusive_max": True}, 10, False),
        ({"min": 1, "max": 10, "exclusive_max": True}, "9.99", True),
        ({"max": 10}, -1000, True),
        ({"min": 10}, 1e300, True),
        ({"min": 0.1, "max": 0.1}, "0.1", True),
        ({"min": 0}, None, False),
        ({"min": 0}, True, False),
        ({"min": 0}, INF, False),
        ({"min": 0}, NAN, False),
    ],
)
def test_numeric_range(bounds, extracted, passes):
    assert NumericRange(**bounds).check(extracted, "not looked at") is passes


@pytest.mark.parametrize(
    ("extracted", "exclusive", "minimum", "maximum"),
    [(10, False, True, True), (10, True, False, False), (11, True, True, False), (9, False, False, True)]
    + [(value, False, False, False) for value in (None, NAN, INF, True, "ten", [10])],
)
def test_numeric_minimum_and_maximum(extracted, exclusive, minimum, maximum):
    assert NumericMinimum(exclusive=exclusive).check(extracted, 10) is minimum
    assert NumericMaximum(exclusive=exclusive).check(extracted, 10) is maximum


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (NumericTolerance, {}),
        (NumericTolerance, {"tolerance": -0.1}),
        (NumericTolerance, {"tolerance": NAN}),
        (NumericTolerance, {"tolerance": INF}),
        (NumericTolerance, {"tolerance": True}),
        (NumericTolerance, {"tolerance": "0.1"}),
        (NumericTolerance, {"tolerance": 0.1, "mode": "percent"}),
        (NumericTolerance, {"tolerance": 0.1, "unknown": 1}),
        (NumericRange, {}),
        (NumericRange, {"min": 2, "max": 1}),
        (NumericRange, {"min": 1, "max": 1, "exclusive_max": True}),
        (NumericRange, {"min": -INF, "max": 1}),
        (NumericMinimum, {"exclusive": "perhaps"}),
    ],
)
def test_parameters_that_mean_nothing_are_refused(kind, parameters):
    with pytest.raises(ValidationError):
        kind(**parameters)


@pytest.mark.parametrize(
    "primitive", [NumericExact(), NumericTolerance(tolerance=1), NumericMinimum(), NumericMaximum()]
)
@pytest.mark.parametrize("expected", [None, True, NAN, INF, "1,200", "five", [5]])
def test_a_truth_that_is_no_number_is_the_authors_error(primitive, expected):
    with pytest.raises(ValueError, match="requires a finite number as the ground truth"):
        primitive.check_expected(expected)
    with pytest.raises(ValueError, match="requires a finite number"):
        primitive.check(None, expected)


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite, st.floats(0, 1e9))
def test_an_absolute_tolerance_is_symmetric(one, other, tolerance):
    primitive = NumericTolerance(tolerance=tolerance, mode="absolute")
    assert primitive.check(one, other) is primitive.check(other, one)


@given(finite, finite, st.floats(0, 10), st.floats(0, 10), st.sampled_from(["relative", "absolute"]))
def test_a_wider_tolerance_passes_no_less(extracted, expected, tolerance, more, mode):
    narrow = NumericTolerance(tolerance=tolerance, mode=mode).check(extracted, expected)
    assert NumericTolerance(tolerance=tolerance + more, mode=mode).check(extracted, expected) or not narrow


@given(finite | st.integers(), finite | st.integers())
def test_no_tolerance_is_exactness(extracted, expected):
    assert NumericTolerance(tolerance=0).check(extracted, expected) is NumericExact().check(extracted, expected)


@given(finite | st.integers())
def test_a_number_equals_its_text(number):
    assert NumericExact().check(repr(number), number)
