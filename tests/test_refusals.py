"""Answers that the provider stopped are abstentions in every form, and are never parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from configured_runs import AGENT, ScriptedJudge, run_everything

from karenina import Outcome
from karenina_core.models.ports import AgentReply, LLMReply, Message


@pytest.mark.parametrize("settings", [{}, {"abstention_enabled": True}], ids=["check off", "check on"])
@pytest.mark.parametrize("answering", [{}, AGENT], ids=["llm", "agent"])
def test_an_answer_that_the_provider_stopped_is_abstained(
    settings: dict[str, Any], answering: dict[str, Any], tmp_path: Path
) -> None:
    stopped = LLMReply("It", finish_reason="content_filter")
    trace = AgentReply((Message.assistant("It"),), finish_reason="content_filter")
    seen = run_everything(tmp_path, settings, ScriptedJudge(), answering, said=stopped, trace=trace)
    result = seen.result
    assert result.outcome is Outcome.ABSTAINED
    assert "the provider stopped the answer" in result.why()
    assert "token limit" not in result.why()
    assert (result.template.response_refused, result.template.response_truncated) == (True, False)
    assert [request.info.task for request in seen.models.requests] == ["answer_generation"]
    assert len(result.vetoes) == 1
