"""Agents on an OpenAI-compatible server: the tool loop, its bounds, and its files, over real HTTP on loopback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from note_agents import ASK, FAILING_TOOLS, NOTE_READ, again, time_out_after_a_turn, tool_calls
from note_agents import workspace as workspace
from openai_servers import Scripted, completion, model

from karenina_core.models.ports import AgentOptions, ErrorCategory, PortError, Usage
from karenina_openai.agent import OpenAIAgent
from karenina_testing.server import Reply, faults

pytestmark = pytest.mark.anyio


def calls(*wanted: tuple[str, dict[str, Any] | str], **message: Any) -> dict[str, Any]:
    """Return a completion with tool calls: names with their arguments."""
    made = completion(None, tool_calls=tool_calls(*wanted), **message)
    made["choices"][0]["finish_reason"] = "tool_calls"
    return made


def one_after_another(*replies: dict[str, Any]) -> Callable[[dict[str, Any]], Reply]:
    """Return a function that answers each request with the next reply, and then repeats the last one."""
    left = list(replies)
    return lambda _: Reply(left.pop(0) if len(left) > 1 else left[0])


async def test_the_agent_reads_a_file_and_answers(
    server: Scripted, open_port: Callable[[Any], Any], workspace: Path
) -> None:
    server.answer = one_after_another(calls(("read_file", {"path": "note.txt"})), completion("It is 4711."))
    reply = await open_port(OpenAIAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    assert reply.trace == NOTE_READ
    assert (reply.limit_reached, reply.finish_reason, reply.model) == (False, "stop", "served-model")
    assert reply.usage == Usage(14, 6, calls=2)
    assert [message["role"] for message in server.bodies[1]["messages"]] == ["user", "assistant", "tool"]


async def test_workspace_tools_are_offered_only_with_a_workspace(
    server: Scripted, open_port: Callable[[Any], Any], workspace: Path
) -> None:
    server.says(body=completion())
    port = open_port(OpenAIAgent(model(server.url)))
    await port.run(ASK, AgentOptions(workspace=workspace))
    await port.run(ASK, AgentOptions())
    offered = [tool["function"]["name"] for tool in server.bodies[0]["tools"]]
    assert offered == ["read_file", "list_files", "search_files", "write_file"]
    assert "tools" not in server.bodies[1]


@pytest.mark.parametrize("most", [1, 2, 5])
async def test_the_turn_limit_is_exact_and_keeps_the_trace(
    server: Scripted, open_port: Callable[[Any], Any], workspace: Path, most: int
) -> None:
    server.says(body=calls(("list_files", {})))
    reply = await open_port(OpenAIAgent(model(server.url))).run(ASK, AgentOptions(most, workspace=workspace))
    assert len(server.bodies) == most
    assert [message.role for message in reply.trace] == ["assistant", "tool"] * (most - 1) + ["assistant"]
    assert reply.limit_reached
    assert reply.usage == Usage(7 * most, 3 * most, calls=most)


async def test_an_answer_in_the_last_turn_is_within_the_limit(
    server: Scripted, open_port: Callable[[Any], Any], workspace: Path
) -> None:
    server.answer = one_after_another(calls(("list_files", {})), completion("One file."))
    reply = await open_port(OpenAIAgent(model(server.url))).run(ASK, AgentOptions(2, workspace=workspace))
    assert (reply.limit_reached, reply.trace[-1].content) == (False, "One file.")


@pytest.mark.parametrize(("name", "arguments", "told"), FAILING_TOOLS)
async def test_a_tool_failure_is_in_the_trace_and_ends_nothing(
    server: Scripted,
    open_port: Callable[[Any], Any],
    workspace: Path,
    name: str,
    arguments: dict[str, Any] | str,
    told: str,
) -> None:
    server.answer = one_after_another(
        calls((name, arguments), ("read_file", {"path": "note.txt"})), completion("It is 4711.")
    )
    reply = await open_port(OpenAIAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    _, failed, read, answer = reply.trace
    assert failed.is_error
    assert told in failed.content
    assert (read.is_error, read.content, answer.content) == (False, "The code is 4711.\n", "It is 4711.")


async def test_a_time_out_keeps_what_was_done(
    server: Scripted, open_port: Callable[[Any], Any], workspace: Path
) -> None:
    reading = Reply(calls(("read_file", {"path": "note.txt"})))
    server.answer = lambda body: reading if len(body["messages"]) == 1 else faults.hang
    error = await time_out_after_a_turn(open_port(OpenAIAgent(model(server.url))), workspace)
    assert "(1 turns)" in str(error)
    assert error.partial is not None
    assert [message.role for message in error.partial.trace] == ["assistant", "tool"]
    assert error.partial.usage == Usage(7, 3, calls=1)


async def test_a_failed_request_keeps_category_and_trace(
    server: Scripted, open_port: Callable[[Any], Any], workspace: Path
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) == 1:
            return Reply(calls(("list_files", {})))
        return Reply({"error": {"message": "slow down"}}, status=429)

    server.answer = answer
    with pytest.raises(PortError) as caught:
        await open_port(OpenAIAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    assert (caught.value.category, caught.value.retriable) == (ErrorCategory.RATE_LIMIT, True)
    assert caught.value.partial is not None
    assert len(caught.value.partial.trace) == 2


async def test_a_guard_can_retry_one_failed_request(
    server: Scripted, open_port: Callable[[Any], Any], workspace: Path
) -> None:
    failures = [True]

    def answer(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) == 1:
            return Reply(calls(("list_files", {})))
        return Reply({}, status=503) if failures and failures.pop() else Reply(completion())

    server.answer = answer
    options = AgentOptions(workspace=workspace, guard=again)
    reply = await open_port(OpenAIAgent(model(server.url))).run(ASK, options)
    assert reply.trace[-1].content == "Paris."
    assert [len(body["messages"]) for body in server.bodies] == [1, 3, 3]


async def test_calls_without_an_id_get_one(server: Scripted, open_port: Callable[[Any], Any], workspace: Path) -> None:
    unnamed = calls(("list_files", {}), ("list_files", {}))
    for call in unnamed["choices"][0]["message"]["tool_calls"]:
        del call["id"]
    server.answer = one_after_another(unnamed, completion())
    reply = await open_port(OpenAIAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    ids = [call.id for call in reply.trace[0].tool_calls]
    assert len(set(ids)) == 2
    assert [message.tool_call_id for message in reply.trace[1:3]] == ids


async def test_a_missing_workspace_is_an_error_before_any_request(
    server: Scripted, open_port: Callable[[Any], Any], tmp_path: Path
) -> None:
    with pytest.raises(PortError, match="is not a folder") as caught:
        await open_port(OpenAIAgent(model(server.url))).run(ASK, AgentOptions(workspace=tmp_path / "gone"))
    assert caught.value.category is ErrorCategory.PERMANENT
    assert server.bodies == []


async def test_the_first_turn_can_be_made_to_call_a_tool(
    server: Scripted, open_port: Callable[[Any], Any], workspace: Path
) -> None:
    server.says(body=completion())
    port = open_port(OpenAIAgent(model(server.url, extra={"first_turn": "tool"})))
    await port.run(ASK, AgentOptions(workspace=workspace))
    await port.run(ASK, AgentOptions())
    assert [body.get("tool_choice") for body in server.bodies] == ["required", None]
