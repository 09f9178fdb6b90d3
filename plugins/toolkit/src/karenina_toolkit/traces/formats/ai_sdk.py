"""Messages of Vercel's AI SDK, with calls and results among the parts of the content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, as_json, get_entries, get_name, in_entry
from karenina_toolkit.traces.formats.openai_chat import read_arguments, read_message, read_result, split_parts

Entry = Mapping[str, Any]
_CALL: Final = "tool-call"
_RESULT: Final = "tool-result"
_APPROVAL: Final = ("tool-approval-request", "tool-approval-response")
_STEP: Final = "step-start"
_OF_INTERFACE: Final = (_STEP, "tool-", "dynamic-tool", "source-", "data-")
_INVOCATION: Final = "tool-invocation"
_STREAMING: Final = ("streaming", "input-streaming")


def claims(entry: Entry) -> bool:
    """Return whether `entry` has a part that is a call or a result in the form of the AI SDK, or is a message of its
    interface.
    """
    return _is_of_interface(entry) or any(_kind(part) in (_CALL, _RESULT) for part in _parts(entry))


def find_stop(entry: Entry) -> str | None:
    """Return the reason why a reply ended early, if `entry` is a message of the interface whose last part was still
    streamed, and otherwise None.
    """
    parts = entry.get("parts")
    last = parts[-1] if isinstance(parts, list) and parts and _is_of_interface(entry) else None
    is_streamed = isinstance(last, Mapping) and last.get("state") in _STREAMING
    return "error: the stream of the message broke off" if is_streamed else None


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert messages of the AI SDK, or of its interface. Each result becomes a tool message, also one in an
    assistant's message, which it splits. Approvals of calls are left out, because a result states if its call was
    denied. Unknown parts of assistant messages are described in `notes`. Raises `TraceFormatError` if an entry is not
    in this format.
    """
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            for message in _convert_interface(entry) if _is_of_interface(entry) else (entry,):
                if message["role"] == "tool":
                    yield from map(_read_result, _parts(message))
                elif message["role"] == "assistant":
                    yield from _read_assistant(message)
                else:
                    yield read_message(message)


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
    listed = parts if isinstance(parts, list) else []
    if entry.get("toolInvocations") or any(str(_kind(part)).startswith(_OF_INTERFACE) for part in listed):
        return True
    return "content" not in entry and any(_is_said(part) for part in listed)


def _is_said(part: object) -> bool:
    """Return whether a part is a text, reasoning or a file in the form of the interface."""
    if not isinstance(part, Mapping):
        return False
    kind = part.get("type")
    return (kind in ("text", "reasoning") and isinstance(part.get("text"), str)) or (
        kind == "file" and "mediaType" in part
    )


def _convert_interface(entry: Entry) -> Iterator[Entry]:
    """Convert a UI message to messages of the SDK: one for each step of the assistant, followed by its results. A text
    after a call begins a step too, because the servers of some programs do not mark them. Sources, which belong to the
    text, are omitted.
    """
    parts = entry.get("parts")
    if not isinstance(parts, list) or not parts:
        content = [{"type": "text", "text": entry["content"]}] if entry.get("content") else []
        calls = get_entries(entry, "toolInvocations")
        parts = [*({"type": _INVOCATION, "toolInvocation": call} for call in calls), *content]
    if entry["role"] != "assistant":
        yield {"role": entry["role"], "content": parts}
        return
    said, results = list[Any](), list[Any]()
    yielded = False
    for part in parts:
        kind = str(_kind(part))
        is_tool = kind.startswith("tool-") or kind == "dynamic-tool"
        if (kind == _STEP or (results and not is_tool)) and (said or results):
            yield {"role": "assistant", "content": said}
            yield {"role": "tool", "content": results}
            said, results, yielded = [], [], True
        if is_tool:
            call, result = _read_invocation(part, kind)
            said.append(call)
            results += [result] if result is not None else []
        elif kind != _STEP and not kind.startswith("source"):
            said.append(part)
    if said or results or not yielded:
        yield {"role": "assistant", "content": said}
        yield {"role": "tool", "content": results}


def _read_invocation(part: Entry, kind: str) -> tuple[Entry, Entry | None]:
    """Return the call in a part of a UI message, and its result, or None if it has none. Raises `TraceFormatError` if
    the part does not contain the call.
    """
    held = part.get("toolInvocation") if kind == _INVOCATION else part
    if not isinstance(held, Mapping):
        raise TraceFormatError(f"a {kind} has no toolInvocation")
    name = held.get("toolName") or kind.removeprefix("tool-")
    about = {"toolCallId": held.get("toolCallId"), "toolName": name}
    given = next((held[key] for key in ("input", "args", "rawInput") if held.get(key) is not None), None)
    call = {"type": _CALL, **about, "input": given}
    state, approval = held.get("state"), held.get("approval")
    if state == "output-error":
        output: Entry = {"type": "error-text", "value": str(held.get("errorText") or "")}
    elif state == "output-denied" or (isinstance(approval, Mapping) and approval.get("approved") is False):
        reason = approval.get("reason") if isinstance(approval, Mapping) else None
        output = {"type": "execution-denied", "reason": reason}
    elif (state == "output-available" and not held.get("preliminary")) or state == "result":
        value = held.get("output", held.get("result"))
        output = {"type": "text" if isinstance(value, str) else "json", "value": value}
    else:
        return call, None
    return call, {"type": _RESULT, **about, "output": output}


def _parts(entry: Entry) -> Sequence[Any]:
    """Return the parts of a message without approvals of calls."""
    content = entry.get("content")
    if isinstance(content, list):
        return [part for part in content if _kind(part) not in _APPROVAL]
    return [content] if isinstance(content, str) and content else ()


def _kind(part: object) -> object:
    return part.get("type") if isinstance(part, Mapping) else None
