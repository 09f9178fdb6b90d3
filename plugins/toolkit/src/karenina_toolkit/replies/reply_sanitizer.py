"""Sanitizing of replies before a run uses them: token counts, ids, texts, and the number of tool calls.

A run applies this to the replies of all adapters, so that every reply can be stored.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import replace
from typing import Any, Final

from karenina_core.models.ports import AgentReply, LLMReply, Message, ParserReply, ToolCall, Turn, Usage
from karenina_core.text import replace_surrogates, replace_surrogates_in
from karenina_toolkit.replies.reply_bounds import BrokenReply, ReplyTooLarge, check_depth

MOST_TOKENS: Final = 10**12
"""The largest number of tokens that is accepted: sums of many of them still fit into 64 bits."""
MOST_TOOL_CALLS: Final = 500
"""Maximum number of tool calls in one reply."""


_WHOLE: Final = {int}


def read_token_count(value: object) -> int:
    """Return a reply's token count: 0 if `value` is negative or not a number, at most `MOST_TOKENS`.

    Numbers may be written as text.
    """
    if isinstance(value, str):
        value = _read_number(value)
    if isinstance(value, float):
        value = 0 if math.isnan(value) else MOST_TOKENS if math.isinf(value) and value > 0 else _floor(value)
    if not isinstance(value, int):
        return 0
    return min(max(int(value), 0), MOST_TOKENS)


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _floor(value: float) -> int:
    return 0 if value < 0 else int(value)


def check_tool_call_count(where: str, calls: Sized) -> None:
    """Raise `ReplyTooLarge` if a reply of the server `where` has more than `MOST_TOOL_CALLS` tool calls."""
    if len(calls) > MOST_TOOL_CALLS:
        raise ReplyTooLarge(f"{where} sent a reply with {len(calls)} tool calls; at most {MOST_TOOL_CALLS} are allowed")


def sanitize_llm_reply(reply: LLMReply) -> LLMReply:
    """Return the reply with counts that can be stored and texts that can be encoded."""
    usage, text = sanitize_usage(reply.usage), _text(reply.text)
    model, reasoning = _optional(reply.model), _optional(reply.reasoning)
    if (
        usage is reply.usage
        and text is reply.text
        and model is reply.model
        and reasoning is reply.reasoning
        and not reply.notes
        and reply.server_reason is None
    ):
        return reply
    notes, server_reason = tuple(map(_text, reply.notes)), _optional(reply.server_reason)
    return replace(
        reply, text=text, usage=usage, model=model, reasoning=reasoning, notes=notes, server_reason=server_reason
    )


def sanitize_parser_reply(reply: ParserReply) -> ParserReply:
    """Return the reply with counts that can be stored and texts that can be encoded."""
    usage, text, model = sanitize_usage(reply.usage), _text(reply.text), _optional(reply.model)
    if usage is reply.usage and text is reply.text and model is reply.model and reply.server_reason is None:
        return reply
    return replace(reply, text=text, usage=usage, model=model, server_reason=_optional(reply.server_reason))


def sanitize_turn(where: str, turn: Turn) -> Turn:
    """Return the turn with counts that can be stored and texts that can be encoded.

    Raises `BrokenReply` for ids that cannot be encoded and for arguments nested too deeply, and `ReplyTooLarge`.
    """
    message = _message(where, turn.message)
    return replace(
        turn,
        message=message,
        usage=sanitize_usage(turn.usage),
        model=_optional(turn.model),
        wire=turn.wire if turn.wire is None else _values(where, turn.wire),
        server_reason=_optional(turn.server_reason),
    )


def sanitize_agent_reply(where: str, reply: AgentReply) -> AgentReply:
    """Return the reply with counts that can be stored and texts that can be encoded. Raises as `sanitize_turn`."""
    return replace(
        reply,
        trace=tuple(_message(where, message) for message in reply.trace),
        usage=sanitize_usage(reply.usage),
        model=_optional(reply.model),
    )


def sanitize_usage(usage: Usage) -> Usage:
    """Return the usage with each count between 0 and `MOST_TOKENS`; the same object if nothing changes.

    Reasoning is at most the output, of which it is a part.
    """
    counts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.reasoning_tokens,
        usage.calls,
        usage.cache_write_tokens,
    )
    if (
        set(map(type, counts)) == _WHOLE
        and min(counts) >= 0
        and max(counts) <= MOST_TOKENS
        and usage.reasoning_tokens <= usage.output_tokens
    ):
        return usage
    read = Usage(*map(read_token_count, counts))
    return replace(read, reasoning_tokens=min(read.reasoning_tokens, read.output_tokens))


def _message(where: str, message: Message) -> Message:
    if message.tool_calls:
        check_tool_call_count(where, message.tool_calls)
    _check_id(where, message.tool_call_id)
    return replace(
        message,
        content=_text(message.content),
        tool_calls=tuple(_call(where, call) for call in message.tool_calls),
        tool_name=_optional(message.tool_name),
        reasoning=_optional(message.reasoning),
        notes=tuple(map(_text, message.notes)),
    )


def _call(where: str, call: ToolCall) -> ToolCall:
    _check_id(where, call.id)
    return ToolCall(call.id, _text(call.name), _values(where, dict(call.arguments)))


def _check_id(where: str, id: str | None) -> None:
    if id is not None and replace_surrogates(id) is not id:
        raise BrokenReply(f"{where} sent no usable reply: the id of a tool call contains half of a surrogate pair")


def _values(where: str, values: Any) -> Any:
    try:
        check_depth(values)
    except ValueError as error:
        raise BrokenReply(f"{where} sent no usable reply: {error}") from None
    return replace_surrogates_in(values)


def _text(text: str) -> str:
    return text if text.isascii() else replace_surrogates(text)


def _optional(text: str | None) -> str | None:
    return text if text is None else _text(text)
