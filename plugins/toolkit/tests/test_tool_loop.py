"""The tool loop of all adapters: turns, limits, pauses and what is kept of a run that stops early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.ports import (
    AgentOptions,
    AgentReply,
    ErrorCategory,
    Message,
    PortError,
    ToolCall,
    Turn,
    Usage,
)
from karenina_toolkit.agents.tool_loop import CUT_OFF, run_tool_loop
from karenina_toolkit.structured.reply_checks import EmptyReply

LOOK = ToolCall("c1", "list_files", {})
ONE = Usage(10, 2, calls=1)


def calls(*wanted: ToolCall, **more: Any) -> Turn:
    return Turn(Message.assistant("", wanted), ONE, "tool_calls", **more)


def says(text: str, **more: Any) -> Turn:
    return Turn(Message.assistant(text), ONE, **more)


class Scripted:
    """A provider that returns scripted turns, and records what it receives."""

    where = "a script"

    def __init__(self, *turns: Turn | PortError) -> None:
        self.turns = list(turns)
        self.sent: list[Message] = []
        self.wires: list[Any] = []
        self.firsts: list[bool] = []

    async def request_turn(self, tools: Mapping[str, Any], *, first: bool) -> Turn:
        self.firsts.append(first)
        if not self.turns:
            await asyncio.Event().wait()
        turn = self.turns.pop(0)
        if isinstance(turn, PortError):
            raise turn
        return turn

    def add_turn(self, turn: Turn) -> None:
        self.sent.append(turn.message)
        self.wires.append(turn.wire)

    def add_results(self, results: Sequence[Message]) -> None:
        self.sent += results


def run(provider: Scripted, workspace: Path, **options: Any) -> AgentReply:
    return asyncio.run(run_tool_loop(provider, AgentOptions(workspace=workspace, **options)))


def test_tools_are_called_until_the_model_answers(tmp_path: Path) -> None:
    provider = Scripted(calls(LOOK), says("Nothing there."))
    reply = run(provider, tmp_path)
    assert [message.role for message in reply.trace] == ["assistant", "tool", "assistant"]
    assert (reply.usage, reply.limit_reached) == (Usage(20, 4, calls=2), False)
    assert provider.sent == list(reply.trace)
    assert provider.firsts == [True, False]


def test_at_the_limit_the_last_calls_are_not_carried_out(tmp_path: Path) -> None:
    reply = run(Scripted(*(calls(LOOK) for _ in range(5))), tmp_path, max_turns=3)
    assert reply.limit_reached
    assert [message.role for message in reply.trace] == ["assistant", "tool", "assistant", "tool", "assistant"]


def test_a_paused_turn_and_the_next_become_one_message(tmp_path: Path) -> None:
    provider = Scripted(says("I think", unfinished=True), says(" and say."))
    reply = run(provider, tmp_path)
    assert reply.trace == (Message.assistant("I think and say."),)
    assert reply.usage.calls == 2
    assert run(Scripted(says("I", unfinished=True), says("never")), tmp_path, max_turns=1).limit_reached


def test_a_call_that_was_cut_off_is_not_carried_out(tmp_path: Path) -> None:
    second = ToolCall("c2", "list_files", {})
    cut = Turn(Message.assistant("", (LOOK, second)), ONE, "length")
    reply = run(Scripted(cut, says("Well.")), tmp_path)
    assert [(said.is_error, said.content == CUT_OFF) for said in reply.trace[1:3]] == [(False, False), (True, True)]


def test_a_call_without_an_id_gets_one(tmp_path: Path) -> None:
    provider = Scripted(calls(ToolCall("", "list_files", {}), wire={"as": "it came"}), says("Done.", wire={"kept": 1}))
    reply = run(provider, tmp_path)
    assert reply.trace[1].tool_call_id == "call_1_1" == reply.trace[0].tool_calls[0].id
    assert provider.wires == [None, {"kept": 1}]


def test_the_trace_before_a_failure_or_timeout_is_kept(tmp_path: Path) -> None:
    with pytest.raises(PortError, match="gone") as caught:
        run(Scripted(calls(LOOK), PortError("gone", category=ErrorCategory.CONNECTION)), tmp_path)
    assert caught.value.partial is not None
    assert (len(caught.value.partial.trace), caught.value.partial.usage) == (2, ONE)
    for seconds in (0.5, 5, 50):  # a busy machine takes longer to come to the second turn
        with pytest.raises(PortError, match=f"a script: the agent did not finish within {seconds:g} s") as late:
            run(Scripted(calls(LOOK)), tmp_path, timeout=seconds)
        assert late.value.category is ErrorCategory.TIMEOUT
        assert late.value.partial is not None
        if late.value.partial.trace:
            break
    assert "(1 turns)" in str(late.value)
    assert len(late.value.partial.trace) == 2


def test_a_guard_may_return_a_journaled_turn(tmp_path: Path) -> None:
    """A journaled turn is added to the conversation like a new one, and no request is made for it."""
    provider = Scripted(says("Fresh."))
    kept = calls(LOOK, wire={"signed": True})

    async def guard(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
        return kept if not trace else await ask()

    reply = run(provider, tmp_path, guard=guard)
    assert [message.role for message in reply.trace] == ["assistant", "tool", "assistant"]
    assert provider.wires == [{"signed": True}, None]
    assert provider.firsts == [False]


def test_a_workspace_that_is_not_there_is_a_permanent_error(tmp_path: Path) -> None:
    with pytest.raises(PortError, match="a script: ") as caught:
        run(Scripted(), tmp_path / "absent")
    assert caught.value.category is ErrorCategory.PERMANENT


def test_a_call_between_tags_is_carried_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("17q21")
    written = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>'
    reply = run(Scripted(says(written), says("It is 17q21.")), tmp_path)
    assert [(one.role, one.content) for one in reply.trace] == [
        ("assistant", ""),
        ("tool", "17q21"),
        ("assistant", "It is 17q21."),
    ]


def test_a_turn_that_stays_empty_after_results_ends_the_run(tmp_path: Path) -> None:
    empty = EmptyReply("the server sent an empty reply", Usage(5, 1, calls=1))
    reply = run(Scripted(calls(ToolCall("1", "list_files")), empty), tmp_path)
    assert reply.trace[-1] == Message("assistant", notes=("the server sent an empty reply",))
    assert reply.usage.output_tokens >= 1


def test_an_empty_first_turn_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EmptyReply):
        run(Scripted(EmptyReply("the server sent an empty reply", Usage(5, 1, calls=1))), tmp_path)
