"""Templates that set the truth in `ground_truth(self)`, like those of the reference project."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_template.question_template import template_of
from karenina_template.templates import (
    BaseAnswer,
    ExactMatch,
    NumericExact,
    TemplateError,
    UntrustedTemplate,
    VerifiedField,
    load_template,
)
from karenina_template.templates.source.loading import template_of_class
from karenina_template.validate_template import ValidateTemplate
from karenina_template.verify_template import VerifyTemplate
from karenina_testing import StageRun, run_stage

CITY = '''
from pydantic import Field
from karenina.schemas.entities import BaseAnswer

class Answer(BaseAnswer):
    """The city that is named."""
    city: str = Field(description="The city that the response names")

    def ground_truth(self):
        self.correct = {"city": "Lyon"}

    def verify(self) -> bool:
        return self.city.strip().upper() == self.correct["city"].upper()
'''
TOLERANCE = """
class Answer(BaseAnswer):
    metres: float = Field(description="The height in metres")

    def ground_truth(self):
        self.correct = {"metres": 324.0}
        self.tolerance = 1.5

    def verify(self) -> bool:
        return abs(self.metres - self.correct["metres"]) <= self.tolerance
"""
PATTERNS = r"""
class Answer(BaseAnswer):
    year: str = Field(description="The year of the discovery")

    def ground_truth(self):
        self.correct = {"year": "1898"}
        self.regex = {
            "year": {"pattern": r"\b1898\b", "expected": "1898", "match_type": "exact"},
            "name": {"pattern": r"\b(Curie|Becquerel)\b", "expected": "Curie", "match_type": "contains"},
        }

    def verify(self) -> bool:
        return "1898" in self.year
"""
PATTERNS_ONLY = r"""
class Answer(BaseAnswer):
    def ground_truth(self):
        self.regex = {"sources": {"pattern": r"\[\d+\]", "expected": 2, "match_type": "count"}}
"""
CREDIT = """
from typing import Literal

class Answer(BaseAnswer):
    metal: str = Field(description="The metal")
    kind: Literal["pure", "alloy"] = Field(description="What it is")
    names_mine: bool = Field(description="Whether a mine is named")
    uses: list[str] = Field(description="What it is used for")

    def ground_truth(self):
        self.correct = {"metal": "brass", "kind": "alloy", "names_mine": False, "uses": {"locks", "bells"}}

    def _checks(self):
        return [
            self.metal.lower() == self.correct["metal"],
            self.kind == self.correct["kind"],
            self.names_mine == self.correct["names_mine"],
            {use.lower() for use in self.uses} == self.correct["uses"],
        ]

    def verify(self) -> bool:
        return all(self._checks())

    def verify_granular(self) -> float:
        return sum(self._checks()) / 4
"""


def verified(source: str, values: dict[str, Any], response: str = "") -> StageRun:
    bound = load_template(source, trust=Trust.all()).for_question("q1")
    artifacts = {
        Keys.ANSWER_CLASS: bound,
        Keys.PARSED_ANSWER: bound.bind(values, response),
        Keys.RAW_LLM_RESPONSE: response,
    }
    return asyncio.run(run_stage(VerifyTemplate, artifacts=artifacts))


def validated(source: str, trust: Trust | None = None, **fields: Any) -> StageRun:
    question = Question(question="Which?", answer_template=source, **fields)
    return asyncio.run(run_stage(ValidateTemplate, question=question, trust=trust or Trust.all()))


@pytest.mark.parametrize(
    ("source", "values", "response", "passes", "patterns"),
    [
        (CITY, {"city": " lyon"}, "", True, None),
        (CITY, {"city": "Paris"}, "", False, None),
        (TOLERANCE, {"metres": 325}, "", True, None),
        (TOLERANCE, {"metres": 326}, "", False, None),
        (PATTERNS, {"year": "1898"}, "Curie found it in 1898.", True, True),
        (PATTERNS, {"year": "1898"}, "Somebody found it in 1898.", True, False),
        (PATTERNS, {"year": "1899"}, "Curie found it in 1898.", False, True),
        (PATTERNS_ONLY, {}, "Bells [1] and locks [2].", True, True),
        (PATTERNS_ONLY, {}, "Bells [1] and locks.", True, False),
    ],
)
def test_what_ground_truth_sets_decides(
    source: str, values: dict[str, Any], response: str, passes: bool, patterns: bool | None
) -> None:
    assert validated(source).error is None
    found = verified(source, values, response)
    assert found.artifact(Keys.FIELD_VERIFICATION_ERROR) is None
    assert found.artifact(Keys.FIELD_VERIFICATION_RESULT) is passes
    assert found.artifact(Keys.REGEX_OVERALL_SUCCESS) is patterns


def test_partial_credit_compares_with_ground_truth() -> None:
    values = {"metal": "Brass", "kind": "pure", "names_mine": False, "uses": ["Bells", "locks"]}
    found = verified(CREDIT, values)
    assert found.artifact(Keys.FIELD_VERIFICATION_RESULT) is False
    assert found.artifact(Keys.VERIFY_GRANULAR_RESULT) == 0.75


def test_the_truth_is_known_but_not_shown() -> None:
    bound = load_template(CITY, trust=Trust.all()).for_question("q1")
    assert bound.expected() == {"city": "Lyon"}
    assert "Lyon" not in str(bound.judge_schema())


def test_patterns_alone_need_no_judge() -> None:
    assert load_template(PATTERNS_ONLY, trust=Trust.all()).for_question("q1").judge_fields == ()


class Titled(BaseAnswer):
    _seen: list[str] = []
    title: str

    def ground_truth(self) -> None:
        self.correct = {"title": "Emma"}
        self._seen.append("ground_truth")

    def model_post_init(self, _context: Any, /) -> None:
        self._seen.append("model_post_init")
        self.shown = self.correct["title"]


class Longer(Titled):
    pages: int = VerifiedField(description="Pages", ground_truth=474, verify_with=NumericExact())

    def ground_truth(self) -> None:
        self.correct = {"title": "Persuasion"}


def test_ground_truth_runs_before_the_class_own_post_init() -> None:
    answer = Titled(title="Emma")
    assert (answer._seen, answer.shown) == (["ground_truth", "model_post_init"], "Emma")


def test_a_subclass_may_have_another_ground_truth() -> None:
    assert Longer(title="x", pages=1).correct == {"title": "Persuasion"}


def test_a_field_may_be_named_ground_truth() -> None:
    source = "class Answer(BaseAnswer):\n    ground_truth: str = VerifiedField('d', 't', ExactMatch())\n"
    assert load_template(source).for_question("q1").bind({"ground_truth": "t"}).verify()


def test_ground_truth_of_an_untrusted_source_does_not_run(tmp_path: Path) -> None:
    written = tmp_path / "written"
    source = CITY.replace('"Lyon"}', f'open({str(written)!r}, "w").name}}')
    found = validated(source, Trust())
    assert found.error is not None
    assert "has the method ground_truth()" in found.error.message
    with pytest.raises(UntrustedTemplate):
        template_of(Question(question="Which?", answer_template=source))
    assert not written.exists()
    assert validated(source).error is None
    assert written.exists()


# ---- attributes, options and names


def test_a_template_may_set_attributes_of_its_own() -> None:
    answer = template_of_class(Titled).for_question("q1").bind({"title": "Emma"})
    assert isinstance(answer, Titled)
    answer.tolerance = 2  # type: ignore[attr-defined]
    assert (answer.shown, answer.tolerance) == ("Emma", 2)  # type: ignore[attr-defined]
    assert answer.model_dump() == {"title": "Emma"}


class Coin(BaseAnswer):
    metal: str = VerifiedField(
        "The metal", "copper", ExactMatch(), default="?", alias="m", max_length=9, json_schema_extra={"note": "n"}
    )
    year: int = VerifiedField("The year", 1900, NumericExact(), default_factory=int, ge=0)


def test_a_verified_field_takes_what_a_field_of_pydantic_takes() -> None:
    assert (Coin().metal, Coin(m="Copper").metal, Coin().year) == ("?", "Copper", 0)  # type: ignore[call-arg]
    bound = template_of_class(Coin).for_question("q1")
    assert bound.bind({"metal": "Copper", "year": 1900}).verify()
    assert bound.bind({"metal": None, "year": None}).model_dump() == {"metal": None, "year": None}
    assert bound.judge_schema()["properties"]["metal"]["anyOf"][0] == {"type": "string", "maxLength": 9}


def test_options_of_a_verified_field_are_declarations() -> None:
    source = (
        "class Answer(BaseAnswer):\n"
        "    metal: str = VerifiedField('d', 'tin', ExactMatch(), default='?', alias='m', max_length=9)\n"
        "    uses: list[str] = VerifiedField('u', ['a'], SetContainment(), default_factory=list)\n"
    )
    template = load_template(source)
    assert template.for_question("q1").bind({"metal": "tin", "uses": ["a"]}).verify()
    assert template.judge_schema()["properties"]["metal"]["anyOf"][0] == {"type": "string", "maxLength": 9}


@pytest.mark.parametrize("written", ["defualt='?'", "weigth=2"])
def test_an_option_that_a_field_lacks_names_the_nearest(written: str) -> None:
    source = f"class Answer(BaseAnswer):\n    x: str = VerifiedField('d', 't', ExactMatch(), {written})\n"
    with pytest.raises(TemplateError, match=r"has no parameter '\w+'; did you mean"):
        load_template(source)
    with pytest.raises(TemplateError, match=r"has no parameter '\w+'; did you mean"):
        eval(f"VerifiedField('d', 't', ExactMatch(), {written})")


def test_an_answer_knows_its_truths_without_a_question() -> None:
    assert Coin().correct == {"metal": "copper", "year": 1900}


def test_the_source_of_a_class_is_renamed_to_answer() -> None:
    source = template_of_class(Coin).source
    assert source.startswith("class Answer(BaseAnswer):\n")
    assert load_template(source).for_question("q1").expected() == {"metal": "copper", "year": 1900}


# ---- code that fails for every answer

BROKEN = """
class Answer(BaseAnswer):
    city: str = Field(description="d")

    def ground_truth(self):
        {truth}

    def verify(self):
        {verify}
"""
RIGHT = 'self.correct = {"city": "Lyon"}'


@pytest.mark.parametrize(
    ("truth", "says"),
    [
        ("self.correct = lyon", "creates an answer fails for every answer: NameError"),
        ("self.regex = {'a': {'patern': 'x'}}", "self.regex fails for every answer"),
        ("self.regex = {'a': '('}", "self.regex fails for every answer"),
    ],
)
def test_code_that_can_make_no_answer_is_an_error(truth: str, says: str) -> None:
    found = validated(BROKEN.format(truth=truth, verify="return True"))
    assert found.error is not None
    assert found.error.outcome is Outcome.TEMPLATE_ERROR
    assert says in found.error.message


@pytest.mark.parametrize(
    ("truth", "verify", "says"),
    [
        (
            RIGHT,
            'return self.city == self.correct["town"]',
            "verify() fails for every answer, including the ground truth",
        ),
        (RIGHT, "return self.city == self.right", "no attribute 'right'"),
        (RIGHT, "return self.city == Lyon", "name 'Lyon' is not defined"),
        (RIGHT, "return self._same('a', 'b')", "no attribute '_same'"),
        (RIGHT, "raise RuntimeError('not written yet')", "RuntimeError: not written yet"),
        ("self.corect = {'city': 'Lyon'}", 'return self.city == self.correct["city"]', "'NoneType' object"),
    ],
)
def test_a_verify_that_fails_for_every_answer_is_a_field_verification_error(
    truth: str, verify: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = BROKEN.format(truth=truth, verify=verify)
    assert validated(source).error is None
    question = Question(question="Which?", id="q1", answer_template=source)
    ValidateTemplate().before_run(VerificationConfig(), [question], Trust.all())
    assert "end with a field_verification_error: 'q1' (verify() fails for every answer" in caplog.text
    assert says in caplog.text


@pytest.mark.parametrize(
    ("truth", "verify"),
    [
        (RIGHT, "import datetime; return datetime.datetime.strptime(self.city, '%d %B') is not None"),
        (RIGHT, "import re; return re.match(r'Q\\d{4}X', self.city).group() == self.correct['city']"),
        (RIGHT, "return {'Lyons': 1}[self.city] == 1"),
        ("self.expected = 'Lyon'", "raise ValueError('no city') if len(self.city) < 99 else self"),
        ("self.expected = 'Lyon'", "return self.city.split()[4] == self.expected"),
        ("self.correct = {'q1': 'Lyon'}[self.id]", "return self.city == self.correct"),
    ],
)
def test_code_that_may_work_for_some_answer_is_accepted(truth: str, verify: str) -> None:
    assert validated(BROKEN.format(truth=truth, verify=verify), id="q1").error is None


def test_the_truth_itself_is_tried() -> None:
    source = BROKEN.format(truth=RIGHT, verify='return {"Lyon": 1}[self.city] == 1')
    assert validated(source).error is None


def test_keys_of_the_judges_choice_may_be_what_verify_needs() -> None:
    source = BROKEN.format(truth="self.wanted = 3", verify="return self.city['lyon'] == self.wanted")
    assert validated(source.replace("city: str", "city: dict[str, int]")).error is None


def test_broken_code_is_reported_before_the_run(caplog: pytest.LogCaptureFixture) -> None:
    source = BROKEN.format(truth=RIGHT, verify="return self.city == Lyon")
    questions = [Question(question="Which?", id="q1", answer_template=source), Question(question="b", id="q2")]
    stage = ValidateTemplate()
    config = VerificationConfig()
    assert [stage.checks_question(config, question) for question in questions] == [True, False]
    stage.before_run(config, questions[:1], Trust.all())
    assert "'q1' (verify() fails for every answer, including the ground truth: NameError" in caplog.text
