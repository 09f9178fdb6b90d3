"""Checks of every value that an adapter or a tool passes on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from karenina_core.models.ports import AgentReply, LLMReply, ParserReply
from karenina_engine.calls.reply_json import dump_reply, load_reply
from karenina_toolkit.replies.reply_bounds import (
    BrokenReply,
    ReplyTooLarge,
    sanitize_agent_reply,
    sanitize_llm_reply,
    sanitize_parser_reply,
)

_MOST = 2**63


def sound(reply: LLMReply | ParserReply | AgentReply) -> None:
    """Raise unless a run can keep the reply: in a journal, from which it is read the same."""
    try:
        _sound(_check(reply))
    except (BrokenReply, ReplyTooLarge) as error:  # as a run refuses it
        str(error).encode("utf-8")


def _check(reply: LLMReply | ParserReply | AgentReply) -> LLMReply | ParserReply | AgentReply:
    """Return the reply as a run takes it from any adapter."""
    if isinstance(reply, LLMReply):
        return sanitize_llm_reply(reply)
    if isinstance(reply, ParserReply):
        return dataclasses.replace(sanitize_parser_reply(reply), reasoning=None)
    return sanitize_agent_reply("the model", reply)


def _sound(reply: LLMReply | ParserReply | AgentReply) -> None:
    port = {LLMReply: "llm", ParserReply: "parser", AgentReply: "agent"}[type(reply)]
    text = dump_reply(reply)
    text.encode("utf-8")
    if load_reply(port, text) != reply:
        raise AssertionError("a reply that was kept is another one")
    for number in _numbers(dataclasses.asdict(reply.usage)):
        if not 0 <= number < _MOST:
            raise AssertionError("a count that no journal takes")
    for identifier in (reply.model, reply.finish_reason):
        if identifier is not None:
            if not isinstance(identifier, str):
                raise AssertionError(f"a name that is no text but {type(identifier).__name__}")
            identifier.encode("utf-8")


def sound_text(text: str) -> None:
    """Raise unless a text of a tool can be sent on."""
    json.dumps(text, ensure_ascii=False).encode("utf-8")


def _numbers(values: Mapping[str, Any]) -> Iterator[int]:
    for value in values.values():
        if type(value) is not int:
            raise AssertionError(f"a count that is no whole number but {type(value).__name__}")
        yield value
