"""Messages in the format of OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_core.text import replace_surrogates_in
from karenina_toolkit.traces.blocks import describe_block, get_entries, get_name
from karenina_toolkit.traces.format_error import TraceFormatError
from karenina_toolkit.value_limits import find_problem_in_json

UNREADABLE_ARGUMENTS = "_unreadable"
"""The key under which arguments that are not a JSON object are kept as text."""

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def read_message(data: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Message:
    """Return one chat message. `names` has the tool's name for the id of a call, for tool messages that lack it.

    Parts other than text are kept as `describe_block` writes them, such as `[image_url] {...}`; a refusal and the
    transcript of audio count as text. Raises `TraceFormatError` for any other shape.
    """
    given_role = data.get("role")
    role = _ROLES.get(given_role) if isinstance(given_role, str) else None
    if role is None:
        raise TraceFormatError(f"its role is {given_role!r:.80}")
    content = read_content(data.get("content"))
    if role == "assistant":
        calls = [read_tool_call(call) for call in get_entries(data, "tool_calls")]
        if isinstance(data.get("function_call"), Mapping):
            calls.append(_call("", data["function_call"]))
        audio = data.get("audio")
        texts = (content, data.get("refusal"), audio.get("transcript") if isinstance(audio, Mapping) else None)
        content = "\n".join(text for text in texts if isinstance(text, str) and text)
        return Message.assistant(content, calls, read_reasoning(data))
    if role == "tool":
        call_id = get_name(data, "tool_call_id")
        name = get_name(data, "name") or (names or {}).get(call_id or "")
        return Message("tool", content, tool_call_id=call_id, tool_name=name, is_error=bool(data.get("is_error")))
    return Message(role, content)


def read_tool_call(data: Any) -> ToolCall:
    """Return one entry of `tool_calls`. Raises `TraceFormatError` if it names no function."""
    function = data.get("function", data.get("custom")) if isinstance(data, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise TraceFormatError("one of its tool_calls has no function with a name")
    return _call(str(data.get("id") or ""), function)


def read_content(content: Any) -> str:
    """Return the text of `content`: a string, null, or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise TraceFormatError(f"its content is {type(content).__name__}, not text or a list of parts")
    return "\n".join(_part(part) for part in content)


def read_reasoning(data: Mapping[str, Any]) -> str | None:
    """Return the model's reasoning outside its answer, under the names that servers use for it."""
    for key in ("reasoning_content", "reasoning"):
        if isinstance(data.get(key), str) and data[key]:
            return str(data[key])
    return None


def read_arguments(arguments: Any) -> dict[str, Any]:
    """Return a call's arguments; anything other than a JSON object is kept under `UNREADABLE_ARGUMENTS`."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    try:
        found = json.loads(arguments) if arguments else {}
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or find_problem_in_json(str(arguments), found, halves=False) is not None:
        return {UNREADABLE_ARGUMENTS: arguments}
    halved = isinstance(arguments, str) and "\\u" in arguments
    return cast("dict[str, Any]", replace_surrogates_in(found)) if halved else found


def _call(call_id: str, function: Mapping[str, Any]) -> ToolCall:
    arguments = function.get("arguments", function.get("input"))
    return ToolCall(call_id, str(function.get("name")), read_arguments(arguments))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise TraceFormatError("a part of its content has no type")
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else describe_block(part["type"], part)
