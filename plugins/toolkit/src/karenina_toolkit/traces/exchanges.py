"""Traces out of recorded traffic: requests, each of which repeats what was said before, and the responses to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import get_entries
from karenina_toolkit.traces.format_error import TraceFormatError
from karenina_toolkit.traces.formats import ANTHROPIC, GOOGLE, OPENAI, RESPONSES, Format, open_recording, read_entries

Exchange = Mapping[str, Any]
_NO_REPLY = ("error", "input_tokens", "totalTokens", "promptFeedback")


def convert_exchanges(exchanges: Sequence[Exchange]) -> list[Message]:
    """The one conversation that `exchanges` are, each an object with a `request` and the `response` to it.

    Raises `TraceFormatError` where a request does not go on from the exchange before it (`convert_conversations` gives
    each conversation of such a recording), where there is no exchange, and for what cannot be read.
    """
    found = _conversations(exchanges)
    if len(found) > 1:
        raise TraceFormatError(
            f"exchange {found[1].first} repeats nothing of the exchange before it, and begins another conversation; "
            "read such recordings with traces_of_exchanges"
        )
    if not found:
        raise TraceFormatError("there is no exchange")
    return found[0].messages


def convert_conversations(exchanges: Sequence[Exchange]) -> list[list[Message]]:
    """The conversations that `exchanges` are, in the order of their beginning.

    An exchange goes on with the conversation before it where its request repeats it, message by message: role, text,
    names and arguments of calls (ids and thoughts may differ; a thought that was not repeated is kept), or where it
    names an earlier response as its `previous_response_id`. Else it begins another one, also where other instructions
    are given. A response without a message (an error, a count of tokens, a blocked prompt) adds none, so that the
    conversation ends on what was asked, unless it is asked again. Raises `TraceFormatError` for what cannot be read,
    and for a response with several replies.
    """
    return [conversation.messages for conversation in _conversations(exchanges)]


@dataclass
class _Conversation:
    """What is known of one conversation after some of its exchanges; `first` counts from 1."""

    first: int
    format: Format | None
    entries: list[object]
    before: list[Message]
    messages: list[Message]
    response_ids: list[object]


@dataclass(frozen=True)
class _Exchanged:
    """One exchange, read as far as it goes without those before it."""

    format: Format | None
    asked: list[object]
    before: list[Message]
    reply: list[object]
    response_id: object
    previous_id: object


def _conversations(exchanges: Sequence[Exchange]) -> list[_Conversation]:
    found: list[_Conversation] = []
    for number, exchange in enumerate(exchanges, 1):
        try:
            one = _opened(exchange)
            last = _referred(found, one) if one.previous_id else _repeated(found, one)
            if last is None:
                last = _Conversation(number, one.format, one.asked, one.before, [], [])
                found.append(last)
            last.format = last.format or one.format
            last.entries = [*last.entries, *one.reply]
            last.messages = _with_thoughts([*last.before, *read_entries(last.entries, last.format)], last.messages)
            last.response_ids.append(one.response_id)
        except TraceFormatError as error:
            raise TraceFormatError(f"exchange {number}: {error}") from None
    return found


def _opened(exchange: object) -> _Exchanged:
    request = exchange.get("request") if isinstance(exchange, Mapping) else None
    response = exchange.get("response") if isinstance(exchange, Mapping) else None
    for name, value in (("request", request), ("response", response)):
        if not isinstance(value, Mapping):
            raise TraceFormatError(f"its {name} is {type(value).__name__}, not an object (streams are not read)")
    assert isinstance(request, Mapping)
    assert isinstance(response, Mapping)
    opened = open_recording(request)
    reply, format = _reply(response)
    if opened.format is not None and format is not None and opened.format is not format:
        raise TraceFormatError(f"its request is of {opened.format.name}, its response of {format.name}")
    previous = request.get("previous_response_id")
    return _Exchanged(
        opened.format or format, list(opened.entries), list(opened.before), reply, response.get("id"), previous
    )


def _reply(response: Mapping[str, Any]) -> tuple[list[object], Format | None]:
    """The entries of a response, and their format; none where the response says why there is none."""
    for key, inner, format in (("choices", "message", OPENAI), ("candidates", "content", GOOGLE)):
        several = get_entries(response, key)
        if several:
            if len(several) > 1:
                raise TraceFormatError(f"its response has {len(several)} {key}; a trace has one reply")
            if not isinstance(several[0], Mapping):
                raise TraceFormatError(f"one of its {key} is {type(several[0]).__name__}, not an object")
            return ([several[0][inner]] if several[0].get(inner) else []), format
    if isinstance(response.get("output"), Sequence):
        return list(response["output"]), RESPONSES
    if response.get("role") == "assistant" and "content" in response:
        return [{"role": "assistant", "content": response["content"]}], ANTHROPIC
    if any(response.get(key) for key in _NO_REPLY):
        return [], None
    raise TraceFormatError(f"its response is of no known format: it has {', '.join(sorted(response)) or 'nothing'}")


def _repeated(found: Sequence[_Conversation], one: _Exchanged) -> _Conversation | None:
    """The last conversation with what `one` asked, if that repeats what was said until then."""
    if not found:
        return None
    last = found[-1]
    messages = [*one.before, *read_entries(one.asked, one.format)]
    if [_said(message) for message in messages[: len(last.messages)]] != [_said(message) for message in last.messages]:
        return None
    last.entries, last.before, last.format = one.asked, one.before, one.format
    return last


def _referred(found: Sequence[_Conversation], one: _Exchanged) -> _Conversation:
    """The conversation whose last response `one` names as the one it goes on from, with what `one` asked."""
    for conversation in found:
        if conversation.response_ids[-1] == one.previous_id:
            new = [message for message in one.before if message not in conversation.messages]
            told = [{"role": "developer", "content": message.content} for message in new]
            conversation.entries = [*conversation.entries, *told, *one.asked]
            return conversation
    raise TraceFormatError(f"it goes on from {one.previous_id!r}, which is the last response of no exchange before it")


def _said(message: Message) -> tuple[object, ...]:
    calls = [(call.name, dict(call.arguments)) for call in message.tool_calls]
    return message.role, message.content.strip(), calls


def _with_thoughts(messages: Sequence[Message], earlier: Sequence[Message]) -> list[Message]:
    """`messages`, with the thoughts of `earlier` ones that were not repeated."""
    kept = list(messages)
    for place, message in enumerate(earlier):
        if message.reasoning and not kept[place].reasoning:
            kept[place] = replace(kept[place], reasoning=message.reasoning)
    return kept
