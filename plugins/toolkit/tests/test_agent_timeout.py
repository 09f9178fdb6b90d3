"""The time limit of agents: requests and tools count, waiting for a request does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from karenina_core.models.ports import AgentOptions, AgentReply, ErrorCategory, Message, PortError, ToolCall, Turn
from karenina_testing.virtual_time import run_in_virtual_time
from karenina_toolkit.agents.tool_loop import run_tool_loop

CALL = ToolCall("c1", "wait", {})


@dataclass
class Slow:
    """A model that takes `seconds` for each request and calls a tool in all replies but the `last`."""

    seconds: float = 0.0
    last: int = 3
    where: str = "a slow model"
    requests: int = 0

    async def request_turn(self, tools: Mapping[str, Any], *, first: bool) -> Turn:
        await asyncio.sleep(self.seconds)
        self.requests += 1
        return Turn(Message.assistant("Done.") if self.requests == self.last else Message.assistant("", [CALL]))

    def add_turn(self, turn: Turn) -> None:
        """Do nothing: the conversation is not used."""

    add_results = add_turn  # type: ignore[assignment]


@dataclass
class Waiting:
    """A tool that takes `seconds`."""

    seconds: float = 0.0
    name: str = "wait"
    description: str = "Waits."
    schema: Mapping[str, Any] = field(default_factory=dict)

    async def call(self, arguments: Mapping[str, Any]) -> str:
        await asyncio.sleep(self.seconds)
        return "waited"


def run(model: Slow, tool: Waiting, **options: Any) -> AgentReply:
    return run_in_virtual_time(run_tool_loop(model, AgentOptions(tools=(tool,), timeout=10.0, **options)))


async def queued(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
    """Wait for an hour, make a request that fails, wait for another hour, and repeat it."""
    await asyncio.sleep(3600)
    await ask()
    await asyncio.sleep(3600)
    turn = await ask()
    await asyncio.sleep(3600)
    return turn


def test_waiting_for_requests_is_not_counted() -> None:
    reply = run(Slow(1.0, last=6), Waiting(1.0), guard=queued)
    assert [message.role for message in reply.trace] == ["assistant", "tool", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(("model", "tool"), [(Slow(4.0), Waiting()), (Slow(), Waiting(6.0))])
def test_requests_and_tools_are_counted_across_turns(model: Slow, tool: Waiting) -> None:
    with pytest.raises(PortError, match=r"did not finish within 10 s .*; raise my_setting, which") as late:
        run(model, tool, guard=once, timeout_setting="my_setting")
    assert late.value.category is ErrorCategory.TIMEOUT
    assert late.value.partial is not None


async def once(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
    await asyncio.sleep(60)
    return await ask()
