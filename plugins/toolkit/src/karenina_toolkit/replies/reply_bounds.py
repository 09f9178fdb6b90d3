"""Limits on a single reply from a server.

The limits apply to bytes after decompression, seconds, nesting depth and the number of values. If a reply exceeds a
limit, only its item fails. Adapters and tool sources call `ReplyBounds.of` with their model, which contains the run's
settings. `karenina_toolkit.http.reply_body` applies the limits to bodies that an SDK reads.

A run also sanitizes all replies, so that they can be stored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sized
from dataclasses import fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from karenina_core.models.model import MAX_REPLY_BYTES, STREAM_TIMEOUT
from karenina_core.models.ports import NO_USAGE, ErrorCategory, PortError, ToolCall, Usage
from karenina_core.text import replace_surrogates, replace_surrogates_in

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentReply, LLMReply, Message, ParserReply, Turn

DEEPEST: Final = 200
"""The maximum nesting depth of lists and objects in a reply's JSON."""
MOST_VALUES: Final = 2_000_000
"""The maximum number of values in a reply's JSON. An empty object of 2 bytes takes up 72 bytes in memory."""
MOST_TOKENS: Final = 10**12
"""The largest token count that is accepted. Sums of many such counts still fit into 64 bits."""
MOST_TOOL_CALLS: Final = 500
"""The maximum number of tool calls in a reply."""
_WHOLE: Final = {int}
_counts_of: Final = attrgetter(*(count.name for count in fields(Usage)))


class ReplyTooLarge(PortError):
    """Raised if a reply exceeds a limit. The error is permanent, because a retry would get a similar reply."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=ErrorCategory.PERMANENT)


class BrokenReply(PortError):
    """Raised if a reply cannot be read. The call is retried, as for other server errors. `usage` is what the reply
    states. `is_blank` states whether it has nothing from the model.
    """

    def __init__(self, message: str, usage: Usage = NO_USAGE, *, is_blank: bool = False) -> None:
        super().__init__(message, category=ErrorCategory.SERVER, usage=usage)
        self.is_blank = is_blank


class ReplyBounds(NamedTuple):
    """The limits on a model's replies: bytes after decompression, and seconds for a streamed reply."""

    max_bytes: int = MAX_REPLY_BYTES
    stream_seconds: float = STREAM_TIMEOUT

    @classmethod
    def of(cls, model: ModelConfig) -> Self:
        """Return the limits configured for the model. Defaults are used for limits that are not configured."""
        return cls(model.max_reply_bytes or MAX_REPLY_BYTES, model.stream_timeout or STREAM_TIMEOUT)

    def check_size(self, where: str, size: int) -> None:
        """Raise `ReplyTooLarge` if `size`, in bytes, exceeds the limit. `where` is the server."""
        if size > self.max_bytes:
            raise ReplyTooLarge(
                f"the reply from {where} was discarded because it is larger than {self.max_bytes} bytes when "
                "decompressed; raise max_reply_bytes to accept such replies"
            )


def read_json(raw: bytes, loads: Callable[[bytes], Any] = json.loads) -> Any:
    """Return the value of JSON, parsed with `loads`. Raises `JSONDecodeError` if `raw` is not JSON, and another
    `ValueError` if it is nested deeper than `DEEPEST` levels, or has more than `MOST_VALUES` values.
    """
    if len(raw) > MOST_VALUES and count_value_marks(raw) > MOST_VALUES:
        raise ValueError(f"the JSON has more than {MOST_VALUES} values")
    try:
        value = loads(raw)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise json.JSONDecodeError("not UTF-8", "", 0) from None
    if raw.count(b"{") + raw.count(b"[") > DEEPEST:
        check_depth(value)
    return value


def count_value_marks(raw: bytes) -> int:
    """Return an upper bound on the number of JSON values in `raw`, by counting the characters that may start one."""
    return raw.count(b",") + raw.count(b"{") + raw.count(b"[")


def check_depth(value: Any) -> None:
    """Raise `ValueError` if a JSON value is nested deeper than `DEEPEST` levels."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, (dict, list))]
        if not level:
            return
    raise ValueError(f"the JSON is nested deeper than {DEEPEST} levels")


def _inside(value: Any) -> Any:
    """Return the values in a list or mapping. For anything else, the result is empty."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def find_port_error(error: BaseException | None) -> PortError | None:
    """Return the `PortError` that `error` is or that led to it, or None. At most 20 causes are followed."""
    seen = 0
    while error is not None and seen < 20:
        if isinstance(error, PortError):
            return error
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None


def read_token_count(value: object) -> int:
    """Convert a value to a token count, rounding it down and limiting it to `MOST_TOKENS`. Numbers in strings are
    accepted. Negative numbers, booleans and anything else become 0.
    """
    if isinstance(value, str):
        value = _read_number(value)
    if isinstance(value, float):
        value = 0 if math.isnan(value) else MOST_TOKENS if math.isinf(value) and value > 0 else _floor(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return min(max(int(value), 0), MOST_TOKENS)


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _floor(value: float) -> int:
    """Round a float down to an integer. Negative numbers become 0."""
    return 0 if value < 0 else int(value)


def check_tool_call_count(where: str, calls: Sized) -> None:
    """Raise `ReplyTooLarge` if a reply has more than `MOST_TOOL_CALLS` tool calls. `where` is the server."""
    if len(calls) > MOST_TOOL_CALLS:
        raise ReplyTooLarge(f"{where} sent a reply with {len(calls)} tool calls; at most {MOST_TOOL_CALLS} are allowed")


def sanitize_llm_reply(reply: LLMReply) -> LLMReply:
    """Return the reply with invalid token counts corrected (see `sanitize_usage`) and unpaired surrogates replaced, so
    that it can be stored. If nothing changes, the same object is returned.
    """
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
    """Return the reply with invalid token counts corrected (see `sanitize_usage`) and unpaired surrogates replaced, so
    that it can be stored. If nothing changes, the same object is returned.
    """
    usage, text, model = sanitize_usage(reply.usage), _text(reply.text), _optional(reply.model)
    if usage is reply.usage and text is reply.text and model is reply.model and reply.server_reason is None:
        return reply
    return replace(reply, text=text, usage=usage, model=model, server_reason=_optional(reply.server_reason))


def sanitize_turn(where: str, turn: Turn) -> Turn:
    """Return the turn with invalid token counts corrected and unpaired surrogates replaced, so that it can be stored.
    Raises `BrokenReply` if ids cannot be encoded or arguments are nested too deeply, and `ReplyTooLarge` for too many
    tool calls.
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
    """Return the reply with invalid token counts corrected and unpaired surrogates replaced, so that it can be stored.
    Raises `BrokenReply` if ids cannot be encoded or arguments are nested too deeply, and `ReplyTooLarge` for too many
    tool calls.
    """
    return replace(
        reply,
        trace=tuple(_message(where, message) for message in reply.trace),
        usage=sanitize_usage(reply.usage),
        model=_optional(reply.model),
    )


def sanitize_usage(usage: Usage) -> Usage:
    """Return the usage with each count limited to between 0 and `MOST_TOKENS`, and reasoning tokens to the output
    tokens that they are part of. If nothing changes, the same object is returned.
    """
    counts = _counts_of(usage)
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
    """Return the message with its strings corrected for storage. Raises `BrokenReply` if ids cannot be encoded or
    arguments are nested too deeply, and `ReplyTooLarge` for too many tool calls.
    """
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
    """Return the tool call with its strings corrected. Raises `BrokenReply` if its id or arguments are unusable."""
    _check_id(where, call.id)
    return ToolCall(call.id, _text(call.name), _values(where, dict(call.arguments)))


def _check_id(where: str, id: str | None) -> None:
    """Raise `BrokenReply` if `id` cannot be encoded. An id must not be corrected, because results are matched by id."""
    if id is not None and replace_surrogates(id) is not id:
        raise BrokenReply(f"{where} sent no usable reply: a tool call ID contains an unpaired surrogate")


def _values(where: str, values: Any) -> Any:
    """Return the JSON values with lone surrogates replaced. Raises `BrokenReply`, which names the server `where`, if
    they are nested too deeply.
    """
    try:
        check_depth(values)
    except ValueError as error:
        raise BrokenReply(f"{where} sent no usable reply: {error}") from None
    return replace_surrogates_in(values)


def _text(text: str) -> str:
    return text if text.isascii() else replace_surrogates(text)


def _optional(text: str | None) -> str | None:
    return text if text is None else _text(text)
