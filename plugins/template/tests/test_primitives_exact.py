"""Numbers are compared exactly: against fractions, and from a judge's JSON to the verdict."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from karenina_benchmark import Benchmark
from karenina_template.templates import load_template, primitives
from karenina_toolkit.structured import read_object

floats = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.builds(
    lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=90).map(tuple),
    st.integers(-150, 150),
)
near = st.builds(lambda power, more: 10**power + more, st.integers(15, 120), st.integers(-3, 3))
numbers = st.integers() | floats | decimals | near
parameters = st.integers(0, 10**90) | st.floats(0, allow_infinity=False) | near
positive = parameters.filter(lambda number: number > 0)
modes = st.sampled_from(["relative", "absolute"])


def fraction(number: int | float | Decimal) -> Fraction:
    """Return the number that a person wrote; for a float, its shortest decimal."""
    return Fraction(Decimal(repr(number)) if isinstance(number, float) else number)


def unit(mode: str, truth: Fraction) -> Fraction:
    return abs(truth) if mode == "relative" else Fraction(1)


@given(numbers, numbers, parameters, modes)
@example(10**20 + 5000, 10**20, 1, "absolute")
@example(10**70 + 5, 0, 10**70, "absolute")
@example(Decimal("1.") / 3, 0, 0.3, "absolute")
@example(0.4, 0.3, 0.1, "absolute")
@example(-(10**70) - 1, 10**70, 2, "relative")
def test_a_tolerance_agrees_with_fractions(number, truth, tolerance, mode):
    limit = fraction(tolerance) * unit(mode, fraction(truth))
    passes = abs(fraction(number) - fraction(truth)) <= limit
    assert primitives.NumericTolerance(tolerance=tolerance, mode=mode).check(number, truth) is passes
    assert primitives.NumericTolerance(tolerance=tolerance, mode=mode).check(str(number), str(truth)) is passes


@given(numbers, numbers)
@example(10**23, 1e23)
def test_bounds_agree_with_fractions(number, truth):
    one, other = fraction(number), fraction(truth)
    assert primitives.NumericExact().check(number, truth) is (one == other)
    assert primitives.NumericMinimum().check(number, truth) is (one >= other)
    assert primitives.NumericMinimum(exclusive=True).check(number, truth) is (one > other)
    assert primitives.NumericMaximum().check(number, truth) is (one <= other)
    assert primitives.NumericMaximum(exclusive=True).check(number, truth) is (one < other)


@given(numbers, st.integers() | floats | near, st.integers() | floats | near)
def test_a_range_agrees_with_fractions(number, one, other):
    low, high = sorted((one, other), key=fraction)
    passes = fraction(low) <= fraction(number) <= fraction(high)
    assert primitives.NumericRange(min=low, max=high).check(number, None) is passes


@given(numbers, numbers, positive, positive, modes, st.sampled_from(["linear", "quadratic"]))
@example(10**100 + 1, 0, 10**100, 10**100 + 2, "absolute", "linear")
def test_graded_credit_agrees_with_fractions(number, truth, one, other, mode, decay):
    full, cutoff = sorted((one, other), key=fraction)
    if fraction(full) == fraction(cutoff):
        return
    graded = primitives.NumericGraded(full_credit=full, cutoff=cutoff, mode=mode, decay=decay)
    start, end = (fraction(limit) * unit(mode, fraction(truth)) for limit in (full, cutoff))
    distance = abs(fraction(number) - fraction(truth))
    assert graded.check(number, truth) is (distance <= start)
    assert_credit(graded.score(number, truth), distance - start, end - start, decay)


@given(numbers, numbers, positive, modes, st.sampled_from(["min", "max"]))
def test_threshold_credit_agrees_with_fractions(number, truth, margin, mode, direction):
    graded = primitives.NumericThresholdGraded(direction=direction, margin=margin, mode=mode)
    short = fraction(truth) - fraction(number) if direction == "min" else fraction(number) - fraction(truth)
    assert graded.check(number, truth) is (short <= 0)
    assert_credit(graded.score(number, truth), short, fraction(margin) * unit(mode, fraction(truth)), "linear")


@given(numbers, st.integers() | near, st.integers() | near, positive)
def test_range_credit_agrees_with_fractions(number, one, other, margin):
    low, high = sorted((one, other))
    if low == high:
        return
    graded = primitives.NumericRangeGraded(min=low, max=high, margin=margin)
    excess = max(low - fraction(number), fraction(number) - high)
    assert graded.check(number, None) is (excess <= 0)
    assert_credit(graded.score(number, None), excess, fraction(margin), "linear")


def assert_credit(score: float, excess: Fraction, width: Fraction, decay: str) -> None:
    if excess <= 0:
        assert score == 1.0
    elif excess >= width:
        assert score == 0.0
    else:
        share = excess / width
        assert score < 1.0
        assert score == pytest.approx(float(1 - share * share if decay == "quadratic" else 1 - share), abs=1e-12)


@pytest.mark.parametrize(
    ("number", "truth", "tolerance", "mode", "passes"),
    [
        (Decimal("1E+1000000"), 5, 1, "absolute", False),
        (Decimal("2E+1000000"), Decimal("1E+1000000"), 1, "relative", True),
        (-1, Decimal("1E+1000000"), 1, "relative", False),
        (1, Decimal("1E+1000000"), 1, "relative", True),
        (Decimal("1E-1000000"), 0, 1e-300, "absolute", True),
        ("1e999999999", "1e-999999999", 1e308, "relative", False),
    ],
)
def test_huge_exponents_are_compared_exactly_at_once(number, truth, tolerance, mode, passes):
    """Written out, any of these numbers would fill gigabytes."""
    assert primitives.NumericTolerance(tolerance=tolerance, mode=mode).check(number, truth) is passes


JUDGED = [
    ("int", "100000000000000000000", "100000000000000005000", False),
    ("float", "100000000000000000000", "100000000000000005000", False),
    ("float", "1e20", "100000000000000005000", False),
    ("float", "1e20", "1e20", True),
    ("float", "100000000000000000000", "100000000000000000001", True),
    ("float", "9007199254740993", "9007199254740993", True),
    ("float", "9007199254740993", "9007199254740995", False),
    ("float | None", "100000000000000000000", "100000000000000005000", False),
    ("Decimal", "100000000000000000000", "100000000000000005000", False),
    ("Decimal", "Decimal('12345678901234567.89')", "12345678901234567.89", True),
    ("Decimal", "Decimal('12345678901234567.89')", "12345678901234569.89", False),
    ("float", "3.141592653589793", "3.14159265358979323846264338", True),
    ("float", "0.3", "0.4", True),
    ("float", "37", "36", True),
]


@pytest.mark.parametrize(("kind", "truth", "said", "passes"), JUDGED)
def test_no_digit_is_lost_between_the_reply_and_the_verdict(kind, truth, said, passes):
    tolerance = "0.1" if truth == "0.3" else "1"
    source = (
        "from decimal import Decimal\n"
        "from karenina_template.templates import BaseAnswer, NumericTolerance, VerifiedField\n"
        "class Answer(BaseAnswer):\n"
        f"    x: {kind} = VerifiedField(description='x', ground_truth={truth},\n"
        f"        verify_with=NumericTolerance(tolerance={tolerance}, mode='absolute'))\n"
    )
    values, _ = read_object(f'{{"x": {said}}}')
    assert load_template(source).for_question("q").bind(values).verify() is passes


def test_numbers_in_lists_keep_their_digits():
    source = (
        "from karenina_template.templates import BaseAnswer, SetContainment, VerifiedField\n"
        "class Answer(BaseAnswer):\n"
        "    x: list[float] = VerifiedField(description='x', ground_truth=[100000000000000000000, 2],\n"
        "        verify_with=SetContainment(mode='exact'))\n"
    )
    bound = load_template(source).for_question("q")
    assert bound.bind(read_object('{"x": [100000000000000000000, 2.0]}')[0]).verify() is True
    assert bound.bind(read_object('{"x": [100000000000000005000, 2.0]}')[0]).verify() is False


@pytest.mark.parametrize("ending", [".yaml", ".jsonld", ".jsonl"])
def test_a_truth_in_a_file_keeps_its_digits(tmp_path: Path, ending: str) -> None:
    answer = {"x": {"description": "x", "ground_truth": 10**20 + 5000, "type": "float", "verify_with": "NumericExact"}}
    written = tmp_path / "first.yaml"
    content = {"karenina": 1, "name": "N", "questions": [{"question": "Which?", "answer": answer}]}
    written.write_text(json.dumps(content), "utf-8")
    again = tmp_path / f"again{ending}"
    Benchmark.load(written).save(again)
    (question,) = Benchmark.load(again)
    assert question.answer_template is not None
    bound = load_template(question.answer_template).for_question("q")
    assert bound.bind({"x": 10**20 + 5000}).verify() is True
    assert bound.bind({"x": 10**20}).verify() is False
