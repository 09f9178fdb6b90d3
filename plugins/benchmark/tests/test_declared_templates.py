"""Templates of a file are the same whether they are loaded one by one or made from a form."""

from datetime import date
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_benchmark.declared_templates import declare_template
from karenina_benchmark.template_declarations import DeclarationError, make_template_source
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.source.loading import read_template

NUMBERS = count()
SPECIAL = ["2016-04-11", "12", "true", "it's", '"', "\\", "a\nb", "\ud800", ""]
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(SPECIAL))
WHOLE = st.one_of(st.integers(), st.sampled_from([0, 2**53 - 1, 2**53, 10**20]))
FRACTIONS = st.one_of(st.floats(allow_nan=False), st.sampled_from([-0.0, 1e300, 1e-7, 12.0]))
ANY = st.one_of(TEXTS, WHOLE, FRACTIONS, st.booleans(), st.none(), st.lists(TEXTS, max_size=2))
KINDS: list[tuple[dict[str, Any], st.SearchStrategy[Any], str, st.SearchStrategy[Any]]] = [
    ({"verify_with": "ExactMatch"}, TEXTS, "", ANY),
    ({"type": "str"}, ANY, "", ANY),
    ({"type": "int", "weight": 2}, WHOLE, "", ANY),
    ({"type": "float"}, st.one_of(WHOLE, FRACTIONS), "", ANY),
    ({"type": "bool"}, st.one_of(st.booleans(), TEXTS), "", ANY),
    ({"type": "date"}, TEXTS, "", ANY),
    ({}, ANY, "", ANY),
    ({"verify_with": {"type": "NumericTolerance"}}, st.one_of(WHOLE, FRACTIONS), "tolerance", FRACTIONS.map(abs)),
    ({"verify_with": {"type": "ContainsAny"}}, TEXTS, "substrings", st.lists(TEXTS, min_size=1, max_size=2)),
    ({"verify_with": {"type": "TraceContains"}}, st.sampled_from([True, False, None]), "substring", TEXTS),
    ({"verify_with": {"type": "RegexMatch"}}, TEXTS, "pattern", TEXTS),
    ({"type": "list[str]", "verify_with": {"type": "SetContainment"}}, st.lists(TEXTS), "mode", st.just("superset")),
]


@st.composite
def alike(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Declarations of one field, which differ in the values that a form leaves open."""
    fixed, truths, parameter, parameters = draw(st.sampled_from(KINDS))
    fields = []
    for _ in range(draw(st.integers(3, 6))):
        field = {**fixed, "description": draw(TEXTS), "ground_truth": draw(truths)}
        if parameter:
            field["verify_with"] = {**fixed["verify_with"], parameter: draw(parameters)}
        fields.append(field)
    return fields


def loaded_alone(fields: dict[str, Any], strategy: Any) -> tuple[object, ...]:
    try:
        source = make_template_source(fields, strategy)
        return source, read_template(source)
    except (DeclarationError, TemplateError) as error:
        return type(error), str(error)


def declared(fields: dict[str, Any], strategy: Any) -> tuple[object, ...]:
    try:
        return declare_template(fields, strategy)
    except (DeclarationError, TemplateError) as error:
        return type(error), str(error)


@given(fields=alike(), second=alike(), strategy=st.sampled_from([None, "a", {"any_of": ["a", "b"]}]))
def test_a_form_changes_no_template(
    fields: list[dict[str, Any]], second: list[dict[str, Any]], strategy: str | dict[str, Any] | None
) -> None:
    for field in (*fields, *fields):
        both = {"a": field, "b": second[0]} if isinstance(strategy, dict) else {"a": field}

        assert repr(declared(both, strategy)) == repr(loaded_alone(both, strategy))


@pytest.mark.parametrize(
    ("common", "other"),
    [
        *(("BCL2", value) for value in ("2016-04-11", "12", "5 mg", "it's", "a\nb", "\ud800", "", 12, True, None)),
        *((12, value) for value in (-12, 12.0, True, "12", 2**53 + 1, 10**400, None)),
        *((1.5, value) for value in (-0.0, 1e300, 1e-7, 2, float("inf"), float("nan"))),
        *((value, 1.5) for value in (-0.0, -1.5, 0.0)),
        *((value, "BCL2") for value in ("", "2016-04-11", "\ud800")),
        *((["BCL2", "MCL1"], value) for value in (["BCL2"], ["2016-04-11", "x"], ["BCL2", 1], [])),
    ],
)
@pytest.mark.parametrize("fixed", [{}, {"type": "float"}, {"verify_with": {"type": "NumericTolerance"}}])
def test_another_truth_is_loaded_as_alone(fixed: dict[str, Any], common: object, other: object) -> None:
    name = f"field_{next(NUMBERS)}"  # the form is that of this test alone
    for truth in (common, common, common, other, other):
        fields = {name: {**fixed, "description": "d", "ground_truth": truth}}

        assert repr(declared(fields, None)) == repr(loaded_alone(fields, None))


@pytest.mark.parametrize("kind", ["str", "int"])
@pytest.mark.parametrize("truths", [("12", "13", "x"), (12, 13, True), (date(2024, 1, 2), "2024-01-03", "x")])
def test_truths_of_another_type_are_loaded_alone(kind: str, truths: tuple[object, ...]) -> None:
    for truth in (*truths, *truths, *truths):
        fields = {"a": {"type": kind, "description": "d", "ground_truth": truth}}

        assert repr(declared(fields, None)) == repr(loaded_alone(fields, None))


def test_an_empty_description_is_left_out_as_alone() -> None:
    for description in ("d", "d", "d", "", ""):
        fields = {"steps": {"from": "trace.steps", "description": description, "ground_truth": 3}}

        assert repr(declared(fields, None)) == repr(loaded_alone(fields, None))
