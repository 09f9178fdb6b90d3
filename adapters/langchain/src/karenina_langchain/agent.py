"""An agent on a chat model of LangChain: the tool loop runs here, turn by turn."""

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
from karenina_langchain.client import Client
from karenina_langchain.conversion import from_langchain, to_langchain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable

    from karenina_core.models import ModelConfig
    from karenina_core.tools import Tool


class LangchainAgent:
    """The agent port. A turn is one reply of the model; each is a request of its own, repeated alone where it fails."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        self._first = {"tool_choice": "any"} if self._client.extra.first_turn == "tool" else {}

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Let the model work until it answers without calling a tool, or has had `options.max_turns` turns.

        Calls of the last turn are not carried out, as no turn is left to read what they bring. Raises `PortError`,
        with the trace so far as its `partial`.
        """
        try:
            tools = tools_for(options)
        except ValueError as error:
            raise PortError(f"{self._client.where}: {error}", category=ErrorCategory.PERMANENT) from None
        done = _Work(given=messages, sent=to_langchain(messages))
        deadline = asyncio.timeout(options.timeout)
        try:
            async with deadline:
                return await self._work(done, options, tools)
        except TimeoutError:
            if not deadline.expired():
                raise
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

    async def _work(self, done: _Work, options: AgentOptions, tools: Mapping[str, Tool]) -> AgentReply:
        free = self._offering(tools)
        first = self._offering(tools, **self._first) if self._first else free
        for turn in range(1, options.max_turns + 1):
            done.add(await self._turn(first if turn == 1 else free, done, options))
            calls = done.trace[-1].tool_calls
            if not calls:
                return done.reply()
            if turn < options.max_turns:
                for call in calls:
                    done.heard(await run_tool(call, tools))
        return done.reply(limit_reached=True)

    async def _turn(self, runnable: Runnable[Any, Any], done: _Work, options: AgentOptions) -> AIMessage:
        async def ask() -> AIMessage:
            return await self._client.ask(runnable, [*done.given, *done.trace], list(done.sent))

        return await (options.guard(ask) if options.guard is not None else ask())

    def _offering(self, tools: Mapping[str, Tool], **choice: Any) -> Runnable[Any, Any]:
        if not tools:
            return self._client.chat
        try:
            return self._client.chat.bind_tools([_offer(tool) for tool in tools.values()], **choice)
        except NotImplementedError:
            raise PortError(
                f"{self._client.where}: LangChain's chat model of this provider cannot call tools; choose another "
                "model for an agent",
                category=ErrorCategory.PERMANENT,
            ) from None


@dataclass(slots=True)
class _Work:
    """What the agent has done so far: `trace` in Karenina's terms, `sent` as the conversation goes to the model."""

    given: Sequence[Message]
    sent: list[BaseMessage]
    trace: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason = "other"
    model: str | None = None

    def add(self, said: AIMessage) -> None:
        reply = from_langchain(said)
        message = _with_ids(reply.message, self.usage.calls + 1)
        self.trace.append(message)
        # Sent back as it came, as some providers want their own signed thoughts again beside the calls.
        self.sent.append(said if message == reply.message else to_langchain([message])[0])
        self.usage += reply.usage
        self.finish_reason = reply.finish_reason
        self.model = reply.model or self.model

    def heard(self, result: Message) -> None:
        self.trace.append(result)
        self.sent += to_langchain([result])

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
