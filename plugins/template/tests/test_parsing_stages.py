"""Parse stages of plugins that return something else than a filled template."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question
from karenina_template.parsing_stage import ParsingStage
from karenina_template.templates import load_template
from karenina_testing import run_stage

TEMPLATE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())
"""


@pytest.mark.parametrize("returned", [None, {"gene": "BCL2"}])
def test_a_stage_that_returns_no_template_is_named(returned: Any) -> None:
    class Careless(ParsingStage):
        name = "Careless"

        async def parse(self, *_: object) -> Any:
            return returned

    template = load_template(TEMPLATE).for_question("q1")
    artifacts = {
        Keys.RAW_ANSWER_CLASS: template.answer_class,
        Keys.ANSWER_CLASS: template,
        Keys.RAW_LLM_RESPONSE: "It is BCL2.",
    }

    found = asyncio.run(run_stage(Careless, question=Question(question="Which gene?"), artifacts=artifacts))

    assert found.error is not None
    assert found.error.outcome is Outcome.PARSE_ERROR
    assert f"parse() returned {returned!r}, which is not a filled template" in found.error.message
