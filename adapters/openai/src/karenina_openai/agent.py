"""An agent that uses an OpenAI-compatible server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from karenina_core.models.ports import NO_INFO, AgentOptions, AgentReply, CallInfo, Message, Turn
from karenina_openai.client import Client, to_wire
from karenina_openai.settings import extra_of
from karenina_toolkit.agents.tool_loop import run_tool_loop
from karenina_toolkit.attachments.support import understood_types
from karenina_toolkit.traces.formats.openai_chat import from_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class OpenAIAgent:
    """The agent port. Each turn is a separate request, and is retried without repeating earlier ones."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        from karenina_openai import SPEC

        self._client = Client(model)
        self._sees = understood_types(SPEC, model)
        self._first = {"tool_choice": "required"} if extra_of(model).first_turn == "tool" else {}

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the tool loop on `messages`, and return its reply (see `run_tool_loop`). Raises `PortError` if the loop
        fails.

        The error's `partial` contains the trace so far.
        """
        return await run_tool_loop(ChatConversation(self._client, messages, self._first), options, sees=self._sees)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class ChatConversation:
    """A conversation of chat messages. `first` contains fields for the first request.

    `client` sends the requests. It may be replaced between them.
    """

    def __init__(self, client: Client, messages: Sequence[Message], first: Mapping[str, Any] | None = None) -> None:
        self.client = client
        self._messages = list(messages)
        self._wire = to_wire(messages)
        self._first = first or {}

    @property
    def where(self) -> str:
        """The model and its server, for error messages."""
        return self.client.where

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Request the next turn, offering `tools`. In the `first` turn, the model must call a tool if
        `extra.first_turn` says so. Raises `PortError` if the request fails or the reply cannot be used.
        """
        offered: dict[str, Any] = {"tools": [_offer(tool) for tool in tools.values()]} if tools else {}
        if tools and first:
            offered.update(self._first)
        data = await self.client.post(self._messages, self._wire, **offered)
        try:
            return from_wire(data)
        except ValueError as error:
            raise self.client.unusable_reply(str(error), data) from None

    def add_turn(self, turn: Turn) -> None:
        """Add the assistant's message."""
        self.add_results([turn.message])

    def add_results(self, results: Sequence[Message]) -> None:
        """Add the tool messages."""
        self._messages += results
        self._wire += to_wire(results)


def _offer(tool: Tool) -> dict[str, Any]:
    """Return a tool in the format that the API accepts."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}
