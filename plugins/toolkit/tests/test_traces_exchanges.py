"""Recorded requests and responses become traces."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_conversations, convert_exchanges, validate_trace

JSON = dict[str, Any]
ASK: JSON = {"role": "user", "content": "Where?"}
FUNCTION = {"name": "f", "arguments": "{}"}
CALLS: JSON = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": FUNCTION}]}
GIVEN: JSON = {"role": "tool", "tool_call_id": "c", "content": "17q21"}
ANSWER: JSON = {"role": "assistant", "content": "On 17q21."}
CALL = ToolCall("c", "f", {})
TRACE = [
    Message.user("Where?"),
    Message.assistant("", [CALL]),
    Message.tool("17q21", CALL),
    Message.assistant("On 17q21."),
]


def chat(*messages: JSON, reply: JSON) -> JSON:
    return {"request": {"messages": list(messages)}, "response": {"choices": [{"message": reply}]}}


def test_requests_that_repeat_the_history_are_one_trace() -> None:
    assert convert_exchanges([chat(ASK, reply=CALLS), chat(ASK, CALLS, GIVEN, reply=ANSWER)]) == TRACE


def test_ids_of_the_history_replace_missing_ids() -> None:
    nameless = {"role": "assistant", "tool_calls": [{"id": "", "type": "function", "function": FUNCTION}]}
    assert convert_exchanges([chat(ASK, reply=nameless), chat(ASK, CALLS, GIVEN, reply=ANSWER)]) == TRACE


def test_a_thought_that_is_not_repeated_is_kept() -> None:
    thought = {**CALLS, "reasoning_content": "Hmm."}
    trace = convert_exchanges([chat(ASK, reply=thought), chat(ASK, CALLS, GIVEN, reply=ANSWER)])
    assert trace[1] == Message.assistant("", [CALL], "Hmm.")


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": "Who?"},
        {"role": "system", "content": "Where?"},
    ],
)
def test_what_does_not_repeat_the_history_begins_another_conversation(other: JSON) -> None:
    exchanges = [chat(ASK, reply=ANSWER), chat(other, reply=ANSWER), chat(other, ANSWER, ASK, reply=ANSWER)]
    assert [len(trace) for trace in convert_conversations(exchanges)] == [2, 4]
    with pytest.raises(TraceFormatError, match=r"exchange 2 .* begins another conversation.*convert_conversations"):
        convert_exchanges(exchanges)


@pytest.mark.parametrize("changed", ["On 18.", "", "On 17q21. And more"])
def test_a_changed_history_is_not_a_repetition(changed: str) -> None:
    history = {"role": "assistant", "content": changed}
    assert len(convert_conversations([chat(ASK, reply=ANSWER), chat(ASK, history, ASK, reply=ANSWER)])) == 2


def test_a_request_may_continue_a_response_by_its_id() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    given = {"type": "function_call_output", "call_id": "c", "output": "17q21"}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "On 17q21."}]}
    first = {"request": {"input": "Where?", "instructions": "A."}, "response": {"id": "r1", "output": [call]}}
    asked = {"input": [given], "instructions": "B.", "previous_response_id": "r1"}
    second = {"request": asked, "response": {"id": "r2", "output": [answer]}}
    trace = convert_exchanges([first, second])
    assert trace == [Message.system("A."), TRACE[0], TRACE[1], Message.system("B."), TRACE[2], TRACE[3]]
    with pytest.raises(TraceFormatError, match="exchange 1: the request continues 'r1'"):
        convert_exchanges([second])


@pytest.mark.parametrize(
    "response", [{"error": {"message": "busy"}}, {"type": "error", "error": {}, "input_tokens": 3}]
)
def test_a_response_without_a_reply_adds_no_message(response: JSON) -> None:
    failed = {"request": {"messages": [ASK]}, "response": response}
    assert "ends with a user message" in str(validate_trace(convert_exchanges([failed])).error)
    assert convert_exchanges([failed, chat(ASK, reply=CALLS), failed][:2]) == TRACE[:2]


def test_a_blocked_prompt_or_empty_candidate_adds_no_message() -> None:
    request = {"contents": [{"role": "user", "parts": [{"text": "Where?"}]}]}
    for response in ({"promptFeedback": {"blockReason": "SAFETY"}}, {"candidates": [{"finishReason": "SAFETY"}]}):
        assert convert_exchanges([{"request": request, "response": response}]) == TRACE[:1]


def test_a_turn_that_the_service_paused_goes_on() -> None:
    use = {"type": "server_tool_use", "id": "c", "name": "f", "input": {}}
    result = {"type": "f_tool_result", "tool_use_id": "c", "content": "17q21"}
    paused = {"role": "assistant", "content": [use]}
    rest = {"role": "assistant", "content": [result, {"type": "text", "text": "On 17q21."}]}
    exchanges = [
        {"request": {"messages": [ASK]}, "response": paused},
        {"request": {"messages": [ASK, paused]}, "response": rest},
    ]
    assert convert_exchanges(exchanges) == TRACE


@pytest.mark.parametrize(
    ("exchange", "problem"),
    [
        ({"request": {"messages": [ASK]}}, "exchange 1: the response must be an object, not NoneType"),
        (
            {"request": {"messages": [ASK]}, "response": "data: {}"},
            "the response must be an object, not str.*streams are not supported",
        ),
        ({"request": {"model": "m"}, "response": {}}, "an object without any of the keys 'messages'"),
        ({"request": {"messages": [ASK]}, "response": {"id": "x"}}, "has an unknown format; its keys are: id"),
        ({"request": {"messages": [ASK]}, "response": {"choices": [{}, {}]}}, "has 2 choices"),
        (
            {"request": {"input": "x"}, "response": {"role": "assistant", "content": []}},
            "format OpenAI Resp.*format Anthropic",
        ),
        (
            {"request": {"messages": [{"role": "narrator"}]}, "response": {"error": 1}},
            "exchange 1: entry 1: unknown role 'narrator'",
        ),
        ("x", "exchange 1: the request must be an object, not NoneType"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_exchange(exchange: Any, problem: str) -> None:
    with pytest.raises(TraceFormatError, match=problem):
        convert_exchanges([exchange])


def test_no_exchange_is_an_error() -> None:
    assert convert_conversations([]) == []
    with pytest.raises(TraceFormatError, match="there are no exchanges to convert"):
        convert_exchanges([])
