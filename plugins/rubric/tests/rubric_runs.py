"""Run the stage alone, with judges that say by trait name what a test tells them to."""

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
    **more: Any,
) -> StageRun:
    """What the stage leaves behind for a question with these traits."""
    question = Question(question="What does BCL2 do?", rubric=traits or None, dynamic_rubric=dynamic)  # type: ignore[arg-type]  # a list of traits is accepted
    given = {Keys.RAW_LLM_RESPONSE: answer, **(artifacts or {})}
    return asyncio.run(
        run_stage(
            RubricEvaluation, question=question, artifacts=given, models=models, plugins=[plugin, *plugins], **more
        )
    )


def named_traits(schema: Mapping[str, Any]) -> list[str]:
    """The names under which a schema asks for judgements; empty for that of one trait alone."""
    names = list(schema["properties"])
    return [] if "score" in names else names


def judge(scores: Mapping[str, Any]) -> ScriptedModels:
    """A judge that gives each trait the same score in a batch and alone; the trait's name is read from the request."""

    def fill(messages: Sequence[Message], schema: Mapping[str, Any], _info: CallInfo) -> Mapping[str, Any]:
        named = named_traits(schema)
        if named:
            return {name: judgement(scores[name]) for name in named if name in scores}
        request = "".join(message.content for message in messages)
        (alone,) = [name for name in scores if f'- "{name}"' in request]
        return judgement(scores[alone])

    return ScriptedModels(fill=fill)


def judgement(value: Any) -> dict[str, Any]:
    """One judgement."""
    return {"reasoning": f"because of {value!r}", "score": value}


def scripted_replies(*said: Mapping[str, Any] | str | Callable[[], Any]) -> ScriptedModels:
    """A judge that says one thing after another; a function may raise."""
    left = iter(said)

    def fill(*_: object) -> Any:
        reply = next(left)
        return reply() if callable(reply) else reply

    return ScriptedModels(fill=fill)
