"""Events and sessions of Google's Agent Development Kit."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import convert_recording, find_end, is_conversation

JSON = dict[str, Any]
LOOK = ToolCall("adk-1", "look_up", {"gene": "BRCA1"})


def event(author: str, *parts: JSON, role: str | None = None, **more: Any) -> JSON:
    content = {"parts": [*parts], "role": role or ("user" if author == "user" else "model")}
    return {"invocation_id": "e-1", "author": author, "content": content, "actions": {"state_delta": {}}, **more}


ASKED = event("user", {"text": "Where is BRCA1?"})
CALLED = event(
    "guide",
    {"text": "I look.", "thought": True},
    {"function_call": {"id": "adk-1", "name": "look_up", "args": {"gene": "BRCA1"}}},
)
FOUND = event(
    "guide",
    {"function_response": {"id": "adk-1", "name": "look_up", "response": {"result": "17q21"}}},
    role="user",
)
ANSWER = event("guide", {"text": "On 17q21."}, finish_reason="STOP", usage_metadata={"total_token_count": 9})
STATE = {"invocation_id": "e-1", "author": "guide", "actions": {"state_delta": {"gene": "BRCA1"}}}
EVENTS = [ASKED, CALLED, STATE, FOUND, ANSWER]
READ = [
    Message.user("Where is BRCA1?"),
    Message.assistant("", [LOOK], "I look."),
    Message.tool("17q21", LOOK),
    Message.assistant("On 17q21."),
]


def in_camel_case(value: Any) -> Any:
    if isinstance(value, list):
        return [in_camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    words = {key: key.split("_") for key in value}
    return {words[key][0] + "".join(map(str.capitalize, words[key][1:])): in_camel_case(value[key]) for key in value}


@pytest.mark.parametrize("events", [EVENTS, in_camel_case(EVENTS)])
def test_events_and_sessions_are_read(events: list[JSON]) -> None:
    session = {"id": "s", "app_name": "genes", "user_id": "u", "state": {}, "events": events, "last_update_time": 1.0}
    for recording in (events, session):
        assert convert_recording(recording) == READ
        assert is_conversation(recording)
        assert find_end(recording) == ("stop", None)


def test_chunks_of_a_stream_are_left_out() -> None:
    chunks = [event("guide", {"text": text}, partial=True) for text in ("On ", "17q21.")]
    assert convert_recording([*EVENTS[:-1], *chunks, ANSWER]) == READ
    assert find_end([*EVENTS[:-1], *chunks, ANSWER]) == ("stop", None)
    assert find_end([*EVENTS[:-1], *chunks]) == ("failed", "error: the stream of the reply broke off")


def test_invocations_that_were_taken_back_are_left_out() -> None:
    second = [{**event("user", {"text": "And?"}), "invocation_id": "e-2"}, {**ANSWER, "invocation_id": "e-2"}]
    rewind = {"invocation_id": "e-3", "author": "user", "actions": {"rewind_before_invocation_id": "e-2"}}
    assert convert_recording([*EVENTS, *second, rewind]) == READ
    assert convert_recording([*EVENTS, rewind]) == READ
    assert convert_recording(in_camel_case([*EVENTS, *second, rewind])) == READ


def test_each_agent_begins_a_message_and_a_note_names_them() -> None:
    other = event("editor", {"text": "It is on 17q21."})
    *_, before, last = convert_recording([*EVENTS, other])
    assert (before.content, last.content) == ("On 17q21.", "It is on 17q21.")
    assert last.notes == ("the answer is from 'editor', which spoke last, after guide",)


@pytest.mark.parametrize(
    ("last", "end"),
    [
        ({**ANSWER, "finish_reason": "MAX_TOKENS"}, ("length", None)),
        ({**STATE, "error_code": "SAFETY", "error_message": "blocked"}, ("content_filter", None)),
        ({**STATE, "error_code": "FinishReason.MAX_TOKENS"}, ("length", None)),
        (
            {**STATE, "error_code": "INVOCATION_ABORTED", "error_message": "Invocation was aborted by client."},
            ("failed", "error: INVOCATION_ABORTED: Invocation was aborted by client."),
        ),
        ({**ANSWER, "interrupted": True}, ("failed", "error: the reply was interrupted")),
        ({**ASKED, "error_code": None}, ("stop", None)),
    ],
)
def test_the_last_event_states_its_end(last: JSON, end: tuple[str, str | None]) -> None:
    for events in ([*EVENTS[:-1], last], [*EVENTS[:-1], last, STATE], in_camel_case([*EVENTS[:-1], last])):
        assert find_end(events) == end
        assert find_end({"events": events}) == end
