"""Judges that list rejected values first: which judges do so, and what they are asked."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, VerificationConfig, hookimpl
from karenina_core.data.trust import Trust
from karenina_core.plugins import Plugins, use_plugins
from karenina_template.parse_template import ParseTemplate
from karenina_template.templates import load_template
from karenina_testing import ScriptedModels, StageRun, run_stage

SOURCE = """
class Answer(BaseAnswer):
    {name}: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())
"""


class SmallJudges:
    @hookimpl
    def karenina_small_judges(self) -> list[Any]:
        return [lambda model: model.interface == "scripted"]


def parse(models: ScriptedModels, *plugins: object, name: str = "gene", **settings: Any) -> StageRun:
    template = load_template(SOURCE.format(name=name)).for_question("q1")
    artifacts = {
        Keys.RAW_ANSWER_CLASS: template.answer_class,
        Keys.ANSWER_CLASS: template,
        Keys.RAW_LLM_RESPONSE: "Many say TP53, which is wrong; it is BCL2.",
    }
    question = Question(question="Which gene?", raw_answer="BCL2")
    run = run_stage(ParseTemplate, question=question, artifacts=artifacts, models=models, plugins=plugins, **settings)
    return asyncio.run(run)


@pytest.mark.parametrize(
    ("plugins", "setting", "lists"),
    [((), None, False), ((SmallJudges(),), None, True), ((SmallJudges(),), False, False), ((), True, True)],
)
def test_small_judges_list_rejected_values_first(
    plugins: tuple[object, ...], setting: bool | None, lists: bool
) -> None:
    """A judge is small if a plugin says so; the setting decides in any case."""
    replies = {"rejected": ["TP53"], "gene": "BCL2"} if lists else {"gene": "BCL2"}
    models = ScriptedModels(fill=lambda *_: replies)

    found = parse(
        models, *plugins, list_rejected=setting, check_values=False, prompt_config={"parsing": "In capitals."}
    )

    (request,) = models.requests
    assert list(request.schema["properties"]) == (["rejected", "gene"] if lists else ["gene"])
    assert "In capitals." in request.text
    answer = found.artifact(Keys.PARSED_ANSWER)
    assert answer is not None
    assert answer.verify() is True
    assert found.field("parsing") == ({"rejected": ["TP53"]} if lists else None)


def test_a_templates_own_field_keeps_its_name() -> None:
    models = ScriptedModels(fill=lambda *_: {"rejected": "BCL2", "rejected_values": ["TP53"]})

    found = parse(models, name="rejected", list_rejected=True)

    answer = found.artifact(Keys.PARSED_ANSWER)
    assert answer is not None
    assert answer.verify() is True
    assert found.field("parsing")["rejected"] == ["TP53"]


WHETHER = """
class Answer(BaseAnswer):
    denied: bool = VerifiedField(description="Whether it is denied", ground_truth=False, verify_with=BooleanMatch())
"""


@pytest.mark.parametrize(("interface", "count"), [("scripted", 1), ("other", 0)])
def test_a_small_judge_with_a_boolean_field_is_one_warning(
    interface: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a judge often leaves the field empty, which counts as wrong."""
    questions = [
        Question(id=f"q{number}", question=f"Is it? {number}", raw_answer="No", answer_template=source)
        for number, source in enumerate((SOURCE.format(name="gene"), WHETHER, WHETHER, None))
    ]
    judge = {"id": "tiny", "interface": interface, "model_name": "tiny"}
    installed = Plugins()
    installed.register(SmallJudges())
    with use_plugins(installed), caplog.at_level(logging.WARNING):
        list(ParseTemplate().before_run(VerificationConfig(parsing_models=[judge]), questions, Trust.all()))

    assert len(caplog.messages) == count
    for message in caplog.messages:
        assert message.startswith(
            "yes-or-no fields are used in 2 of 4 templates, such as the template of question q1. A small judge (tiny)"
        )
        assert message.endswith("use a larger judge (-j)")
