"""Runs of the rubric stage alone, with scripted judges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question
from karenina_core.data.rubrics import RubricTrait
from karenina_core.models.ports import CallInfo, Message
from karenina_rubric import plugin
from karenina_rubric.evaluation import RubricEvaluation
from karenina_testing import ScriptedModels, StageRun, run_stage

ANSWER = "BCL2 blocks apoptosis. Please see doi:10.1000/182."


def score(
    *traits: RubricTrait,
    models: ScriptedModels | None = None,
    answer: str = ANSWER,
    dynamic: Sequence[RubricTrait] | None = None,
    artifacts: Mapping[Any, object] | None = None,
    plugins: Sequence[object] = (),
    raw_answer: str | None = None,
    **more: Any,
) -> StageRun:
    """Return the run of the stage for a question with these traits."""
    question = Question(
        question="What does BCL2 do?", raw_answer=raw_answer, rubric=traits or None, dynamic_rubric=dynamic
    )  # type: ignore[arg-type]  # a list of traits is accepted
    given = {Keys.RAW_LLM_RESPONSE: answer, **(artifacts or {})}
    return asyncio.run(
        run_stage(
            RubricEvaluation, question=question, artifacts=given, models=models, plugins=[plugin, *plugins], **more
        )
    )


def named_traits(schema: Mapping[str, Any]) -> list[str]:
    """Return the trait names in a schema; empty for the schema of one trait."""
    names = list(schema["properties"])
    return [] if "score" in names else names


def judge(scores: Mapping[str, Any]) -> ScriptedModels:
    """Return a judge that gives each trait the same score in a batch and alone, by the trait's name in the request."""

    def fill(messages: Sequence[Message], schema: Mapping[str, Any], _info: CallInfo) -> Mapping[str, Any]:
        named = named_traits(schema)
        if named:
            return {name: judgement(scores[name]) for name in named if name in scores}
        request = "".join(message.content for message in messages)
        (alone,) = [name for name in scores if f'- "{name}"' in request]
        return judgement(scores[alone])

    return ScriptedModels(fill=fill)


def judgement(value: Any) -> dict[str, Any]:
    """Return a judgement with this score."""
    return {"reasoning": f"because of {value!r}", "score": value}


def scripted_replies(*said: Mapping[str, Any] | str | Callable[[], Any]) -> ScriptedModels:
    """Return a judge with these replies in sequence; a function may raise."""
    left = iter(said)

    def fill(*_: object) -> Any:
        reply = next(left)
        return reply() if callable(reply) else reply

    return ScriptedModels(fill=fill)
