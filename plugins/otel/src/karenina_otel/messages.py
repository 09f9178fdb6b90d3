"""Messages as JSON in the format of the conventions, for the spans of runs with `otel_content`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from karenina_core.models.ports import AgentReply, LLMReply, Message, ParserReply, Turn
from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from karenina_engine.calls.reply_json import Reply


def input_messages(messages: Sequence[Message]) -> str:
    """Return the messages sent to a model."""
    return _json([_message(message) for message in messages])


def output_messages(reply: Reply) -> str:
    """Return the reply of a model; for an agent, its whole trace."""
    replied = [_message(message) for message in _reply_messages(reply)]
    reason = {"tool_calls": "tool_call", "other": "stop"}.get(reply.finish_reason, reply.finish_reason)
    return _json([*replied[:-1], *({**last, "finish_reason": reason} for last in replied[-1:])])


def _reply_messages(reply: Reply) -> Sequence[Message]:
    if isinstance(reply, AgentReply):
        return reply.trace
    if isinstance(reply, Turn):
        return [reply.message]
    if isinstance(reply, LLMReply):
        return [Message.assistant(reply.text, reasoning=reply.reasoning)]
    assert isinstance(reply, ParserReply)
    return [Message.assistant(reply.text)]


def _message(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.role == "tool":
        parts.append({"type": "tool_call_response", "id": message.tool_call_id, "response": message.content})
    elif message.content:
        parts.append({"type": "text", "content": message.content})
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": dict(call.arguments)}
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": parts}


def _json(value: Any) -> str:
    return replace_surrogates(json.dumps(value, ensure_ascii=False, default=str))
