"""Convert Karenina's messages to OpenAI's chat messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from karenina_core.models.ports import Message
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS


def to_wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return `messages` as chat messages. Reasoning is not sent back, and the failure of a tool is only in its
    content.
    """
    return [_to_wire(message) for message in messages]


def _to_wire(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": message.content}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    return {
        "role": message.role,
        "content": message.content or None,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in message.tool_calls
        ],
    }


def _arguments(arguments: Mapping[str, Any]) -> str:
    unreadable = arguments.get(UNREADABLE_ARGUMENTS)
    if len(arguments) == 1 and isinstance(unreadable, str):
        return unreadable
    return json.dumps(dict(arguments), ensure_ascii=False)
