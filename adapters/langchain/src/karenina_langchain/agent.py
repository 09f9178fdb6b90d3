"""The agent port on a LangChain chat model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.messages import AIMessage, message_to_dict, messages_from_dict

from karenina_core.models.ports import (
    NO_INFO,
    AgentOptions,
    AgentReply,
    CallInfo,
    ErrorCategory,
    Message,
    PortError,
    Turn,
)
from karenina_langchain.client import Client
from karenina_langchain.conversion import to_langchain
from karenina_toolkit.agents.tool_loop import run_tool_loop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import Runnable

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class LangchainAgent:
    """The agent port. Each turn is a separate request, which is retried without repeating earlier turns."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        self._first = {"tool_choice": "any"} if self._client.extra.first_turn == "tool" else {}

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the tool loop; see `run_tool_loop`. Raises `PortError`, with the trace so far as its `partial`."""
        return await run_tool_loop(_Chat(self._client, messages, self._first), options)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _Chat:
    """A conversation, stored both as Karenina's messages and as LangChain's messages for the model."""

    def __init__(self, client: Client, messages: Sequence[Message], first: Mapping[str, Any]) -> None:
        self._client = client
        self._messages = list(messages)
        self._sent = to_langchain(messages)
        self._first = first
        self._runnables: dict[bool, Runnable[Any, Any]] = {}

    @property
    def where(self) -> str:
        """The model and its server, for error messages."""
        return self._client.where

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Request one reply from the chat model; `first` is whether it is the first turn."""
        chosen = first and bool(self._first)
        if chosen not in self._runnables:
            self._runnables[chosen] = self._bind_tools(tools, **(self._first if chosen else {}))
        reply = await self._client.ask(self._runnables[chosen], self._messages, list(self._sent))
        return Turn(
            reply.message,
            reply.usage,
            reply.finish_reason,
            reply.model,
            wire=message_to_dict(reply.said),
            server_reason=reply.server_reason,
        )

    def add_turn(self, turn: Turn) -> None:
        """Add the original reply, because some providers require their signed reasoning to be sent back unchanged."""
        self._messages.append(turn.message)
        said = messages_from_dict([turn.wire])[0] if turn.wire is not None else None
        self._sent.append(said if isinstance(said, AIMessage) else to_langchain([turn.message])[0])

    def add_results(self, results: Sequence[Message]) -> None:
        """Add the tool messages."""
        self._messages += results
        self._sent += to_langchain(results)

    def _bind_tools(self, tools: Mapping[str, Tool], **choice: Any) -> Runnable[Any, Any]:
        if not tools:
            return self._client.chat
        try:
            return self._client.chat.bind_tools([_tool_schema(tool) for tool in tools.values()], **choice)
        except NotImplementedError:
            raise PortError(
                f"{self._client.where}: LangChain's chat model of this provider does not support tools: choose another "
                "model for an agent",
                category=ErrorCategory.PERMANENT,
            ) from None


def _tool_schema(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}
