"""Conversations of other programs: what the page lists, what we export, and what a run makes of each shape."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina

from karenina_core.models.ports import CallInfo, Message, ToolCall
from karenina_core.plugins import Plugins
from karenina_engine.results.result_set import VerificationResultSet
from karenina_otel.attributes import input_messages
from karenina_testing import ScriptedModels
from karenina_toolkit.traces import convert_recording
from karenina_toolkit.traces.formats.registry import FORMATS
from karenina_toolkit.traces.recording import ENVELOPES

ROOT = Path(__file__).parents[1]
BENCHMARK = """karenina: 1
name: capitals
questions:
  - id: q1
    question: What is the capital of Ecuador?
    answer: {city: {description: The city that the response names, ground_truth: Quito, verify_with: ExactMatch}}
"""


def fill(messages: Sequence[Message], _schema: Mapping[str, Any], _info: CallInfo) -> dict[str, Any]:
    """Return the city that the judge is shown as the answer."""
    asked = messages[-1].content
    return {"city": "Quito" if "Quito." in asked and "Atlas" not in asked else asked}


def test_the_page_lists_every_format_and_object() -> None:
    page = (ROOT / "docs" / "how-to" / "conversations.md").read_text("utf-8")
    missing = [known.name for known in FORMATS if f"\n| {known.name} |" not in page]
    keys = [key.strip("' ") for known in ENVELOPES for key in known.keys.replace(" or ", ",").split(",")]
    assert missing + [key for key in keys if f"`{key}" not in page and f"{key}`" not in page] == []


def test_conversations_exported_to_opentelemetry_are_read_back() -> None:
    calls = [ToolCall("a", "open_atlas", {"page": 3}), ToolCall("b", "close", {})]
    trace = [
        Message.system("Be brief."),
        Message.user("Where?"),
        Message.assistant("I look.", calls, "Hmm."),
        Message.tool("Quito", calls[0]),
        Message.tool("", calls[1]),
        Message.assistant("It is Quito."),
    ]
    assert convert_recording({"attributes": {"gen_ai.input.messages": input_messages(trace)}}) == trace


CALL = {"toolUse": {"toolUseId": "a", "name": "open_atlas", "input": {}}}
FOUND = {"toolResult": {"toolUseId": "a", "content": [{"text": "Atlas: Quito"}]}}
RECORDINGS: dict[str, Any] = {
    "text": "Quito.",
    "chat completion": {
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "content": "Quito."}}],
    },
    "Bedrock": [
        {"role": "user", "content": [{"text": "Where?"}]},
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [FOUND]},
        {"role": "assistant", "content": [{"text": "Quito."}]},
    ],
    "AutoGen": {
        "messages": [
            {"type": "TextMessage", "source": "user", "content": "Where?"},
            {
                "type": "ToolCallRequestEvent",
                "source": "a",
                "content": [{"id": "a", "name": "open", "arguments": "{}"}],
            },
            {"type": "ToolCallExecutionEvent", "source": "a", "content": [{"call_id": "a", "content": "Atlas: Quito"}]},
            {"type": "TextMessage", "source": "a", "content": "Quito."},
        ],
        "stop_reason": None,
    },
}

CODEX = [
    {"type": "event_msg", "payload": {"type": "task_started"}},
    {"type": "response_item", "payload": {"type": "function_call", "name": "open", "arguments": "{}", "call_id": "a"}},
    {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "a", "output": "Atlas: Quito"}},
    {
        "type": "response_item",
        "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Quito."}]},
    },
    {"type": "event_msg", "payload": {"type": "task_complete", "last_agent_message": "Quito."}},
]
RECORDINGS["Codex"] = [{"type": "session_meta", "payload": {"id": "1"}}, *CODEX]
RECORDINGS["Gemini CLI"] = {
    "sessionId": "1",
    "projectHash": "2",
    "messages": [
        {"id": "1", "timestamp": "t", "type": "user", "content": "Where?"},
        {
            "id": "2",
            "timestamp": "t",
            "type": "gemini",
            "content": "",
            "toolCalls": [{"id": "a", "name": "open", "args": {}, "status": "success", "result": "Atlas: Quito"}],
        },
        {"id": "3", "timestamp": "t", "type": "gemini", "content": "Quito."},
    ],
}
RECORDINGS["Pydantic AI"] = [
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Where?"}]},
    {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "open", "tool_call_id": "a", "args": {}}]},
    {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_call_id": "a", "content": "Atlas: Quito"}]},
    {"kind": "response", "parts": [{"part_kind": "text", "content": "Quito."}]},
]
TOOLS = {"Bedrock": ["open_atlas"], **{name: ["open"] for name in ("AutoGen", "Codex", "Gemini CLI", "Pydantic AI")}}
ENDS: dict[str, tuple[Any, str]] = {
    "Codex, interrupted": (
        [*CODEX[:-1], {"type": "event_msg", "payload": {"type": "turn_aborted", "reason": "interrupted"}}],
        "model_error",
    ),
    "Codex, out of budget": (
        [*CODEX[:2], {"type": "event_msg", "payload": {"type": "turn_aborted", "reason": "budget_limited"}}],
        "truncated",
    ),
    "Codex, killed": (CODEX[:-1], "model_error"),
    "Gemini CLI, out of turns": (
        [
            {"type": "init", "session_id": "1", "model": "m"},
            {"type": "tool_use", "tool_id": "a", "tool_name": "open", "parameters": {}},
            {"type": "tool_result", "tool_id": "a", "status": "success", "output": "Atlas: Quito"},
            {"type": "result", "status": "error", "error": {"type": "FatalTurnLimitedError", "message": "limit"}},
        ],
        "auto_failed",
    ),
    "Pydantic AI, refused": (
        [{"kind": "response", "parts": [{"part_kind": "text", "content": "I"}], "finish_reason": "content_filter"}],
        "abstained",
    ),
    "mini-swe-agent, failed": (
        {"info": {"exit_status": "APIError"}, "messages": [], "trajectory_format": "mini-swe-agent-1.1"},
        "model_error",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_run_that_ended_early_is_no_wrong_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, outcome = ENDS[name]
    done = judge(recording, tmp_path, monkeypatch)
    (found,) = VerificationResultSet.load("capitals.results.jsonl")
    assert found.outcome.value == outcome, done.err


def judge(recording: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> CommandResult:
    """Judge a recording in a folder, with a judge that reads the city from the answer."""
    monkeypatch.chdir(folder)
    for variable in [variable for variable in os.environ if variable.startswith("KARENINA_")]:
        monkeypatch.delenv(variable)
    Path("capitals.yaml").write_text(BENCHMARK, "utf-8")
    Path("answers.jsonl").write_text(json.dumps({"id": "q1", "response": recording}), "utf-8")
    room = Plugins.discover()
    room.register(ScriptedModels(fill=fill))
    return run_karenina("run", "capitals.yaml", "--recordings", "answers.jsonl", "-j", "scripted:j", plugins=room)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_run_verifies_the_conversation_of_another_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = judge(RECORDINGS[name], tmp_path, monkeypatch)
    assert done.code == 0, done.err
    (found,) = VerificationResultSet.load("capitals.results.jsonl")
    assert (found.outcome.value, found.evaluation_input) == ("correct", "Quito.")
    tools = (found.template.agent_metrics or {}).get("tools_used")
    assert tools == TOOLS.get(name)
