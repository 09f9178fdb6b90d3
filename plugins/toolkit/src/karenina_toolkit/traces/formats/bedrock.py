"""Messages in the format of the Amazon Bedrock Converse API: lists of blocks, each with its kind as the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, as_json, describe_block, in_entry, join_texts
from karenina_toolkit.traces.formats.openai_chat import Parts

Entry = Mapping[str, Any]
_MEDIA: Final = ("image", "document", "video", "audio", "searchResult")
_CALLS: Final = ("toolUse", "toolResult")
_KINDS: Final = frozenset({"text", *_CALLS, *_MEDIA, "reasoningContent", "guardContent", "citationsContent"})
_ABOUT_CACHE: Final = "cachePoint"
_ROLES: Final[Mapping[str, Role]] = {"system": "system", "user": "user", "assistant": "assistant"}


def claims(entry: Entry) -> bool:
    """Return whether `entry` has a block whose key is its kind. In other formats, blocks have a `type`."""
    content = entry.get("content")
    blocks = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    return any(isinstance(block, Mapping) and "type" not in block and block.keys() & _KINDS for block in blocks)


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert entries in the format of Bedrock's Converse API to messages. Tool results become tool messages. Raises
    `TraceFormatError` if an entry is not in this format.

    Pictures, documents and videos are described with `describe_block`, and unknown assistant blocks are described in
    `notes`. Signatures, citations and cache points are omitted.
    """
    names: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            role = _ROLES.get(entry["role"])
            if role is None:
                raise TraceFormatError(
                    f"unknown role {entry['role']!r:.80}; the roles of Bedrock messages are 'user' and 'assistant'"
                )
            blocks = _blocks(entry.get("content"))
            if role == "assistant":
                message = _read_assistant(blocks)
                names.update((call.id, call.name) for call in message.tool_calls)
                yield message
            else:
                yield from _read_other(role, blocks, names)


def _read_assistant(blocks: Sequence[tuple[str, Any]]) -> Message:
    """Convert an entry's blocks, which are pairs of kind and value, to an assistant message. Raises `TraceFormatError`
    if a block is malformed or is a tool result.
    """
    parts = Parts()
    calls: list[ToolCall] = []
    for kind, value in blocks:
        if kind == "text":
            parts.add_text(_require_text(value), kind)
        elif kind == "reasoningContent":
            parts.add_thought(_thought(value))
        elif kind == "toolUse":
            calls.append(_call(value))
        elif kind == "toolResult":
            raise TraceFormatError("a toolResult must be in a user message")
        elif kind in _KINDS:
            parts.add_text(_describe(kind, value), kind)
        else:
            parts.add_unknown({"type": kind, "value": value})
    return parts.to_message(calls)


def _read_other(role: Role, blocks: Sequence[tuple[str, Any]], names: Mapping[str, str]) -> Iterator[Message]:
    """Convert the blocks of an entry with another role than the assistant's to messages: the tool results, and the text
    between them. `names` maps call ids to tool names.
    """

    def read(kind: str, value: Any) -> str | Message:
        if kind == "toolResult":
            return _result(value, names)
        return _require_text(value) if kind == "text" else _describe(kind, value)

    return join_texts(role, (read(kind, value) for kind, value in blocks))


def _call(value: Any) -> ToolCall:
    """Convert a `toolUse` block to a tool call. Raises `TraceFormatError` if it has no name or its input is not an
    object.
    """
    arguments = (value.get("input") or {}) if isinstance(value, Mapping) else None
    if not isinstance(arguments, Mapping) or not isinstance(value.get("name"), str):
        raise TraceFormatError("a toolUse has no name, or its input is not an object")
    return ToolCall(str(value.get("toolUseId") or ""), value["name"], dict(arguments))


def _result(value: Any, names: Mapping[str, str]) -> Message:
    """Convert a result to a tool message. Raises `TraceFormatError` if the result does not name the call."""
    if not isinstance(value, Mapping) or not isinstance(value.get("toolUseId"), str):
        raise TraceFormatError("a toolResult has no toolUseId")
    call_id = value["toolUseId"]
    texts = [
        _require_text(item) if kind == "text" else as_json(item) if kind == "json" else _describe(kind, item)
        for kind, item in _blocks(value.get("content"))
    ]
    failed = value.get("status") == "error"
    return Message("tool", "\n".join(texts), tool_call_id=call_id, tool_name=names.get(call_id), is_error=failed)


def _describe(kind: str, value: Any) -> str:
    """Return a block as text. Guarded and cited text is returned unchanged, and other blocks are described."""
    if kind == "guardContent" and isinstance(value, Mapping) and isinstance(value.get("text"), Mapping):
        return _require_text(value["text"].get("text"))
    if kind == "citationsContent" and isinstance(value, Mapping):
        return "".join(_require_text(text) for _, text in _blocks(value.get("content")))
    return describe_block(kind, value if isinstance(value, Mapping) else {"value": value})


def _thought(value: Any) -> str:
    """Return the text of a reasoningContent block. If the block is encrypted, the text is empty."""
    held = value.get("reasoningText") if isinstance(value, Mapping) else None
    text = held.get("text") if isinstance(held, Mapping) else None
    return text if isinstance(text, str) else ""


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TraceFormatError(f"a text block must contain text, not {type(value).__name__}")
    return value


def _blocks(content: Any) -> list[tuple[str, Any]]:
    """Return the kind and value of each block except cache points. `content` may also be text. Raises
    `TraceFormatError` if a block does not have exactly one key.
    """
    if content is None or isinstance(content, str):
        return [("text", content)] if content else []
    if not isinstance(content, Sequence):
        raise TraceFormatError(f"the content must be a list of blocks, not {type(content).__name__}")
    blocks: list[tuple[str, Any]] = []
    for block in content:
        held = [(str(key), value) for key, value in block.items() if value is not None] if _is_block(block) else []
        if len(held) != 1:
            raise TraceFormatError("a content block must be an object with a single key that names its type")
        blocks += [pair for pair in held if pair[0] != _ABOUT_CACHE]
    return blocks


def _is_block(block: object) -> bool:
    return isinstance(block, Mapping)
