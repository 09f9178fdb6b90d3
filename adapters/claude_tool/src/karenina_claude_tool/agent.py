"""An agent on a Messages API server; the tool loop runs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from karenina_claude_tool.client import Client
from karenina_claude_tool.conversion import add, to_wire
from karenina_core.models.ports import NO_INFO, AgentOptions, AgentReply, CallInfo, Message, Turn
from karenina_toolkit.agents.tool_loop import run_tool_loop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class ClaudeAgent:
    """The agent port. Each turn is a separate request, which is retried without repeating earlier turns."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        self._first = {"tool_choice": {"type": "any"}} if self._client.extra.first_turn == "tool" else {}

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the tool loop; see `run_tool_loop`. Raises `PortError`, with the trace so far as its `partial`."""
        return await run_tool_loop(_Conversation(self._client, messages, self._first), options)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _Conversation:
    """A conversation in the format of the Messages API.

    Replies are sent back unchanged, because the API accepts thinking blocks only with their signatures.
    """

    def __init__(self, client: Client, messages: Sequence[Message], first: Mapping[str, Any]) -> None:
        self._client = client
        self._messages = list(messages)
        self._system, self._wire = to_wire(messages)
        self._first = first

    @property
    def where(self) -> str:
        """The model and its server, for error messages."""
        return self._client.where

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Request one reply from the model; `first` is whether it is the first turn."""
        offered: dict[str, Any] = {"tools": [_offer(tool) for tool in tools.values()]} if tools else {}
        if tools and first:
            offered.update(self._first)
        reply = await self._client.post(self._messages, self._system, self._wire, grows=True, **offered)
        return Turn(
            reply.message,
            reply.usage,
            reply.finish_reason,
            reply.model,
            reply.is_paused,
            reply.blocks,
            reply.server_reason,
        )

    def add_turn(self, turn: Turn) -> None:
        """Add the reply's original blocks, or its message if there are none (a turn from a journal)."""
        self._messages.append(turn.message)
        if turn.wire is not None:
            add(self._wire, "assistant", turn.wire)
        else:
            self._add([turn.message])

    def add_results(self, results: Sequence[Message]) -> None:
        """Add all results as one user message, as the API requires."""
        self._messages += results
        self._add(results)

    def _add(self, messages: Sequence[Message]) -> None:
        for entry in to_wire(messages)[1]:
            add(self._wire, entry["role"], entry["content"])


def _offer(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
