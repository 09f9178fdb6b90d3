"""Messages as stored in results, in Karenina's own format (`Message.to_dict`) or in that of the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, get_entries, get_name, in_entry
from karenina_toolkit.traces.formats.openai_chat import read_content

Entry = Mapping[str, Any]
_FIELDS: Final = frozenset(field.name for field in fields(Message))
_FIELDS_OF_CALLS: Final = frozenset(field.name for field in fields(ToolCall))
_NAMES: Final = ("reasoning", "tool_call_id", "tool_name")
_ROLES: Final[Mapping[str, Role]] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def claims(entry: Entry) -> bool:
    """Return whether `entry` only has fields of a `Message`, and has a `tool_name` or calls with `arguments`. Other
    programs use these fields too, but in combination with more fields.
    """
    if entry.keys() - _FIELDS:
        return False
    calls = entry.get("tool_calls")
    if isinstance(calls, Sequence) and calls and isinstance(calls[0], Mapping):
        return "arguments" in calls[0] and not calls[0].keys() - _FIELDS_OF_CALLS
    return "tool_name" in entry


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert `entries` to messages. Raises `TraceFormatError` if a field is unknown or has the wrong type."""
    for number, entry in enumerate(entries, 1):
        try:
            message = Message.from_dict(entry)
        except (ValueError, TypeError) as error:
            raise TraceFormatError(f"entry {number}: {error}") from None
        wrong = _find_mistyped(message)
        if wrong is not None:
            raise TraceFormatError(f"entry {number}: {wrong}")
        yield message


def _find_mistyped(message: Message) -> str | None:
    """Return a description of the first field that has the wrong type, or None."""
    texts: list[tuple[str, object]] = [("content", message.content)]
    texts += [(name, value) for name in _NAMES if (value := getattr(message, name)) is not None]
    texts += [("note", note) for note in message.notes]
    is_error: object = message.is_error
    if not isinstance(is_error, bool):
        return f"the field is_error must be true or false, not {type(is_error).__name__}"
    for call in message.tool_calls:
        arguments: object = call.arguments
        if not isinstance(arguments, Mapping):
            return f"the arguments of a call must be an object, not {type(arguments).__name__}"
        texts += [("id of a call", call.id), ("name of a call", call.name)]
    for name, value in texts:
        if not isinstance(value, str):
            return f"the {name} must be a string, not {type(value).__name__}"
    return None


def claims_reference(entry: Entry) -> bool:
    """Return whether `entry` has a key that only exists in the trace format of the reference, such as `block_index`."""
    calls = entry.get("tool_calls")
    if isinstance(calls, Sequence) and calls and isinstance(calls[0], Mapping):
        return "input" in calls[0]
    return "block_index" in entry or isinstance(entry.get("tool_result"), Mapping)


def read_reference(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert `entries` in the reference's format to messages. Raises `TraceFormatError` if an entry is not in this
    format.
    """
    names: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            message = _read_reference_message(entry, names)
        names.update((call.id, call.name) for call in message.tool_calls)
        yield message


def _read_reference_message(entry: Entry, names: Mapping[str, str]) -> Message:
    """Convert a message of the reference implementation. `names` maps the ids of calls to tools. Raises
    `TraceFormatError` for an unknown role.
    """
    role = _ROLES.get(str(entry["role"]))
    content = read_content(entry.get("content"))
    if role == "assistant":
        thought = entry.get("thinking")
        calls = [_read_reference_call(call) for call in get_entries(entry, "tool_calls")]
        return Message.assistant(content, calls, thought if isinstance(thought, str) and thought else None)
    if role == "tool":
        result = entry.get("tool_result")
        about = result if isinstance(result, Mapping) else {}
        call_id = get_name(about, "tool_use_id")
        name = names.get(call_id or "")
        return Message("tool", content, tool_call_id=call_id, tool_name=name, is_error=about.get("is_error") is True)
    if role is None:
        raise TraceFormatError(
            f"unknown role {entry['role']!r:.80}; the roles are 'system', 'user', 'assistant' and 'tool'"
        )
    return Message(role, content)


def _read_reference_call(call: Any) -> ToolCall:
    """Convert an object to a tool call. Raises `TraceFormatError` if it has no name or its input is not an object."""
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise TraceFormatError("an entry in tool_calls has no name")
    arguments = call.get("input") or {}
    if not isinstance(arguments, Mapping):
        raise TraceFormatError(f"the input of a call must be an object, not {type(arguments).__name__}")
    return ToolCall(str(call.get("id") or ""), call["name"], dict(arguments))
