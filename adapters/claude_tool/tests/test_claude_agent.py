"""An agent on a server of the Messages API: what it is sent from turn to turn."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claude_servers import call, model, reply, thought

from karenina_claude_tool.ports import ClaudeAgent
from karenina_core.models.ports import AgentOptions, Message, PortError, ToolCall, Turn, Usage
from karenina_testing.server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio
Keep = Callable[[Any], Any]
ASK = [Message.system("Look before you speak."), Message.user("What does the note say?")]
ASKED = {"role": "user", "content": [{"type": "text", "text": "What does the note say?"}]}
READ = call("read_file", path="note.txt")


async def test_signed_thoughts_and_results_are_sent_back(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    sealed = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    blocks = [thought("A note."), sealed, call("read_file", 1, path="note.txt"), call("read_file", 2, path="absent")]
    server.says(reply(*blocks, stop="tool_use"), reply(thought("There."), "It is 4711."))
    found = await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    asked, said, heard = server.bodies[1]["messages"]
    assert (asked, said) == (ASKED, {"role": "assistant", "content": blocks})
    assert heard["role"] == "user"
    assert [(block["type"], block["tool_use_id"], block.get("is_error")) for block in heard["content"]] == [
        ("tool_result", "toolu_001", None),
        ("tool_result", "toolu_002", True),
    ]
    assert [message.reasoning for message in found.trace if message.role == "assistant"] == [
        "A note.\n[redacted_thinking]",
        "There.",
    ]
    assert found.usage == Usage(14, 6, calls=2)


async def test_arguments_with_an_infinity_are_a_port_error(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    server.says(reply(call("read_file", path=float("inf")), stop="tool_use"), reply("There."))
    with pytest.raises(PortError, match="not JSON compliant"):
        await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))


async def test_tools_are_offered_with_their_schemas(server: ScriptedServer, open_port: Keep, workspace: Path) -> None:
    server.says(reply("It is 4711."))
    await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    offered = {tool["name"]: tool for tool in server.bodies[0]["tools"]}
    assert offered["read_file"].keys() == {"name", "description", "input_schema"}
    assert offered["read_file"]["input_schema"]["type"] == "object"
    assert "tool_choice" not in server.bodies[0]


async def test_without_tools_none_are_named(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("I cannot look."))
    port = open_port(ClaudeAgent(model(server.url, extra={"first_turn": "tool"})))
    await port.run(ASK, AgentOptions())
    assert not {"tools", "tool_choice"} & server.bodies[0].keys()


async def test_the_first_turn_may_have_to_be_a_call(server: ScriptedServer, open_port: Keep, workspace: Path) -> None:
    server.says(reply(READ, stop="tool_use"), reply("It is 4711."))
    port = open_port(ClaudeAgent(model(server.url, extra={"first_turn": "tool"})))
    await port.run(ASK, AgentOptions(workspace=workspace))
    assert [body.get("tool_choice") for body in server.bodies] == [{"type": "any"}, None]


async def test_a_paused_turn_continues_as_one_message(server: ScriptedServer, open_port: Keep, workspace: Path) -> None:
    first, second = [thought("Long."), "It is "], ["4711."]
    server.says(reply(*first, stop="pause_turn"), reply(*second))
    found = await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    assert found.trace == (Message.assistant("It is 4711.", reasoning="Long."),)
    assert (found.finish_reason, found.usage.calls) == ("stop", 2)
    assert server.bodies[1]["messages"] == [ASKED, {"role": "assistant", "content": reply(*first)["content"]}]


async def test_a_pause_counts_as_a_turn(server: ScriptedServer, open_port: Keep, workspace: Path) -> None:
    server.says(reply("I look. ", stop="pause_turn"), reply(READ, stop="tool_use"), reply("Never asked."))
    found = await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(max_turns=2, workspace=workspace))
    assert found.limit_reached
    assert found.trace == (Message.assistant("I look. ", [ToolCall("toolu_001", "read_file", {"path": "note.txt"})]),)


async def test_a_truncated_tool_call_is_not_carried_out(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    cut = call("write_file", 2, path="note.txt")
    server.says(reply(READ, cut, stop="max_tokens"), reply("It is 4711."))
    found = await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    _, read, unread, _ = found.trace
    assert "4711" in read.content
    assert unread.is_error
    assert "limit of tokens" in unread.content
    assert [block.get("is_error") for block in server.bodies[1]["messages"][-1]["content"]] == [None, True]


async def test_a_truncated_answer_has_finish_reason_length(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("It is 47", stop="max_tokens"))
    found = await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions())
    assert (found.trace[-1].content, found.finish_reason) == ("It is 47", "length")


async def test_calls_without_ids_are_answered_under_new_ones(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    nameless = {key: value for key, value in READ.items() if key != "id"}
    server.says(reply("", nameless, nameless, stop="tool_use"), reply("It is 4711."))
    found = await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    ids = [call.id for call in found.trace[0].tool_calls]
    assert len(set(ids)) == 2
    _, said, heard = server.bodies[1]["messages"]
    assert [block["id"] for block in said["content"]] == ids
    assert [block["tool_use_id"] for block in heard["content"]] == ids


async def test_arguments_that_are_not_an_object_are_a_tool_error(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    server.says(reply({**READ, "input": "{not json"}, stop="tool_use"), reply("Sorry."))
    found = await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    assert found.trace[1].is_error
    assert "not a JSON object" in found.trace[1].content
    assert isinstance(server.bodies[1]["messages"][1]["content"][0]["input"], dict)


async def test_empty_texts_which_the_api_refuses_are_not_sent_back(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    server.says(reply("", " \n", READ, stop="tool_use"), reply("It is 4711."))
    await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    assert server.bodies[1]["messages"][1] == {"role": "assistant", "content": [READ]}


async def test_a_journaled_turn_keeps_its_signed_thoughts(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    kept: list[Turn] = []

    async def keep(ask: Callable[[], Awaitable[Turn]], _: Sequence[Message]) -> Turn:
        turn = await ask()
        kept.append(replace(turn, wire=json.loads(json.dumps(turn.wire))))
        return turn

    async def replay(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
        return kept[0] if not trace else await ask()

    port = open_port(ClaudeAgent(model(server.url)))
    server.says(reply(thought("A note."), READ, stop="tool_use"), reply("It is 4711."))
    first = await port.run(ASK, AgentOptions(workspace=workspace, guard=keep))
    again = await port.run(ASK, AgentOptions(workspace=workspace, guard=replay))
    assert again.trace == first.trace
    assert server.bodies[2] == server.bodies[1]


async def test_a_request_that_is_made_again_is_the_same(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    async def stubborn(ask: Callable[[], Awaitable[Turn]], _: Sequence[Message]) -> Turn:
        try:
            return await ask()
        except PortError:
            return await ask()

    port = open_port(ClaudeAgent(model(server.url, extra={"prompt_caching": "5m"})))
    server.says(reply(READ, stop="tool_use"), Reply("overloaded", 529), reply("It is 4711."))
    await port.run(ASK, AgentOptions(workspace=workspace, guard=stubborn))
    assert server.bodies[2] == server.bodies[1]
    assert len(server.bodies[2]["messages"]) == 3


async def test_prompt_caching_marks_the_past_of_the_conversation(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    server.says(reply(READ, stop="tool_use"), reply({**READ, "id": "toolu_002"}, stop="tool_use"), reply("4711."))
    port = open_port(ClaudeAgent(model(server.url, extra={"prompt_caching": "1h"})))
    await port.run(ASK, AgentOptions(workspace=workspace))
    for body in server.bodies:
        marked = [block for message in body["messages"] for block in message["content"] if "cache_control" in block]
        assert marked == [body["messages"][-1]["content"][-1]]
        assert [block["cache_control"] for block in [*marked, *body["system"]]] == [
            {"type": "ephemeral", "ttl": "1h"},
            {"type": "ephemeral", "ttl": "1h"},
        ]


async def test_without_a_system_prompt_the_tools_are_marked(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    server.says(reply("4711."))
    port = open_port(ClaudeAgent(model(server.url, extra={"prompt_caching": "5m"})))
    await port.run(ASK[1:], AgentOptions(workspace=workspace))
    marks = ["cache_control" in tool for tool in server.bodies[0]["tools"]]
    assert marks == [False] * (len(marks) - 1) + [True]


async def test_without_prompt_caching_nothing_is_marked(
    server: ScriptedServer, open_port: Keep, workspace: Path
) -> None:
    server.says(reply(READ, stop="tool_use"), reply("4711."))
    await open_port(ClaudeAgent(model(server.url))).run(ASK, AgentOptions(workspace=workspace))
    assert [request.text for request in server.requests if "cache_control" in request.text] == []
