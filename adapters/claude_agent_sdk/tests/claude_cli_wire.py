"""How a server of the Messages API speaks with the Claude CLI."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from karenina_core.ports import FinishReason, Message, ToolCall, Usage
from karenina_core.testing.contracts import Request, Wire
from karenina_core.traces.anthropic import read

_STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


class Claude(Wire):
    """A server of the Messages API, as the Claude CLI talks to it."""

    entry_point = "karenina_claude_agent_sdk:plugin"
    interface = "claude_agent_sdk"
    base_path = ""
    usage = Usage(input_tokens=11, output_tokens=7, cached_tokens=3, calls=1)
    agent_seconds = 3.0

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        calls = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
            for call in said.tool_calls
        ]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "contract-model",
            "content": [*([{"type": "text", "text": said.content}] if said.content else []), *calls],
            "stop_reason": _STOP[finish_reason],
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input_tokens - usage.cached_tokens,
                "cache_read_input_tokens": usage.cached_tokens,
                "cache_creation_input_tokens": 0,
                "output_tokens": usage.output_tokens,
            },
        }

    def filled(self, request: Request, text: str) -> Any:
        call = ToolCall("call_1", "StructuredOutput", json.loads(text))
        return self.reply(Message.assistant("", [call]), self.usage, "tool_calls")

    def read(self, request: Request) -> Sequence[Message]:
        """Without what the CLI itself tells the model: who it is, and where it works."""
        body = request.body
        system = [block["text"] for block in body["system"] if "Claude Agent SDK" not in block["text"]]
        told = [entry for entry in body["messages"] if entry["role"] != "system"]
        return [Message.system("\n".join(system)), *read(told)]

    def reading(self, file: Path, id: str) -> ToolCall:
        return ToolCall(id, "Read", {"file_path": str(file)})
