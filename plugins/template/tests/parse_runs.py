"""Runs of the parse stage with a scripted judge that looks twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from karenina_core import ArtifactKey, Question
from karenina_core import ArtifactKeys as Keys
from karenina_template.parse_template import ParseTemplate
from karenina_template.templates import load_template
from karenina_testing import ScriptedModels, StageRun, run_stage


def parse(
    judge: Callable[..., Any], response: str, source: str, asked: str, **settings: Any
) -> tuple[dict[str, Any], StageRun]:
    """Return the fields of the template `source` as `judge` filled them from `response`, and the stage's run."""
    template = load_template(source).for_question("q1")
    artifacts: dict[ArtifactKey[Any], object] = {
        Keys.RAW_ANSWER_CLASS: template.answer_class,
        Keys.ANSWER_CLASS: template,
        Keys.RAW_LLM_RESPONSE: response,
    }
    settings = {"list_rejected": True, "check_values": True, **settings}
    question, models = Question(question=asked, raw_answer="known"), ScriptedModels(fill=judge)
    found = asyncio.run(run_stage(ParseTemplate, question=question, artifacts=artifacts, models=models, **settings))
    assert found.error is None
    answer = found.artifact(Keys.PARSED_ANSWER)
    assert answer is not None
    return {name: getattr(answer, name) for name in template.judge_fields}, found
