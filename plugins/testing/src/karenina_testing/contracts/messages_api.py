"""The wire format of Anthropic's Messages API, for adapters whose servers use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from karenina_core.models.ports import FinishReason, Message, ToolCall, Usage
from karenina_testing.contracts.odd_replies import MESSAGES_FORMS, MESSAGES_REPLIES, OddReply
from karenina_testing.contracts.wire_format import Wire
from karenina_testing.server import Request, Say
from karenina_testing.server.formats import message_error, message_of
from karenina_toolkit.traces.anthropic import read


class MessagesAPI(Wire):
    """A server of the Messages API. Set `entry_point` and `interface`; override what is different in your adapter.

    Part of the input is reported as written to the cache, and part as read from it: both count as input. A parser that
    forces a tool gets a reply with a call of that tool.
    """

    base_path: ClassVar[str] = ""
    usage: ClassVar[Usage] = Usage(
        input_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=2, calls=1, cache_write_tokens=4
    )

    odd_replies: ClassVar[Mapping[str, OddReply]] = MESSAGES_REPLIES
    odd_forms: ClassVar[Mapping[str, OddReply]] = MESSAGES_FORMS

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return a message of the assistant."""
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
        """Return an error with the API's type for `status`."""
        return message_error(status, message)
