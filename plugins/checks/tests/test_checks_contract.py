"""The contract of checks, for both stages of this distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from karenina_checks.answer_checks import AbstentionCheck, SufficiencyCheck
from karenina_core import ArtifactKeys as Keys
from karenina_core.models.ports import CallInfo, Message
from karenina_template.templates import load_template
from karenina_testing.contracts import CheckContract

pytestmark = pytest.mark.alone

GENE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="TRUTHGENE", verify_with=ExactMatch())
"""


class Check:
    entry_point = "karenina_checks:plugin"
    passing = "It is BCL2."
    failing = "I cannot answer that."

    def fill(self, messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Mapping[str, Any]:
        refuses = self.failing in messages[-1].content
        verdict = {"abstained": refuses, "sufficient": not refuses}
        return {"reasoning": "So it says."} | {name: verdict[name] for name in schema["properties"] if name in verdict}


class TestAbstention(Check, CheckContract):
    stage = AbstentionCheck
    settings = {"abstention_enabled": True}
    skipped_with = {Keys.RECURSION_LIMIT_REACHED: True}


class TestSufficiency(Check, CheckContract):
    stage = SufficiencyCheck
    settings = {"sufficiency_enabled": True}
    artifacts = {Keys.RAW_LLM_RESPONSE: "It is BCL2.", Keys.ANSWER_CLASS: load_template(GENE).for_question("q1")}
    skipped_with = {Keys.RECURSION_LIMIT_REACHED: True, Keys.ABSTENTION_DETECTED: True}
    truths = ("TRUTHGENE",)
