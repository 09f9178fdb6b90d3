"""LangChain and LangGraph messages in all three serialized forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, get_entries, get_name, in_entry
from karenina_toolkit.traces.formats.openai_chat import (
    Parts,
    add_parts,
    read_arguments,
    read_content,
    read_message,
    read_reasoning,
    read_result,
    read_tool_call,
    split_parts,
)

Entry = Mapping[str, Any]
_KINDS: Final[Mapping[str, Role]] = {
    "human": "user",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
_CLASSES: Final = {f"{kind.capitalize()}Message": kind for kind in _KINDS} | {"AIMessage": "ai", "ChatMessage": "chat"}
_CALLS: Final = {"tool_use": "input", "tool_call": "args", "function_call": "arguments", "server_tool_use": "input"}
"""The types of content blocks that represent calls, each with the key of the call's arguments."""
_TURN_LIMITS: Final = ("Sorry, need more steps to process this request.", "Model call limits exceeded: ")
_OF_OTHERS: Final = frozenset({"uuid", "subtype", "sessionId", "session_id", "source"})


def claims(entry: Entry) -> bool:
    """Return whether `entry` has a LangChain message type such as `human`, given by its `type` or its class. Chat
    messages with a role are not claimed.
    """
    if "role" in entry and entry.get("type") != "chat":
        return False
    kind, data = _unwrap(entry)
    return kind is not None and data is not None and not entry.keys() & _OF_OTHERS


def is_turn_limit(entry: Entry) -> bool:
    """Return whether `entry` is the message that LangGraph's or LangChain's agent puts in place of an answer if it
    reaches its limit of steps or model calls.
    """
    kind, data = _unwrap(entry)
    content = data.get("content") if kind == "ai" and data is not None else None
    return isinstance(content, str) and content.startswith(_TURN_LIMITS)


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert LangChain's messages to messages of a trace. Chat messages with a role are also accepted, as in
    LangGraph. Raises `TraceFormatError` if an entry is not a message.

    If LangChain could not parse a call's arguments, they are kept as text. Artifacts and metadata are omitted.
    """
    names: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        kind, data = _unwrap(entry)
        with in_entry(number):
            if kind is None and "role" in entry:
                kind, data = "chat", entry
            if kind is None or data is None:
                raise TraceFormatError(f"unknown message type {entry.get('type')!r:.80}")
            message = _read_message(kind, data, names)
        names.update((call.id, call.name) for call in message.tool_calls)
        yield message


def _unwrap(entry: Entry) -> tuple[str | None, Entry | None]:
    """Return the type and fields of a message from `model_dump`, `messages_to_dict` or `dumpd`. The type is None if the
    class is unknown. The fields are None if there is no content. For any other object, both are None.
    """
    kind, data, place = entry.get("type"), entry.get("data"), entry.get("id")
    if isinstance(entry.get("kwargs"), Mapping) and isinstance(place, Sequence) and not isinstance(place, str):
        name = str(place[-1]) if place else ""
        return _CLASSES.get(name.removesuffix("Chunk")), entry["kwargs"]
    if not isinstance(kind, str):
        return None, None
    kind = _CLASSES.get(kind.removesuffix("Chunk"), kind) if kind.endswith("MessageChunk") else kind
    if kind not in _KINDS and kind != "chat":
        return None, None
    if isinstance(data, Mapping):
        return kind, data
    return kind, entry if "content" in entry else None


def _read_message(kind: str, data: Entry, names: Mapping[str, str]) -> Message:
    """Convert a message of the given `kind`. `names` maps the ids of calls to tools. Raises `TraceFormatError` if a
    field has the wrong type.
    """
    if kind == "chat":
        return read_message(data, names)
    role = _KINDS[kind]
    content = data.get("content")
    if role == "assistant":
        return _read_assistant(data)
    if role == "tool":
        call_id = get_name(data, "tool_call_id")
        return Message(
            "tool",
            read_result(content),
            tool_call_id=call_id,
            tool_name=get_name(data, "name") or names.get(call_id or ""),
            is_error=data.get("status") == "error",
        )
    return Message(role, read_content(content))


def _read_assistant(data: Entry) -> Message:
    """Convert an assistant message, with calls from all places in which LangChain may store them."""
    content = data.get("content")
    more = data.get("additional_kwargs")
    more = more if isinstance(more, Mapping) else {}
    if content is not None and not isinstance(content, (str, Mapping)) and isinstance(content, Sequence):
        parts, in_content = _split_blocks(content)
    else:
        parts, in_content = split_parts(content), []
    calls = [_call(call, "args") for call in get_entries(data, "tool_calls")]
    calls = calls or [read_tool_call(call) for call in get_entries(more, "tool_calls")]
    ids = {call.id for call in calls}
    calls += [call for call in in_content if call.id not in ids]
    calls += [_call(call, "args") for call in get_entries(data, "invalid_tool_calls")]
    if not calls and isinstance(more.get("function_call"), Mapping):
        calls = [_call(more["function_call"], "arguments")]
    _add_refusal(parts, more.get("refusal"))
    return parts.to_message(calls, read_reasoning(more))


def _split_blocks(blocks: Sequence[Any]) -> tuple[Parts, list[ToolCall]]:
    """Return the parts and the calls in a list of content blocks. Text begins a new line after a call, and so does each
    message of OpenAI's Responses API, which has an `id`. Commentary before a final answer is a thought.
    """
    parts, before = Parts(), None
    calls: list[ToolCall] = []
    is_final = any(isinstance(block, Mapping) and block.get("phase") == "final_answer" for block in blocks)
    for block in blocks:
        about = block if isinstance(block, Mapping) else {}
        if _is_call(block) or about.get("id") != before:
            parts.end_line()
        before = about.get("id")
        if _is_call(block):
            calls.append(_call_of_block(block))
        elif is_final and about.get("phase") == "commentary":
            parts.add_thought(read_content([block]))
        else:
            add_parts(parts, block)
    return parts, calls


def _add_refusal(parts: Parts, refusal: object) -> None:
    """Add a refusal to the text. Does nothing if `refusal` is empty or not a string."""
    if isinstance(refusal, str) and refusal:
        parts.add_text(refusal, "refusal")


def _is_call(block: object) -> bool:
    return isinstance(block, Mapping) and str(block.get("type")) in _CALLS


def _call_of_block(block: Entry) -> ToolCall:
    return _call(block, _CALLS[block["type"]])


def _call(call: Any, arguments: str) -> ToolCall:
    """Convert an object to a tool call. `arguments` is the key of its arguments. Raises `TraceFormatError` if the call
    has no name.
    """
    name = call.get("name") if isinstance(call, Mapping) else None
    if not isinstance(name, str):
        raise TraceFormatError("a tool call has no name")
    return ToolCall(str(call.get("call_id") or call.get("id") or ""), name, read_arguments(call.get(arguments)))
