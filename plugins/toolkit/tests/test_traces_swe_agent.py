"""Trajectories of SWE-agent and mini-swe-agent."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, find_end, find_patch, is_conversation

JSON = dict[str, Any]
PATCH = "diff --git a/gene.py b/gene.py\n--- a/gene.py\n+++ b/gene.py\n@@ -1 +1 @@\n-x\n+y"
TASK = "Solve this issue."
LIST, SUBMIT = ToolCall("call_1", "bash", {"command": "ls"}), ToolCall("call_2", "bash", {"command": "submit"})
OBSERVED = "<returncode>0</returncode>\n<output>\ngene.py\n</output>"


def acted(text: str, command: str) -> JSON:
    extra = {"actions": [{"command": command}], "cost": 0.003, "timestamp": 1706000000.0}
    return {"role": "assistant", "content": f"{text}\n\n```mswea_bash_command\n{command}\n```", "extra": extra}


MESSAGES: list[JSON] = [
    {"role": "system", "content": "You solve issues."},
    {"role": "user", "content": TASK},
    acted("I look.", "ls"),
    {"role": "user", "content": OBSERVED, "extra": {"returncode": 0, "timestamp": 1706000001.0}},
    acted("Done.", "submit"),
]


def mini(status: str | None, submission: str, *last: JSON) -> JSON:
    about = {"model_stats": {"instance_cost": 0.05, "api_calls": 2}, "mini_version": "2.0.0"}
    info = {**about, "exit_status": status, "submission": submission}
    return {"info": info, "messages": [*MESSAGES, *last], "trajectory_format": "mini-swe-agent-1.1"}


def ended(status: str, submission: str) -> JSON:
    return {"role": "exit", "content": submission or status, "extra": {"exit_status": status, "submission": submission}}


READ = [
    Message.system("You solve issues."),
    Message.user(TASK),
    Message.assistant("I look.\n\n```mswea_bash_command\nls\n```", [LIST]),
    Message.tool(OBSERVED, LIST),
    Message.assistant("Done.\n\n```mswea_bash_command\nsubmit\n```", [SUBMIT]),
]


AS_USER: JSON = {**ended("Submitted", PATCH), "role": "user", "content": ""}


@pytest.mark.parametrize(
    "last", [[ended("Submitted", PATCH)], [AS_USER], [{"role": "user", "content": f"{PATCH}\n"}], []]
)
def test_the_submission_of_a_trajectory_is_its_answer(last: list[JSON]) -> None:
    run = mini("Submitted", PATCH, *last)
    assert convert_recording(run) == [*READ, Message.assistant(PATCH)]
    assert (is_conversation(run), find_end(run), find_patch(run)) == (True, ("stop", None), f"{PATCH}\n")
    answer = mini("Submitted", "17q21\n")
    assert (convert_recording(answer)[-1], find_patch(answer)) == (Message.assistant("17q21"), None)


def test_responses_of_openai_among_the_messages_are_read_with_their_calls_and_outputs() -> None:
    def called(number: int, command: str, *before: JSON) -> JSON:
        about = {"type": "function_call", "call_id": f"c{number}", "name": "bash"}
        call = {**about, "arguments": f'{{"command": "{command}"}}'}
        actions = [{"command": command, "tool_call_id": f"c{number}"}]
        return {"object": "response", "id": "r", "output": [*before, call], "extra": {"actions": actions, "cost": 0.01}}

    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look first."}]}
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    output = {"type": "function_call_output", "call_id": "c1", "output": "no file", "extra": {"returncode": 1}}
    messages: list[JSON] = [*MESSAGES[:2], called(1, "ls", thought, text), output, called(2, "submit")]
    run = {**mini("Submitted", PATCH), "messages": [*messages, ended("Submitted", PATCH)]}
    one, two = ToolCall("c1", "bash", {"command": "ls"}), ToolCall("c2", "bash", {"command": "submit"})
    assert convert_recording(run) == [
        *READ[:2],
        Message.assistant("I look.", [one], "Look first."),
        Message.tool("no file", one, is_error=True),
        Message.assistant("", [two]),
        Message.assistant(PATCH),
    ]
    with pytest.raises(TraceFormatError, match="entry 3 is not a message with a role"):
        convert_recording({**run, "messages": [*messages[:2], {"object": "response", "output": [None]}]})


def test_messages_alone_end_with_the_submission_too() -> None:
    assert convert_recording([*MESSAGES, ended("Submitted", PATCH)]) == [*READ, Message.assistant(PATCH)]
    assert convert_recording([*MESSAGES, ended("LimitsExceeded", "")]) == READ


def test_a_command_that_failed_is_an_error() -> None:
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "no", "extra": {"returncode": 2}}
    run = {**mini(None, ""), "messages": [call, result, *MESSAGES[2:3], {**result, "role": "user"}]}
    assert [message.is_error for message in convert_recording(run)] == [False, True, False, True]


@pytest.mark.parametrize(
    ("status", "end"),
    [
        ("Submitted", ("stop", None)),
        ("submitted", ("stop", None)),
        ("submitted (exit_cost)", ("length", None)),
        ("exit_context", ("length", None)),
        ("exit_format", ("length", None)),
        ("LimitsExceeded", ("length", None)),
        ("TimeExceeded", ("length", None)),
        ("exit_environment_error", ("failed", "error: exit_environment_error")),
        ("submitted (exit_error)", ("failed", "error: submitted (exit_error)")),
        ("APIConnectionError", ("failed", "error: APIConnectionError")),
        (None, ("failed", "error: the run has no end")),
    ],
)
def test_the_exit_status_of_a_trajectory_states_its_end(status: str | None, end: tuple[str, str | None]) -> None:
    assert find_end(mini(status, "")) == end


def step(role: str, content: str, **more: Any) -> JSON:
    return {"role": role, "content": content, "agent": "main", "message_type": "observation", **more}


FUNCTION = {"id": "c1", "type": "function", "function": {"name": "find_file", "arguments": '{"file_name": "gene.py"}'}}
FIND = ToolCall("c1", "find_file", {"file_name": "gene.py"})


def trajectory(*history: JSON, **info: Any) -> JSON:
    steps = [{"action": "ls", "observation": "gene.py", "response": "I look.", "thought": "I look.", "query": []}]
    return {"environment": "swe_main", "trajectory": steps, "history": [*history], "info": info, "replay_config": "{}"}


def test_a_history_of_sweagent_is_read_with_its_calls_and_actions() -> None:
    system, task = step("system", "You solve issues.", message_type="system_prompt"), step("user", TASK)
    called = step("assistant", "I look.", thought="I look.", action="find_file gene.py", tool_calls=[FUNCTION])
    found = step("tool", "Found 1 match.", tool_call_ids=["c1"])
    wrote = step("assistant", "I look.\n```\nls\n```", thought="I look.", action="ls\n")
    demo = step("assistant", "x", thought="x", action="ls", is_demo=True)
    run = trajectory(
        *(system, demo, task, called, found, wrote, step("user", "gene.py")), exit_status="submitted", submission=PATCH
    )
    shell = ToolCall("call_1", "bash", {"command": "ls\n"})
    assert convert_recording(run) == [
        *READ[:2],
        Message.assistant("I look.", [FIND]),
        Message.tool("Found 1 match.", FIND),
        Message.assistant("I look.\n```\nls\n```", [shell]),
        Message.tool("gene.py", shell),
        Message.assistant(PATCH),
    ]
    assert (is_conversation(run), find_end(run), find_patch(run)) == (True, ("stop", None), f"{PATCH}\n")
    stopped = trajectory(system, task, called, exit_status="exit_cost", submission=None)
    assert (convert_recording(stopped)[-1].tool_calls, find_end(stopped)) == ((FIND,), ("length", None))
