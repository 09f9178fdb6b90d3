"""Messages in Karenina's own format, as written by `Message.to_dict`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError

Entry = Mapping[str, Any]
_FIELDS: Final = frozenset(field.name for field in fields(Message))
_FIELDS_OF_CALLS: Final = frozenset(field.name for field in fields(ToolCall))
_NAMES: Final = ("reasoning", "tool_call_id", "tool_name")


def claims(entry: Entry) -> bool:
    """Return whether `entry` has only fields of `Message`, among them calls with `arguments`, or a `tool_name`.

    Other programs also write such calls and names, but with further fields.
    """
    if entry.keys() - _FIELDS:
        return False
    calls = entry.get("tool_calls")
    if isinstance(calls, Sequence) and calls and isinstance(calls[0], Mapping):
        return "arguments" in calls[0] and not calls[0].keys() - _FIELDS_OF_CALLS
    return "tool_name" in entry


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Yield the messages of `entries`. Raises `TraceFormatError` for an unknown field, and for one of a wrong type."""
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
    """Return what is wrong with the type of a field, if anything."""
    texts: list[tuple[str, object]] = [("content", message.content)]
    texts += [(name, value) for name in _NAMES if (value := getattr(message, name)) is not None]
    texts += [("note", note) for note in message.notes]
    is_error: object = message.is_error
    if not isinstance(is_error, bool):
        return f"its is_error is {type(is_error).__name__}, not true or false"
    for call in message.tool_calls:
        arguments: object = call.arguments
        if not isinstance(arguments, Mapping):
            return f"the arguments of a call are {type(arguments).__name__}, not an object"
        texts += [("id of a call", call.id), ("name of a call", call.name)]
    for name, value in texts:
        if not isinstance(value, str):
            return f"its {name} is {type(value).__name__}, not text"
    return None
