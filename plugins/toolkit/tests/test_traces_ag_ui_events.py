"""Event streams of the AG-UI protocol."""

from __future__ import annotations

import re
from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, find_end, is_conversation

JSON = dict[str, Any]
LOOK = ToolCall("c1", "look_up", {"gene": "BRCA1"})
ASKED = {"id": "u1", "role": "user", "content": "Where is BRCA1?"}


def event(kind: str, **about: Any) -> JSON:
    return {"type": kind, "timestamp": 1767607200000, **about}


def text(name: str, *deltas: str, **more: Any) -> list[JSON]:
    chunks = [event("TEXT_MESSAGE_CONTENT", messageId=name, delta=delta, **more) for delta in deltas]
    begin = event("TEXT_MESSAGE_START", messageId=name, role="assistant", **more)
    return [begin, *chunks, event("TEXT_MESSAGE_END", messageId=name, **more)]


STARTED = event("RUN_STARTED", threadId="t", runId="r1", input={"threadId": "t", "runId": "r1", "messages": [ASKED]})
THOUGHT = [
    event("REASONING_START", messageId="th"),
    event("REASONING_MESSAGE_START", messageId="th", role="reasoning"),
    event("REASONING_MESSAGE_CONTENT", messageId="th", delta="I "),
    event("REASONING_MESSAGE_CONTENT", messageId="th", delta="look."),
    event("REASONING_MESSAGE_END", messageId="th"),
    event("REASONING_END", messageId="th"),
]
CALLED = [
    event("TOOL_CALL_START", toolCallId="c1", toolCallName="look_up", parentMessageId="m1"),
    event("TOOL_CALL_ARGS", toolCallId="c1", delta='{"gene": '),
    event("TOOL_CALL_ARGS", toolCallId="c1", delta='"BRCA1"}'),
    event("TOOL_CALL_END", toolCallId="c1"),
]
FOUND = event("TOOL_CALL_RESULT", messageId="m2", toolCallId="c1", content="17q21", role="tool")
FINISHED = event("RUN_FINISHED", threadId="t", runId="r1")
STATE = [event("STEP_STARTED", stepName="look"), event("STATE_DELTA", delta=[]), event("CUSTOM", name="x", value=1)]
STREAM = [STARTED, *THOUGHT, *CALLED, *STATE, FOUND, *text("m3", "On ", "17q21."), FINISHED]
READ = [
    Message.user("Where is BRCA1?"),
    Message.assistant("", [LOOK], "I look."),
    Message.tool("17q21", LOOK),
    Message.assistant("On 17q21."),
]


def test_the_events_of_a_run_are_put_together() -> None:
    assert convert_recording(STREAM) == READ
    assert is_conversation(STREAM)
    assert find_end(STREAM) == ("stop", None)


def in_snake_case(value: Any) -> Any:
    if isinstance(value, list):
        return [in_snake_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", key): in_snake_case(value[key]) for key in value}


def test_python_programs_may_write_names_in_snake_case() -> None:
    events = in_snake_case(STREAM)
    assert (convert_recording(events), find_end(events)) == (READ, ("stop", None))
    calls = [{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"gene": "BRCA1"}'}}]
    asked = [ASKED, {"role": "assistant", "toolCalls": calls}, {"role": "tool", "toolCallId": "c1", "content": "17q21"}]
    again = event("RUN_STARTED", threadId="t", runId="r2", input={"messages": asked})
    answered = [again, *text("m3", "On 17q21."), FINISHED]
    assert convert_recording(in_snake_case(answered)) == convert_recording(answered)
    other = event("RUN_STARTED", threadId="u", runId="r2")
    with pytest.raises(TraceFormatError, match="another thread"):
        convert_recording(in_snake_case([*STREAM, other]))


def test_chunks_need_no_beginning_and_no_id() -> None:
    chunks = [
        event("REASONING_MESSAGE_CHUNK", messageId="th", delta="I "),
        event("REASONING_MESSAGE_CHUNK", delta="look."),
        event("TOOL_CALL_CHUNK", toolCallId="c1", toolCallName="look_up", parentMessageId="m1", delta='{"gene": '),
        event("TOOL_CALL_CHUNK", delta='"BRCA1"}'),
        FOUND,
        event("TEXT_MESSAGE_CHUNK", messageId="m3", role="assistant", delta="On "),
        event("TEXT_MESSAGE_CHUNK", delta="17q21."),
    ]
    assert convert_recording([STARTED, *chunks, FINISHED]) == READ
    older = [
        event("THINKING_START"),
        event("THINKING_TEXT_MESSAGE_START"),
        event("THINKING_TEXT_MESSAGE_CONTENT", delta="I "),
        event("THINKING_TEXT_MESSAGE_CONTENT", delta="look."),
        event("THINKING_TEXT_MESSAGE_END"),
        event("THINKING_END"),
    ]
    assert convert_recording([STARTED, *older, *CALLED, FOUND, *text("m3", "On 17q21."), FINISHED]) == READ


def test_text_and_calls_of_one_message_and_calls_without_parent() -> None:
    def called(name: str, **more: str) -> list[JSON]:
        return [event("TOOL_CALL_START", toolCallId=name, toolCallName="look_up", **more)]

    first, second = ToolCall("a", "look_up", {}), ToolCall("b", "look_up", {})
    results = [event("TOOL_CALL_RESULT", messageId=name, toolCallId=name, content=name) for name in ("a", "b")]
    beside = [*called("a", parentMessageId="m1"), *called("b", parentMessageId="m1")]
    again = text("m1", "Done.")
    for calls in (
        [*text("m1", "I look."), *beside],
        [*text("m1", "I look."), *called("a", parentMessageId="m1"), *called("b")],
    ):
        assert convert_recording([*calls, *results, *again]) == [
            Message.assistant("I look.", [first, second]),
            Message.tool("a", first),
            Message.tool("b", second),
            Message.assistant("Done."),
        ]


def test_a_snapshot_replaces_what_was_streamed() -> None:
    answer = {"id": "m3", "role": "assistant", "content": "On 17q21."}
    snapshot = event("MESSAGES_SNAPSHOT", messages=[ASKED, answer])
    assert convert_recording([*STREAM[:-1], snapshot, FINISHED]) == [READ[0], READ[-1]]
    more = [*STREAM[:-1], snapshot, *text("m4", "Yes."), FINISHED]
    assert [message.content for message in convert_recording(more)] == ["Where is BRCA1?", "On 17q21.", "Yes."]
    assert snapshot["messages"] == [ASKED, answer]


def test_a_later_run_of_the_thread_continues_it() -> None:
    messages = [
        ASKED,
        {"id": "m3", "role": "assistant", "content": "On 17q21."},
        {"id": "u2", "role": "user", "content": "And?"},
    ]
    second = event("RUN_STARTED", threadId="t", runId="r2", input={"messages": messages})
    read = convert_recording([*STREAM, second, *text("m5", "No more."), FINISHED])
    assert read == [*READ, Message.user("And?"), Message.assistant("No more.")]
    with pytest.raises(TraceFormatError, match="entry 21: the run of another thread begins"):
        convert_recording([*STREAM, event("RUN_STARTED", threadId="other", runId="r")])


def test_subagents_are_left_out_unless_they_are_alone() -> None:
    inner = text("s1", "I search.", subagentRunId="s")
    assert convert_recording([*STREAM[:-1], *inner, FINISHED]) == READ
    assert convert_recording(inner) == [Message.assistant("I search.")]


def test_events_of_unknown_types_are_counted() -> None:
    last = convert_recording([*STREAM, event("DREAM"), event("DREAM")])[-1]
    assert last.notes == ("2 events of unknown types left out: DREAM",)


@pytest.mark.parametrize(
    ("last", "end"),
    [
        ([], ("failed", "error: the run has no end")),
        ([event("RUN_ERROR", message="quota exceeded", code="429")], ("failed", "error: quota exceeded")),
        ([{**FINISHED, "outcome": {"type": "cancelled"}}], ("failed", "error: the run was cancelled")),
        ([{**FINISHED, "outcome": {"type": "interrupt"}}], ("failed", "error: the run waits for a person")),
        ([{**FINISHED, "outcome": {"type": "success"}}, event("CUSTOM", name="x")], ("stop", None)),
    ],
)
def test_the_last_event_about_a_run_states_its_end(last: list[JSON], end: tuple[str, str | None]) -> None:
    assert find_end([*STREAM[:-1], *last]) == end
    assert find_end(text("m", "x")) == ("stop", None)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([event("TOOL_CALL_ARGS", toolCallId="x", delta="{")], "entry 1: a TOOL_CALL_ARGS belongs to no call"),
        ([event("TEXT_MESSAGE_CONTENT", messageId="x", delta=5)], "entry 1: the delta must be text, not int"),
        ([event("MESSAGES_SNAPSHOT", messages=[{}]), FINISHED], "entry 1: a message has no role"),
    ],
)
def test_what_cannot_be_read_is_an_error(events: list[JSON], problem: str) -> None:
    with pytest.raises(TraceFormatError, match=problem):
        convert_recording(events)
