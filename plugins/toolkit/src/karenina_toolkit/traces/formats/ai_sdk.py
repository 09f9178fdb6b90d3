"""Messages of Vercel's AI SDK, with calls and results among the parts of the content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, as_json, get_name, in_entry
from karenina_toolkit.traces.formats.openai_chat import read_arguments, read_message, read_result, split_parts

Entry = Mapping[str, Any]
_CALL: Final = "tool-call"
_RESULT: Final = "tool-result"
_APPROVAL: Final = ("tool-approval-request", "tool-approval-response")
_OF_INTERFACE: Final = ("step-start", "tool-", "dynamic-tool")


def claims(entry: Entry) -> bool:
    """Return whether `entry` has a part that is a call or a result in the form of the AI SDK, or is a message of its
    interface.
    """
    return _is_of_interface(entry) or any(_kind(part) in (_CALL, _RESULT) for part in _parts(entry))


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert messages of the AI SDK. Each result becomes a tool message, also one in an assistant's message, which it
    splits. Approvals of calls are left out, because a result states if its call was denied. Unknown parts of assistant
    messages are described in `notes`. Raises `TraceFormatError` if an entry is not in this format.
    """
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            if _is_of_interface(entry):
                raise TraceFormatError("this is a UI message; convert the messages with convertToModelMessages")
            if entry["role"] == "tool":
                yield from map(_read_result, _parts(entry))
            elif entry["role"] == "assistant":
                yield from _read_assistant(entry)
            else:
                yield read_message(entry)


def _read_assistant(entry: Entry) -> Iterator[Message]:
    """Convert an assistant's message to messages, of which there is at least one."""
    rest: list[Any] = []
    calls: list[ToolCall] = []
    parts = _parts(entry)
    for part in parts:
        if _kind(part) == _CALL:
            arguments = read_arguments(part.get("input", part.get("args")))
            calls.append(ToolCall(get_name(part, "toolCallId") or "", _tool_of(part), arguments))
        elif _kind(part) == _RESULT:
            if rest or calls:
                yield split_parts(rest).to_message(calls)
            rest, calls = [], []
            yield _read_result(part)
        else:
            rest.append(part)
    if rest or calls or not parts:
        yield split_parts(rest).to_message(calls)


def _read_result(part: Any) -> Message:
    """Convert a result to a tool message. Version 4 of the SDK has the result itself, and later ones its type beside
    it. Raises `TraceFormatError` if it is no result.
    """
    if _kind(part) != _RESULT:
        raise TraceFormatError(f"a tool message contains {_RESULT} parts only, not {_kind(part)!r:.80}")
    call_id, name = get_name(part, "toolCallId"), _tool_of(part)
    output = part.get("output")
    if not isinstance(output, Mapping):
        value, failed = part.get("result"), bool(part.get("isError"))
    else:
        kind = str(output.get("type"))
        failed = kind.startswith("error") or kind == "execution-denied"
        value = output.get("reason") if kind == "execution-denied" else output.get("value")
        if kind.endswith("json") and not isinstance(value, str):
            value = as_json(value)
    return Message("tool", read_result(value), tool_call_id=call_id, tool_name=name, is_error=failed)


def _tool_of(part: Entry) -> str:
    """Return the name of the tool in a call or result. Raises `TraceFormatError` if there is none."""
    name = get_name(part, "toolName")
    if name is None:
        raise TraceFormatError(f"a {_kind(part)} has no toolName")
    return name


def _is_of_interface(entry: Entry) -> bool:
    """Return whether an entry is a UI message, whose calls are in `toolInvocations` or among its `parts`."""
    parts = entry.get("parts")
    kinds = [str(_kind(part)) for part in parts] if isinstance(parts, list) else []
    return bool(entry.get("toolInvocations")) or any(kind.startswith(_OF_INTERFACE) for kind in kinds)


def _parts(entry: Entry) -> Sequence[Any]:
    """Return the parts of a message without approvals of calls."""
    content = entry.get("content")
    if isinstance(content, list):
        return [part for part in content if _kind(part) not in _APPROVAL]
    return [content] if isinstance(content, str) and content else ()


def _kind(part: object) -> object:
    return part.get("type") if isinstance(part, Mapping) else None
