"""Agents with a local model, which may write tool calls as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from karenina_core.models.ports import NO_INFO, AgentOptions, AgentReply, CallInfo, Message, PortError, ToolCall, Turn
from karenina_local.ports import ServerClient
from karenina_openai.agent import ChatConversation
from karenina_openai.client import Client
from karenina_toolkit.agents.tool_loop import run_tool_loop
from karenina_toolkit.agents.written_calls import parse_tool_calls
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool
    from karenina_openai.client import NewClient, Watch


def _new_client(model: ModelConfig, *, watch: Watch, client: NewClient) -> Client:
    """Return an agent's HTTP client. Agents have no client port around it."""
    return client(model, watch=watch)


class LocalAgent:
    """The agent port. Loading the model before the first turn does not count towards the time limit."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        self._local: ServerClient[Client] = ServerClient(model, _new_client)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the tool loop on `messages`, and return its reply (see `run_tool_loop`). Raises `PortError` if the loop
        fails.

        The error's `partial` contains the trace so far.
        """
        chat = ChatConversation(await self._local.port(info), messages)
        try:
            return await run_tool_loop(TextCallConversation(chat, lambda: self._local.port(info)), options)
        except PortError as error:
            raise self._local.with_hint(error) from error

    async def aclose(self) -> None:
        """Release the server."""
        await self._local.aclose()


class TextCallConversation:
    """A conversation with a small model, in which tool calls written as text are recognized.

    `client` returns the client for the server, which may have been restarted between turns.
    """

    def __init__(self, chat: ChatConversation, client: Callable[[], Awaitable[Client]]) -> None:
        self._chat = chat
        self._client = client
        self._turns = 0
        self._ids: set[str] = set()

    @property
    def where(self) -> str:
        """The model and its server, for error messages."""
        return self._chat.where

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Request the next turn, offering `tools`. If the reply has no tool calls, those written in its text are used,
        and removed from it. Raises `PortError` if the request fails.
        """
        self._chat.client = await self._client()
        turn = await self._chat.request_turn(tools, first=first)
        if turn.message.tool_calls:
            return turn
        parsed = parse_tool_calls(turn.message.content, tools)
        if not parsed.calls:
            return turn
        message = replace(turn.message, content=parsed.text, tool_calls=self._with_ids(parsed.calls))
        reason = "tool_calls" if turn.finish_reason == "stop" else turn.finish_reason
        return replace(turn, message=message, finish_reason=reason)

    def add_turn(self, turn: Turn) -> None:
        """Add a turn to the conversation, without unreadable arguments: the server would reject every later request
        that contains them.
        """
        self._turns += 1
        self._ids |= {call.id for call in turn.message.tool_calls}
        calls = [
            replace(call, arguments={}) if UNREADABLE_ARGUMENTS in call.arguments else call
            for call in turn.message.tool_calls
        ]
        self._chat.add_turn(replace(turn, message=replace(turn.message, tool_calls=tuple(calls))))

    def add_results(self, results: Sequence[Message]) -> None:
        """Add the tool results."""
        self._chat.add_results(results)

    def _with_ids(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """Return the calls with ids that are unique in the conversation. The model's own id is kept if it is new."""
        taken = {"", *self._ids}
        numbered: list[ToolCall] = []
        for number, call in enumerate(calls, 1):
            id = call.id if call.id not in taken else f"written_{self._turns + 1}_{number}"
            taken.add(id)
            numbered.append(replace(call, id=id))
        return tuple(numbered)
