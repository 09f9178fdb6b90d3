"""Traces from recorded traffic: requests that repeat the conversation so far, with their responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import TraceFormatError, comparable
from karenina_toolkit.traces.formats.registry import ANTHROPIC, BEDROCK, RESPONSES, Format, read_entries
from karenina_toolkit.traces.recording import open_recording, open_reply

Exchange = Mapping[str, Any]
_NO_REPLY = ("error", "input_tokens", "totalTokens", "promptFeedback")


def convert_exchanges(exchanges: Sequence[Exchange]) -> list[Message]:
    """Convert recorded traffic, objects with a `request` and its `response`, to the messages of a single trace. Raises
    `TraceFormatError` if there are no exchanges, if one cannot be read, or if they belong to several conversations (use
    `convert_conversations`).
    """
    conversations = _conversations(exchanges)
    if len(conversations) > 1:
        raise TraceFormatError(
            f"exchange {conversations[1].first} does not repeat the previous exchange, so it begins another "
            "conversation; use convert_conversations to read recordings with several conversations"
        )
    if not conversations:
        raise TraceFormatError("there are no exchanges to convert")
    return conversations[0].messages


def convert_conversations(exchanges: Sequence[Exchange]) -> list[list[Message]]:
    """Convert recorded traffic to traces, one for each conversation, in the order in which they begin. An exchange
    continues a conversation if its request repeats the last conversation or refers to an earlier response, and
    otherwise begins another. Raises `TraceFormatError` if an exchange cannot be read or a response contains several
    replies.

    - A request repeats the last conversation message by message, with the same roles, texts, and names and arguments of
      calls. Ids and reasoning may differ. Reasoning that is not repeated is kept.
    - A request refers to an earlier response as its `previous_response_id`.

    A new conversation begins even if only the instructions differ. If a response has no message (an error, a token
    count, a blocked prompt), the conversation ends with the request, unless the request is repeated.
    """
    return [conversation.messages for conversation in _conversations(exchanges)]


@dataclass
class _Conversation:
    """A conversation so far. `first` is the number of its first exchange, counted from 1."""

    first: int
    format: Format | None
    entries: list[object]
    before: list[Message]
    messages: list[Message]
    response_ids: list[object]


@dataclass(frozen=True)
class _ParsedExchange:
    """An exchange, parsed as far as possible without the earlier ones."""

    format: Format | None
    asked: list[object]
    before: list[Message]
    reply: list[object]
    response_id: object
    previous_id: object


def _conversations(exchanges: Sequence[Exchange]) -> list[_Conversation]:
    """Return the conversations in `exchanges`. Raises `TraceFormatError`, with the number of the exchange, if one
    cannot be read.
    """
    conversations: list[_Conversation] = []
    for number, exchange in enumerate(exchanges, 1):
        try:
            parsed = _parse_exchange(exchange)
            last = (
                _continue_referenced(conversations, parsed)
                if parsed.previous_id
                else _continue_repeated(conversations, parsed)
            )
            if last is None:
                last = _Conversation(number, parsed.format, parsed.asked, parsed.before, [], [])
                conversations.append(last)
            last.format = last.format or parsed.format
            last.entries = [*last.entries, *parsed.reply]
            last.messages = _restore_thoughts([*last.before, *read_entries(last.entries, last.format)], last.messages)
            last.response_ids.append(parsed.response_id)
        except TraceFormatError as error:
            raise TraceFormatError(f"exchange {number}: {error}") from None
    return conversations


def _parse_exchange(exchange: object) -> _ParsedExchange:
    """Return an exchange parsed as far as possible without the earlier ones. Raises `TraceFormatError` if the exchange
    has no request or response, or if their formats differ.
    """
    request = exchange.get("request") if isinstance(exchange, Mapping) else None
    response = exchange.get("response") if isinstance(exchange, Mapping) else None
    for name, value in (("request", request), ("response", response)):
        if not isinstance(value, Mapping):
            raise TraceFormatError(
                f"the {name} must be an object, not {type(value).__name__} (streams are not supported)"
            )
    assert isinstance(request, Mapping)
    assert isinstance(response, Mapping)
    opened = open_recording(request)
    reply, format = _reply(response)
    if opened.format is not None and format is not None and opened.format is not format:
        raise TraceFormatError(
            f"the request has the format {opened.format.name}, but the response has the format {format.name}"
        )
    previous = request.get("previous_response_id")
    return _ParsedExchange(
        opened.format or format, list(opened.entries), list(opened.before), reply, response.get("id"), previous
    )


def _reply(response: Mapping[str, Any]) -> tuple[list[object], Format | None]:
    """Return the entries of a response, and their format. A response with a reason for having no message, such as an
    error, has no entries, and its format is None. Raises `TraceFormatError` for any other format.
    """
    opened = open_reply(response)
    if opened is not None:
        return list(opened.entries), opened.format
    output = response.get("output")
    if isinstance(output, Mapping) and isinstance(output.get("message"), Mapping):
        return [output["message"]], BEDROCK
    if isinstance(output, Sequence):
        return list(output), RESPONSES
    if response.get("role") == "assistant" and "content" in response:
        return [{"role": "assistant", "content": response["content"]}], ANTHROPIC
    if any(response.get(key) for key in _NO_REPLY):
        return [], None
    raise TraceFormatError(f"the response has an unknown format; its keys are: {', '.join(sorted(response)) or 'none'}")


def _continue_repeated(conversations: Sequence[_Conversation], parsed: _ParsedExchange) -> _Conversation | None:
    """Return the last conversation if the request repeats it, with its entries replaced by the request's, which may
    continue it. Otherwise, return None and change nothing.
    """
    if not conversations:
        return None
    last = conversations[-1]
    messages = [*parsed.before, *read_entries(parsed.asked, parsed.format)]
    if [comparable(message) for message in messages[: len(last.messages)]] != [
        comparable(message) for message in last.messages
    ]:
        return None
    last.entries, last.before, last.format = parsed.asked, parsed.before, parsed.format
    return last


def _continue_referenced(conversations: Sequence[_Conversation], parsed: _ParsedExchange) -> _Conversation:
    """Add a request to the conversation whose last response it refers to, and return that conversation. Raises
    `TraceFormatError` if there is no such conversation.
    """
    for conversation in conversations:
        if conversation.response_ids[-1] == parsed.previous_id:
            new = [message for message in parsed.before if message not in conversation.messages]
            instructions = [{"role": "developer", "content": message.content} for message in new]
            conversation.entries = [*conversation.entries, *instructions, *parsed.asked]
            return conversation
    raise TraceFormatError(
        f"the request continues {parsed.previous_id!r}, which is not the last response of any earlier exchange"
    )


def _restore_thoughts(messages: Sequence[Message], earlier: Sequence[Message]) -> list[Message]:
    """Return the messages with the reasoning of the `earlier` ones at the same positions, where it was not repeated."""
    restored = list(messages)
    for place, message in enumerate(earlier):
        if message.reasoning and not restored[place].reasoning:
            restored[place] = replace(restored[place], reasoning=message.reasoning)
    return restored
