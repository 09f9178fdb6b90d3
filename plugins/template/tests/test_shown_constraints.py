"""Constraints that may reveal the truth: they are not shown to a judge, and not applied to its values."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from typing_extensions import TypeAliasType, TypedDict

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, VerificationConfig
from karenina_core.data.trust import NO_TRUST
from karenina_template.parse_template import ParseTemplate
from karenina_template.templates import (
    BaseAnswer,
    BoundTemplate,
    ExactMatch,
    LiteralMatch,
    VerifiedField,
    load_template,
)
from karenina_template.templates.self_check import find_flaws
from karenina_template.templates.shapes.open_fields import leaves_one_value
from karenina_template.templates.source.loading import template_of_class
from karenina_template.validate_template import ValidateTemplate
from karenina_testing import ScriptedModels, run_stage

CLASSES = """
class One(StrEnum):
    A = "ZQX4711"

class Twice(StrEnum):
    A = "ZQX4711"
    B = "ZQX4711"

class Drug(BaseModel):
    name: Literal["ZQX4711"] = Field(description="The name")
    dose: int = Field(description="The dose", ge=4711, le=4711)
    code: str = Field("-", description="The code", pattern="^ZQX4711$")
    label: Literal["ZQX4711"] | int = Field(description="The label")
    parts: int = Field(description="Its parts", multiple_of=4711)

class Kit(BaseModel):
    drugs: list[Drug] = Field(description="The drugs")

"""
DRUG = {"name": "ZQX4711", "dose": 4711, "code": "ZQX4711", "label": "ZQX4711", "parts": 4711}
OTHER = {"name": "MCL1", "dose": 3, "code": "MCL1", "label": "MCL1", "parts": 1}
TELLING: Mapping[str, tuple[str, Any, Any]] = {
    "equal bounds": ("int = VerifiedField('It', 4711, NumericExact(), ge=4711, le=4711)", 4711, 12),
    "equal bounds of numbers": ("float = VerifiedField('It', 4711.5, NumericExact(), ge=4711.5, le=4711.5)", 4711.5, 1),
    "exclusive bounds": ("int = VerifiedField('It', 4711, NumericExact(), gt=4710, lt=4712)", 4711, 12),
    "one multiple": ("int = VerifiedField('It', 4711, NumericExact(), gt=0, le=5000, multiple_of=4711)", 4711, 12),
    "a multiple": ("int = VerifiedField('It', 4711, NumericExact(), multiple_of=4711)", 4711, 12),
    "a multiple between bounds": (
        "float = VerifiedField('It', 4711.0, NumericExact(), gt=0, le=9999, multiple_of=4711)",
        4711,
        12,
    ),
    "a pattern": ("str = VerifiedField('It', 'ZQX4711', ExactMatch(), pattern='^ZQX4711$')", "ZQX4711", "MCL1"),
    "a literal": ("Literal['ZQX4711'] = VerifiedField('It', 'ZQX4711', ExactMatch())", "ZQX4711", "MCL1"),
    "a literal or nothing": (
        "Literal['ZQX4711'] | None = VerifiedField('It', 'ZQX4711', ExactMatch())",
        "ZQX4711",
        "MCL1",
    ),
    "a literal of nothing or one value": (
        "Literal['ZQX4711', None] = VerifiedField('It', 'ZQX4711', ExactMatch())",
        "ZQX4711",
        "MCL1",
    ),
    "a literal or a number": (
        "Literal['ZQX4711'] | int = VerifiedField('It', 'ZQX4711', LiteralMatch())",
        "ZQX4711",
        5,
    ),
    "a literal or a text for a number": (
        "Literal[4711] | str = VerifiedField('It', 4711, LiteralMatch())",
        4711,
        "MCL1",
    ),
    "a literal or a text": (
        "Literal['ZQX4711'] | str = VerifiedField('It', 'ZQX4711', ExactMatch())",
        "ZQX4711",
        "MCL1",
    ),
    "a literal or a boolean": (
        "bool | Literal['ZQX4711'] | None = VerifiedField('It', 'ZQX4711', LiteralMatch())",
        "ZQX4711",
        "MCL1",
    ),
    "a literal or a list": (
        "Literal['ZQX4711'] | list[str] = VerifiedField('It', 'ZQX4711', LiteralMatch())",
        "ZQX4711",
        "MCL1",
    ),
    "a literal or an enumeration of one": (
        "Literal['QX4711'] | One = VerifiedField('It', 'QX4711', ExactMatch())",
        "QX4711",
        "MCL1",
    ),
    "a literal in a list of others": (
        "list[Literal['ZQX4711'] | int] = VerifiedField('It', ['ZQX4711'], SetContainment())",
        ["ZQX4711"],
        ["MCL1", 3],
    ),
    "a number and its text": ("Literal[4711, '4711'] = VerifiedField('It', 4711, LiteralMatch())", 4711, 12),
    "an enumeration with another name": (
        "Twice = VerifiedField('It', 'ZQX4711', ExactMatch())",
        "ZQX4711",
        "MCL1",
    ),
    "literals in a list": (
        "list[Literal['ZQX4711']] = VerifiedField('It', ['ZQX4711'], SetContainment())",
        ["ZQX4711"],
        ["MCL1"],
    ),
    "literals in a tuple": (
        "tuple[Literal['ZQX4711'], int] = VerifiedField('It', ('ZQX4711', 1), OrderedMatch())",
        ["ZQX4711", 1],
        ["MCL1", 1],
    ),
    "a literal as key": (
        "dict[Literal['ZQX4711'], int] = VerifiedField('It', {'ZQX4711': 1}, LiteralMatch())",
        {"ZQX4711": 1},
        {"MCL1": 1},
    ),
    "an enumeration": ("One = VerifiedField('It', 'ZQX4711', ExactMatch())", "ZQX4711", "MCL1"),
    "a model": (f"Drug = VerifiedField('It', {DRUG}, LiteralMatch())", DRUG, OTHER),
    "models in a model": (
        f"Kit = VerifiedField('It', {{'drugs': [{DRUG}]}}, LiteralMatch())",
        {"drugs": [DRUG]},
        {"drugs": [OTHER]},
    ),
    "equal dates": (
        "date = VerifiedField('It', '4711-04-11', DateMatch(), ge=date(4711, 4, 11), le=date(4711, 4, 11))",
        "4711-04-11",
        "2015-01-01",
    ),
}
SHOW = "json_schema_extra={'show_constraints': True}"


def bind(field: str) -> BoundTemplate:
    return load_template(f"{CLASSES}class Answer(BaseAnswer):\n    x: {field}\n").for_question("q")


def shown(bound: BoundTemplate) -> str:
    return json.dumps(bound.judge_schema())


@pytest.mark.parametrize("kind", TELLING)
def test_a_truth_in_a_constraint_is_not_shown(kind: str) -> None:
    bound = bind(TELLING[kind][0])
    assert "47" not in shown(bound)


@pytest.mark.parametrize("kind", TELLING)
def test_a_wrong_value_is_wrong_and_the_truth_is_right(kind: str) -> None:
    field, right, wrong = TELLING[kind]
    bound = bind(field)
    assert bound.bind({"x": wrong}).verify() is False
    assert bound.bind({"x": right}).verify() is True


@pytest.mark.parametrize("kind", TELLING)
def test_check_names_what_is_not_shown(kind: str) -> None:
    flaws = [flaw for flaw in find_flaws(bind(TELLING[kind][0])) if "is neither shown to the judge" in flaw.what]
    assert {(flaw.level, flaw.field) for flaw in flaws} == {("warning", "x")}
    assert len(flaws) == (5 if "model" in kind else 2 if "enumeration of one" in kind else 1)


def test_a_run_warns_of_what_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    question = Question(
        question="What?", answer_template=f"class Answer(BaseAnswer):\n    x: {TELLING['a pattern'][0]}"
    )
    ValidateTemplate().before_run(VerificationConfig(), [question], NO_TRUST)
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "x (a pattern)" in record.getMessage()


@pytest.mark.parametrize(
    "field",
    [
        f"int = VerifiedField('It', 4711, NumericExact(), ge=4711, le=4711, {SHOW})",
        f"str = VerifiedField('It', 'ZQX4711', ExactMatch(), pattern='^ZQX4711$', {SHOW})",
        f"Literal['ZQX4711'] = VerifiedField('It', 'ZQX4711', ExactMatch(), {SHOW})",
        f"list[Literal['ZQX4711']] = VerifiedField('It', ['ZQX4711'], SetContainment(), {SHOW})",
    ],
)
def test_the_author_may_show_a_constraint(field: str) -> None:
    bound = bind(field)
    assert "4711" in shown(bound)
    with pytest.raises(ValueError, match="4711"):
        bound.bind({"x": ["MCL1"] if "list" in field else 12 if field.startswith("int") else "MCL1"})


def test_a_field_that_is_shown_hides_the_models_in_it() -> None:
    bound = bind(f"Drug = VerifiedField('It', {DRUG}, LiteralMatch(), {SHOW})")
    assert "4711" not in shown(bound)
    assert bound.bind({"x": OTHER}).verify() is False


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ("int = VerifiedField('It', 3, NumericExact(), ge=1, le=5)", {"minimum": 1, "maximum": 5, "type": "integer"}),
        ("Literal['a', 'b'] = VerifiedField('It', 'a', ExactMatch())", {"enum": ["a", "b"], "type": "string"}),
        ("str = VerifiedField('It', 'ab', ExactMatch(), max_length=9)", {"maxLength": 9, "type": "string"}),
        ("float = VerifiedField('It', 2.5, NumericExact(), gt=2, lt=3)", None),
    ],
)
def test_constraints_that_leave_a_choice_are_shown(field: str, kept: dict[str, Any] | None) -> None:
    bound = bind(field)
    part = bound.judge_schema()["properties"]["x"]["anyOf"][0]
    assert part == (kept or {"exclusiveMinimum": 2, "exclusiveMaximum": 3, "type": "number"})
    assert not [flaw for flaw in find_flaws(bound) if "not shown" in flaw.what]
    with pytest.raises(ValueError, match="x"):
        bound.bind({"x": "much too long" if "str" in field or "Literal" in field else 99})


class Pill(BaseModel):
    kind: Literal["pill"]
    milligrams: float


class Drop(BaseModel):
    kind: Literal["drop"]
    millilitres: float


def test_literals_that_tell_models_apart_are_shown() -> None:
    class Answer(BaseAnswer):
        dose: Pill | Drop = VerifiedField("The dose", {"kind": "drop", "millilitres": 2.0}, LiteralMatch())
        other: Annotated[Pill | Drop, Field(discriminator="kind")] = Field(description="Another")
        beside: Literal["none"] | float = Field(description="A third", json_schema_extra={"show_constraints": True})

    bound = template_of_class(Answer).for_question("q")
    assert '"pill"' in shown(bound)
    assert '"drop"' in shown(bound)
    assert '"none"' in shown(bound)
    values = {"other": {"kind": "pill", "milligrams": 1}, "beside": "none"}
    assert bound.bind({"dose": {"kind": "drop", "millilitres": 2}, **values}).verify() is True
    assert bound.bind({"dose": {"kind": "pill", "milligrams": 2}, **values}).verify() is False


class Named(TypedDict):
    name: Literal["ZQX4711"]


class Chain(BaseModel):
    name: Literal["ZQX4711"]
    next: Chain | None = None


class ByHand(BaseAnswer):
    gene: Annotated[str, StringConstraints(to_upper=True, pattern="^ZQX4711$")] = VerifiedField(
        "The gene", "ZQX4711", ExactMatch()
    )
    again: str = VerifiedField("Again", "ZQX4711", ExactMatch(), json_schema_extra={"const": "ZQX4711"})
    drug: Pill | None = Field(None, description="The drug")


def test_a_class_of_python_hides_its_constraints_and_keeps_the_rest() -> None:
    bound = template_of_class(ByHand).for_question("q")
    assert "4711" not in shown(bound)
    answer = bound.bind({"gene": "mcl1", "again": "ZQX4711", "drug": {"kind": "tablet", "milligrams": 2}})
    assert isinstance(answer, ByHand)
    assert isinstance(answer.drug, Pill)
    assert (answer.gene, answer.drug.kind, answer.verify()) == ("MCL1", "tablet", False)


Gene = TypeAliasType("Gene", Literal["ZQX4711"])


class Unions(BaseAnswer):
    two: Annotated[Literal["a"], Field(description="One")] | Literal["b"] | int = VerifiedField(
        "It", "a", LiteralMatch()
    )
    one: Annotated[Literal["ZQX4711"] | int, Field(description="One")] | list[int] = VerifiedField(
        "It", "ZQX4711", LiteralMatch()
    )
    named: Gene = VerifiedField("It", "ZQX4711", LiteralMatch())
    either: Gene | Literal["QX4711"] | int = VerifiedField("It", "ZQX4711", LiteralMatch())
    extra: str = VerifiedField(
        "It", "a", ExactMatch(), json_schema_extra={"oneOf": [{"const": "ZQX4711"}, {"type": "integer"}]}
    )


def test_unions_in_unions_and_named_types_are_hidden_and_open() -> None:
    bound = template_of_class(Unions).for_question("q")
    assert '"a"' in shown(bound)
    assert '"b"' in shown(bound)
    assert "4711" not in shown(bound)
    values = {"two": "b", "one": "MCL1", "named": "MCL1", "either": "MCL1", "extra": "a"}
    assert bound.extracted(bound.bind(values)) == values
    with pytest.raises(ValueError, match="two"):
        bound.bind({**values, "two": "MCL1"})


class OfOthers(BaseAnswer):
    named: Named = Field(description="Named")
    chain: Chain = Field(description="A chain")
    day: date = VerifiedField("The day", date(4711, 4, 11), LiteralMatch(), ge=date(4711, 4, 11))


def test_what_stays_a_constraint_is_not_told_to_the_judge_either() -> None:
    bound = template_of_class(OfOthers).for_question("q")
    assert "4711" not in shown(bound)
    values = {"named": {"name": "MCL1"}, "chain": {"name": "MCL1", "next": None}, "day": "2015-01-01"}
    models = ScriptedModels(fill=lambda *_: values)
    artifacts = {Keys.RAW_ANSWER_CLASS: OfOthers, Keys.ANSWER_CLASS: bound, Keys.RAW_LLM_RESPONSE: "MCL1 in 2015"}
    question = Question(question="What?", raw_answer="unknown")
    found = asyncio.run(run_stage(ParseTemplate, question=question, artifacts=artifacts, models=models))
    first, second = models.requests
    assert "is not accepted" in second.text
    assert "4711" not in first.text + second.text
    assert found.error is not None
    assert "4711" in found.error.message, "the author reads the whole reason"


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (
            "int = VerifiedField('It', 4711, NumericExact(), le=4711)",
            "the bound of field 'x' contains the ground truth, '4711'",
        ),
        (
            f"Literal['ZQX4711'] | int = VerifiedField('It', 'ZQX4711', LiteralMatch(), {SHOW})",
            "the literal of field 'x'",
        ),
        (
            "Note = VerifiedField('It', {'text': 'ZQX4711'}, LiteralMatch())",
            "the description of 'text' in a model of field 'x'",
        ),
        (
            "Note = VerifiedField('It', {'text': 'Note'}, LiteralMatch())",
            "the name of the class 'Note' of field 'x' contains the ground truth, 'Note'",
        ),
        (
            "Bcl2Gene = VerifiedField('It', 'BCL2', ExactMatch())",
            "the name of the class 'Bcl2Gene' of field 'x' contains the ground truth, 'BCL2'",
        ),
        (
            "Box = VerifiedField('It', {'of': {'is_jane_austen': 'Jane Austen'}}, LiteralMatch())",
            "the name of 'is_jane_austen' in a model of 'of' in a model of field 'x' contains the ground truth, "
            "'Jane Austen'",
        ),
    ],
)
def test_check_names_a_truth_that_the_judge_sees(field: str, says: str) -> None:
    source = (
        "class Note(BaseModel):\n    text: str = Field(description='It, such as ZQX4711')\n\n"
        "class Bcl2Gene(StrEnum):\n    A = 'BCL2'\n    B = 'MCL1'\n\n"
        "class Writer(BaseModel):\n    is_jane_austen: str = Field(description='It')\n\n"
        "class Box(BaseModel):\n    of: Writer = Field(description='It')\n\n"
        f"class Answer(BaseAnswer):\n    x: {field}\n"
    )
    flaws = [flaw.what for flaw in find_flaws(load_template(source).for_question("q"))]
    assert [what for what in flaws if says in what], flaws


class Told(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"properties": {"gene": {"description": "such as ZQX4711"}, "zqx4711": {"type": "string"}}}
    )
    gene: str


class Telling(BaseAnswer):
    described: str = VerifiedField(
        "The gene", "ZQX4711", ExactMatch(), json_schema_extra={"description": "It is ZQX4711"}
    )
    formatted: Annotated[str, WithJsonSchema({"type": "string", "format": "ZQX4711"})] = Field(description="It")
    excluding: Annotated[str, WithJsonSchema({"not": {"const": "ZQX4711"}})] = Field(description="Another")
    repeated: Annotated[str, WithJsonSchema({"anyOf": [{"const": "ZQX4711"}, {"const": "ZQX4711"}]})] = Field(
        description="Once more"
    )
    told: Told = Field(description="A model")


def test_check_names_truths_that_code_of_a_class_shows() -> None:
    bound = template_of_class(Telling).for_question("q")
    found = [flaw.what.split(" contains")[0] for flaw in find_flaws(bound) if "contains the ground truth" in flaw.what]
    assert found == [
        "the description of field 'described'",
        "the format of field 'formatted'",
        "the exclusion of field 'excluding'",
        "the description of 'gene' in a model of field 'told'",
        "the name of 'zqx4711' in a model of field 'told'",
    ]
    assert bound.judge_schema()["properties"]["repeated"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_other_types_are_still_read_beside_a_hidden_literal() -> None:
    bound = bind("Literal['unclear'] | bool | float = VerifiedField('It', True, LiteralMatch())")
    read = [bound.extracted(bound.bind({"x": value}))["x"] for value in ("unclear", True, 2, "2.5", "MCL1")]
    assert read == ["unclear", True, 2, 2.5, "MCL1"]


@pytest.mark.parametrize(
    "type",
    [
        "Literal['a', 'b'] | int",
        "Literal['a'] | Literal['b'] | int",
        "Literal['a'] | Two",
    ],
)
def test_several_literals_beside_other_types_are_shown(type: str) -> None:
    source = (
        "class Two(StrEnum):\n    B = 'b'\n    C = 'c'\n\n"
        f"class Answer(BaseAnswer):\n    x: {type} = VerifiedField('It', 'a', LiteralMatch())\n"
    )
    bound = load_template(source).for_question("q")
    assert '"a"' in shown(bound)
    assert '"b"' in shown(bound)
    assert not [flaw for flaw in find_flaws(bound) if "not shown" in flaw.what]
    with pytest.raises(ValueError, match="x"):
        bound.bind({"x": "MCL1"})


@pytest.mark.parametrize("truth", [100, 3])
def test_a_scale_that_ends_at_the_truth_is_no_flaw(truth: int) -> None:
    bound = bind(f"int = VerifiedField('The percentage', {truth}, NumericExact(), ge=0, le=100)")
    assert not [flaw for flaw in find_flaws(bound) if "contains the ground truth" in flaw.what]


NUMBER = st.none() | st.integers(-20, 20)


@given(NUMBER, NUMBER, NUMBER, NUMBER, st.none() | st.integers(1, 9))
def test_bounds_leave_one_value_if_they_leave_one_of_all_numbers(
    low: int | None, high: int | None, above: int | None, below: int | None, step: int | None
) -> None:
    values = [value for value in range(-100, 100) if value % (step or 1) == 0]
    left = [
        value
        for value in values
        if (low is None or value >= low)
        and (high is None or value <= high)
        and (above is None or value > above)
        and (below is None or value < below)
    ]
    assert leaves_one_value((low, high, above, below), step or 1) is (len(left) <= 1)
