"""Primitives that read the raw response."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from karenina_template.templates.primitives import ExactMatch, TraceContains, TraceJSON, TraceLength, TraceRegex
from karenina_toolkit.patterns import PatternTimeout


@pytest.mark.parametrize(
    ("parameters", "text", "passes"),
    [
        ({"pattern": r"\[\d+\]"}, "see [1]", True),
        ({"pattern": r"\[\d+\]"}, "", False),
        ({"pattern": r"\[\d+\]", "count_min": 2}, "[1] [2] [3]", True),
        ({"pattern": r"\[\d+\]", "count_min": 3}, "[1] [2]", False),
        ({"pattern": r"\[\d+\]", "count_min": None}, "[1]", True),
        ({"pattern": "aa", "count_min": 2}, "aaa", False),
        ({"pattern": "a", "flags": ["IGNORECASE"]}, "A", True),
        ({"pattern": "a"}, "A", False),
    ],
)
def test_trace_regex(parameters, text, passes):
    assert TraceRegex(**parameters).check_trace(text) is passes


def test_a_search_without_end_is_stopped():
    with pytest.raises(PatternTimeout):
        TraceRegex(pattern=r"^(a|aa)+$").check_trace("a" * 60 + "b")


@pytest.mark.parametrize(
    ("parameters", "text", "passes"),
    [
        ({"substring": "Consult"}, "Consult a doctor", True),
        ({"substring": "consult"}, "Consult a doctor", False),
        ({"substring": "CONSULT", "case_sensitive": False}, "Consult a doctor", True),
        ({"substring": "."}, "no stop", False),
    ],
)
def test_trace_contains(parameters, text, passes):
    assert TraceContains(**parameters).check_trace(text) is passes


@pytest.mark.parametrize(
    ("parameters", "text", "passes"),
    [
        ({"min": 3}, "abc", True),
        ({"min": 4}, "abc", False),
        ({"max": 3}, "abc", True),
        ({"max": 2}, "abc", False),
        ({"max": 0}, "", True),
        ({"min": 3, "max": 3, "unit": "words"}, " three  words\nhere ", True),
        ({"min": 1, "unit": "words"}, "  ", False),
    ],
)
def test_trace_length(parameters, text, passes):
    assert TraceLength(**parameters).check_trace(text) is passes


@pytest.mark.parametrize(
    ("anywhere", "text", "passes"),
    [
        (False, ' {"city": "Lima"}\n', True),
        (False, "[1, 2]", True),
        (False, "7", True),
        (False, 'It is {"city": "Lima"}', False),
        (False, '{"city": "Lima"} as asked', False),
        (False, "{'city': 'Lima'}", False),
        (False, '{"share": NaN}', False),
        (False, "", False),
        (False, "[" * 100_000, False),
        (True, 'It is:\n```json\n{"city": "Lima"}\n```', True),
        (True, "see [note] and {x}, then [1]", True),
        (True, "see [note] and {x}", False),
        (True, "7", False),
        (True, "[" * 100_000, False),
    ],
)
def test_trace_json(anywhere, text, passes):
    assert TraceJSON(anywhere=anywhere).check_trace(text) is passes


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (TraceRegex, {"pattern": "["}),
        (TraceRegex, {"pattern": ""}),
        (TraceRegex, {"pattern": "a", "flags": ["NOPE"]}),
        (TraceRegex, {"pattern": "a", "count_min": 0}),
        (TraceContains, {"substring": ""}),
        (TraceLength, {}),
        (TraceLength, {"min": 2, "max": 1}),
        (TraceLength, {"min": -1}),
        (TraceLength, {"min": 1, "unit": "lines"}),
    ],
)
def test_parameters_that_mean_nothing_are_refused(kind, parameters):
    with pytest.raises(ValidationError):
        kind(**parameters)


def test_a_trace_primitive_reads_the_response_and_others_compare_values():
    primitive = TraceContains(substring="a")
    assert primitive.reads_trace
    assert not ExactMatch().reads_trace
    with pytest.raises(TypeError, match="TraceContains does not compare values"):
        primitive.check("a", "a")
    with pytest.raises(TypeError, match="ExactMatch compares values"):
        ExactMatch().check_trace("a")


@pytest.mark.parametrize("expected", ["true", 1, []])
def test_the_truth_says_whether_the_response_should_have_it(expected):
    primitive = TraceContains(substring="a")
    for fine in (True, False, None):
        primitive.check_expected(fine)
    with pytest.raises(ValueError, match="requires True or False"):
        primitive.check_expected(expected)
