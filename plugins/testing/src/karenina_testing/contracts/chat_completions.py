"""The wire format of OpenAI's chat completions, for adapters whose servers use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from karenina_core.models.ports import FinishReason, Message, ToolCall, Usage
from karenina_testing.contracts.odd_replies import CHAT_FORMS, CHAT_REPLIES, OddReply
from karenina_testing.contracts.wire_format import Wire
from karenina_testing.server import Request, Say
from karenina_testing.server.formats import completion_error, completion_of
from karenina_toolkit.traces.openai_chat import read_message


class ChatCompletions(Wire):
    """A server of chat completions. Set `entry_point` and `interface`; override what is different in your adapter.

    A parser that forces a tool gets a reply with a call of that tool.
    """

    odd_replies: ClassVar[Mapping[str, OddReply]] = CHAT_REPLIES
    odd_forms: ClassVar[Mapping[str, OddReply]] = CHAT_FORMS

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return a completion with one choice."""
        return completion_of(Say(said.content, said.tool_calls, finish=finish_reason, usage=usage))

    def read(self, request: Request) -> Sequence[Message]:
        """Return the messages of `request`."""
        return [read_message(message) for message in request.body["messages"]]

    def filled(self, request: Request, text: str) -> Any:
        """Return the JSON as the arguments of the tool that `request` forces, else as text."""
        choice = request.body.get("tool_choice")
        if not isinstance(choice, dict):
            return super().filled(request, text)
        call = ToolCall("call_1", choice["function"]["name"], {})
        body = completion_of(Say("", (call,), usage=self.usage))
        body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = text
        return body

    def error(self, status: int, message: str) -> Any:
        """Return an error in the API's format."""
        return completion_error(message)
