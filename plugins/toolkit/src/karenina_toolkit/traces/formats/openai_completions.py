"""OpenAI's chat completions in Karenina's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from karenina_core.models.ports import FinishReason, Message, Usage
from karenina_toolkit.replies.reply_ends import read_choice_end
from karenina_toolkit.traces.format_error import TraceFormatError
from karenina_toolkit.traces.formats.openai_chat import read_message
from karenina_toolkit.traces.token_counts import read_usage


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A completion in Karenina's terms; `server_reason` is as in `LLMReply`."""

    message: Message
    usage: Usage
    finish_reason: FinishReason
    model: str | None
    server_reason: str | None = None


def from_wire(data: Mapping[str, Any]) -> ChatReply:
    """Return a chat completion's first choice. Raises `ValueError`, which says what is missing."""
    choice = _first_choice(data)
    message_data = choice.get("message")
    if not isinstance(message_data, Mapping):
        message_data = choice.get("delta") or None  # some servers send the piece of a stream
    if not isinstance(message_data, Mapping):
        raise ValueError("its choice has no message")  # noqa: TRY004 - it is data from outside
    try:
        message = read_message({**message_data, "role": "assistant"})
    except TraceFormatError as error:
        raise ValueError(f"its message cannot be read: {error}") from None
    model = data.get("model")
    end, server_reason = read_choice_end(choice)
    return ChatReply(
        message,
        usage_of(data),
        "content_filter" if refused(message_data) else end,
        model if isinstance(model, str) else None,
        server_reason if end in ("failed", "other") else None,
    )


def usage_of(data: Mapping[str, Any]) -> Usage:
    """Return the usage of a completion, which some servers write into its choice."""
    counted = data.get("usage")
    if not counted and isinstance(choices := data.get("choices"), list) and choices:
        counted = choices[0].get("usage") if isinstance(choices[0], Mapping) else None
    return read_usage(counted)


def error_of_choice(data: Mapping[str, Any]) -> object:
    """Return the error in a completion's first choice, where gateways put that of a provider; None if there is none."""
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return (first.get("error") or None) if isinstance(first, Mapping) else None


def _first_choice(data: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise ValueError("it has no choices")
    first: Mapping[str, Any] = choices[0]
    return first


def refused(message: Mapping[str, Any]) -> bool:
    """Return whether an assistant's message is a refusal by the provider or its model."""
    return isinstance(message.get("refusal"), str) and bool(message["refusal"])
