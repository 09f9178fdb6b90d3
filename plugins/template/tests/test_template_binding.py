"""Templates bound to a question: the judge's schema, and the conversion of its values."""

from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from karenina_template.templates import (
    BaseAnswer,
    BoundTemplate,
    ExactMatch,
    Template,
    TemplateError,
    TraceContains,
    VerifiedField,
    load_template,
)
from karenina_template.templates.source.loading import template_of_class


class Phase(Enum):
    """The author's note on phases."""

    ONE = "one"
    TWO = "two"


class Drug(BaseModel):
    """The author's note on drugs."""

    name: str = Field(description="Its name", examples=["aspirin"])
    dose: float = 7.25


class Classic(BaseAnswer):
    """The author's note: the answer is BCL2."""

    gene: str = Field(description="The gene", title="Secret title", examples=["BCL2"], min_length=2)
    phase: Phase
    drugs: list[Drug] = Field(default_factory=list, description="Drugs")
    when: date | None = Field(default=date(1999, 9, 9), description="When")
    level: Literal["low", "high"] = "high"
    amount: Decimal = Field(default=Decimal("77.5"), ge=0)
    notes: dict[str, int] = {}
    evidence: str = Field(description="The words that say so", json_schema_extra={"answer": "BCL2"})

    def model_post_init(self, context: Any, /) -> None:
        self.correct = {"gene": "BCL2", "phase": Phase.TWO, "when": date(2020, 1, 2)}
        self.regex = {"id": r"\bq\d\b"}

    def verify(self) -> bool:
        return self.gene == self.correct["gene"] and self.id == "q7"


FILLED: dict[str, object] = {
    "evidence": "so it is",
    "gene": "BCL2",
    "phase": "two",
    "drugs": [{"name": "x", "dose": 1}],
    "when": "2020-01-02",
    "level": "low",
    "amount": "1.50",
    "notes": {"a": 1},
}


def bound(answer: type[BaseAnswer], question: str = "q7") -> BoundTemplate:
    return template_of_class(answer).for_question(question)


def test_the_judge_sees_names_types_and_descriptions_and_nothing_else():
    nothing = {"type": "null"}
    assert bound(Classic).judge_schema() == {
        "type": "object",
        "properties": {
            "evidence": {"anyOf": [{"type": "string"}, nothing], "description": "The words that say so"},
            "gene": {"anyOf": [{"type": "string", "minLength": 2}, nothing], "description": "The gene"},
            "phase": {"anyOf": [{"$ref": "#/$defs/Phase"}, nothing]},
            "drugs": {
                "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Drug"}}, nothing],
                "description": "Drugs",
            },
            "when": {"anyOf": [{"type": "string", "format": "date"}, nothing], "description": "When"},
            "level": {"anyOf": [{"type": "string", "enum": ["low", "high"]}, nothing]},
            "amount": {
                "anyOf": [
                    {"type": "number", "minimum": 0},
                    {"type": "string"},
                    nothing,
                ]
            },
            "notes": {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, nothing]},
        },
        "required": ["evidence", "gene", "phase", "drugs", "when", "level", "amount", "notes"],
        "additionalProperties": False,
        "$defs": {
            "Phase": {"type": "string", "enum": ["one", "two"]},
            "Drug": {
                "type": "object",
                "properties": {"name": {"type": "string", "description": "Its name"}, "dose": {"type": "number"}},
                "required": ["name", "dose"],
                "additionalProperties": False,
            },
        },
    }


def test_a_schema_may_be_changed_by_who_gets_it():
    template = bound(Classic)
    template.judge_schema()["properties"].clear()
    assert "gene" in template.judge_schema()["properties"]


def test_fields_named_as_keywords_of_json_schema_are_fields():
    source = (
        "class N(BaseModel):\n    title: str\n    default: str\n    description: str\n    properties: str\n"
        "class Answer(BaseAnswer):\n    title: str = VerifiedField('d', 't', ExactMatch())\n"
        "    default: N\n    enum: int\n"
    )
    schema = load_template(source).for_question("q").judge_schema()
    assert list(schema["properties"]) == ["title", "default", "enum"]
    assert list(schema["$defs"]["N"]["properties"]) == ["title", "default", "description", "properties"]


@pytest.mark.parametrize("name", ["reasoning", "Rationale", "gene_evidence", "explanation"])
def test_reasons_come_before_what_they_are_for(name: str):
    source = f"class Answer(BaseAnswer):\n    x: str = VerifiedField('d', 't', ExactMatch())\n    {name}: str\n"
    assert load_template(source).for_question("q").judge_fields == (name, "x")


def test_values_are_read_as_json():
    answer = bound(Classic).bind(FILLED, "the response of q7")
    assert isinstance(answer, Classic)
    assert (answer.phase, answer.when, answer.amount) == (Phase.TWO, date(2020, 1, 2), Decimal("1.50"))
    assert answer.drugs == [Drug(name="x", dose=1)]
    assert answer.id == "q7"
    assert answer.verify()
    assert answer.verify_regex("the response of q7").overall_success


def test_nothing_found_is_none_whatever_the_annotation():
    answer = bound(Classic).bind(dict.fromkeys(FILLED))
    assert [getattr(answer, name) for name in FILLED] == [None] * len(FILLED)
    assert not answer.verify()


def test_validators_of_the_class_see_values_and_no_null():
    class Answer(BaseAnswer):
        gene: str

        @field_validator("gene")
        @classmethod
        def upper(cls, value: str) -> str:
            return value.upper()

        def verify(self) -> bool:
            return self.gene == "BCL2"

    assert bound(Answer).bind({"gene": "bcl2"}).verify()
    assert not bound(Answer).bind({"gene": None}).verify()


def test_all_that_is_wrong_with_values_is_said_at_once():
    with pytest.raises(ValidationError) as caught:
        bound(Classic).bind({**{k: v for k, v in FILLED.items() if k != "level"}, "gene": "B", "phase": "three"})
    assert {str(error["loc"][0]) for error in caught.value.errors()} == {"level", "gene", "phase"}
    assert "BCL2" not in str(caught.value)


@pytest.mark.parametrize("value", ["\ud800", object()])
def test_values_that_are_no_json_are_a_validation_error(value: object):
    with pytest.raises(ValidationError):
        bound(Classic).bind({**FILLED, "gene": value})


def test_a_judge_cannot_set_what_is_not_its_own():
    answer = bound(Classic).bind({**FILLED, "gene": "TP53", "correct": {"gene": "TP53"}, "id": "q1", "regex": {}})
    assert (answer.id, answer.correct["gene"], answer.verify()) == ("q7", "BCL2", False)


def test_aliases_are_for_the_classs_own_use():
    class Answer(BaseAnswer):
        model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=lambda name: f"its_{name}"))
        gene: str = Field(alias="Gene")

        def verify(self) -> bool:
            return self.gene == "BCL2"

    assert bound(Answer).judge_fields == ("gene",)
    assert bound(Answer).bind({"gene": "BCL2"}).verify()


def test_truth_and_extraction_are_given_as_json():
    template = bound(Classic)
    assert template.expected() == {"gene": "BCL2", "phase": "two", "when": "2020-01-02"}
    assert template.extracted(template.bind(FILLED)) == {**FILLED, "drugs": [{"name": "x", "dose": 1.0}]}


def test_an_answer_shows_its_truth_to_nobody_by_accident():
    class Answer(BaseAnswer):
        gene: str = VerifiedField("The gene", "BCL2", ExactMatch(), weight=9.75)

    answer = bound(Answer).bind({"gene": "TP53"})
    assert answer.correct == {"gene": "BCL2"}
    for shown in (repr(answer), str(answer), answer.model_dump_json(), str(Answer.model_json_schema())):
        assert "BCL2" not in shown
        assert "9.75" not in shown
        assert "__verification__" not in shown


def test_a_template_of_trace_fields_needs_no_judge():
    class Answer(BaseAnswer):
        cites: bool = VerifiedField("Cites", verify_with=TraceContains(substring="doi"))

    template = bound(Answer)
    assert template.judge_fields == ()
    assert template.judge_schema()["properties"] == {}
    assert template.bind({}, "see doi 1").verify()
    assert not template.bind({}, "see there").verify()
    assert template.extracted(template.bind({})) == {}


def test_a_class_from_a_file_has_its_source():
    class Answer(BaseAnswer):
        gene: str = VerifiedField("The gene", "BCL2", ExactMatch())

    source = template_of_class(Answer).source
    assert load_template(source).for_question("q7").expected() == {"gene": "BCL2"}


def two_of_a_name() -> list[type[BaseAnswer]]:
    class Answer(BaseAnswer):
        gene: str = VerifiedField("The gene", "BCL2", ExactMatch())

    first = Answer

    class Answer(BaseAnswer):  # type: ignore[no-redef]
        gene: str = VerifiedField("The gene", "TP53", ExactMatch())

    return [first, Answer]


def test_a_class_never_gets_the_source_of_its_namesake():
    found = []
    for template in map(template_of_class, two_of_a_name()):
        truth = template.for_question("q").expected()
        if template.own_source is not None:
            found.append(load_template(template.own_source).for_question("q").expected() == truth)
    assert found
    assert all(found)  # before Python 3.13, one of the two has no source: a class does not know its line there


def test_a_class_that_uses_outer_names_has_no_source():
    templates = []
    for truth in ("BCL2", "TP53"):

        class Answer(BaseAnswer):
            gene: str = VerifiedField("The gene", truth, ExactMatch())

        templates.append(template_of_class(Answer))
    assert templates[0].template_id != templates[1].template_id
    with pytest.raises(TemplateError, match="source of Answer is not available"):
        _ = templates[0].source


@pytest.mark.parametrize("given", [BaseAnswer, Drug, "class Answer", None])
def test_only_subclasses_are_templates(given: Any):
    with pytest.raises(TemplateError, match="subclass of BaseAnswer"):
        template_of_class(given)


def test_a_nested_model_verifies_nothing():
    class Inner(BaseModel):
        gene: str = VerifiedField("The gene", "BCL2", ExactMatch())

    class Answer(BaseAnswer):
        inner: Inner

        def verify(self) -> bool:
            return True

    with pytest.raises(TemplateError, match="nested model Inner"):
        template_of_class(Answer)


def test_an_annotation_that_no_schema_can_say_is_refused():
    class Answer(BaseAnswer):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        thing: Template

        def verify(self) -> bool:
            return True

    with pytest.raises(TemplateError, match="cannot be expressed in JSON Schema"):
        template_of_class(Answer)
