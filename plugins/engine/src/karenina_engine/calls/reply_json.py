"""Converting replies and call errors to and from the JSON form used by the journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

from karenina_core.models.ports import (
    NO_USAGE,
    AgentReply,
    ErrorCategory,
    LLMReply,
    Message,
    ParserReply,
    PortError,
    Turn,
    Usage,
)
from karenina_toolkit.structured.reply_checks import ends_empty
from karenina_toolkit.structured.reply_parser import is_complete
from karenina_toolkit.traces.reasoning import has_content

Reply = LLMReply | ParserReply | AgentReply | Turn

_COUNTS: Final = tuple(count.name for count in fields(Usage))
_ALWAYS_STORED: Final = _COUNTS.index("calls") + 1
_later_counts_of: Final = attrgetter(*_COUNTS[_ALWAYS_STORED:])
_TRUNCATED: Final = ("length", "content_filter")


def is_reusable(reply: Reply) -> bool:
    """Return whether a stored reply can be used for an identical call. If it was cut short or filtered, is empty or, as
    a parser's reply, contains no complete JSON, it cannot, and the call is made again.
    """
    if reply.finish_reason in _TRUNCATED:
        return False
    return is_complete(reply.text) if isinstance(reply, ParserReply) else not is_empty(reply)


def is_empty(reply: Reply) -> bool:
    """Return whether a model's reply ended normally but has no content. Only older versions stored such replies. A
    parser's reply is never treated as empty.
    """
    if reply.finish_reason in _TRUNCATED or isinstance(reply, ParserReply):
        return False
    if isinstance(reply, LLMReply):
        return not has_content(reply.text)
    if isinstance(reply, Turn):
        return not (reply.unfinished or reply.message.tool_calls or has_content(reply.message.content))
    return not reply.limit_reached and ends_empty(reply.trace)


def dump_reply(reply: Reply) -> str:
    """Return the reply as a JSON string for `load_reply`."""
    return dump_json(_WRITERS[type(reply)](reply))


def load_reply(port: str, text: str) -> Reply:
    """Load a reply from a string written by `dump_reply`. `port` is the kind of port that the reply came from. Raises
    `KeyError`, `TypeError`, `ValueError` or a similar error if the string is invalid.
    """
    return read_reply(port, json.loads(text))


def read_reply(port: str, values: Mapping[str, Any]) -> Reply:
    """Return the reply from a parsed string. Raises the same errors as `load_reply` for invalid values."""
    return _READERS[port](values)


def dump_error(error: PortError) -> str:
    """Return a call's error as a JSON string for `load_error`. `attempts` becomes part of the message, and
    `retry_after` is dropped.
    """
    values: dict[str, Any] = {"message": str(error), "category": error.category.value}
    if error.status is not None:
        values["status"] = error.status
    if error.partial is not None:
        values["partial"] = _dump_agent(error.partial)
    if error.usage.calls:
        values["usage"] = _dump_usage(error.usage)
    return dump_json(values)


def load_error(text: str) -> PortError:
    """Load an error from a string written by `dump_error`. Raises `KeyError`, `TypeError`, `ValueError` or a similar
    error if the string is invalid.
    """
    values = json.loads(text)
    partial = values.get("partial")
    return PortError(
        _check_text(values["message"]),
        category=ErrorCategory(values["category"]),
        status=values.get("status"),
        partial=_load_agent(partial) if partial is not None else None,
        usage=_load_usage(values["usage"]) if "usage" in values else NO_USAGE,
    )


def copy_error(error: PortError) -> PortError:
    """Return a copy of an error that can be raised for another caller, with a traceback of its own."""
    return PortError(
        str(error),
        category=error.category,
        status=error.status,
        retry_after=error.retry_after,
        partial=error.partial,
        usage=error.usage,
    )


def dump_json(value: Any) -> str:
    """Serialize `value` as JSON. Lone surrogates are escaped, so the string can be written to any file. Raises
    `TypeError` if `value` cannot be represented in JSON.
    """
    return dump_json_bytes(value).decode()


def dump_json_bytes(value: Any, fallback: Callable[[Any], Any] | None = None) -> bytes:
    """Serialize `value` as UTF-8-encoded JSON. Keys are not sorted. `fallback` converts values that JSON does not
    support. Without it, such values raise `TypeError`.
    """
    try:
        return to_json(value, fallback=fallback)
    except PydanticSerializationError:  # half a surrogate pair, from a model or a tool
        return json.dumps(value, separators=(",", ":"), default=fallback).encode()


def _dump_usage(usage: Usage) -> list[int]:
    """Return `usage` as a list of counts for `_load_usage`, without zeros at the end of those after `calls`."""
    counts = [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens, usage.calls]
    later = _later_counts_of(usage)
    if any(later):
        counts += later
        while not counts[-1]:
            del counts[-1]
    return counts


def _dump_common(reply: Reply) -> dict[str, Any]:
    """Return the fields that all kinds of replies have in common. Except for `usage`, default values are omitted."""
    values: dict[str, Any] = {"usage": _dump_usage(reply.usage)}
    if reply.finish_reason != "stop":
        values["finish_reason"] = reply.finish_reason
    if reply.model is not None:
        values["model"] = reply.model
    if reply.server_reason is not None:
        values["server_reason"] = reply.server_reason
    if isinstance(reply, LLMReply | AgentReply) and reply.conversation is not None:
        values["conversation"] = dict(reply.conversation)
    return values


def _load_usage(counts: Any) -> Usage:
    if not (
        isinstance(counts, list)
        and _ALWAYS_STORED <= len(counts) <= len(_COUNTS)
        and all(type(count) is int for count in counts)
    ):
        raise ValueError(f"the token usage must be a list of counts, not {counts!r}")
    return Usage(*counts)


def _load_common(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields written by `_dump_common`, except `conversation`, as keyword arguments for a reply."""
    return {
        "usage": _load_usage(values["usage"]),
        "finish_reason": _check_text(values.get("finish_reason", "stop")),
        "model": _check_optional_text(values.get("model")),
        "server_reason": _check_optional_text(values.get("server_reason")),
    }


def _load_conversation(values: Mapping[str, Any]) -> Mapping[str, Any] | None:
    about = values.get("conversation")
    if about is not None and not isinstance(about, dict):
        raise TypeError(f"the details of a conversation must be an object, not {about!r}")
    return about


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r}")
    return value


def _check_optional_text(value: object) -> str | None:
    return None if value is None else _check_text(value)


def _load_message(values: Mapping[str, Any]) -> Message:
    """Return a message from its JSON. Raises `TypeError` if a text in it or the arguments of a tool call have the wrong
    type.
    """
    message = Message.from_dict(values)
    for text in (message.content, *(label for call in message.tool_calls for label in (call.id, call.name))):
        _check_text(text)
    for other in (message.tool_call_id, message.tool_name, message.reasoning, *message.notes):
        _check_optional_text(other)
    if not all(isinstance(call.arguments, dict) for call in message.tool_calls):
        raise TypeError("the arguments of a tool call must be an object")
    return message


def _dump_llm(reply: LLMReply) -> dict[str, Any]:
    """Return a text reply as JSON-compatible data. Empty fields are omitted."""
    values = {"text": reply.text, **_dump_common(reply)}
    if reply.reasoning is not None:
        values["reasoning"] = reply.reasoning
    if reply.notes:
        values["notes"] = list(reply.notes)
    return values


def _load_llm(values: Mapping[str, Any]) -> LLMReply:
    reasoning = _check_optional_text(values.get("reasoning"))
    notes = tuple(map(_check_text, values.get("notes", ())))
    about = _load_conversation(values)
    text = _check_text(values["text"])
    return LLMReply(text, reasoning=reasoning, notes=notes, conversation=about, **_load_common(values))


def _dump_parser(reply: ParserReply) -> dict[str, Any]:
    """Return a parser's reply as JSON-compatible data. Its mode is stored as `way`."""
    values = {"text": reply.text, "way": reply.mode, **_dump_common(reply)}
    if reply.option_logprobs is not None:
        values["option_logprobs"] = dict(reply.option_logprobs)
    return values


def _load_parser(values: Mapping[str, Any]) -> ParserReply:
    logprobs = values.get("option_logprobs")
    if logprobs is not None:
        logprobs = {_check_text(option): float(logprob) for option, logprob in logprobs.items()}
    return ParserReply(_check_text(values["text"]), values["way"], option_logprobs=logprobs, **_load_common(values))


def _dump_agent(reply: AgentReply) -> dict[str, Any]:
    """Return an agent's reply as JSON-compatible data. Empty fields are omitted."""
    values = {"trace": [message.to_dict() for message in reply.trace], **_dump_common(reply)}
    if reply.limit_reached:
        values["limit_reached"] = True
    if reply.recorded is not None:
        values["recorded"] = dict(reply.recorded)
    return values


def _load_agent(values: Mapping[str, Any]) -> AgentReply:
    """Return an agent's reply from its JSON. Raises `TypeError` or `KeyError` if it is not one."""
    trace = tuple(_load_message(message) for message in values["trace"])
    recorded = values.get("recorded")
    if not isinstance(recorded, dict | None):
        raise TypeError("the recorded work must be an object")
    stopped, about = bool(values.get("limit_reached", False)), _load_conversation(values)
    return AgentReply(trace, limit_reached=stopped, recorded=recorded, conversation=about, **_load_common(values))


def _dump_turn(reply: Turn) -> dict[str, Any]:
    """Return an agent's turn as JSON-compatible data. Empty fields are omitted."""
    values = {"message": reply.message.to_dict(), **_dump_common(reply)}
    if reply.unfinished:
        values["unfinished"] = True
    if reply.wire is not None:
        values["wire"] = reply.wire
    return values


def _load_turn(values: Mapping[str, Any]) -> Turn:
    """Return a turn from its JSON. Raises `TypeError` or `KeyError` if it is not one."""
    return Turn(
        _load_message(values["message"]),
        unfinished=bool(values.get("unfinished", False)),
        wire=values.get("wire"),
        **_load_common(values),
    )


_WRITERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    LLMReply: _dump_llm,
    ParserReply: _dump_parser,
    AgentReply: _dump_agent,
    Turn: _dump_turn,
}
_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Reply]]] = {
    "llm": _load_llm,
    "parser": _load_parser,
    "agent": _load_agent,
    "turn": _load_turn,
    "service": _load_llm,
}
