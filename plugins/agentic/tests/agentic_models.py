"""Helpers of the tests of this distribution: a template, and judges that inspect their folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question
from karenina_core.artifacts.artifact import AnyKey
from karenina_core.models.ports import AgentReply, CallInfo, Message
from karenina_template.question_template import template_of
from karenina_template.templates import BaseAnswer, ExactMatch, VerifiedField
from karenina_testing import ScriptedModels

TRUTH = "the-truth-4711"
ANSWER = "I wrote the code into the file, it is SECRET-ANSWER."

contexts = pytest.mark.parametrize(
    ("context", "answer_shown", "in_workspace"),
    [("workspace_only", False, True), ("trace_and_workspace", True, True), ("trace_only", True, False)],
)
"""The contexts of an agentic judge, each with what its agent then sees."""


class Answer(BaseAnswer):
    code: str = VerifiedField(description="The code.", ground_truth=TRUTH, verify_with=ExactMatch())


def question(**fields: Any) -> Question:
    return Question(question="Which code is in the file?", id="q1", answer_template=Answer, **fields)


def parsed_before(workspace: Path | None, answer: str = ANSWER, asked: Question | None = None) -> dict[AnyKey, object]:
    """Return the artifacts of the stages before slot 7."""
    template = template_of(asked or question())
    assert template is not None
    return {
        Keys.RAW_ANSWER_CLASS: template.answer_class,
        Keys.ANSWER_CLASS: template.for_question("q1"),
        Keys.RAW_LLM_RESPONSE: answer,
        Keys.FINAL_AI_MESSAGE: answer,
        Keys.TRACE_MESSAGES: [],
        Keys.WORKSPACE_PATH: workspace,
    }


@dataclass
class Looking:
    """Judges whose agent reports what `look` says about its folder, and whose parser fills the form with `found`."""

    look: Callable[[Path | None], str | AgentReply | Sequence[Message]] = lambda _: "The code is 42."
    found: Mapping[str, Any] | Callable[[Sequence[Message], Mapping[str, Any]], Any] = field(
        default_factory=lambda: {"code": "42"}
    )
    folders: list[Path | None] = field(default_factory=list)

    def models(self) -> ScriptedModels:
        models = ScriptedModels(fill=self._fill)

        def act(_messages: Sequence[Message], _info: CallInfo) -> Sequence[Message] | AgentReply:
            options = models.requests[-1].options
            assert options is not None
            self.folders.append(options.workspace)
            said = self.look(options.workspace)
            return [Message.assistant(said)] if isinstance(said, str) else said

        models.act = act
        return models

    def _fill(self, messages: Sequence[Message], schema: Mapping[str, Any], _info: CallInfo) -> Any:
        return self.found(messages, schema) if callable(self.found) else self.found
