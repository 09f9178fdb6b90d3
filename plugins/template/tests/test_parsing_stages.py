"""Parse stages of plugins that return something else than a filled template."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karenina_core import ArtifactKey, Outcome, Question, VerificationContext
from karenina_core import ArtifactKeys as Keys
from karenina_template.parsing_stage import ParsingStage
from karenina_template.templates import BoundTemplate, load_template
from karenina_template.templates.bound_template import PARSED_ANSWER
from karenina_testing import StageRun, run_stage

TEMPLATE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())
"""


def run(stage: type[ParsingStage]) -> StageRun:
    """Run a parse stage on an answer."""
    template = load_template(TEMPLATE).for_question("q1")
    artifacts: dict[ArtifactKey[Any], object] = {
        Keys.RAW_ANSWER_CLASS: template.answer_class,
        Keys.ANSWER_CLASS: template,
        Keys.RAW_LLM_RESPONSE: "It is BCL2.",
    }
    return asyncio.run(run_stage(stage, question=Question(question="Which gene?"), artifacts=artifacts))


@pytest.mark.parametrize("returned", [None, {"gene": "BCL2"}])
def test_a_stage_that_returns_no_template_is_named(returned: Any) -> None:
    class Careless(ParsingStage):
        name = "Careless"

        async def parse(self, *_: object) -> Any:
            return returned

    found = run(Careless)

    assert found.error is not None
    assert found.error.outcome is Outcome.PARSE_ERROR
    assert f"parse() returned {returned!r}, which is not a filled template" in found.error.message


def test_a_stage_may_veto_instead_of_filling_the_template() -> None:
    class Strict(ParsingStage):
        name = "Strict"

        async def parse(self, context: VerificationContext, bound: BoundTemplate, text: str) -> None:
            context.veto("the answer names no source")

    found = run(Strict)

    assert found.error is None
    assert [veto.reason for veto in found.vetoes] == ["the answer names no source"]
    filled = found.artifact(PARSED_ANSWER)
    assert filled is not None
    assert filled.model_dump() == {"gene": None}
