"""The contracts of stages and primitives, checked for those of this distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question
from karenina_core.models.ports import CallInfo, Message
from karenina_template.parse_template import ParseTemplate
from karenina_template.templates import (
    DateMatch,
    ExactMatch,
    NumericTolerance,
    SetContainment,
    TraceContains,
    load_template,
)
from karenina_template.validate_template import ValidateTemplate
from karenina_template.verify_template import VerifyTemplate
from karenina_testing.contracts import ParseStageContract, PrimitiveContract, StageContract

pytestmark = pytest.mark.alone

GENE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="TRUTHGENE", verify_with=ExactMatch())
    year: int = VerifiedField(description="The year", ground_truth=198765, verify_with=NumericExact())
"""
BOUND = load_template(GENE).for_question("q1")
RESPONSE = "It is BCL2, found in 1985."
FILLED = {"gene": "BCL2", "year": 1985}


class Template:
    entry_point = "karenina_template:plugin"


class TestValidateTemplate(Template, StageContract):
    stage = ValidateTemplate
    artifacts = {}
    question = Question(question="Which gene?", answer_template=GENE)


class TestParseTemplate(Template, ParseStageContract):
    stage = ParseTemplate
    template = BOUND
    response = RESPONSE
    extracted = FILLED
    usual = True
    question = Question(question="Which gene?", answer_template=GENE, raw_answer="TRUTHRAW")
    skipped_with = {Keys.ABSTENTION_DETECTED: True, Keys.RECURSION_LIMIT_REACHED: True}

    def fill(self, messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Mapping[str, Any]:
        return FILLED


class TestVerifyTemplate(Template, StageContract):
    stage = VerifyTemplate
    artifacts = {
        Keys.ANSWER_CLASS: BOUND,
        Keys.PARSED_ANSWER: BOUND.bind(FILLED, RESPONSE),
        Keys.RAW_LLM_RESPONSE: RESPONSE,
    }
    skipped_with = {Keys.ABSTENTION_DETECTED: True}


class TestExactMatch(Template, PrimitiveContract):
    primitive = ExactMatch(normalize=["lowercase", "strip"])
    truths = ("BCL2", "Paris")
    bad_truths = (None,)
    passes = ((" bcl2", "BCL2"),)
    fails = (("BCL", "BCL2"), (2, "BCL2"))


class TestNumericTolerance(Template, PrimitiveContract):
    primitive = NumericTolerance(tolerance=0.5, mode="absolute")
    truths = (2016, -1.5)
    bad_truths = ("soon", None)
    passes = ((2016.4, 2016),)
    fails = ((2017, 2016), ("many", 2016))


class TestSetContainment(Template, PrimitiveContract):
    primitive = SetContainment(mode="superset")
    truths = (["a", "b"],)
    bad_truths = (3,)
    passes = ((["a", "b", "c"], ["a", "b"]),)
    fails = ((["a"], ["a", "b"]),)


class TestDateMatch(Template, PrimitiveContract):
    primitive = DateMatch()
    truths = ("2024-02-01", date(2024, 2, 1), "01/02/2024")
    bad_truths = ("February 2024", 3)
    passes = (("1 February 2024", "2024-02-01"),)
    fails = (("2024-02-02", "2024-02-01"), ("03/04/2024", "2024-02-01"))
    undecided = (("01/02/2024", "2024-02-01"), ("2/1/2024", date(2024, 2, 1)))


class TestTraceContains(Template, PrimitiveContract):
    primitive = TraceContains(substring="doi")
    responses = {"See doi:10.1000/182.": True, "See the paper.": False}
