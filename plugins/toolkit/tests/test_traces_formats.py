"""Recordings in several formats become one trace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, find_end

CALL = ToolCall("c1", "lookup", {"gene": "BRCA1"})
TRACE = [
    Message.system("Be brief."),
    Message.user("Where is BRCA1?"),
    Message.assistant("I look it up.", [CALL], "Hmm."),
    Message.tool("17q21", CALL),
    Message.assistant("On 17q21."),
]
OPENAI: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Where is BRCA1?"}]},
    {
        "role": "assistant",
        "content": "I look it up.",
        "reasoning_content": "Hmm.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"gene": "BRCA1"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "17q21"},
    {"role": "assistant", "content": "On 17q21.", "tool_calls": None, "refusal": None},
]
USE = {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"gene": "BRCA1"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "17q21"}]}
ANTHROPIC: dict[str, Any] = {
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "Where is BRCA1?"},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "Hmm."}, {"type": "text", "text": "I look it up."}, USE],
        },
        {"role": "user", "content": [RESULT]},
        {"role": "assistant", "content": [{"type": "text", "text": "On "}, {"type": "text", "text": "17q21."}]},
    ],
}
ONE_BY_ONE = {
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "Where is BRCA1?"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hmm."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I look it up."}]},
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": [RESULT]},
        {"role": "assistant", "content": "On 17q21."},
    ],
}


@pytest.mark.parametrize(
    "recording",
    [TRACE, OPENAI, {"messages": OPENAI}, ANTHROPIC, ONE_BY_ONE, [message.to_dict() for message in TRACE]],
    ids=["messages", "openai", "object", "anthropic", "one entry a block", "own"],
)
def test_every_format_says_the_same(recording: Any) -> None:
    assert convert_recording(recording) == TRACE


def test_results_and_text_in_one_user_message_keep_their_order() -> None:
    other = {**RESULT, "tool_use_id": "c2", "content": "none", "is_error": True}
    content = [RESULT, other, {"type": "text", "text": "Go on."}, {"type": "image", "source": {}}]
    recording: list[dict[str, Any]] = [
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": content},
    ]
    assert convert_recording(recording)[1:] == [
        Message.tool("17q21", CALL),
        Message("tool", "none", tool_call_id="c2", is_error=True),
        Message.user("Go on.\n[image]"),
    ]


def test_a_tool_that_the_server_ran_divides_the_turn() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "r", "url": "u"}]}
    search = ToolCall("s", "web_search", {"query": "x"})
    assert convert_recording([{"role": "assistant", "content": [use, found, {"type": "text", "text": "Done."}]}]) == [
        Message.assistant("", [search]),
        Message.tool('{"type": "r", "url": "u"}', search),
        Message.assistant("Done."),
    ]


def test_messages_and_calls_in_one_langchain_message_divide_its_text() -> None:
    def read(*content: dict[str, Any]) -> Message:
        return convert_recording([{"type": "human", "content": "?"}, {"type": "ai", "content": [*content]}])[-1]

    def text(text: str, **more: str) -> dict[str, Any]:
        return {"type": "text", "text": text, **more}

    search = {"type": "server_tool_use", "id": "s", "name": "search", "input": {}}
    commentary, final = text("I look.", id="1", phase="commentary"), text("17q21.", id="2", phase="final_answer")
    assert read(text("One.", id="1"), text("On ", id="2"), text("17.", id="2")).content == "One.\nOn 17."
    assert read(text("I look."), search, text("On "), text("17.")).content == "I look.\nOn 17."
    assert read(text("On "), {"type": "reference", "reference_ids": [1]}, text("17.")).content == "On 17."
    assert read(commentary, final) == Message.assistant("17q21.", reasoning="I look.")
    assert read(commentary) == Message.assistant("I look.")


def test_errors_of_server_side_tools_are_marked() -> None:
    failed = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": failed}
    (message,) = convert_recording([{"role": "assistant", "content": [result]}])
    assert (message.role, message.is_error, "max_uses_exceeded" in message.content) == ("tool", True, True)


@pytest.mark.parametrize(
    ("recording", "problem"),
    [
        ("text", "the recording must be a list of messages, not str"),
        ({"response": "x"}, "without any of the keys 'messages'"),
        ({"messages": "x"}, "the recording must be a list of messages, not str"),
        ([{"content": "x"}], "entry 1 is not a message"),
        ([OPENAI[0], "x"], "entry 2 is not a message"),
        ([{"role": "narrator", "content": "x"}], "entry 1: unknown role 'narrator'"),
        ([{"role": "user", "content": 5}], "entry 1: the content must be text or a list of parts, not int"),
        ([{"role": "user", "content": {"a": 1}}], "entry 1: the content must be text or a list of parts, not dict"),
        ([{"role": "user", "content": [{"type": 5}]}], "no type"),
        ([{"role": "assistant", "content": None, "tool_calls": [{"name": "f", "args": {}}]}], "no function"),
        (
            [OPENAI[2], {"role": "user", "content": [RESULT]}],
            "entry 1 has the format OpenAI.*entry 2 has the format Anthropic",
        ),
        ([{"role": "tool", "content": [RESULT, {"type": "text", "text": "x"}]}], "unknown role 'tool'"),
        ([{"role": "user", "content": [{"type": "tool_result"}]}], "no tool_use_id"),
        ([{"role": "assistant", "content": [{"type": "tool_use"}]}], "no name"),
        ([{"role": "assistant", "content": [USE, "x"]}], "no type"),
        ([{"role": "tool", "content": 5, "tool_name": "f"}], "entry 1: the content must be a string, not int"),
    ],
)
def test_an_invalid_message_is_named_with_its_entry(recording: Any, problem: str) -> None:
    with pytest.raises(TraceFormatError, match=problem):
        convert_recording(recording)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=2))
CALLS = st.builds(ToolCall, st.text(), st.text(), st.dictionaries(st.text(), JSON, max_size=2))
MESSAGES = st.one_of(
    st.builds(Message.system, st.text()),
    st.builds(Message.user, st.text()),
    st.builds(Message.assistant, st.text(), st.lists(CALLS, max_size=2), st.none() | st.text(min_size=1)),
    st.builds(lambda text, call, bad: Message.tool(text, call, is_error=bad), st.text(), CALLS, st.booleans()),
)


@given(trace=st.lists(MESSAGES, max_size=5))
def test_our_own_traces_are_read_back_as_they_were_written(trace: list[Message]) -> None:
    assert convert_recording(json.loads(json.dumps([message.to_dict() for message in trace]))) == trace


@pytest.mark.parametrize("wrong", [{"is_error": "yes"}, {"notes": [1]}, {"content": 5}])
def test_a_message_of_ours_has_values_of_its_types(wrong: dict[str, Any]) -> None:
    entry = {"role": "tool", "content": "found", "tool_call_id": "c1", "tool_name": "look_up", **wrong}

    with pytest.raises(TraceFormatError, match=f"entry 1: the (field )?{next(iter(wrong))[:4]}"):
        convert_recording([entry])


def line(name: str, parent: str | None, text: str, *, session: str = "s") -> dict[str, Any]:
    """Return a line of a Claude Code session. Names of replies begin with "a"."""
    role = "assistant" if name.startswith("a") else "user"
    about = {"type": role, "uuid": name, "parentUuid": parent, "sessionId": session}
    return {**about, "message": {"role": role, "content": [{"type": "text", "text": text}]}}


@pytest.mark.parametrize("root", [None, "0"])
def test_a_prompt_that_was_taken_back_is_left_out(root: str | None) -> None:
    lines = [
        line("1", root, "Where is BRAC1?"),
        line("a1", "1", "Which gene?"),
        line("2", root, "Where is BRCA1?"),
        line("a2", "2", "On 17q21."),
    ]
    assert [message.content for message in convert_recording(lines)] == ["Where is BRCA1?", "On 17q21."]


def test_the_summary_of_a_session_takes_no_prompt_back() -> None:
    summary = {**line("2", None, "This session continues another."), "isCompactSummary": True}
    lines = [line("1", None, "Which gene?"), line("a1", "1", "BRCA1."), summary, line("3", "2", "Sure?")]
    assert [message.content for message in convert_recording(lines)][:2] == ["Which gene?", "BRCA1."]


def test_first_prompts_of_two_sessions_are_kept() -> None:
    lines = [
        line("1", None, "Hello."),
        line("a1", "1", "Hi."),
        line("2", None, "Bye.", session="t"),
        line("a2", "2", "!"),
    ]
    assert [message.content for message in convert_recording(lines)] == ["Hello.", "Hi.", "Bye.", "!"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"role": "assistant", "toolCalls": "x"}, "entry 1: the field 'toolCalls' must be a list"),
        ({"role": "assistant", "toolCalls": [{"id": "1"}]}, "entry 1: an entry in toolCalls has no function"),
        ({"role": "tool", "toolCallId": 1.5, "content": ""}, "entry 1: the field 'toolCallId' must be a string"),
    ],
)
def test_errors_about_ag_ui_name_its_keys(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(TraceFormatError, match=problem):
        convert_recording([entry])


def test_an_empty_list_of_calls_of_ag_ui_is_read() -> None:
    said = {"id": "1", "role": "assistant", "toolCalls": []}
    assert convert_recording([said, {**said, "content": "On 17q21."}]) == [
        Message.assistant(""),
        Message.assistant("On 17q21."),
    ]


def test_activities_and_last_thoughts_of_ag_ui_are_no_answers() -> None:
    thought: dict[str, Any] = {"id": "1", "role": "reasoning", "content": "Hmm."}
    activity = {"id": "2", "role": "activity", "activityType": "PLAN", "content": {"steps": 2}}
    assert convert_recording([thought, activity, {"id": "3", "role": "assistant", "content": "On 17q21."}]) == [
        Message.assistant("On 17q21.", reasoning="Hmm.")
    ]
    asked: dict[str, Any] = {"id": "0", "role": "user", "content": "Where?"}
    assert convert_recording([thought, asked, thought]) == [
        Message.assistant(reasoning="Hmm."),
        Message.user("Where?"),
        Message.assistant(reasoning="Hmm."),
    ]


def ai_sdk_result(**fields: Any) -> dict[str, Any]:
    return {"type": "tool-result", "toolCallId": "c1", "toolName": "lookup", **fields}


@pytest.mark.parametrize(
    ("fields", "text", "failed"),
    [
        ({"output": {"type": "json", "value": {"band": "17q21"}}}, '{"band": "17q21"}', False),
        ({"output": {"type": "json", "value": [1, "a"]}}, '[1, "a"]', False),
        ({"output": {"type": "content", "value": [{"type": "text", "text": "17q21"}]}}, "17q21", False),
        ({"output": {"type": "error-json", "value": {"code": 404}}}, '{"code": 404}', True),
        ({"output": {"type": "execution-denied", "reason": "not now"}}, "not now", True),
        ({"result": {"band": "17q21"}}, '{"band": "17q21"}', False),
        ({"result": "no such gene", "isError": True}, "no such gene", True),
    ],
)
def test_results_of_the_ai_sdk_keep_what_they_say(fields: dict[str, Any], text: str, failed: bool) -> None:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "lookup", "args": {"gene": "BRCA1"}}
    entries = [{"role": "assistant", "content": [call]}, {"role": "tool", "content": [ai_sdk_result(**fields)]}]
    assert convert_recording(entries) == [
        Message.assistant("", [CALL]),
        Message.tool(text, CALL, is_error=failed),
    ]


def test_approvals_of_calls_of_the_ai_sdk_are_left_out() -> None:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "lookup", "input": {"gene": "BRCA1"}}
    asked = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
    approved = {"type": "tool-approval-response", "approvalId": "a1", "approved": True}
    result = ai_sdk_result(output={"type": "text", "value": "17q21"})
    assert convert_recording(
        [
            {"role": "assistant", "content": [call, asked]},
            {"role": "tool", "content": [approved]},
            {"role": "tool", "content": [result]},
        ]
    ) == [Message.assistant("", [CALL]), Message.tool("17q21", CALL)]


def test_results_of_a_providers_tools_split_a_message_of_the_ai_sdk() -> None:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "lookup", "input": {"gene": "BRCA1"}}
    result = ai_sdk_result(output={"type": "text", "value": "17q21"})
    content = [call, result, {"type": "text", "text": "On 17q21."}]
    assert convert_recording([{"role": "assistant", "content": content}]) == [
        Message.assistant("", [CALL]),
        Message.tool("17q21", CALL),
        Message.assistant("On 17q21."),
    ]


INVOCATION = {"state": "result", "toolCallId": "c1", "toolName": "lookup", "args": {"gene": "BRCA1"}, "result": "17q21"}
LOOKUP = {
    "type": "tool-lookup",
    "toolCallId": "c1",
    "state": "output-available",
    "input": {"gene": "BRCA1"},
    "output": "17q21",
}
SAID = {"type": "text", "text": "On 17q21.", "state": "done"}
STEP = {"type": "step-start"}


@pytest.mark.parametrize(
    "entry",
    [
        {"content": "On 17q21.", "toolInvocations": [INVOCATION]},
        {
            "content": "On 17q21.",
            "parts": [STEP, {"type": "tool-invocation", "toolInvocation": INVOCATION}, STEP, SAID],
        },
        {"parts": [STEP, LOOKUP, STEP, SAID]},
        {"parts": [LOOKUP, SAID, {"type": "source-url", "sourceId": "s", "url": "https://example.org"}]},
        {"parts": [{**LOOKUP, "type": "dynamic-tool", "toolName": "lookup"}, SAID]},
    ],
)
def test_messages_of_an_interface_are_divided_into_steps(entry: dict[str, Any]) -> None:
    asked = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Where is BRCA1?"}]}
    recording = [asked, {"id": "2", "role": "assistant", **entry}]
    assert convert_recording({"id": "chat", "messages": recording}) == [
        Message.user("Where is BRCA1?"),
        Message.assistant("", [CALL]),
        Message.tool("17q21", CALL),
        Message.assistant("On 17q21."),
    ]


@pytest.mark.parametrize(
    ("about", "result"),
    [
        ({"state": "output-error", "errorText": "no such gene"}, Message.tool("no such gene", CALL, is_error=True)),
        (
            {"state": "output-denied", "approval": {"id": "a", "approved": False, "reason": "Not now."}},
            Message.tool("Not now.", CALL, is_error=True),
        ),
        ({"output": {"locus": "17q21"}}, Message.tool('{"locus": "17q21"}', CALL)),
        ({"state": "input-available"}, None),
        ({"preliminary": True}, None),
    ],
)
def test_a_result_in_an_interface_has_a_state(about: dict[str, Any], result: Message | None) -> None:
    entry = {"id": "1", "role": "assistant", "parts": [{**LOOKUP, **about}]}
    assert convert_recording([entry])[1:] == ([] if result is None else [result])


def test_data_for_an_interface_is_noted_and_a_broken_stream_is_no_answer() -> None:
    data = {"type": "data-weather", "id": "w", "data": {"city": "Lima"}}
    entry = {"id": "1", "role": "assistant", "parts": [data, SAID]}
    (message,) = convert_recording([entry])
    assert (message.content, "data-weather" in message.notes[0]) == ("On 17q21.", True)
    assert find_end([entry]) == ("stop", None)
    streamed = {"id": "1", "role": "assistant", "parts": [STEP, {**SAID, "state": "streaming"}]}
    assert find_end([streamed]) == ("failed", "error: the stream of the message broke off")
