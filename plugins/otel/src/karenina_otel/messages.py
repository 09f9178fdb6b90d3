"""Messages in the shape that the conventions give them: as JSON, for the spans of runs that tell content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from karenina_core.models.ports import AgentReply, LLMReply, Message, ParserReply, Turn
from karenina_core.text import replace_surrogates

if TYPE_CHECKING:
    from karenina_engine.calls.reply_json import Reply


def input_messages(messages: Sequence[Message]) -> str:
    """What a model was sent."""
    return _json([_message(message) for message in messages])


def output_messages(reply: Reply) -> str:
    """What a model replied; of an agent, all that was said."""
    said = [_message(message) for message in _said(reply)]
    reason = {"tool_calls": "tool_call", "other": "stop"}.get(reply.finish_reason, reply.finish_reason)
    return _json([*said[:-1], *({**last, "finish_reason": reason} for last in said[-1:])])


def _said(reply: Reply) -> Sequence[Message]:
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
