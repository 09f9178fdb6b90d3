"""Sessions of the Codex CLI: rollout files, and the events of `codex exec --json`."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, find_end, is_conversation

JSON = dict[str, Any]


def line(kind: str, **payload: Any) -> JSON:
    return {"timestamp": "2025-10-29T00:59:38.317Z", "type": kind, "payload": payload}


def said(role: str, text: str, **more: Any) -> JSON:
    kind = "output_text" if role == "assistant" else "input_text"
    return line("response_item", type="message", role=role, content=[{"type": kind, "text": text}], **more)


def event(kind: str, **about: Any) -> JSON:
    return line("event_msg", type=kind, **about)


def asked(text: str) -> list[JSON]:
    return [said("user", text), event("user_message", message=text, images=[])]


META = line(
    "session_meta", id="019a", cwd="/home/ada/genes", cli_version="0.46.0", base_instructions={"text": "You are Codex."}
)
CONTEXT = "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"
COMMAND = {"command": ["bash", "-lc", "ls"]}
SHELL = ToolCall("call_1", "shell", COMMAND)
LISTED = '{"output":"notes.txt\\n","metadata":{"exit_code":0,"duration_seconds":0.0}}'
BEGUN, DONE = event("task_started", turn_id="1"), event("task_complete", turn_id="1", last_agent_message="One: notes.")
SESSION = [
    META,
    BEGUN,
    said("user", CONTEXT),
    *asked("Which files are there?"),
    line("turn_context", cwd="/home/ada/genes", model="gpt-5-codex", effort="high"),
    event("agent_reasoning", text="**Listing**"),
    line(
        "response_item",
        type="reasoning",
        summary=[{"type": "summary_text", "text": "**Listing**"}],
        content=None,
        encrypted_content="gAAAAA",
    ),
    line(
        "response_item",
        type="function_call",
        name="shell",
        arguments='{"command":["bash","-lc","ls"]}',
        call_id="call_1",
    ),
    line("response_item", type="function_call_output", call_id="call_1", output=LISTED),
    line("response_item", type="ghost_snapshot", ghost_commit={"id": "3f2"}),
    event("agent_message", message="One: notes."),
    said("assistant", "One: notes."),
    event("token_count", info={"total_token_usage": {"input_tokens": 10776, "output_tokens": 14}}),
    DONE,
]
READ = [
    Message.system("You are Codex."),
    Message.user(CONTEXT),
    Message.user("Which files are there?"),
    Message.assistant("", [SHELL], "**Listing**"),
    Message.tool(LISTED, SHELL),
    Message.assistant("One: notes."),
]


def test_a_rollout_is_read_without_what_its_events_repeat() -> None:
    assert convert_recording(SESSION) == READ
    assert is_conversation(SESSION)
    assert find_end(SESSION) == ("stop", None)


def test_a_rollout_of_the_first_versions_has_items_as_lines() -> None:
    lines = [{"id": "c3c4", "timestamp": "2025-08-18T01:16:13.522Z", "instructions": None}, {"record_type": "state"}]
    lines += [entry["payload"] for entry in SESSION if entry["type"] == "response_item"]
    assert convert_recording(lines) == READ[1:]


def test_a_patch_is_the_input_of_a_call() -> None:
    patch = "*** Begin Patch\n*** Add File: hello.txt\n+Hello\n*** End Patch"
    call = line(
        "response_item", type="custom_tool_call", status="completed", call_id="c", name="apply_patch", input=patch
    )
    assert convert_recording([META, call])[-1].tool_calls[0].arguments == {"_unreadable": patch}


def test_turns_that_were_rolled_back_are_left_out() -> None:
    second = [BEGUN, *asked("And folders?"), said("assistant", "Two."), event("turn_aborted", reason="interrupted")]
    third = [BEGUN, *asked("How long are they?"), said("assistant", "Short."), DONE]
    lines = [*SESSION, *second, event("thread_rolled_back", num_turns=1)]
    assert (convert_recording(lines), find_end(lines)) == (READ, ("stop", None))
    assert convert_recording([*lines, *third]) == [
        *READ,
        Message.user("How long are they?"),
        Message.assistant("Short."),
    ]
    everything = [*SESSION, event("thread_rolled_back", num_turns=7)]
    assert convert_recording(everything) == READ[:2]
    with pytest.raises(TraceFormatError, match="entry 16: a thread_rolled_back has no num_turns"):
        convert_recording([*SESSION, event("thread_rolled_back")])


def test_a_summary_of_earlier_messages_is_no_answer() -> None:
    summary = line("compacted", message="The user asked for files.", replacement_history=[said("user", "x")["payload"]])
    *_, before, _, _ = convert_recording([*SESSION, summary, *asked("And?"), said("assistant", "None.")])
    assert before == Message.system('[compacted] {"message": "The user asked for files."}')
    last = convert_recording([*SESSION, summary])[-1]
    assert (last.content, last.notes) == ("One: notes.", ("a summary after the last message was left out",))


def test_a_continued_session_begins_with_the_other_one() -> None:
    fork = line("session_meta", id="child", forked_from_id="019a", cwd="/home/ada/genes")
    assert convert_recording([fork, *SESSION]) == READ[1:]
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "019a", "depth": 1}}}
    spawned = line("session_meta", id="child", source=source, base_instructions={"text": "You are Codex."})
    assert convert_recording([spawned, *SESSION]) == READ
    assert convert_recording([*SESSION, META, *asked("And?"), said("assistant", "None.")])[-1].content == "None."
    with pytest.raises(TraceFormatError, match="entry 16: another session begins"):
        convert_recording([*SESSION, line("session_meta", id="other")])


@pytest.mark.parametrize(
    ("last", "end"),
    [
        ([BEGUN, *asked("And?")], ("failed", "error: the session ends in the middle of a turn")),
        ([BEGUN, event("turn_aborted", reason="interrupted")], ("failed", "error: the turn was interrupted")),
        ([BEGUN, event("turn_aborted", reason="budget_limited")], ("length", None)),
        (
            [BEGUN, event("error", message="usage limit"), event("task_complete", last_agent_message=None)],
            ("failed", "error: usage limit"),
        ),
        (
            [BEGUN, event("task_complete", last_agent_message=None, error={"message": "overloaded"})],
            ("failed", "error: overloaded"),
        ),
        ([BEGUN, event("error", message="a hook failed"), DONE], ("stop", None)),
    ],
)
def test_the_last_turn_of_a_session_states_its_end(last: list[JSON], end: tuple[str, str | None]) -> None:
    assert find_end([*SESSION, *last]) == end
    assert find_end({"messages": [*SESSION, *last]}) == end


def test_lines_of_unknown_types_are_counted() -> None:
    lines = [*SESSION, line("hologram"), line("hologram"), line("dream")]
    assert convert_recording(lines)[-1].notes == ("3 lines of unknown types left out: hologram, dream",)


RAN = {"id": "item_1", "type": "command_execution", "command": "bash -lc ls"}
EVENTS: list[JSON] = [
    {"type": "thread.started", "thread_id": "019a"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "**Listing**"}},
    {"type": "item.started", "item": {**RAN, "aggregated_output": "", "exit_code": None, "status": "in_progress"}},
    {
        "type": "item.completed",
        "item": {**RAN, "aggregated_output": "notes.txt\n", "exit_code": 0, "status": "completed"},
    },
    {"type": "item.completed", "item": {"id": "item_2", "type": "agent_message", "text": "One: notes."}},
    {"type": "turn.completed", "usage": {"input_tokens": 6040, "cached_input_tokens": 4992, "output_tokens": 129}},
]
LS = ToolCall("item_1", "command_execution", {"command": "bash -lc ls"})


def completed(**item: Any) -> JSON:
    return {"type": "item.completed", "item": item}


def test_the_events_of_a_run_are_read() -> None:
    assert convert_recording(EVENTS) == [
        Message.assistant("", [LS], "**Listing**"),
        Message.tool("notes.txt\n", LS),
        Message.assistant("One: notes."),
    ]
    assert is_conversation(EVENTS)
    assert find_end(EVENTS) == ("stop", None)


def test_tools_of_a_run_are_calls_with_results() -> None:
    found = {"content": [{"type": "text", "text": "17q21"}], "structured_content": None}
    tool = {"type": "mcp_tool_call", "server": "genes", "tool": "look_up", "arguments": {"gene": "BRCA1"}}
    changes = [{"path": "/home/ada/genes/a.txt", "kind": "add"}]
    calls = [ToolCall("a", "look_up", {"gene": "BRCA1"}), ToolCall("b", "look_up", {"gene": "BRCA1"})]
    calls += [ToolCall("c", "file_change", {"changes": changes}), ToolCall("d", "command_execution", {"command": "x"})]
    assert convert_recording(
        [
            EVENTS[0],
            {"type": "item.started", "item": {"id": "t", "type": "todo_list", "items": []}},
            completed(id="a", **tool, result=found, error=None, status="completed"),
            completed(id="b", **tool, result=None, error={"message": "no such gene"}, status="failed"),
            completed(id="c", type="file_change", changes=changes, status="completed"),
            completed(
                id="d", type="command_execution", command="x", aggregated_output="", exit_code=127, status="failed"
            ),
            completed(id="t", type="todo_list", items=[]),
        ]
    ) == [
        Message.assistant("", [ToolCall("t", "todo_list", {"items": []}), calls[0]]),
        Message.tool("17q21", calls[0]),
        Message.assistant("", [calls[1]]),
        Message.tool("no such gene", calls[1], is_error=True),
        Message.assistant("", [calls[2]]),
        Message.tool('{"status": "completed"}', calls[2]),
        Message.assistant("", [calls[3]]),
        Message.tool("exit code 127", calls[3], is_error=True),
    ]


def test_each_text_of_a_run_is_a_message_and_errors_are_notes() -> None:
    first = completed(item_type="assistant_message", text="I look.")
    error = completed(id="item_9", type="error", message="a model is deprecated")
    *_, before, last = convert_recording([*EVENTS[:-2], first, EVENTS[-2], error, completed(type="dream")])
    assert (before.content, last.content) == ("I look.", "One: notes.")
    assert last.notes == ("an error was reported: a model is deprecated", "1 line of unknown types left out: dream")


def test_a_run_of_another_thread_is_refused() -> None:
    assert len(convert_recording([*EVENTS, *EVENTS])) == 6
    with pytest.raises(TraceFormatError, match="entry 8: another session begins"):
        convert_recording([*EVENTS, {**EVENTS[0], "thread_id": "other"}])


@pytest.mark.parametrize(
    ("last", "end"),
    [
        ([], ("failed", "error: the session ends in the middle of a turn")),
        ([{"type": "error", "message": "Reconnecting... 1/5"}, EVENTS[-1]], ("stop", None)),
        ([{"type": "error", "message": "stream disconnected"}], ("failed", "error: stream disconnected")),
        ([{"type": "turn.failed", "error": {"message": "quota exceeded"}}], ("failed", "error: quota exceeded")),
    ],
)
def test_the_last_event_of_a_run_states_its_end(last: list[JSON], end: tuple[str, str | None]) -> None:
    assert find_end([*EVENTS[:-1], *last]) == end
