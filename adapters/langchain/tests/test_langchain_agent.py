"""Agents on chat models of LangChain: the tool loop, its bounds, and its files, over real HTTP on loopback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_servers import Scripted, calls, claude, claude_model, completion, model
from note_agents import ASK, FAILING_TOOLS, NOTE_READ, again, time_out_after_a_turn
from note_agents import workspace as workspace

from karenina_core.models.ports import AgentOptions, ErrorCategory, PortError, Usage
from karenina_langchain.ports import LangchainAgent
from karenina_testing.server import Reply, faults

pytestmark = pytest.mark.anyio
Keep = Callable[[Any], Any]


async def test_the_agent_reads_a_file_and_answers(server: Scripted, open_port: Keep, workspace: Path) -> None:
    server.says(calls(("read_file", {"path": "note.txt"})), completion("It is 4711."))
    reply = await open_port(LangchainAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    assert reply.trace == NOTE_READ
    assert (reply.limit_reached, reply.finish_reason, reply.model) == (False, "stop", "served-model")
    assert reply.usage == Usage(14, 6, 10, 4, 2)
    offered = [tool["function"]["name"] for tool in server.bodies[0]["tools"]]
    assert offered == ["read_file", "list_files", "search_files", "write_file"]
    assert [message["role"] for message in server.bodies[1]["messages"]] == ["user", "assistant", "tool"]


async def test_claude_gets_its_signed_thoughts_and_the_results_back(
    server: Scripted, open_port: Keep, workspace: Path
) -> None:
    thought = {"type": "thinking", "thinking": "Read it.", "signature": "signed"}
    use = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "note.txt"}}
    bad = {"type": "tool_use", "id": "t2", "name": "read_file", "input": {"path": "absent.txt"}}
    server.says(claude(thought, use, bad, stop="tool_use"), claude({"type": "text", "text": "It is 4711."}))
    reply = await open_port(LangchainAgent(claude_model(server))).run(ASK, AgentOptions(workspace=workspace))
    assert [(message.role, message.is_error) for message in reply.trace] == [
        ("assistant", False),
        ("tool", False),
        ("tool", True),
        ("assistant", False),
    ]
    assert (reply.trace[0].reasoning, reply.trace[-1].content) == ("Read it.", "It is 4711.")
    _, said, results = server.bodies[1]["messages"]
    assert said["content"][0] == thought
    assert [(one["tool_use_id"], one["is_error"]) for one in results["content"]] == [("t1", False), ("t2", True)]


@pytest.mark.parametrize("most", [1, 2, 5])
async def test_the_turn_limit_is_exact_and_keeps_the_trace(
    server: Scripted, open_port: Keep, workspace: Path, most: int
) -> None:
    server.says(calls(("list_files", {})))
    reply = await open_port(LangchainAgent(model(server.url))).run(ASK, AgentOptions(most, workspace=workspace))
    assert len(server.bodies) == most
    assert [message.role for message in reply.trace] == ["assistant", "tool"] * (most - 1) + ["assistant"]
    assert reply.limit_reached
    assert reply.usage.calls == most


async def test_an_answer_in_the_last_turn_is_no_limit(server: Scripted, open_port: Keep, workspace: Path) -> None:
    server.says(calls(("list_files", {})), completion("One file."))
    reply = await open_port(LangchainAgent(model(server.url))).run(ASK, AgentOptions(2, workspace=workspace))
    assert (reply.limit_reached, reply.trace[-1].content) == (False, "One file.")


@pytest.mark.parametrize(("name", "arguments", "told"), FAILING_TOOLS)
async def test_a_failed_tool_is_in_the_trace(
    server: Scripted, open_port: Keep, workspace: Path, name: str, arguments: dict[str, Any] | str, told: str
) -> None:
    server.says(calls((name, arguments)), calls(("read_file", {"path": "note.txt"})), completion("It is 4711."))
    reply = await open_port(LangchainAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    failed, answer = reply.trace[1], reply.trace[-1]
    assert (failed.is_error, answer.content) == (True, "It is 4711.")
    assert told in failed.content
    sent = server.bodies[1]["messages"][1]["tool_calls"][0]["function"]
    assert sent["name"] == name


async def test_a_time_out_keeps_what_was_done(server: Scripted, open_port: Keep, workspace: Path) -> None:
    reading = calls(("read_file", {"path": "note.txt"}))
    server.answer = lambda body: reading if len(body["messages"]) == 1 else faults.hang
    error = await time_out_after_a_turn(open_port(LangchainAgent(model(server.url))), workspace)
    assert "(1 turns)" in str(error)
    assert error.partial is not None
    assert [message.role for message in error.partial.trace] == ["assistant", "tool"]
    assert error.partial.usage == Usage(7, 3, 5, 2, 1)


async def test_a_failed_request_is_repeated_alone(server: Scripted, open_port: Keep, workspace: Path) -> None:
    failures = [True]

    def answer(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) == 1:
            return Reply(calls(("list_files", {})))
        return Reply({}, 503) if failures and failures.pop() else Reply(completion())

    server.answer = answer
    port = open_port(LangchainAgent(model(server.url)))
    reply = await port.run(ASK, AgentOptions(workspace=workspace, guard=again))
    assert reply.trace[-1].content == "Paris."
    assert [len(body["messages"]) for body in server.bodies] == [1, 3, 3]


async def test_a_failing_request_keeps_what_was_done(server: Scripted, open_port: Keep, workspace: Path) -> None:
    server.answer = lambda body: (
        Reply(calls(("list_files", {}))) if len(body["messages"]) == 1 else Reply({"error": "slow down"}, 429)
    )
    with pytest.raises(PortError) as caught:
        await open_port(LangchainAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    assert (caught.value.category, caught.value.retriable) == (ErrorCategory.RATE_LIMIT, True)
    assert caught.value.partial is not None
    assert len(caught.value.partial.trace) == 2
    assert len(server.bodies) == 2


async def test_the_first_turn_can_be_made_to_call_a_tool(server: Scripted, open_port: Keep, workspace: Path) -> None:
    server.says(completion())
    port = open_port(LangchainAgent(model(server.url, extra={"first_turn": "tool"})))
    await port.run(ASK, AgentOptions(workspace=workspace))
    await port.run(ASK, AgentOptions())
    assert [body.get("tool_choice") for body in server.bodies] == ["required", None]
