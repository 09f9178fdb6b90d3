"""Laws of all primitives: JSON round trips, registration, and no exception for any extracted value."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates.normalize import SynonymMap
from karenina_template.templates.primitives import (
    BooleanMatch,
    Choice,
    ContainsAll,
    ContainsAny,
    DateMatch,
    DateRange,
    DateTolerance,
    DuplicatePrimitive,
    ExactMatch,
    LiteralMatch,
    NumberWithUnit,
    NumericExact,
    NumericGraded,
    NumericMaximum,
    NumericMinimum,
    NumericRange,
    NumericRangeGraded,
    NumericThresholdGraded,
    NumericTolerance,
    OrderedMatch,
    Primitive,
    RegexMatch,
    SemanticMatch,
    SetContainment,
    TraceContains,
    TraceJSON,
    TraceLength,
    TraceRegex,
    Undecided,
    UnknownPrimitive,
    known_primitives,
    primitive_from_json,
    register_primitive,
)

number = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
size = st.integers(0, 10**6) | st.floats(0, 1e300)
positive = st.integers(1, 10**6) | st.floats(1e-300, 1e300)
mode = st.sampled_from(["relative", "absolute"])
decay = st.sampled_from(["linear", "quadratic"])
synonyms = st.dictionaries(st.text(), st.text(), min_size=1, max_size=3).map(lambda m: SynonymMap(mapping=m))
normalizers = st.lists(
    st.sampled_from(["lowercase", "strip", "remove_punctuation", "collapse_whitespace"]) | synonyms, max_size=3
)
words = st.lists(st.text("abc", min_size=1), min_size=1, max_size=3)
flags = st.lists(st.sampled_from(["IGNORECASE", "DOTALL", "MULTILINE"]))
bounds = st.tuples(number, number).filter(lambda pair: pair[0] != pair[1]).map(sorted)
days = st.tuples(st.dates(), st.dates()).map(sorted)

# for each primitive: its parameters, and truths it can have
PRIMITIVES = {
    BooleanMatch: (st.builds(BooleanMatch), st.booleans()),
    ExactMatch: (st.builds(ExactMatch, normalize=normalizers), st.text("abc", min_size=1)),
    ContainsAny: (st.builds(ContainsAny, substrings=words), st.none()),
    ContainsAll: (st.builds(ContainsAll, substrings=words), st.none()),
    RegexMatch: (st.builds(RegexMatch, pattern=st.sampled_from(["a", r"^\d+$"]), flags=flags), st.none()),
    LiteralMatch: (st.builds(LiteralMatch), st.text() | st.integers()),
    NumericExact: (st.builds(NumericExact), number),
    NumericTolerance: (st.builds(NumericTolerance, tolerance=size, mode=mode), number),
    NumericRange: (bounds.map(lambda b: NumericRange(min=b[0], max=b[1])), st.none()),
    NumericMinimum: (st.builds(NumericMinimum, exclusive=st.booleans()), number),
    NumericMaximum: (st.builds(NumericMaximum, exclusive=st.booleans()), number),
    NumericGraded: (st.builds(NumericGraded, cutoff=positive, mode=mode, decay=decay), number),
    NumericRangeGraded: (
        st.builds(
            lambda b, margin, mode, decay: NumericRangeGraded(
                min=b[0], max=b[1], margin=margin, mode=mode, decay=decay
            ),
            *(bounds, positive, mode, decay),
        ),
        st.none(),
    ),
    NumericThresholdGraded: (
        st.builds(
            NumericThresholdGraded,
            direction=st.sampled_from(["min", "max"]),
            margin=positive,
            mode=mode,
            decay=decay,
            exclusive=st.booleans(),
        ),
        number,
    ),
    NumberWithUnit: (
        st.builds(NumberWithUnit, unit=st.sampled_from([None, "mg", "people"]), decimal=st.sampled_from([".", ","])),
        st.builds(
            "{} {}".format,
            st.integers(-(10**9), 10**9) | st.decimals(-(10**6), 10**6, places=2),
            st.sampled_from(["", "mg", "%", "chromosomes", "km/h"]),
        ),
    ),
    Choice: (
        st.builds(
            Choice, options=st.just(["Lima", "Quito", "La Paz"]), unreadable=st.sampled_from(["wrong", "not_judged"])
        ),
        st.sampled_from(["A", "b", "Lima", "quito", "C"]),
    ),
    SetContainment: (
        st.builds(SetContainment, mode=st.sampled_from(["exact", "subset", "superset", "overlap"])),
        st.lists(st.text() | st.integers(), min_size=1),
    ),
    OrderedMatch: (st.builds(OrderedMatch, normalize=normalizers), st.lists(st.text())),
    DateMatch: (
        st.builds(DateMatch, format=st.sampled_from([None, "%d/%m/%Y", "%Y-%m-%d"])),
        st.dates(date(1000, 1, 1)),
    ),
    DateTolerance: (
        st.builds(DateTolerance, tolerance=st.integers(0, 999), unit=st.sampled_from(["days", "hours", "minutes"])),
        st.dates() | st.datetimes(),
    ),
    DateRange: (days.map(lambda d: DateRange(min=d[0], max=d[1])), st.none()),
    TraceRegex: (
        st.builds(TraceRegex, pattern=st.just("a+"), flags=flags, count_min=st.integers(1, 9)),
        st.booleans() | st.none(),
    ),
    TraceContains: (
        st.builds(TraceContains, substring=st.text(min_size=1), case_sensitive=st.booleans()),
        st.booleans() | st.none(),
    ),
    TraceJSON: (st.builds(TraceJSON, anywhere=st.booleans()), st.booleans() | st.none()),
    TraceLength: (
        st.builds(TraceLength, min=st.integers(0), unit=st.sampled_from(["chars", "words"])),
        st.booleans() | st.none(),
    ),
    SemanticMatch: (st.builds(SemanticMatch, threshold=st.floats(0.01, 1)), st.text("abc", min_size=1)),
}
GRADED = (NumericGraded, NumericRangeGraded, NumericThresholdGraded)

primitives = st.one_of([primitive for primitive, _ in PRIMITIVES.values()])
comparing = st.sampled_from(
    [kind for kind in PRIMITIVES if not kind.reads_trace and kind is not SemanticMatch]
).flatmap(lambda kind: st.tuples(*PRIMITIVES[kind]))


class Letter(Enum):
    A = "a"
    NOTHING = None


scalars = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.decimals(), st.text(), st.dates(), st.datetimes()),
    *(st.sampled_from(Letter), st.binary(), st.times(), st.timedeltas(), st.complex_numbers(), st.uuids()),
    st.sampled_from(
        [
            "1,200",
            "3.5 %",
            "1e999999999",
            "2024-01",
            "2024-01-15",
            "nan",
            "\N{ARABIC-INDIC DIGIT THREE}",
            "\ud800",
            object(),
        ]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=8,
)


def test_every_built_in_primitive_is_under_these_laws():
    built_in = {kind for kind in known_primitives().values() if kind.__module__.startswith("karenina_template.")}
    assert built_in == set(PRIMITIVES)


@given(primitives)
def test_every_primitive_comes_back_from_json(primitive):
    written = json.loads(json.dumps(primitive.to_json(), allow_nan=False))
    again = primitive_from_json(written)
    assert again == primitive
    assert again.to_json() == written
    assert hash(again) == hash(primitive)


@given(comparing, values)
def test_no_extracted_value_makes_a_primitive_raise(case, extracted):
    primitive, expected = case
    primitive.check_expected(expected)
    passed, score = primitive.check(extracted, expected), primitive.score(extracted, expected)
    assert isinstance(passed, bool | Undecided)
    assert 0.0 <= score <= 1.0
    if not isinstance(primitive, GRADED):
        assert score == float(passed is True)


def test_what_is_nested_too_deep_equals_nothing():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert LiteralMatch().check(deep, []) is False
    assert SetContainment(mode="superset").check([deep, "a"], ["a"]) is True


@given(comparing)
def test_nothing_never_passes(case):
    primitive, expected = case
    assert primitive.check(None, expected) is False
    assert primitive.score(None, expected) == 0.0
    assert primitive.check(Letter.NOTHING, expected) is False


@given(comparing)
def test_an_accepted_value_passes_and_a_changed_one_fails(case):
    primitive, expected = case
    changed = primitive.mutate(expected)
    if type(primitive) not in (ContainsAny, ContainsAll, RegexMatch, NumericRange, NumericRangeGraded, DateRange):
        assert primitive.check(primitive.accept(expected), expected) is True
    if changed is not None:
        assert primitive.check(changed, expected) is False
        assert primitive.score(changed, expected) == 0.0


def test_a_condition_that_accepts_everything_accepts_the_changed_value():
    assert RegexMatch(pattern=".*").check(RegexMatch(pattern=".*").mutate("BCL2"), "BCL2") is True


@pytest.mark.parametrize(
    ("primitive", "truth"),
    [
        (ExactMatch(), "something unrelated"),
        (ExactMatch(), 5),
        (LiteralMatch(), True),
        (NumericTolerance(tolerance=0.5), -20),
        (NumericMinimum(exclusive=True), 0.5),
        (NumericThresholdGraded(direction="min", margin=0.5, exclusive=True), 7),
        (SetContainment(), [1, 2]),
        (SetContainment(mode="superset"), ["a"]),
        (DateMatch(format="%d/%m/%Y"), "2024-01-15"),
        (DateMatch(), date.max),
        (DateTolerance(tolerance=3), "9999-12-30"),
        (DateRange(min="2024-01-01"), "2024-02-01"),
        (RegexMatch(pattern="BCL-?2"), "BCL-2"),
    ],
)
def test_the_changed_value_is_of_the_kind_of_the_truth(primitive, truth):
    assert primitive.check(primitive.accept(truth), truth) is True
    assert primitive.check(primitive.mutate(truth), truth) is False


def test_a_primitive_without_a_changed_value_has_none():
    assert TestPalindrome().mutate("level") is None
    assert TraceContains(substring="a").mutate(True) is None


@given(values, values)
def test_a_literal_equals_both_ways_and_itself(one, other):
    def check(extracted, expected):
        try:
            return LiteralMatch().check(extracted, expected)
        except ValueError:
            return None

    assert check(one, one) is not False
    if None not in (there := check(one, other), back := check(other, one)):
        assert there is back


def test_primitives_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        ExactMatch().normalize = []


def test_a_primitive_as_json():
    assert NumericTolerance(tolerance=0.1).to_json() == {
        "type": "NumericTolerance",
        "tolerance": 0.1,
        "mode": "relative",
    }
    assert ExactMatch(normalize=["strip", SynonymMap(mapping={"a": "b"})]).to_json() == {
        "type": "ExactMatch",
        "normalize": ["strip", {"type": "synonym_map", "mapping": {"a": "b"}}],
    }


def test_an_unknown_primitive_is_refused_with_the_nearest():
    with pytest.raises(
        UnknownPrimitive, match=r"unknown primitive 'NumericTolerence'; did you mean NumericTolerance\?"
    ):
        primitive_from_json({"type": "NumericTolerence", "tolerance": 0.1})


@pytest.mark.parametrize("data", [None, "ExactMatch", {}, {"type": 3}, {"type": None}, ["ExactMatch"]])
def test_json_that_is_no_primitive_is_refused(data):
    with pytest.raises(ValueError, match="a primitive must be"):
        primitive_from_json(data)


@pytest.mark.parametrize("parameters", [{}, {"tolerance": "x"}, {"tolerance": 1, "tolerence": 2}])
def test_wrong_parameters_in_json_are_named(parameters):
    with pytest.raises(ValueError, match="toler"):
        primitive_from_json({"type": "NumericTolerance", **parameters})


class TestPalindrome(Primitive):
    __test__ = False

    def check(self, extracted: object, expected: object) -> bool:
        return isinstance(extracted, str) and extracted == extracted[::-1]


def test_a_plugin_may_register_a_primitive():
    view = known_primitives()
    assert register_primitive(TestPalindrome) is TestPalindrome
    register_primitive(TestPalindrome)
    assert view["TestPalindrome"] is TestPalindrome
    assert primitive_from_json({"type": "TestPalindrome"}).check("level", None)


def test_two_primitives_of_one_name_are_an_error():
    class ExactMatch(Primitive):
        """Another primitive with the name of a built-in one."""

    with pytest.raises(DuplicatePrimitive) as caught:
        register_primitive(ExactMatch)
    assert caught.value.name == "ExactMatch"
    assert caught.value.modules == ("karenina_template.templates.primitives.text", __name__)


@pytest.mark.parametrize("candidate", [Primitive, object, "ExactMatch", BooleanMatch()])
def test_what_is_no_primitive_cannot_be_registered(candidate):
    with pytest.raises(TypeError, match="a primitive must be a subclass of Primitive"):
        register_primitive(candidate)


def test_dates_and_decimals_are_truths_too():
    assert NumericExact().check(0.1, Decimal("0.1"))
    assert DateMatch().check("15 January 2024", datetime(2024, 1, 15, 8))
