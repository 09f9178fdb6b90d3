"""An agent on an OpenAI-compatible server: the tool loop runs here, turn by turn."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from karenina_core.ports import (
    NO_INFO,
    AgentOptions,
    AgentReply,
    CallInfo,
    ErrorCategory,
    FinishReason,
    Message,
    PortError,
    Usage,
)
from karenina_core.tools import run_tool, tools_for
from karenina_openai.client import Client
from karenina_openai.conversion import ChatReply, from_wire, to_wire
from karenina_openai.settings import extra_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models import ModelConfig
    from karenina_core.tools import Tool


class OpenAIAgent:
    """The agent port. A turn is one reply of the model; each is a request of its own, repeated alone where it fails."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        self._first = {"tool_choice": "required"} if extra_of(model).first_turn == "tool" else {}

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Let the model work until it answers without calling a tool, or has had `options.max_turns` turns.

        Calls of the last turn are not carried out, as no turn is left to read what they bring. Raises `PortError`,
        with the trace so far as its `partial`.
        """
        try:
            tools = tools_for(options)
        except ValueError as error:
            raise PortError(f"{self._client.where}: {error}", category=ErrorCategory.PERMANENT) from None
        done = _Work()
        try:
            async with asyncio.timeout(options.timeout):
                return await self._work(done, messages, options, tools)
        except TimeoutError:
            raise PortError(
                f"{self._client.where}: the agent did not end within {options.timeout:g} s (it had "
                f"{done.usage.calls} turns); give it more time",
                category=ErrorCategory.TIMEOUT,
                partial=done.reply(),
            ) from None
        except PortError as error:
            error.partial = done.reply()
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _work(
        self, done: _Work, messages: Sequence[Message], options: AgentOptions, tools: Mapping[str, Tool]
    ) -> AgentReply:
        offered = {"tools": [_offer(tool) for tool in tools.values()]} if tools else {}
        for turn in range(1, options.max_turns + 1):
            asked = {**offered, **self._first} if turn == 1 and tools else offered
            reply = await self._turn([*messages, *done.trace], options, asked)
            done.add(reply)
            calls = done.trace[-1].tool_calls
            if not calls:
                return done.reply()
            if turn < options.max_turns:
                for call in calls:
                    done.trace.append(await run_tool(call, tools))
        return done.reply(limit_reached=True)

    async def _turn(
        self, conversation: Sequence[Message], options: AgentOptions, offered: Mapping[str, Any]
    ) -> ChatReply:
        async def ask() -> ChatReply:
            data = await self._client.post(conversation, to_wire(conversation), **offered)
            try:
                return from_wire(data)
            except ValueError as error:
                raise self._client.unusable(str(error)) from None

        return await (options.guard(ask) if options.guard is not None else ask())


@dataclass(slots=True)
class _Work:
    """What the agent has done so far."""

    trace: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason = "other"
    model: str | None = None

    def add(self, reply: ChatReply) -> None:
        self.trace.append(_with_ids(reply.message, self.usage.calls + 1))
        self.usage += reply.usage
        self.finish_reason = reply.finish_reason
        self.model = reply.model or self.model

    def reply(self, *, limit_reached: bool = False) -> AgentReply:
        return AgentReply(tuple(self.trace), self.usage, limit_reached, self.finish_reason, self.model)


def _with_ids(message: Message, turn: int) -> Message:
    """The message, with an id for each call that came without one: results are matched to calls by it."""
    calls = tuple(
        call if call.id else replace(call, id=f"call_{turn}_{number}")
        for number, call in enumerate(message.tool_calls, 1)
    )
    return replace(message, tool_calls=calls)


def _offer(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}
