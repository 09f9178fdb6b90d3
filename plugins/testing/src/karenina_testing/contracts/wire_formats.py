"""The wire formats of OpenAI's chat completions and Anthropic's Messages API, for adapters whose servers use them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from karenina_core.models.ports import FinishReason, Message, ToolCall, Usage
from karenina_testing.contracts.odd_replies import CHAT_FORMS, CHAT_REPLIES, MESSAGES_FORMS, MESSAGES_REPLIES, OddReply
from karenina_testing.contracts.wire_format import WireFormat
from karenina_testing.server import Request, Say
from karenina_testing.server.formats import completion_error, completion_of, message_error, message_of
from karenina_toolkit.traces.formats.anthropic import read
from karenina_toolkit.traces.formats.openai_chat import read_message


class ChatCompletions(WireFormat):
    """A chat completions server. Set `entry_point` and `interface`; override what is different in your adapter.

    A parser that forces a tool gets a reply with a call to that tool.
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
        """Return an error in the API's format, which does not depend on `status`."""
        return completion_error(message)


class MessagesAPI(WireFormat):
    """A Messages API server. Set `entry_point` and `interface`; override what is different in your adapter.

    Part of the input is reported as written to the cache, and part as read from the cache; both count as input. A
    parser that forces a tool gets a reply with a call to that tool.
    """

    base_path: ClassVar[str] = ""
    usage: ClassVar[Usage] = Usage(
        input_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=2, calls=1, cache_write_tokens=4
    )

    odd_replies: ClassVar[Mapping[str, OddReply]] = MESSAGES_REPLIES
    odd_forms: ClassVar[Mapping[str, OddReply]] = MESSAGES_FORMS

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return an assistant message."""
        return message_of(Say(said.content, said.tool_calls, finish=finish_reason, usage=usage))

    def read(self, request: Request) -> Sequence[Message]:
        """Return the system prompt and the messages of `request`."""
        system = request.body.get("system") or ""
        text = system if isinstance(system, str) else "\n".join(block["text"] for block in system)
        return [*([Message.system(text)] if text else ()), *read(request.body["messages"])]

    def filled(self, request: Request, text: str) -> Any:
        """Return the JSON as the input of the tool that `request` forces, else as text."""
        choice = request.body.get("tool_choice") or {}
        if choice.get("type") != "tool":
            return super().filled(request, text)
        call = ToolCall("toolu_1", choice["name"], json.loads(text))
        return message_of(Say("", (call,), usage=self.usage))

    def error(self, status: int, message: str) -> Any:
        """Return an error in the API's format, with the API's error type for `status`."""
        return message_error(status, message)
