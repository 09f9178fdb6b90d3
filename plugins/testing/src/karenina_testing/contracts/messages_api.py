"""The wire format of Anthropic's Messages API, for adapters whose servers use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from karenina_core.models.ports import FinishReason, Message, Usage
from karenina_testing.contracts.scripted_server import Request
from karenina_testing.contracts.wire_format import Wire
from karenina_toolkit.traces.anthropic import read

_STOPS: Final[dict[FinishReason, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class MessagesAPI(Wire):
    """A server of the Messages API. Set `entry_point` and `interface`; override what is different in your adapter.

    Part of the input is reported as written to the cache, and part as read from it: both count as input. A parser that
    forces a tool gets a reply with a call of that tool.
    """

    base_path: ClassVar[str] = ""
    usage: ClassVar[Usage] = Usage(
        input_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=2, calls=1, cache_write_tokens=4
    )

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        """Return a message of the assistant."""
        texts = [{"type": "text", "text": said.content}] if said.content else []
        calls = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
            for call in said.tool_calls
        ]
        return self._message([*texts, *calls], usage, _STOPS.get(finish_reason, finish_reason))

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
        call = {"type": "tool_use", "id": "toolu_1", "name": choice["name"], "input": json.loads(text)}
        return self._message([call], self.usage, "tool_use")

    def error(self, status: int, message: str) -> Any:
        """Return an error with the API's type for `status`."""
        return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}

    def _message(self, content: Sequence[dict[str, Any]], usage: Usage, stop_reason: str) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "served",
            "content": list(content),
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
                "cache_read_input_tokens": usage.cached_tokens,
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
            },
        }
