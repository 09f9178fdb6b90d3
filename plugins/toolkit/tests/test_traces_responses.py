"""Items of OpenAI's Responses API become messages."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, final_ai_message, validate_trace

USER = {"role": "user", "content": "Where is BRCA1?"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
SEARCHED = ToolCall("ws_1", "web_search", {"action": {"type": "search", "query": "x"}})


def answer(text: str, **more: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def test_a_request_of_one_text_is_a_user_message() -> None:
    assert convert_recording({"input": "Where?", "instructions": "Be brief."}) == [
        Message.system("Be brief."),
        Message.user("Where?"),
    ]


def test_items_are_known_without_the_object_around_them() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x": 1}'}
    output = {"type": "function_call_output", "call_id": "c", "output": "y"}
    made = ToolCall("c", "f", {"x": 1})
    assert convert_recording([USER, call, output]) == [
        Message.user("Where is BRCA1?"),
        Message.assistant("", [made]),
        Message.tool("y", made),
    ]


def test_a_server_side_search_divides_the_turn() -> None:
    thought = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hmm."}], "content": []}
    trace = convert_recording({"input": [USER, thought, answer("I search."), SEARCH, answer("On "), answer("17q21.")]})
    assert trace[1:] == [
        Message.assistant("I search.", [SEARCHED], "Hmm."),
        Message.tool('{"status": "completed"}', SEARCHED),
        Message.assistant("On \n17q21."),
    ]


def test_parts_of_one_message_are_one_text() -> None:
    parts = [{"type": "output_text", "text": "On "}, {"type": "output_text", "text": "17q21."}]
    refusal = {"type": "refusal", "refusal": "No more."}
    recording = [{"type": "message", "role": "assistant", "content": [*parts, refusal]}]
    assert final_ai_message(recording) == "On 17q21.\nNo more."


def test_a_marked_final_answer_is_its_own_message() -> None:
    items = [USER, answer("I think aloud.", phase="commentary"), answer("On 17q21.", phase="final_answer")]
    assert final_ai_message({"input": items}) == "On 17q21."
    assert convert_recording({"input": items})[1] == Message.assistant("I think aloud.")


@pytest.mark.parametrize(
    ("item", "call", "text", "failed"),
    [
        (SEARCH, SEARCHED, '{"status": "completed"}', False),
        (
            {"type": "code_interpreter_call", "id": "i", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
            ToolCall("i", "code_interpreter", {"code": "1+1"}),
            '{"outputs": [{"type": "logs", "logs": "2"}]}',
            False,
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "find", "arguments": '{"x": 1}', "output": "none", "error": None},
            ToolCall("m", "find", {"x": 1}),
            "none",
            False,
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "find", "arguments": "{}", "error": "gone", "status": "failed"},
            ToolCall("m", "find", {}),
            '{"status": "failed", "error": "gone"}',
            True,
        ),
        (
            {"type": "image_generation_call", "id": "p", "result": "A" * 400, "size": "1x1"},
            ToolCall("p", "image_generation", {"size": "1x1"}),
            '{"result": "(400 encoded characters)"}',
            False,
        ),
    ],
    ids=["search", "code", "server's tool", "failed tool", "picture"],
)
def test_calls_that_the_server_answered_itself(item: dict[str, Any], call: ToolCall, text: str, failed: bool) -> None:
    assert convert_recording([item]) == [Message.assistant("", [call]), Message.tool(text, call, is_error=failed)]


@pytest.mark.parametrize(
    ("item", "call"),
    [
        (
            {"type": "computer_call", "call_id": "c", "id": "x", "action": {"type": "click"}, "status": "completed"},
            ToolCall("c", "computer", {"action": {"type": "click"}}),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"},
            ToolCall("c", "sql", {"_unreadable": "select 1"}),
        ),
    ],
)
def test_calls_that_the_client_answers_wait_for_their_output(item: dict[str, Any], call: ToolCall) -> None:
    assert "ends with the assistant calling" in str(validate_trace([USER, item]).error)
    output = {"type": f"{item['type']}_output", "call_id": "c", "output": {"type": "computer_screenshot", "url": "u"}}
    assert convert_recording([item, output]) == [
        Message.assistant("", [call]),
        Message.tool('{"type": "computer_screenshot", "url": "u"}', call),
    ]


def test_other_items_are_kept_and_never_the_answer() -> None:
    request = {"type": "mcp_approval_request", "id": "a", "name": "delete", "arguments": "{}"}
    strange = {"type": "hologram", "of": "BRCA1"}
    trace = convert_recording({"input": [answer("Wait."), request, strange]})
    assert [message.role for message in trace] == ["assistant", "system", "system"]
    assert '[mcp_approval_request] {"id": "a", "name": "delete"' in trace[1].content
    assert trace[2].content == '[hologram] {"of": "BRCA1"}'
    assert "ends with a system message" in str(validate_trace(trace).error)


def test_pictures_in_a_message_are_kept_as_what_they_are() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "iVBORw0K" * 40}
    (message,) = convert_recording([{"role": "user", "content": [{"type": "input_text", "text": "Look."}, picture]}])
    assert message.content == 'Look.\n[input_image] {"image_url": "(342 encoded characters)"}'


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([{"role": "user", "content": "x"}, {"of": "x"}], "entry 2: an item has neither a role nor a type"),
        ([{"type": "function_call", "call_id": "c"}], "entry 1: a function_call has no name"),
        ([{"role": "narrator", "content": "x"}], "entry 1: unknown role 'narrator'"),
        ([{"role": "assistant", "content": 5}], "entry 1: the content must be text or a list of parts, not int"),
        ([5], "entry 1 is not a message"),
        (5, "the recording must be a list of messages, not int"),
    ],
)
def test_an_invalid_item_is_named_with_its_entry(items: Any, problem: str) -> None:
    with pytest.raises(TraceFormatError, match=problem):
        convert_recording({"input": items})
