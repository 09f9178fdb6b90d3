"""Stages 2 to 4, each alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question
from karenina_core.models.ports import AgentReply, ErrorCategory, FinishReason, LLMReply, Message, PortError, ToolCall
from karenina_generation.auto_fail import RecursionLimitAutoFail, TraceValidationAutoFail
from karenina_generation.generate_answer import GenerateAnswer
from karenina_testing import ScriptedModels, StageRun, run_stage

CALL = ToolCall("c1", "look_up", {"gene": "BCL2"})
CONVERSATION = [
    Message.assistant("", [CALL]),
    Message.tool("it regulates apoptosis", CALL),
    Message.assistant("BCL2 regulates apoptosis."),
]
MCP = {"mcp_urls_dict": {"genes": "http://localhost:1/mcp"}}


def generate(models: ScriptedModels, answering: Mapping[str, Any] | None = None, **settings: Any) -> StageRun:
    question = Question(question="What does BCL2 do?", raw_answer="the truth that no model may see")
    return asyncio.run(run_stage(GenerateAnswer, question=question, models=models, answering=answering, **settings))


def test_a_plain_answer_is_kept_to_the_letter() -> None:
    said = "  ## Answer\n\n--- AI Message ---\nBCL2.\n "
    found = generate(ScriptedModels(say=lambda *_: said))
    assert found.artifact(Keys.RAW_LLM_RESPONSE) == said
    assert found.artifact(Keys.FINAL_AI_MESSAGE) == said
    assert found.artifact(Keys.TRACE_MESSAGES) == []


def test_reasoning_before_an_answer_is_kept_apart() -> None:
    models = ScriptedModels(say=lambda *_: "<think>TP53? No.</think>\n\nBCL2.")
    found = generate(models)
    assert found.artifact(Keys.RAW_LLM_RESPONSE) == found.artifact(Keys.FINAL_AI_MESSAGE) == "BCL2."
    assert [fields["reasoning"] for fields in found.state.fields.values()] == ["TP53? No."]


def test_reasoning_stays_in_the_answer_where_that_is_wanted() -> None:
    said = "<think>TP53? No.</think>\n\nBCL2."
    found = generate(ScriptedModels(say=lambda *_: said), strip_reasoning=False)
    assert found.artifact(Keys.RAW_LLM_RESPONSE) == said


def test_reasoning_of_an_agent_is_kept_in_its_trace() -> None:
    trace = [*CONVERSATION[:-1], Message.assistant("<think>Is that so?</think>BCL2 regulates apoptosis.")]
    found = generate(ScriptedModels(act=lambda *_: trace), MCP)
    assert found.artifact(Keys.FINAL_AI_MESSAGE) == "BCL2 regulates apoptosis."
    assert "Is that so?" not in found.artifact(Keys.RAW_LLM_RESPONSE)
    assert found.artifact(Keys.TRACE_MESSAGES)[-1].reasoning == "Is that so?"


def test_the_request_contains_the_question_without_help() -> None:
    models = ScriptedModels()
    generate(models, {"system_prompt": "Be brief."}, prompt_config={"generation": "Answer in English."})
    assert [(message.role, message.content) for message in models.requests[0].messages] == [
        ("system", "Be brief.\n\nAnswer in English."),
        ("user", "What does BCL2 do?"),
    ]


def test_without_a_system_prompt_there_is_no_system_message() -> None:
    models = ScriptedModels()
    generate(models)
    assert [message.role for message in models.requests[0].messages] == ["user"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_is_a_model_error(text: str) -> None:
    found = generate(ScriptedModels(say=lambda *_: text))
    assert found.error is not None
    assert found.error.outcome is Outcome.MODEL_ERROR
    assert "is empty" in found.error.message


def test_thoughts_that_took_all_tokens_leave_an_empty_answer() -> None:
    cut_off = LLMReply("<think>Is it TP53", finish_reason="length")
    found = generate(ScriptedModels(say=lambda *_: cut_off))
    assert (found.error, found.artifact(Keys.RAW_LLM_RESPONSE)) == (None, "")
    assert found.artifact(Keys.RESPONSE_TRUNCATED)


def test_parts_that_are_not_text_are_named_in_notes() -> None:
    said = LLMReply("BCL2.", notes=("a part of the unknown type 'hologram' is not in the text",))
    found = generate(ScriptedModels(say=lambda *_: said))
    assert [fields["notes"] for fields in found.state.fields.values()] == [list(said.notes)]


def test_the_guard_decides_about_an_agent_without_an_answer() -> None:
    trace = [*CONVERSATION[:-1], Message.assistant("")]
    found = generate(ScriptedModels(act=lambda *_: trace), MCP)
    assert found.error is None
    assert found.artifact(Keys.TRACE_MESSAGES) == trace
    assert guard(trace, MCP).vetoes


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_why_an_answer_ended_is_recorded(reason: FinishReason) -> None:
    found = generate(ScriptedModels(say=lambda *_: LLMReply("BCL2 is a", finish_reason=reason)))
    assert found.artifact(Keys.RESPONSE_TRUNCATED) is (reason == "length")
    assert found.artifact(Keys.RESPONSE_REFUSED) is (reason == "content_filter")
    vetoes = [(veto.reason, veto.outcome) for veto in found.vetoes]
    assert vetoes == ([("the provider stopped the answer", Outcome.ABSTAINED)] if reason == "content_filter" else [])


def test_a_filtered_reply_is_an_empty_answer() -> None:
    filtered = AgentReply((Message.assistant(""),), finish_reason="content_filter")
    plain = generate(ScriptedModels(say=lambda *_: LLMReply("", finish_reason="content_filter")))
    for found in (generate(ScriptedModels(act=lambda *_: filtered), MCP), plain):
        assert found.error is None
        assert found.artifact(Keys.FINAL_AI_MESSAGE) == ""
        assert found.artifact(Keys.RESPONSE_REFUSED) is True


def test_a_failed_call_is_a_model_error() -> None:
    def away(*_: object) -> str:
        raise PortError("no server at 127.0.0.1:1", category=ErrorCategory.PERMANENT)

    found = generate(ScriptedModels(say=away))
    assert found.error is not None
    assert found.error.outcome is Outcome.MODEL_ERROR
    assert "no server at 127.0.0.1:1" in found.error.message


def test_what_an_agent_did_before_its_call_failed_is_kept() -> None:
    def late(*_: object) -> AgentReply:
        done = AgentReply(tuple(CONVERSATION[:2]))
        raise PortError("did not end in time", category=ErrorCategory.TIMEOUT, partial=done)

    found = generate(ScriptedModels(act=late), MCP)
    assert found.error is not None
    assert found.error.outcome is Outcome.MODEL_ERROR
    assert found.artifact(Keys.TRACE_MESSAGES) == CONVERSATION[:2]


def test_a_model_with_mcp_servers_uses_the_agent_port() -> None:
    found = generate(ScriptedModels(act=lambda *_: CONVERSATION), MCP)
    assert found.artifact(Keys.TRACE_MESSAGES) == CONVERSATION
    assert found.artifact(Keys.FINAL_AI_MESSAGE) == "BCL2 regulates apoptosis."
    assert found.artifact(Keys.ANSWERING_MCP_SERVERS) == ["genes"]
    metrics = found.artifact(Keys.AGENT_METRICS)
    assert metrics is not None
    assert (metrics["iterations"], metrics["tool_calls"], metrics["tools_used"]) == (2, 1, ["look_up"])


def test_a_conversation_ending_on_a_tool_has_no_answer() -> None:
    found = generate(ScriptedModels(act=lambda *_: CONVERSATION[:2]), MCP)
    assert found.artifact(Keys.FINAL_AI_MESSAGE) is None


def test_the_turn_limit_keeps_the_partial_trace() -> None:
    found = generate(ScriptedModels(act=lambda *_: AgentReply(tuple(CONVERSATION[:2]), limit_reached=True)), MCP)
    assert found.artifact(Keys.RECURSION_LIMIT_REACHED) is True
    assert found.artifact(Keys.TRACE_MESSAGES) == CONVERSATION[:2]


@pytest.mark.parametrize(("reached", "vetoes"), [(True, 1), (False, 0), (None, 0)])
def test_the_turn_limit_vetoes(reached: bool | None, vetoes: int) -> None:
    artifacts = {Keys.RAW_LLM_RESPONSE: "x"} | ({} if reached is None else {Keys.RECURSION_LIMIT_REACHED: reached})
    found = asyncio.run(run_stage(RecursionLimitAutoFail, artifacts=artifacts))
    assert len(found.vetoes) == vetoes
    assert all("increase agent_max_turns for the model" in veto.reason for veto in found.vetoes)
    assert found.record.status == ("ran" if vetoes else "skipped")


def guard(trace: list[Message], answering: Mapping[str, Any], limit: bool = False) -> StageRun:
    artifacts = {
        Keys.RAW_LLM_RESPONSE: "x",
        Keys.TRACE_MESSAGES: trace,
        Keys.FINAL_AI_MESSAGE: None,
        Keys.RECURSION_LIMIT_REACHED: limit,
    }
    return asyncio.run(run_stage(TraceValidationAutoFail, artifacts=artifacts, answering=answering))


def test_a_trace_that_ends_in_an_answer_passes() -> None:
    found = guard(CONVERSATION, MCP)
    assert found.vetoes == []
    assert found.artifact(Keys.TRACE_VALIDATION_FAILED) is False


@pytest.mark.parametrize(
    "trace",
    [CONVERSATION[:1], CONVERSATION[:2], [*CONVERSATION, Message.user("thanks")], [Message.assistant("  ")], []],
    ids=["tool call", "tool result", "user", "blank", "empty"],
)
def test_a_trace_without_a_final_answer_is_vetoed(trace: list[Message]) -> None:
    found = guard(trace, MCP)
    assert found.artifact(Keys.TRACE_VALIDATION_FAILED) is True
    assert found.artifact(Keys.TRACE_VALIDATION_ERROR)
    assert found.field("trace_extraction_error") == found.artifact(Keys.TRACE_VALIDATION_ERROR)
    assert len(found.vetoes) == 1


@pytest.mark.parametrize(
    ("answering", "limit", "why"),
    [({}, False, "no MCP servers"), (MCP, True, "turn limit")],
)
def test_the_guard_skips_plain_answers_and_failed_agents(answering: Mapping[str, Any], limit: bool, why: str) -> None:
    found = guard([], answering, limit)
    assert found.record.status == "skipped"
    assert why in (found.record.reason or "")
