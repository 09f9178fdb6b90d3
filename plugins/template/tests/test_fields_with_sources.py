"""Fields with a source: no judge fills them, and they are compared with values that stages offer."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, VerificationConfig
from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import KnownValue
from karenina_core.data.trust import NO_TRUST
from karenina_core.errors import ConfigError
from karenina_core.stages.finalize import make_result
from karenina_template.question_template import known_values_of, template_of
from karenina_template.templates import (
    AnyOf,
    BaseAnswer,
    BoundTemplate,
    ExactMatch,
    NumericExact,
    NumericMaximum,
    SetContainment,
    TraceContains,
    Undecided,
    VerifiedField,
    load_template,
)
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.primitives import ReadingPrimitive, Unreadable
from karenina_template.templates.self_check import find_flaws
from karenina_template.templates.source.loading import template_of_class
from karenina_template.verify_template import VerifyTemplate
from karenina_testing import StageRun, run_stage


class Agent(BaseAnswer):
    gene: str = VerifiedField("The gene that is named.", ground_truth="BCL2", verify_with=ExactMatch())
    steps: int = VerifiedField(ground_truth=8, verify_with=NumericMaximum(), source="trace.steps")
    tools: list[str] = VerifiedField(
        ground_truth=["find"], verify_with=SetContainment(mode="superset"), source="trace.tools", weight=2.0
    )


class Either(Agent):
    class VerificationStrategy:
        verify_strategy = AnyOf("gene", "steps")


SOURCE = """
class Answer(BaseAnswer):
    steps: int = VerifiedField(source="trace.steps", ground_truth=8, verify_with=NumericMaximum())
"""


def bound(kind: type[BaseAnswer] = Agent) -> BoundTemplate:
    return template_of_class(kind).for_question("q1")


def known(steps: object = 3, tools: object = ("find", "refund")) -> dict[str, KnownValue]:
    values = {"trace.steps": steps, "trace.tools": list(tools) if isinstance(tools, tuple) else tools}
    return {name: value if isinstance(value, KnownValue) else KnownValue(value=value) for name, value in values.items()}


def verify(template: BoundTemplate, values: dict[str, KnownValue], gene: str | None = "BCL2") -> StageRun:
    """Return the run of the stage for a template that a judge has filled. Another stage has offered the values."""
    artifacts: dict[Any, object] = {
        Keys.ANSWER_CLASS: template,
        Keys.PARSED_ANSWER: template.bind({"gene": gene}, "said"),
        Keys.RAW_LLM_RESPONSE: "said",
    }

    class Offers(VerifyTemplate):
        name = "Offers"
        offers = {"trace.*": object}

        def execute(self, context: Any) -> Any:
            for name, value in values.items():
                context.offer_value(name, value.value, why=value.why, counts=value.counts)
            return super().execute(context)

    return asyncio.run(run_stage(Offers, question=Question(question="?", id="q1"), artifacts=artifacts))


def test_no_judge_sees_or_fills_a_field_with_a_source() -> None:
    template = bound()

    assert template.judge_fields == ("gene",)
    assert list(template.judge_schema()["properties"]) == ["gene"]
    assert "steps" not in str(template.judge_schema())
    assert template.sources == {"steps": "trace.steps", "tools": "trace.tools"}
    assert template.extracted(template.bind({"gene": "BCL2"})) == {"gene": "BCL2"}


def test_a_template_of_known_fields_needs_no_judge() -> None:
    template = load_template(SOURCE).for_question("q1")

    assert template.judge_fields == ()
    assert template.judge_schema()["properties"] == {}


def test_a_field_without_its_value_is_none_and_undecided() -> None:
    answer = bound().bind({"gene": "BCL2"})

    assert (answer.steps, answer.field_results()["steps"]) == (None, None)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "values", "gene", "passed", "results"),
    [
        (Agent, known(), "BCL2", True, {"gene": True, "steps": True, "tools": True}),
        (Agent, known(steps=9), "BCL2", False, {"gene": True, "steps": False, "tools": True}),
        (Agent, known(tools=()), "BCL2", False, {"gene": True, "steps": True, "tools": False}),
        (Agent, known(), "TP53", False, {"gene": False, "steps": True, "tools": True}),
        (Agent, known(steps=KnownValue(why="lost")), "BCL2", None, {"gene": True, "steps": None, "tools": True}),
        (Agent, known(steps=KnownValue(why="lost")), "TP53", False, {"gene": False, "steps": None, "tools": True}),
        (
            Agent,
            known(steps=KnownValue(why="lost", counts="wrong")),
            "BCL2",
            False,
            {"gene": True, "steps": False, "tools": True},
        ),
        (Either, known(steps=KnownValue(why="lost")), "BCL2", True, {"gene": True, "steps": None, "tools": True}),
        (Either, known(steps=KnownValue(why="lost")), "TP53", None, {"gene": False, "steps": None, "tools": True}),
    ],
)
def test_verification_compares_the_offered_values(
    kind: type[Agent], values: dict[str, KnownValue], gene: str, passed: bool | None, results: dict[str, bool | None]
) -> None:
    found = verify(bound(kind), values, gene)

    assert found.error is None
    assert found.artifact(Keys.FIELD_VERIFICATION_RESULT) is passed
    assert found.artifact(Keys.FIELD_RESULTS) == results
    why = found.artifact(Keys.FIELD_VERIFICATION_ERROR)
    assert why == (None if passed is not None else "field steps: lost")


def test_a_value_that_no_stage_offered_is_undecided() -> None:
    found = verify(bound(), {"trace.tools": KnownValue(value=["find"])})

    assert found.artifact(Keys.FIELD_VERIFICATION_RESULT) is None
    assert found.artifact(Keys.FIELD_VERIFICATION_ERROR) == (
        "field steps: no stage has set the known value 'trace.steps' for this answer"
    )


def test_a_result_keeps_each_value_once_with_its_fields() -> None:
    found = verify(bound(), {**known(), "trace.cost": KnownValue(value=1)})
    template = make_result(found.state).template

    assert template.known_values == {
        "trace.steps": KnownValue(value=3, fields=["steps"]),
        "trace.tools": KnownValue(value=["find", "refund"], fields=["tools"]),
    }
    assert template.parsed_llm_response == {"gene": "BCL2"}
    assert template.parsed_gt_response == {"gene": "BCL2", "steps": 8, "tools": ["find"]}
    assert found.state.revisions == []


def test_weights_count_known_fields() -> None:
    assert verify(bound(), known(tools=())).artifact(Keys.VERIFY_GRANULAR_RESULT) == 0.5


@pytest.mark.parametrize(
    ("value", "passed"), [(8.0, True), ("8", True), ("eight", False), ([8], False), (True, False), ({}, False)]
)
def test_a_value_of_another_type_is_compared_as_it_is(value: object, passed: bool) -> None:
    found = verify(bound(), known(steps=value))

    assert found.artifact(Keys.FIELD_RESULTS) == {"gene": True, "steps": passed, "tools": True}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(_JSON, _JSON)
def test_no_value_makes_a_comparison_fail(steps: object, tools: object) -> None:
    answer = bound().bind({"gene": "BCL2"}, "", known(steps, tools))

    assert set(answer.field_results().values()) <= {True, False, None}
    assert answer.field_results()["gene"] is True


def test_an_unreadable_known_value_is_as_the_rule_says() -> None:
    class Number(ReadingPrimitive):
        def check(self, extracted: object, expected: object) -> bool | Undecided:
            return extracted == expected or Unreadable("it is no number")

    class Printed(BaseAnswer):
        out: str = VerifiedField(ground_truth="1", verify_with=Number(unreadable="wrong"), source="words.out")

    answer = bound(Printed).bind({}, "nothing of this", {"words.out": KnownValue(value="a traceback")})

    assert answer.verify() is False


class Ratio(BaseAnswer):
    """Code that reads a known value when the answer is created, and when it is verified."""

    done: int = VerifiedField(ground_truth=1, verify_with=NumericExact(), source="words.done")
    of: int = VerifiedField(ground_truth=1, verify_with=NumericExact(), source="words.all")

    def ground_truth(self) -> None:
        self.share = self.done / self.of if self.of else None

    def verify(self) -> bool | Undecided | None:
        return self.share == 0.5


def test_code_of_a_template_sees_known_values() -> None:
    values = {"words.done": KnownValue(value=1), "words.all": KnownValue(value=2)}

    assert bound(Ratio).bind({}, "", values).verify() is True
    assert bound(Ratio).bind({}).verify() is False


def test_values_that_violate_constraints_are_kept() -> None:
    class Small(BaseAnswer):
        steps: int = VerifiedField(ground_truth=3, verify_with=NumericMaximum(), source="trace.steps", le=4)

    answer = bound(Small).bind({}, "", known(steps=7))

    assert (answer.steps, answer.verify()) == (7, False)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"source": ""}, "source must be the name of a known value, such as 'trace.steps', not ''"),
        ({"source": 3}, "source must be the name of a known value"),
        ({"source": "a.b", "extraction_hint": "Look."}, "extraction_hint has no effect on a field with a source"),
        (
            {"source": "a.b", "verify_with": TraceContains(substring="a")},
            "TraceContains reads the response, so the field cannot have a source; use another primitive",
        ),
        ({"source": "a.b", "turn": 2}, "turn has no effect on a field that a.b fills, .* remove turn"),
        ({"source": "a.b", "turn": "last"}, "turn has no effect on a field that a.b fills"),
        ({"source": "a.b", "missing_turn": "wrong"}, "missing_turn has no effect on a field that a.b fills"),
    ],
)
def test_a_source_that_cannot_work_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TemplateError, match=says):
        VerifiedField(**{"ground_truth": 3, "verify_with": NumericExact(), **arguments})


def test_a_source_with_a_turn_is_refused_in_stored_templates() -> None:
    load_template(SOURCE)  # fills the cache of templates that differ only in literals
    with pytest.raises(TemplateError, match="turn has no effect on a field that"):
        load_template(SOURCE.replace('"trace.steps"', '"trace.steps", turn=2'))


def test_sources_are_loaded_alike_with_and_without_the_cache() -> None:
    texts = [
        SOURCE.replace("8", str(number)).replace("trace.steps", f"trace.{name}") for number, name in enumerate("abc")
    ]

    templates = [load_template(text) for text in texts]
    assert [template.key.sources() for template in templates] == [{"steps": f"trace.{name}"} for name in "abc"]
    assert [template.key.rules["steps"].truth for template in templates] == [0, 1, 2]


def test_a_class_and_its_source_have_the_same_sources() -> None:
    template = template_of_class(Agent)
    again = load_template(template.source)

    assert again.key == template.key
    assert again.shape.judge_fields == ("gene",)


@pytest.mark.parametrize(
    "source",
    [
        SOURCE,
        SOURCE + "    def verify(self):\n        return self.steps < 4\n",  # code that is not trusted
        SOURCE.replace('source="trace.steps"', "source = 'trace.steps'"),
    ],
)
def test_known_values_are_found_without_running_code(source: str) -> None:
    assert known_values_of(Question(question="?", answer_template=source)) == ("trace.steps",)


def test_templates_without_sources_have_no_known_values() -> None:
    assert known_values_of(Question(question="?")) == ()
    assert known_values_of(Question(question="?", answer_template="class Answer(: source=")) == ()
    assert known_values_of(Question(question="?", answer_template=Agent)) == ("trace.steps", "trace.tools")


@pytest.mark.parametrize("annotation", ["str", "bool"])
def test_a_type_that_no_value_fits_stops_the_run(annotation: str) -> None:
    truth = {"str": "'8'", "bool": "True"}[annotation]
    source = SOURCE.replace("int", annotation).replace("8", truth).replace("NumericMaximum", "ExactMatch")
    question = Question(question="?", id="q1", answer_template=source)
    stage, config = VerifyTemplate(), VerificationConfig()

    assert stage.checks_question(config, question)
    with pytest.raises(ConfigError, match=r"'steps' does not fit the known value 'trace\.steps', whose type is int"):
        list(stage.before_run(config, [question], NO_TRUST))


@pytest.mark.parametrize(
    ("field", "checked"),
    [
        ("source='trace.steps', ground_truth=8, verify_with=NumericExact()", True),
        ("ground_truth='a', verify_with=SemanticMatch()", True),
        ("description='not a SemanticMatch, no before_run', ground_truth='a', verify_with=ExactMatch()", False),
    ],
)
def test_a_loaded_template_is_checked_according_to_its_rules(field: str, checked: bool) -> None:
    kind = "int" if "source" in field else "str"
    source = f"class Answer(BaseAnswer):\n    it: {kind} = VerifiedField({field})\n"
    question = Question(question="?", id="q1", answer_template=source)
    stage, config = VerifyTemplate(), VerificationConfig()

    assert stage.checks_question(config, question)  # its text contains a name that may need a check
    template_of(question)
    assert stage.checks_question(config, question) is checked


class Fitting(BaseAnswer):
    cost: float = VerifiedField(ground_truth=1, verify_with=NumericMaximum(), source="answer.words")
    ended: Literal["a", "b"] = VerifiedField(ground_truth="a", verify_with=ExactMatch(), source="answer.text")
    other: Any = VerifiedField(ground_truth="a", verify_with=ExactMatch(), source="trace.steps")


def test_types_that_may_fit_are_accepted() -> None:
    assert [template_of_class(Fitting).why_unfit(name) for name in ("cost", "ended", "other")] == [None] * 3


def test_truths_of_known_fields_are_checked_but_not_hidden_from_judges() -> None:
    class Named(BaseAnswer):
        gene: str = VerifiedField("The gene, not the tool find_order.", ground_truth="BCL2", verify_with=ExactMatch())
        tool: str = VerifiedField(ground_truth="find_order", verify_with=ExactMatch(), source="answer.text")
        tools: list[str] = VerifiedField(ground_truth=["a"], verify_with=SetContainment(), source="trace.tools")

    assert [flaw.what for flaw in find_flaws(bound(Named), "Which?")] == []


def test_an_own_verify_is_checked_with_known_values() -> None:
    class Own(Agent):
        def verify(self) -> bool | Undecided | None:
            return self.gene == "BCL2" and self.steps is not None and self.steps > 8

    whats = [flaw.what for flaw in find_flaws(bound(Own), "Which?")]
    assert "verify() does not accept the ground truth" in whats


def test_undecided_known_fields_leave_an_item_undecided() -> None:
    result = make_result(verify(bound(), known(steps=KnownValue(why="lost"))).state)

    assert result.outcome is Outcome.UNDECIDED
    assert result.why() == "field steps: lost"


class Numbers(BaseAnswer):
    base: list[int] = VerifiedField(
        source="trace.arguments.area.base", ground_truth=[10, 1], verify_with=SetContainment(mode="subset")
    )
    height: list[float] = VerifiedField(
        source="trace.arguments.area.height", ground_truth=[5], verify_with=SetContainment()
    )


@pytest.mark.parametrize(
    ("base", "height", "results"),
    [
        ([10], [5.0], {"base": True, "height": True}),
        ([10.0], [5], {"base": True, "height": True}),
        (["10"], ["5"], {"base": False, "height": False}),
        ([True], [None], {"base": False, "height": False}),
    ],
)
def test_texts_in_a_known_list_are_no_numbers(base: object, height: object, results: dict[str, bool]) -> None:
    values = {"base": base, "height": height}
    known = {f"trace.arguments.area.{name}": KnownValue(value=value) for name, value in values.items()}
    assert bound(Numbers).bind({}, "said", known).field_results() == results
