"""Conversations with small models, which read only what is new in each turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import karenina_local
from karenina_conversation.converse import Converse
from karenina_core import Question
from karenina_core.artifacts.artifact import Slot
from karenina_core.models.model import ModelConfig
from karenina_testing import ScriptedModels, run_stage
from karenina_toolkit.conversations import CONVERSATION

TURNS = ["Are you sure?", "Which planet is the smallest?", "Name one more planet."]


class Local(ScriptedModels):
    """A model under test of this adapter."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def model(self, id: str = "scripted", **fields: Any) -> ModelConfig:
        if id != "answering":
            return super().model(id, **fields)
        extra = {"slots": 1, "context": 1024, "threads": 1}
        return ModelConfig(
            id=id, interface="local", model_name=str(self.file), temperature=0.0, max_tokens=12, extra=extra, **fields
        )


@pytest.mark.parametrize(
    "name", ["two_layers", *(pytest.param(name, marks=pytest.mark.release) for name in ("smollm2", "qwen"))]
)
def test_a_small_model_holds_a_conversation_of_four_turns(name: str, request: pytest.FixtureRequest) -> None:
    found = asyncio.run(
        run_stage(
            Converse,
            question=Question(question="Which planet is the largest?", extra={"turns": TURNS}),
            models=Local(request.getfixturevalue(name)),
            plugins=[karenina_local.plugin],
            slot=Slot.GENERATE_ANSWER,
        )
    )
    conversation, usage = found.artifact(CONVERSATION), found.state.usage["answer_generation"]

    assert found.error is None
    assert conversation is not None
    assert [turn.number for turn in conversation.taken] == [1, 2, 3, 4]
    assert all(turn.text.strip() for turn in conversation.taken)
    assert usage.calls == 4
    assert usage.cached_tokens > usage.input_tokens / 2, "each turn is evaluated once"
