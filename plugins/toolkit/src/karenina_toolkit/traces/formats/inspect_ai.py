"""Messages in Inspect's format, as in the samples of its logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, as_json, get_entries, get_name, in_entry
from karenina_toolkit.traces.formats.openai_chat import Parts, read_arguments, read_content, split_parts

Entry = Mapping[str, Any]
_ROLES: Final[Mapping[str, Role]] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_SOURCES: Final = ("input", "generate", "operator")
_LIMITS: Final = frozenset({"type", "limit"})
_ATTACHMENT: Final = re.compile(r"attachment://([0-9a-f]{32})")


def claims(entry: Entry) -> bool:
    """Return whether `entry` has Inspect's `source`, a function name where other formats have an object, or a part for
    a call that the server made.
    """
    calls = entry.get("tool_calls")
    if isinstance(calls, Sequence) and calls and isinstance(calls[0], Mapping):
        return isinstance(calls[0].get("function"), str)
    if entry.get("role") == "tool" and isinstance(entry.get("function"), str):
        return True
    content = entry.get("content")
    blocks = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    return entry.get("source") in _SOURCES or any(is_tool_use(block) for block in blocks)


def is_tool_use(block: object) -> bool:
    """Return whether a content block is a call made by the server, together with its result."""
    return isinstance(block, Mapping) and block.get("type") == "tool_use" and "tool_type" in block


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert Inspect's messages to messages of a trace. A call made by the server splits a message. Raises
    `TraceFormatError` if an entry is not in this format or an attachment is missing.
    """
    names: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            for message in _read_entry(entry, names):
                names.update((call.id, call.name) for call in message.tool_calls)
                resolve_attachments(message.content, {})  # raises for one that was not resolved before
                yield message


def resolve_attachments(value: Any, attachments: Mapping[str, Any]) -> Any:
    """Return a copy of a JSON value with references to attachments replaced by the attachments. Raises
    `TraceFormatError` if an attachment is missing.
    """
    if isinstance(value, str):
        return _ATTACHMENT.sub(lambda match: _find_attachment(match[1], attachments), value)
    if isinstance(value, Mapping):
        return {key: resolve_attachments(item, attachments) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [resolve_attachments(item, attachments) for item in value]
    return value


def find_stop(sample: Entry) -> str | None:
    """Return the reason why a sample ended early: "limit" if it reached a limit on tokens, messages, time or costs, or
    one that begins with "error" if it failed or a person stopped it. Otherwise, return None.
    """
    error, limit = sample.get("error"), sample.get("limit")
    if isinstance(error, Mapping) and "traceback" in error:
        return f"error: {error.get('message')}"
    if not isinstance(limit, Mapping) or not limit.keys() >= _LIMITS:
        return None
    return "error: the operator stopped the sample" if limit["type"] == "operator" else "limit"


def _find_attachment(name: str, attachments: Mapping[str, Any]) -> str:
    text = attachments.get(name)
    if not isinstance(text, str):
        raise TraceFormatError(f"the attachment {name} is missing; include the sample's `attachments`")
    return text


def _read_entry(entry: Entry, names: Mapping[str, str]) -> Iterator[Message]:
    """Convert an entry of any role to messages. A tool's error message is added to its text. Raises `TraceFormatError`
    for an unknown role.
    """
    role = _ROLES.get(entry["role"])
    content = entry.get("content")
    if role is None:
        raise TraceFormatError(
            f"unknown role {entry['role']!r:.80}; the roles are 'system', 'user', 'assistant' and 'tool'"
        )
    if role == "assistant":
        yield from _read_assistant(entry)
    elif role == "tool":
        call_id = get_name(entry, "tool_call_id")
        name = get_name(entry, "function") or names.get(call_id or "")
        error = entry.get("error")
        texts = [read_content(content)]
        if isinstance(error, Mapping) and str(error.get("message") or "") not in texts[0]:
            texts.append(str(error["message"]))
        text = "\n".join(filter(None, texts))
        yield Message("tool", text, tool_call_id=call_id, tool_name=name, is_error=bool(error))
    else:
        yield Message(role, read_content(content))


def _read_assistant(entry: Entry) -> Iterator[Message]:
    """Convert an assistant entry to messages, splitting it after calls made by the server, whose results follow as tool
    messages. Arguments that could not be parsed are mentioned in the notes. Raises `TraceFormatError` if the entry
    cannot be read.
    """
    content = entry.get("content")
    blocks: list[Any] = []
    if isinstance(content, str) or content is None or isinstance(content, Mapping):
        blocks = [content]
    elif isinstance(content, Sequence):
        blocks = list(content)
    else:
        raise TraceFormatError(f"the content must be text or a list of parts, not {type(content).__name__}")
    pending: list[Any] = []
    for block in blocks:
        if not is_tool_use(block):
            pending.append(_without_encrypted(block))
            continue
        call = ToolCall(
            str(block.get("id") or ""), str(block.get("name") or ""), read_arguments(block.get("arguments"))
        )
        yield _parts(pending).to_message([call])
        pending = []
        result, error = block.get("result"), block.get("error")
        text = result if isinstance(result, str) else as_json(result)
        yield Message.tool(str(error) if error else text, call, is_error=bool(error))
    calls = [_call(call) for call in get_entries(entry, "tool_calls")]
    notes = tuple(
        f"the arguments of the call to {call['function']} could not be parsed: {str(call['parse_error'])[:300]}"
        for call in get_entries(entry, "tool_calls")
        if call.get("parse_error")
    )
    yield _parts(pending).to_message(calls, notes=notes)


def _parts(blocks: Sequence[Any]) -> Parts:
    return split_parts([block for block in blocks if block is not None])


def _without_encrypted(block: Any) -> Any:
    """Return a block unchanged, or reduced to its summary if it is encrypted reasoning."""
    if isinstance(block, Mapping) and block.get("type") == "reasoning" and block.get("redacted"):
        return {"type": "reasoning", "summary": block.get("summary") or ""}
    return block


def _call(call: Any) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), str):
        raise TraceFormatError("an entry in tool_calls has no function")
    return ToolCall(str(call.get("id") or ""), call["function"], read_arguments(call.get("arguments")))
