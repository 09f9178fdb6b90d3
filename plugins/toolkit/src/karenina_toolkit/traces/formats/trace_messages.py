"""Messages in the `trace_messages` format of the reference project's results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, get_entries, get_name
from karenina_toolkit.traces.formats.openai_chat import read_content

Entry = Mapping[str, Any]
_ROLES: Mapping[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def claims(entry: Entry) -> bool:
    """Return whether `entry` has something that only this format has."""
    calls = entry.get("tool_calls")
    if isinstance(calls, Sequence) and calls and isinstance(calls[0], Mapping):
        return "input" in calls[0]
    return "block_index" in entry or isinstance(entry.get("tool_result"), Mapping)


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Yield the messages of `entries`. Raises `TraceFormatError`."""
    names: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        try:
            message = _message(entry, names)
        except TraceFormatError as error:
            raise TraceFormatError(f"entry {number}: {error}") from None
        names.update((call.id, call.name) for call in message.tool_calls)
        yield message


def _message(entry: Entry, names: Mapping[str, str]) -> Message:
    role = _ROLES.get(str(entry["role"]))
    content = read_content(entry.get("content"))
    if role == "assistant":
        thought = entry.get("thinking")
        calls = [_call(call) for call in get_entries(entry, "tool_calls")]
        return Message.assistant(content, calls, thought if isinstance(thought, str) and thought else None)
    if role == "tool":
        result = entry.get("tool_result")
        about = result if isinstance(result, Mapping) else {}
        call_id = get_name(about, "tool_use_id")
        name = names.get(call_id or "")
        return Message("tool", content, tool_call_id=call_id, tool_name=name, is_error=about.get("is_error") is True)
    if role is None:
        raise TraceFormatError(f"its role is {entry['role']!r:.80}")
    return Message(role, content)


def _call(call: Any) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise TraceFormatError("one of its tool_calls has no name")
    given = call.get("input") or {}
    if not isinstance(given, Mapping):
        raise TraceFormatError(f"the input of a call is {type(given).__name__}, not an object")
    return ToolCall(str(call.get("id") or ""), call["name"], dict(given))
