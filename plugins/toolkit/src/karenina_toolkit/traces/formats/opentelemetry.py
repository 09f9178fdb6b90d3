"""Messages that follow OpenTelemetry's conventions for generative AI, and the spans that contain them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_toolkit.traces.blocks import (
    TraceFormatError,
    as_json,
    comparable,
    describe_block,
    get_entries,
    get_name,
    in_entry,
)
from karenina_toolkit.traces.formats import span_attributes
from karenina_toolkit.traces.formats.openai_chat import Parts, read_arguments

Entry = Mapping[str, Any]
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
INSTRUCTIONS: Final = "gen_ai.system_instructions"
_OPERATION: Final = "gen_ai.operation.name"
_AGENT: Final = "invoke_agent"
_RESULTS: Final = ("tool_call_response", "server_tool_call_response")
_CALLS: Final = ("tool_call", "server_tool_call")
_TEXTS: Final = ("text", "reasoning")
_MEDIA: Final = ("blob", "uri", "file", "file_data")
_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
}


def claims(entry: Entry) -> bool:
    """Return whether `entry` is a message in the form of OpenTelemetry's conventions for generative AI: it has no
    `content`, and at least one of its parts has a type and keys of the conventions, or it has no parts but a finish
    reason.
    """
    parts = entry.get("parts")
    if "content" in entry or not isinstance(parts, Sequence) or isinstance(parts, str):
        return False
    return any(isinstance(part, Mapping) and _is_distinctive(part) for part in parts) or (
        not parts and "finish_reason" in entry
    )


def _is_distinctive(part: Entry) -> bool:
    """Return whether a part's type and keys come from the conventions."""
    kind = part.get("type")
    if kind in _MEDIA:
        return "mediaType" not in part  # which is the AI SDK's
    return kind in (*_CALLS, *_RESULTS) or (kind in _TEXTS and "content" in part)


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert messages in the form of OpenTelemetry's conventions to messages of a trace. Each response to a tool call
    becomes a tool message, which is an error if the response has the additional key `is_error`, because the conventions
    have none. Raises `TraceFormatError` if an entry is not in this format.

    Files and other parts are described with `describe_block`, and unknown assistant parts are described in `notes`.
    """
    names: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            role = _ROLES.get(entry["role"])
            if role is None:
                raise TraceFormatError(
                    f"unknown role {entry['role']!r:.80}; use one such as 'system', 'user', 'assistant' or 'tool'"
                )
            for message in _read_message(role, get_entries(entry, "parts"), names):
                names.update((call.id, call.name) for call in message.tool_calls)
                yield message


def _read_message(role: Role, entries: Sequence[Any], names: Mapping[str, str]) -> Iterator[Message]:
    """Convert an entry to messages: the responses to calls, and the parts between them. Raises `TraceFormatError` if a
    part cannot be read.
    """
    parts, calls, begun = Parts(), list[ToolCall](), not entries
    for part in entries:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if not isinstance(kind, str):
            raise TraceFormatError("a part has no type")
        if kind in _RESULTS:
            if begun and (parts.texts or calls):
                yield _close(role, parts, calls)
                parts, calls = Parts(), []
            begun = False
            yield _result(kind, part, names)
            continue
        begun = True
        if kind == "text":
            parts.add_text(_text(part), kind if role == "assistant" else "block")
        elif kind == "reasoning":
            parts.add_thought(_text(part))
        elif kind in _CALLS:
            calls.append(_call(kind, part))
        elif kind in _MEDIA or role != "assistant":
            parts.add_text(describe_block(str(part.get("modality") or kind), part), kind)
        else:
            parts.add_unknown(part)
    if begun:
        yield _close(role, parts, calls)


def _close(role: Role, parts: Parts, calls: list[ToolCall]) -> Message:
    """Return a message with the given parts. If there are calls, it is an assistant message, whatever the role."""
    if role == "assistant" or calls:
        return parts.to_message(calls)
    return Message("user" if role == "tool" else role, parts.text)


def _text(part: Entry) -> str:
    if not isinstance(part.get("content"), str):
        raise TraceFormatError(f"a part of type {part['type']} has no content")
    return str(part["content"])


def _call(kind: str, part: Entry) -> ToolCall:
    if not isinstance(part.get("name"), str):
        raise TraceFormatError(f"a {kind} has no name")
    arguments = part.get("server_tool_call") if kind == "server_tool_call" else part.get("arguments")
    return ToolCall(_find_id(part) or "", part["name"], read_arguments(arguments))


def _find_id(part: Entry) -> str | None:
    """Return the id of a call, or None. In Microsoft's agents, it is the last item of a list that starts with the run's
    id.
    """
    ids = part.get("id")
    if isinstance(ids, Sequence) and not isinstance(ids, str) and ids:
        return get_name({"id": ids[-1]}, "id")
    return get_name(part, "id")


def _result(kind: str, part: Entry, names: Mapping[str, str]) -> Message:
    """Convert a response to a tool message. If the response is missing, the message is empty. `kind` is the type of
    `part`, and `names` maps call ids to tool names.
    """
    response = next((part[key] for key in ("response", "result", kind) if part.get(key) is not None), "")
    text = response if isinstance(response, str) else as_json(response)
    call_id = _find_id(part)
    name = get_name(part, "name") or names.get(call_id or "")
    return Message("tool", text, tool_call_id=call_id, tool_name=name, is_error=part.get("is_error") is True)


def find_spans(document: Mapping[str, Any]) -> list[Entry]:
    """Return the attributes of all spans that contain messages, ordered by start time. `document` may be the attributes
    themselves, a span, or an OTLP export in JSON.
    """
    spans = list(_iter_spans(document))
    spans.sort(key=lambda span: _nanoseconds(span.get("startTimeUnixNano")))
    candidates = [attributes for span in spans for attributes in _iter_attributes(span)]
    return [held for held in candidates if INPUT in held or OUTPUT in held or span_attributes.has_messages(held)]


def read_spans(spans: Sequence[Entry]) -> list[Message]:
    """Return the only conversation in `spans`, which must not be empty: the longest one of their calls, which must
    begin with each of the others. The spans of agents repeat the calls inside them, so they are only read if there are
    no others. Raises `TraceFormatError` if there are several conversations, or if a span cannot be read.
    """
    conversations = [_read_span(span) for span in _select_calls(spans)]
    longest = max(conversations, key=len)
    for conversation in conversations:
        if [comparable(message) for message in conversation] != [
            comparable(message) for message in longest[: len(conversation)]
        ]:
            raise TraceFormatError(
                "the spans contain several conversations; provide the attributes of a single span, or only one "
                "conversation"
            )
    return longest


def find_last_output(spans: Sequence[Entry]) -> list[Any]:
    """Return the output of the call that has the longest conversation. It may be empty. `spans` must not be empty.
    Raises `TraceFormatError` if a span cannot be read.
    """
    longest = max(_select_calls(spans), key=lambda span: len(_read_span(span)))
    if not longest.keys() & {INPUT, OUTPUT}:
        return span_attributes.find_output(longest)
    output = _decode(longest.get(OUTPUT))
    return list(output or ())


def _select_calls(spans: Sequence[Entry]) -> Sequence[Entry]:
    """Return the spans that do not belong to agents. If there are none, return all spans."""
    return [span for span in spans if span.get(_OPERATION) != _AGENT] or spans


def _read_span(span: Entry) -> list[Message]:
    """Return the messages in a span: instructions, input and output. Raises `TraceFormatError` if an attribute is not a
    list of messages.
    """
    if not span.keys() & {INPUT, OUTPUT}:
        return span_attributes.read(span)
    entries: list[Entry] = []
    instructions = _decode(span.get(INSTRUCTIONS))
    if instructions:
        parts = [{"type": "text", "content": instructions}] if isinstance(instructions, str) else instructions
        entries.append({"role": "system", "parts": parts})
    for key in (INPUT, OUTPUT):
        value = _decode(span.get(key))
        if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
            raise TraceFormatError(f"{key} must be a list of messages, not {type(value).__name__}")
        for number, entry in enumerate(value or (), 1):
            if not isinstance(entry, Mapping) or not isinstance(entry.get("role"), str) or "parts" not in entry:
                raise TraceFormatError(f"entry {number} in {key} is not a message with a role and parts")
            entries.append(entry)
    return list(read(entries))


def _decode(value: Any) -> Any:
    """Return the value of an attribute. A string that starts with `[` or `{` is parsed as JSON, and raises
    `TraceFormatError` if it is invalid; any other value is returned unchanged.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(f"an attribute is not valid JSON: {error}") from None


def _iter_spans(document: Entry) -> Iterator[Entry]:
    """Yield the spans of an OTLP export. If `document` is not an export, yield the document itself."""
    resources = document.get("resourceSpans")
    if resources is None or not isinstance(resources, Sequence):
        yield document
        return
    for resource in resources:
        for scope in _objects(resource, "scopeSpans"):
            yield from _objects(scope, "spans")


def _iter_attributes(span: Entry) -> Iterator[Entry]:
    """Yield all mappings that may contain attributes: the span itself, its attributes, and those of its events."""
    yield span
    for holder in (span, *_objects(span, "events")):
        attributes = holder.get("attributes")
        if attributes is None:
            continue
        if isinstance(attributes, Mapping):
            yield attributes
        elif isinstance(attributes, Sequence) and not isinstance(attributes, str):
            yield {str(pair["key"]): _any_value(pair.get("value")) for pair in attributes if _is_pair(pair)}


def _is_pair(value: object) -> bool:
    """Return whether a value is an attribute in OTLP's key-value form."""
    return isinstance(value, Mapping) and "key" in value


def _objects(holder: object, key: str) -> Iterator[Entry]:
    """Yield the objects in the list under `key`. If there is no such list, yield nothing."""
    held = holder.get(key) if isinstance(holder, Mapping) else None
    if held is not None and not isinstance(held, str) and isinstance(held, Sequence):
        yield from (item for item in held if isinstance(item, Mapping))


def _any_value(value: Any) -> Any:
    """Return the plain value in a value of OTLP JSON, which is wrapped in an object with its type as the key."""
    if not isinstance(value, Mapping):
        return value
    if "arrayValue" in value:
        return [_any_value(item) for item in _objects(value["arrayValue"], "values")]
    if "kvlistValue" in value:
        pairs = _objects(value["kvlistValue"], "values")
        return {str(pair["key"]): _any_value(pair.get("value")) for pair in pairs if "key" in pair}
    return next(iter(value.values()), None)


def _nanoseconds(value: Any) -> int:
    """Convert a time to a number. Invalid times become 0."""
    return int(value) if isinstance(value, (str, int)) and str(value).isdecimal() else 0
