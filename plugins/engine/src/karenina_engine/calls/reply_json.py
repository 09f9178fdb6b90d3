"""Replies of models, and calls that failed, as the JSON that a journal keeps of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

from karenina_core.models.ports import AgentReply, ErrorCategory, LLMReply, Message, ParserReply, PortError, Turn, Usage
from karenina_toolkit.structured.reply_parser import is_complete

Reply = LLMReply | ParserReply | AgentReply | Turn

_TRUNCATED: Final = ("length", "content_filter")


def is_reusable(reply: Reply) -> bool:
    """Whether the reply may answer the same call later.

    One that was cut short or filtered may not, and neither may one in which JSON was asked for and none is whole.
    """
    if reply.finish_reason in _TRUNCATED:
        return False
    return not isinstance(reply, ParserReply) or is_complete(reply.text)


def dump_reply(reply: Reply) -> str:
    """The reply as JSON text, which `load_reply` reads."""
    return dump_json(_WRITERS[type(reply)](reply))


def load_reply(port: str, text: str) -> Reply:
    """Return the reply that came through `port`, from its JSON text.

    Raises `KeyError`, `TypeError`, `ValueError` and the like for a text that `dump_reply` has not written.
    """
    return _READERS[port](json.loads(text))


def dump_error(error: PortError) -> str:
    """A failed call as JSON text, which `load_error` reads."""
    values: dict[str, Any] = {"message": str(error), "category": error.category.value}
    if error.status is not None:
        values["status"] = error.status
    if error.partial is not None:
        values["partial"] = _agent(error.partial)
    return dump_json(values)


def load_error(text: str) -> PortError:
    """The error of a call that failed, from its JSON text."""
    values = json.loads(text)
    partial = values.get("partial")
    return PortError(
        _text_of(values["message"]),
        category=ErrorCategory(values["category"]),
        status=values.get("status"),
        partial=_agent_of(partial) if partial is not None else None,
    )


def copy_error(error: PortError) -> PortError:
    """The error once more, for another caller: an exception object belongs to whom it is raised for."""
    return PortError(
        str(error),
        category=error.category,
        status=error.status,
        retry_after=error.retry_after,
        partial=error.partial,
    )


def dump_json(value: Any) -> str:
    """`value` as JSON text that every file takes. Raises `TypeError` for what is no JSON value."""
    return dump_json_bytes(value).decode()


def dump_json_bytes(value: Any, fallback: Callable[[Any], Any] | None = None) -> bytes:
    """`value` as JSON in UTF-8, the names of objects in their order; `fallback` stands in for what is no JSON value.

    Raises `TypeError` where there is none.
    """
    try:
        return to_json(value, fallback=fallback)
    except PydanticSerializationError:  # half a character, from a model or a tool
        return json.dumps(value, separators=(",", ":"), default=fallback).encode()


def _common(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    counts = [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens, usage.calls]
    values: dict[str, Any] = {"usage": [*counts, usage.cache_write_tokens] if usage.cache_write_tokens else counts}
    if reply.finish_reason != "stop":
        values["finish_reason"] = reply.finish_reason
    if reply.model is not None:
        values["model"] = reply.model
    return values


def _common_of(values: Mapping[str, Any]) -> dict[str, Any]:
    counts = values["usage"]
    if not (isinstance(counts, list) and len(counts) in (5, 6) and all(type(count) is int for count in counts)):
        raise ValueError(f"a usage is a list of counts, not {counts!r}")
    return {
        "usage": Usage(*counts),
        "finish_reason": _text_of(values.get("finish_reason", "stop")),
        "model": _text_or_none(values.get("model")),
    }


def _text_of(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {value!r}")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text_of(value)


def _message_of(values: Mapping[str, Any]) -> Message:
    message = Message.from_dict(values)
    for text in (message.content, *(one for call in message.tool_calls for one in (call.id, call.name))):
        _text_of(text)
    for other in (message.tool_call_id, message.tool_name, message.reasoning):
        _text_or_none(other)
    if not all(isinstance(call.arguments, dict) for call in message.tool_calls):
        raise TypeError("the arguments of a tool call are no object")
    return message


def _llm(reply: LLMReply) -> dict[str, Any]:
    values = {"text": reply.text, **_common(reply)}
    if reply.reasoning is not None:
        values["reasoning"] = reply.reasoning
    return values


def _llm_of(values: Mapping[str, Any]) -> LLMReply:
    return LLMReply(_text_of(values["text"]), reasoning=_text_or_none(values.get("reasoning")), **_common_of(values))


def _parser(reply: ParserReply) -> dict[str, Any]:
    return {"text": reply.text, "way": reply.mode, **_common(reply)}


def _parser_of(values: Mapping[str, Any]) -> ParserReply:
    return ParserReply(_text_of(values["text"]), values["way"], **_common_of(values))


def _agent(reply: AgentReply) -> dict[str, Any]:
    values = {"trace": [message.to_dict() for message in reply.trace], **_common(reply)}
    if reply.limit_reached:
        values["limit_reached"] = True
    return values


def _agent_of(values: Mapping[str, Any]) -> AgentReply:
    trace = tuple(_message_of(message) for message in values["trace"])
    return AgentReply(trace, limit_reached=bool(values.get("limit_reached", False)), **_common_of(values))


def _turn(reply: Turn) -> dict[str, Any]:
    values = {"message": reply.message.to_dict(), **_common(reply)}
    if reply.unfinished:
        values["unfinished"] = True
    if reply.wire is not None:
        values["wire"] = reply.wire
    return values


def _turn_of(values: Mapping[str, Any]) -> Turn:
    return Turn(
        _message_of(values["message"]),
        unfinished=bool(values.get("unfinished", False)),
        wire=values.get("wire"),
        **_common_of(values),
    )


_WRITERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    LLMReply: _llm,
    ParserReply: _parser,
    AgentReply: _agent,
    Turn: _turn,
}
_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Reply]]] = {
    "llm": _llm_of,
    "parser": _parser_of,
    "agent": _agent_of,
    "turn": _turn_of,
    "service": _llm_of,
}
