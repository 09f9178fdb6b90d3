"""The end of a recorded reply, where each program writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karenina_toolkit.traces import find_end, is_limit_reached

ASKED = {"role": "user", "content": "Where?"}
CHAT = {"role": "assistant", "content": "In Pe"}
HALF = {"role": "assistant", "content": [{"type": "text", "text": "In Pe"}]}
SPAN = [{"role": "assistant", "parts": [{"type": "text", "content": "In Pe"}], "finish_reason": "length"}]
CLAUDE = {"type": "assistant", "session_id": "s", "message": {**HALF, "stop_reason": "max_tokens"}}
SAMPLE = {"messages": [ASKED, CHAT], "output": {"choices": [{"message": CHAT, "stop_reason": "stop"}]}}
NO_STEPS = "Sorry, need more steps to process this request."
NO_CALLS = "Model call limits exceeded: run limit (5/5)"


def ran(subtype: str, *, is_error: bool = True) -> dict[str, Any]:
    """The result of a run of Claude Code."""
    return {"type": "result", "subtype": subtype, "is_error": is_error, "session_id": "s", "stop_reason": "end_turn"}


def langchain(**metadata: str) -> dict[str, Any]:
    return {"type": "ai", "content": "In Pe", "response_metadata": metadata}


@pytest.mark.parametrize(
    "recording",
    [
        {"choices": [{"message": CHAT, "finish_reason": "length"}]},
        {"choices": [{"message": CHAT, "finish_reason": "stop", "native_finish_reason": "MAX_TOKENS"}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "In Pe"}]}, "finishReason": "MAX_TOKENS"}]},
        {"type": "message", **HALF, "stop_reason": "max_tokens"},
        {"output": {"message": {"role": "assistant", "content": [{"text": "In Pe"}]}}, "stopReason": "max_tokens"},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [HALF]},
        {"messages": [ASKED, langchain(finish_reason="length")]},
        {"values": {"messages": [ASKED, langchain(stop_reason="max_tokens")]}},
        [{"type": "human", "data": {"content": "?"}}, {"type": "ai", "data": langchain(done_reason="length")}],
        {"gen_ai.output.messages": SPAN},
        {"attributes": {"gen_ai.output.messages": json.dumps(SPAN)}},
        {"messages": [ASKED, CHAT], "output": {"choices": [{"message": CHAT, "stop_reason": "max_tokens"}]}},
        [CLAUDE],
        [CLAUDE, {"type": "last-prompt", "sessionId": "s", "leafUuid": "l"}],
        [{**CLAUDE, "message": HALF}, ran("error_max_budget_usd")],
        {**SAMPLE, "limit": {"type": "message", "limit": 4}},
        {"exchanges": [{"request": {}, "response": {"choices": [{"message": CHAT, "finish_reason": "length"}]}}]},
    ],
)
def test_a_recorded_reply_that_was_cut_off(recording: Any) -> None:
    assert find_end(recording) == ("length", None)


@pytest.mark.parametrize(
    "recording",
    [
        {"choices": [{"message": CHAT, "finish_reason": "content_filter"}]},
        {"choices": [{"message": {**CHAT, "content": None, "refusal": "No."}, "finish_reason": "stop"}]},
        {"status": "completed", "output": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]},
        {"messages": [ASKED, {"type": "ai", "content": [*HALF["content"], {"type": "refusal", "refusal": "No."}]}]},
        {"type": "message", "role": "assistant", "content": [], "stop_reason": "refusal"},
        {"candidates": [{"finishReason": "SAFETY"}]},
        [ASKED, {"type": "ai", "content": "", "additional_kwargs": {"refusal": "No."}}],
    ],
)
def test_a_recorded_refusal(recording: Any) -> None:
    assert find_end(recording) == ("content_filter", None)


@pytest.mark.parametrize(
    "recording",
    [
        [ASKED, CHAT],
        [ASKED, {**CHAT, "finish_reason": "length"}, ASKED, CHAT],
        {"messages": [{**ASKED, "finish_reason": "length"}]},
        {"choices": [{"message": CHAT, "finish_reason": None}]},
        {"exchanges": []},
        [CLAUDE, {"type": "user", "session_id": "s", "message": {"role": "user", "content": "Go on."}}],
        [{**CLAUDE, "message": HALF}, ran("success", is_error=False)],
        {**SAMPLE, "limit": None, "error": None},
        "a text",
        [],
    ],
)
def test_the_end_of_another_message_does_not_count(recording: Any) -> None:
    assert find_end(recording) == ("stop", None)


@pytest.mark.parametrize(
    ("recording", "reason"),
    [
        ([{**CLAUDE, "message": HALF}, ran("error_during_execution")], "error: error_during_execution"),
        (ran("success"), "error: a request failed"),
        ([{**CLAUDE, "message": HALF, "isApiErrorMessage": True}], "error: a request failed"),
        ({**SAMPLE, "error": {"message": "no sandbox", "traceback": "..."}}, "error: no sandbox"),
        ({**SAMPLE, "limit": {"type": "operator", "limit": 1}}, "error: the operator stopped the sample"),
    ],
)
def test_a_recorded_run_that_failed_is_no_answer(recording: Any, reason: str) -> None:
    assert find_end(recording) == ("failed", reason)


@pytest.mark.parametrize(
    ("recording", "reached"),
    [
        ({"messages": [ASKED, CHAT], "limit_reached": True}, True),
        ([CLAUDE, ran("error_max_turns")], True),
        (ran("error_max_turns"), True),
        ([CLAUDE, ran("success", is_error=False)], False),
        ({"messages": [ASKED, {**langchain(), "content": NO_STEPS}]}, True),
        ([{"type": "human", "data": ASKED}, {"type": "ai", "data": {"content": NO_CALLS}}], True),
        (
            {"messages": [{"type": "ai", "content": NO_STEPS}, {"type": "human", "content": "Go on."}, langchain()]},
            False,
        ),
        ({"messages": [ASKED, {**CHAT, "content": NO_STEPS}]}, False),
        (NO_STEPS, False),
    ],
)
def test_a_limit_of_turns_is_found_where_programs_write_it(recording: Any, reached: bool) -> None:
    assert is_limit_reached(recording) is reached
