"""OpenAI's chat completions in Karenina's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from karenina_core.models.ports import FinishReason, Message, Usage
from karenina_toolkit.reply_sanitizer import read_token_count
from karenina_toolkit.traces.format_error import TraceFormatError
from karenina_toolkit.traces.openai_chat import read_message

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A completion in Karenina's terms."""

    message: Message
    usage: Usage
    finish_reason: FinishReason
    model: str | None


def from_wire(data: Mapping[str, Any]) -> ChatReply:
    """Return a chat completion's first choice. Raises `ValueError`, which says what is missing."""
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise ValueError("it has no choices")
    choice = choices[0]
    message_data = choice.get("message")
    if not isinstance(message_data, Mapping):
        raise ValueError("its choice has no message")  # noqa: TRY004 - it is data from outside
    try:
        message = read_message({**message_data, "role": "assistant"})
    except TraceFormatError as error:
        raise ValueError(f"its message cannot be read: {error}") from None
    model = data.get("model")
    return ChatReply(
        message,
        _usage(data.get("usage")),
        "content_filter" if refused(message_data) else _finish_reason(choice.get("finish_reason")),
        model if isinstance(model, str) else None,
    )


def refused(message: Mapping[str, Any]) -> bool:
    """Return whether an assistant's message is a refusal by the provider or its model."""
    return isinstance(message.get("refusal"), str) and bool(message["refusal"])


def _finish_reason(given: object) -> FinishReason:
    return _FINISH.get(given, "other") if isinstance(given, str) else "other"


def _usage(data: Any) -> Usage:
    if not isinstance(data, Mapping):
        return Usage(calls=1)
    cached, reasoned = data.get("prompt_tokens_details"), data.get("completion_tokens_details")
    return Usage(
        _count(data, "prompt_tokens"),
        _count(data, "completion_tokens"),
        _count(cached, "cached_tokens") if cached else 0,
        _count(reasoned, "reasoning_tokens") if reasoned else 0,
        calls=1,
    )


def _count(data: Any, key: str) -> int:
    return read_token_count(data.get(key)) if isinstance(data, Mapping) else 0
