"""An agent on a model of this machine: the core's tool loop, with calls that the model wrote as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from karenina_core.models.ports import NO_INFO, AgentOptions, AgentReply, CallInfo, Message, PortError, ToolCall, Turn
from karenina_local.ports import ServerClient
from karenina_local.text_tool_calls import parse_tool_calls
from karenina_openai.agent import ChatConversation
from karenina_openai.client import Client
from karenina_toolkit.tool_loop import run_tool_loop
from karenina_toolkit.traces.openai_chat import UNREADABLE_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class LocalAgent:
    """The agent port. Time for loading the model is no part of the time that the agent is given."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        self._local: ServerClient[Client] = ServerClient(model, Client)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """See `run_tool_loop`. Raises `PortError`, with the trace so far as its `partial`."""
        chat = ChatConversation(await self._local.port(info), messages)
        try:
            return await run_tool_loop(TextCallConversation(chat, lambda: self._local.port(info)), options)
        except PortError as error:
            raise self._local.with_hint(error) from error

    async def aclose(self) -> None:
        """Give the server back."""
        await self._local.aclose()


class TextCallConversation:
    """A conversation with a small model: calls that it writes as text are calls, and it is told of them as such.

    `client` gives the client for the server as it runs now: one that died between two turns is another.
    """

    def __init__(self, chat: ChatConversation, client: Callable[[], Awaitable[Client]]) -> None:
        self._chat = chat
        self._client = client
        self._turns = 0
        self._ids: set[str] = set()

    @property
    def where(self) -> str:
        """The model and its server."""
        return self._chat.where

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """One chat completion."""
        self._chat.client = await self._client()
        turn = await self._chat.request_turn(tools, first=first)
        if turn.message.tool_calls:
            return turn
        found = parse_tool_calls(turn.message.content, tools)
        if not found.calls:
            return turn
        message = replace(turn.message, content=found.text, tool_calls=self._with_ids(found.calls))
        reason = "tool_calls" if turn.finish_reason == "stop" else turn.finish_reason
        return replace(turn, message=message, finish_reason=reason)

    def add_turn(self, turn: Turn) -> None:
        """Take the model's turn. Arguments that nobody can read are left out: the server would refuse them for ever."""
        self._turns += 1
        self._ids |= {call.id for call in turn.message.tool_calls}
        calls = [
            replace(call, arguments={}) if UNREADABLE_ARGUMENTS in call.arguments else call
            for call in turn.message.tool_calls
        ]
        self._chat.add_turn(replace(turn, message=replace(turn.message, tool_calls=tuple(calls))))

    def add_results(self, results: Sequence[Message]) -> None:
        """Take what the tools said."""
        self._chat.add_results(results)

    def _with_ids(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls, each with an id of its own: the one that the model wrote, where it is new, else one of ours."""
        taken = {"", *self._ids}
        found: list[ToolCall] = []
        for number, call in enumerate(calls, 1):
            id = call.id if call.id not in taken else f"written_{self._turns + 1}_{number}"
            taken.add(id)
            found.append(replace(call, id=id))
        return tuple(found)
