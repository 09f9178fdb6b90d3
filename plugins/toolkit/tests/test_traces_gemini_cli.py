"""Sessions of the Gemini CLI: session files, the events of its stream, and its JSON output."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, find_end, is_conversation, is_limit_reached

JSON = dict[str, Any]
TIME = "2026-01-05T10:00:00.000Z"
ABOUT = {"sessionId": "8b1f", "projectHash": "5e9a", "startTime": TIME, "lastUpdated": TIME, "kind": "main"}
LIST = ToolCall("list_1", "list_directory", {"path": "."})


def said(kind: str, content: Any, name: str, **more: Any) -> JSON:
    return {"id": name, "timestamp": TIME, "type": kind, "content": content, **more}


def answered(output: str) -> JSON:
    response = {"output": output}
    return {"functionResponse": {"id": "list_1", "name": "list_directory", "response": response}}


CALL = {"id": "list_1", "name": "list_directory", "args": {"path": "."}, "timestamp": TIME, "displayName": "ReadFolder"}
THOUGHTS = [{"subject": "Listing", "description": "I look first.", "timestamp": TIME}]
TOKENS = {"input": 5127, "output": 21, "cached": 0, "thoughts": 40, "tool": 0, "total": 5188}
ASKED = said("user", [{"text": "Which files are there?"}], "1")
CALLED = said("gemini", "", "2", thoughts=THOUGHTS, tokens=TOKENS, model="gemini-2.5-pro")
ENDED = {**CALLED, "toolCalls": [{**CALL, "status": "success", "result": [answered("notes.txt")]}]}
ANSWER = said("gemini", "One: notes.", "3", thoughts=[], tokens=TOKENS, model="gemini-2.5-pro")
READ = [
    Message.user("Which files are there?"),
    Message.assistant("", [LIST], "Listing: I look first."),
    Message.tool("notes.txt", LIST),
    Message.assistant("One: notes."),
]


def test_a_session_is_read_in_both_forms_of_its_file() -> None:
    for recording in ([ABOUT, ASKED, ENDED, ANSWER], {**ABOUT, "messages": [ASKED, ENDED, ANSWER]}):
        assert convert_recording(recording) == READ
        assert is_conversation(recording)
        assert find_end(recording) == ("stop", None)


def test_a_later_line_replaces_a_message_and_results_are_not_repeated() -> None:
    waiting = {**CALLED, "toolCalls": [{**CALL, "status": "executing", "result": None}]}
    repeated = said("user", [answered("notes.txt")], "r")
    call = {"functionCall": {"id": "list_1", "name": "list_directory", "args": {"path": "."}}}
    with_call = {**ENDED, "content": [call]}
    changed = {"$set": {"lastUpdated": TIME}}
    for lines in (
        [ABOUT, ASKED, CALLED, waiting, ENDED, changed, repeated, ANSWER],
        [ABOUT, ASKED, with_call, repeated, ANSWER],
        [ABOUT, ASKED, waiting, repeated, ANSWER],
    ):
        assert convert_recording(lines) == READ


def test_messages_that_were_taken_back_are_left_out() -> None:
    other = said("gemini", "Two.", "4")
    assert convert_recording([ABOUT, ASKED, ENDED, other, {"$rewindTo": "4"}, ANSWER]) == READ
    assert convert_recording([ABOUT, ASKED, other, {"$rewindTo": "unknown"}, ASKED, ENDED, ANSWER]) == READ
    assert convert_recording([ABOUT, ASKED, other, {"$set": {"messages": [ASKED, ENDED]}}, ANSWER]) == READ


def test_what_the_interface_shows_is_no_message() -> None:
    shown = [said("info", "Update available.", "5"), said("warning", "Low disk space.", "6")]
    assert convert_recording([ABOUT, shown[0], ASKED, ENDED, ANSWER, *shown]) == READ
    picture = said("info", [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0K" * 40}}], "7")
    assert convert_recording([ABOUT, picture, ANSWER])[0].role == "user"


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_a_call_that_failed_is_an_error(status: str) -> None:
    failed = {**CALLED, "toolCalls": [{**CALL, "status": status, "resultDisplay": "no such folder"}]}
    assert convert_recording([ABOUT, failed])[-1] == Message.tool("no such folder", LIST, is_error=True)
    waiting = {**CALLED, "toolCalls": [{**CALL, "status": "awaiting_approval"}]}
    assert convert_recording([ABOUT, waiting])[-1].tool_calls == (LIST,)
    text = {**CALLED, "toolCalls": [{**CALL, "status": "success", "result": "notes.txt"}]}
    assert convert_recording([ABOUT, text])[-1] == Message.tool("notes.txt", LIST)


@pytest.mark.parametrize(
    ("last", "end"),
    [
        ([said("error", "[API Error: quota exceeded]", "5")], ("failed", "error: [API Error: quota exceeded]")),
        ([said("info", "Request cancelled.", "5")], ("failed", "error: the request was cancelled")),
        ([said("error", "[API Error: overloaded]", "5"), said("info", "Retried.", "6"), ANSWER], ("stop", None)),
        ([said("info", "Request cancelled.", "5"), said("user", "Go on.", "6")], ("stop", None)),
    ],
)
def test_the_last_message_of_a_session_may_state_an_error(last: list[JSON], end: tuple[str, str | None]) -> None:
    assert find_end([ABOUT, ASKED, ENDED, *last]) == end
    assert find_end({**ABOUT, "messages": [ASKED, ENDED, *last]}) == end


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(TraceFormatError, match="entry 2: unknown message type 'dream'"):
        convert_recording([ABOUT, said("dream", "x", "1")])
    with pytest.raises(TraceFormatError, match="entry 2: an entry in toolCalls has no name"):
        convert_recording([ABOUT, {**CALLED, "toolCalls": [{}]}])


STREAM: list[JSON] = [
    {"type": "init", "timestamp": TIME, "session_id": "8b1f", "model": "gemini-2.5-pro"},
    {"type": "message", "timestamp": TIME, "role": "user", "content": "Which files are there?"},
    {
        "type": "tool_use",
        "timestamp": TIME,
        "tool_name": "list_directory",
        "tool_id": "list_1",
        "parameters": {"path": "."},
    },
    {"type": "tool_result", "timestamp": TIME, "tool_id": "list_1", "status": "success", "output": "notes.txt"},
    {"type": "message", "timestamp": TIME, "role": "assistant", "content": "One: ", "delta": True},
    {"type": "message", "timestamp": TIME, "role": "assistant", "content": "notes.", "delta": True},
    {"type": "result", "timestamp": TIME, "status": "success", "stats": {"total_tokens": 10, "models": {}}},
]


def test_the_events_of_a_stream_are_read() -> None:
    expected = [READ[0], Message.assistant("", [LIST]), *READ[2:]]
    assert convert_recording(STREAM) == expected
    assert is_conversation(STREAM)
    assert find_end(STREAM) == ("stop", None)
    nameless = {**STREAM[2], "tool_name": None}
    with pytest.raises(TraceFormatError, match="entry 7: "):
        convert_recording([*STREAM[:-1], nameless])
    failed = {"tool_id": "list_1", "status": "error", "error": {"type": "X", "message": "no such folder"}}
    lines = [*STREAM[:3], {"type": "tool_result", "timestamp": TIME, **failed}]
    assert convert_recording(lines)[-1] == Message.tool("no such folder", LIST, is_error=True)


def result(kind: str, message: str) -> JSON:
    error = {"type": kind, "message": message}
    return {"type": "result", "timestamp": TIME, "status": "error", "error": error, "stats": {"models": {}}}


def test_the_result_of_a_stream_states_its_end() -> None:
    warned = {"type": "error", "timestamp": TIME, "severity": "warning", "message": "Loop detected"}
    assert find_end([*STREAM[:-1], warned, STREAM[-1]]) == ("stop", None)
    assert find_end(STREAM[:-1]) == ("failed", "error: the stream has no result")
    assert find_end([*STREAM[:-1], result("ApiError", "quota exceeded")]) == ("failed", "error: quota exceeded")
    stopped = {"type": "error", "timestamp": TIME, "severity": "error", "message": "stopped by the token limit"}
    failed = {**STREAM[-1], "status": "error"}
    assert find_end([*STREAM[:-1], stopped, failed]) == ("failed", "error: stopped by the token limit")
    assert find_end([*STREAM[:-1], failed]) == ("failed", "error: the run failed")
    assert find_end([*STREAM[:-1], stopped, STREAM[-1]]) == ("stop", None)
    limit = [*STREAM[:4], result("FatalTurnLimitedError", "Reached max session turns")]
    assert (find_end(limit), is_limit_reached(limit)) == (("stop", None), True)
    assert not is_limit_reached(STREAM)


def test_the_json_output_is_an_answer_or_an_error() -> None:
    output = {"session_id": "8b1f", "response": "One: notes.", "stats": {"models": {}, "tools": {}, "files": {}}}
    assert convert_recording(output) == [Message.assistant("One: notes.")]
    assert (is_conversation(output), find_end(output)) == (True, ("stop", None))
    assert not is_conversation({"response": "Two.", "stats": {"models": ["T", "A"]}})
    error = {**output, "response": None, "error": {"type": "ApiError", "message": "quota exceeded", "code": 429}}
    assert (convert_recording(error), find_end(error)) == ([], ("failed", "error: quota exceeded"))
