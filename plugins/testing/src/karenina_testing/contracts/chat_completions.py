"""The wire format of OpenAI's chat completions, for adapters whose servers use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from karenina_core.models.ports import FinishReason, Message, Usage
from karenina_testing.contracts.scripted_server import Request
from karenina_testing.contracts.wire_format import Wire
from karenina_toolkit.traces.openai_chat import read_message


class ChatCompletions(Wire):
    """A server of chat completions. Set `entry_point` and `interface`; override what is different in your adapter.

    A parser that forces a tool gets a reply with a call of that tool.
    """

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return a completion with one choice."""
        calls = [_call(call.id, call.name, json.dumps(call.arguments)) for call in said.tool_calls]
        return self._completion(said.content, calls, usage, finish_reason)

    def read(self, request: Request) -> Sequence[Message]:
        """Return the messages of `request`."""
        return [read_message(message) for message in request.body["messages"]]

    def filled(self, request: Request, text: str) -> Any:
        """Return the JSON as the arguments of the tool that `request` forces, else as text."""
        choice = request.body.get("tool_choice")
        if not isinstance(choice, dict):
            return super().filled(request, text)
        call = _call("call_1", choice["function"]["name"], text)
        return self._completion("", [call], self.usage, "tool_calls")

    def error(self, status: int, message: str) -> Any:
        """Return an error in the API's format."""
        return {"error": {"type": "scripted_error", "message": message, "param": None, "code": None}}

    def _completion(self, text: str, calls: list[Any], usage: Usage, finish_reason: FinishReason) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "served",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            },
        }


def _call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
