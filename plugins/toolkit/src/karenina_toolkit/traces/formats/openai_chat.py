"""Messages in OpenAI's chat completions format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from karenina_core.models.ports import Message, Role, ToolCall, Turn, Usage
from karenina_core.text import replace_surrogates_in
from karenina_toolkit.files.json_values import find_problem_in_json
from karenina_toolkit.replies.reply_ends import read_choice_end
from karenina_toolkit.traces.blocks import TraceFormatError, as_json, describe_block, get_entries, get_name
from karenina_toolkit.traces.token_counts import add_tier, read_usage

UNREADABLE_ARGUMENTS = "_unreadable"
"""The key under which arguments that are not a JSON object are stored as text."""

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "reasoning_details")
"""The fields for reasoning that is not part of the answer. The first nonempty one is used."""

_TEXTS: Final = ("text", "output_text", "input_text", "refusal", "summary_text")
_CONTINUE: Final = (None, "text", "output_text", "input_text")
_THOUGHTS: Final = ("thinking", "reasoning", "thought", "redacted_thinking")
_MEDIA: Final = ("image", "image_url", "audio", "audio_url", "video", "video_url", "file", "file_url", "document")
CITATIONS: Final = ("reference", "citation", "citations")  # they belong to the text, which is complete without them
_THINKING_CHANNELS: Final = ("analysis", "commentary")  # of gpt-oss, whose answer is on the channel "final"
_SUCCESS: Final = ("", "0", "200", "ok", "success", "none", "null")  # codes and words in an `error` that is none
_LONGEST_NOTE: Final = 500

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
}


def read_message(data: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Message:
    """Convert a message of OpenAI's Chat Completions to a message. Content other than text is described, as in
    `[image_url] {...}`. `names` maps call ids to tool names, for tool messages without a name. Raises
    `TraceFormatError` if the message has any other structure.

    Pictures, sound and files are described with `describe_block`. Refusals and audio transcripts are text. In an
    assistant message, thoughts become reasoning, and unknown parts are described in `notes`.
    """
    given_role = data.get("role")
    role = _ROLES.get(given_role) if isinstance(given_role, str) else None
    if role is None:
        raise TraceFormatError(
            f"unknown role {given_role!r:.80}; use one such as 'system', 'user', 'assistant' or 'tool'"
        )
    if role == "assistant":
        return _read_assistant_message(data)
    if role == "tool":
        call_id = get_name(data, "tool_call_id")
        name = get_name(data, "name") or get_name(data, "tool_name") or (names or {}).get(call_id or "")
        failed = bool(data.get("is_error") or data.get("tool_call_error"))
        content = read_result(data.get("content"))
        return Message("tool", content, tool_call_id=call_id, tool_name=name, is_error=failed)
    return Message(role, read_content(data.get("content")))


def _read_assistant_message(data: Mapping[str, Any]) -> Message:
    """Convert a message of a model, whatever its role is. Refusals and audio transcripts are added to the text, and
    thoughts and messages in a channel for thinking become the reasoning. Raises `TraceFormatError` as `read_message`
    does.
    """
    content = data.get("content") or ""
    thoughts: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    if not isinstance(content, str):
        parts = split_parts(content)
        content, thoughts, notes = parts.text, parts.thoughts, parts.notes
    calls = [read_tool_call(call) for call in get_entries(data, "tool_calls")] if data.get("tool_calls") else []
    function_call, refusal, audio = data.get("function_call"), data.get("refusal"), data.get("audio")
    if function_call is not None and isinstance(function_call, Mapping):
        calls.append(_call("", function_call))
    if refusal or audio:
        texts = (content, refusal, audio.get("transcript") if isinstance(audio, Mapping) else None)
        content = "\n".join(text for text in texts if isinstance(text, str) and text)
    reasoning = read_reasoning(data)
    if data.get("channel") in _THINKING_CHANNELS:
        thoughts, content = (*thoughts, content), ""
    if thoughts:
        reasoning = "\n".join(filter(None, (reasoning, *thoughts))) or None
    return Message("assistant", content, tuple(calls), reasoning=reasoning, notes=notes)


def read_tool_call(data: Any) -> ToolCall:
    """Convert an entry of `tool_calls`. Raises `TraceFormatError` if it does not name a function."""
    function = data.get("function", data.get("custom")) if isinstance(data, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise TraceFormatError("an entry in tool_calls has no function with a name")
    return _call(str(data.get("id") or ""), function)


@dataclass(slots=True)
class Parts:
    """The parts of an assistant message's content: text, thoughts, and unknown parts.

    Text continues on the same line as the text before it. Anything else is separated by a line break, which is included
    in `texts`.
    """

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    unknown: list[Mapping[str, Any]] = field(default_factory=list)
    _continues: bool = False

    @property
    def text(self) -> str:
        """The text of all text parts."""
        return "".join(self.texts)

    def add_text(self, text: str, kind: object = None) -> None:
        """Add the text of a part. `kind` is the type of the part, or None for a plain string. Empty text is ignored.

        Text that directly follows text of the same type continues on its line. Text of another type, such as a refusal,
        starts on a new line.
        """
        continues = kind in _CONTINUE
        if text:
            self.texts += [text] if not self.texts or (continues and self._continues) else ["\n", text]
            self._continues = continues

    def add_thought(self, thought: str) -> None:
        """Add a thought."""
        self.thoughts.append(thought)
        self.end_line()

    def add_unknown(self, part: Mapping[str, Any]) -> None:
        """Add a part whose type is unknown."""
        self.unknown.append(part)
        self.end_line()

    def end_line(self) -> None:
        """Let the next text begin a new line, as after a call."""
        self._continues = False

    def to_message(
        self, calls: Sequence[ToolCall] = (), reasoning: str | None = None, notes: tuple[str, ...] = ()
    ) -> Message:
        """Return an assistant message with these parts. `reasoning` and `notes` come before those of the parts."""
        thoughts = "\n".join(filter(None, (reasoning, *self.thoughts))) or None
        return Message("assistant", self.text, tuple(calls), reasoning=thoughts, notes=(*notes, *self.notes))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the parts whose types are unknown."""
        return tuple(
            f"a part of the unknown type {str(part.get('type'))[:80]!r} was left out of the text: "
            f"{describe_block(str(part.get('type')), part)[:_LONGEST_NOTE]}"
            for part in self.unknown
        )


def split_parts(content: Any) -> Parts:
    """Return the parts of the `content` of an assistant message: a string, null, a part, or a list of parts with any
    nesting. Raises `TraceFormatError` for anything else.
    """
    parts = Parts()
    if isinstance(content, str):
        parts.add_text(content)
    elif content is not None:
        add_parts(parts, content)
    return parts


def add_parts(parts: Parts, content: Any) -> None:
    """Add the parts in `content`, with any nesting. Raises `TraceFormatError` if `content` is invalid."""
    if isinstance(content, str):
        parts.add_text(content)
    elif isinstance(content, Mapping):
        _add_part(parts, content)
    elif isinstance(content, Sequence):
        for part in content:
            add_parts(parts, part)
    else:
        raise TraceFormatError(f"the content must be text or a list of parts, not {type(content).__name__}")


def _add_part(parts: Parts, part: Mapping[str, Any]) -> None:
    """Add a part as a thought, as text (with which media are described), or as an unknown part. Citations are omitted.
    Raises `TraceFormatError` if the part has neither a type nor a text.
    """
    kind = part.get("type")
    if not isinstance(kind, str) and not isinstance(part.get("text"), str):
        raise TraceFormatError("a content part has no type")
    if part.get("thought") is True or (isinstance(kind, str) and kind.startswith(_THOUGHTS)):
        parts.add_thought(_thought(part))
    elif kind is None or kind in _TEXTS:
        parts.add_text(_text_of(part), kind)
    elif str(kind).endswith(_MEDIA):
        parts.add_text(describe_block(str(kind), part), kind)
    elif kind not in CITATIONS:
        parts.add_unknown(part)


def _text_of(part: Mapping[str, Any]) -> str:
    """Return the text of a part, whichever field contains it. If there is none, return a description."""
    text = part.get("text", part.get("refusal"))
    if isinstance(text, Mapping):
        text = text.get("value")
    return text if isinstance(text, str) else describe_block(str(part.get("type")), part)


def _thought(part: Mapping[str, Any]) -> str:
    """Return the text of a thought, whichever field contains it. If the thought is encrypted, the text is empty."""
    for key in ("thinking", "text", "reasoning", "summary", "content"):
        value = part.get(key)
        if isinstance(value, str):
            return value
        if value:
            inner = split_parts(value)
            return "\n".join(filter(None, (inner.text, *inner.thoughts)))
    return ""


def read_content(content: Any) -> str:
    """Return `content` as text. It may be a string, null, or a list of parts, which are joined with line breaks. Parts
    that are not text are described. Raises `TraceFormatError` for anything else.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise TraceFormatError(f"the content must be text or a list of parts, not {type(content).__name__}")
    return "\n".join(_part(part) for part in content)


def read_result(content: Any) -> str:
    """Return a tool's result as text. Parts are joined with line breaks, None becomes an empty string, and anything
    else is converted to JSON.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping) or not isinstance(content, Sequence):
        return as_json(content)
    return "\n".join(_part(part) if _is_part(part) else as_json(part) for part in content)


def _is_part(part: Any) -> bool:
    """Return whether a value is a content part, which is a string or an object with a type."""
    return isinstance(part, str) or (isinstance(part, Mapping) and isinstance(part.get("type"), str))


def read_reasoning(data: Mapping[str, Any]) -> str | None:
    """Return the reasoning that is not part of the answer, from the first nonempty one of `REASONING_FIELDS`, or
    None.
    """
    if data.keys().isdisjoint(REASONING_FIELDS):
        return None
    for key in REASONING_FIELDS:
        value = data.get(key)
        if value:
            return value if isinstance(value, str) else _nested_reasoning(value)
    return None


def _nested_reasoning(value: Any) -> str | None:
    """Return the reasoning and other text in a list of parts, or None if there is none or it cannot be read."""
    try:
        parts = split_parts(value)
    except TraceFormatError:
        return None
    return "\n".join(filter(None, (*parts.thoughts, parts.text))) or None


def read_arguments(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call, given as an object or its JSON. Missing arguments result in an empty dict, and
    anything else is stored under `UNREADABLE_ARGUMENTS`.

    JSON that is nested too deeply is also unreadable. Unpaired surrogates are replaced.
    """
    if isinstance(arguments, Mapping):
        return dict(arguments)
    try:
        value = json.loads(arguments) if arguments else {}
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or find_problem_in_json(str(arguments), value, halves=False) is not None:
        return {UNREADABLE_ARGUMENTS: arguments}
    halved = isinstance(arguments, str) and "\\u" in arguments
    return cast("dict[str, Any]", replace_surrogates_in(value)) if halved else value


def write_arguments(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments as JSON. Arguments that `read_arguments` could not parse are returned unchanged."""
    unreadable = arguments.get(UNREADABLE_ARGUMENTS)
    if len(arguments) == 1 and isinstance(unreadable, str):
        return unreadable
    return json.dumps(dict(arguments), ensure_ascii=False)


def _call(call_id: str, function: Mapping[str, Any]) -> ToolCall:
    arguments = function.get("arguments", function.get("input"))
    return ToolCall(call_id, str(function.get("name")), read_arguments(arguments))


def _part(part: Any) -> str:
    """Return the text of a content part, or a description if it has no text. Raises `TraceFormatError` if the part has
    no type.
    """
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise TraceFormatError("a content part has no type")
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else describe_block(part["type"], part)


def from_wire(data: Mapping[str, Any]) -> Turn:
    """Convert the first choice of a chat completion to a turn. The finish reason of a refusal is `content_filter`.
    Raises `ValueError` with the reason if the completion cannot be read.
    """
    choice = _first_choice(data)
    message_data = choice.get("message")
    if not isinstance(message_data, (dict, Mapping)):  # the check for dict is fast, and nearly all are
        message_data = choice.get("delta") or None  # some servers send a stream chunk
        if not isinstance(message_data, Mapping):
            raise ValueError("the choice has no message")  # noqa: TRY004 - it is data from outside
    try:
        message = _read_assistant_message(message_data)
    except TraceFormatError as error:
        raise ValueError(f"the message cannot be read: {error}") from None
    model = data.get("model")
    end, server_reason = read_choice_end(choice)
    return Turn(
        message,
        usage_of(data),
        "content_filter" if refused(message_data) else end,
        model if isinstance(model, str) else None,
        server_reason=server_reason if end in ("failed", "other") else None,
    )


def usage_of(data: Mapping[str, Any]) -> Usage:
    """Return the usage of a completion, with its service tier. Some servers include the counts in the choice.

    OpenAI's models for searches do not count them. A reply that cites pages has made one, unless there is a count.
    """
    counted = data.get("usage")
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, (dict, Mapping)):
        return add_tier(read_usage(counted), data.get("service_tier"))
    usage = add_tier(read_usage(counted or choice.get("usage")), data.get("service_tier"))
    message = choice.get("message")
    cited = message.get("annotations") if isinstance(message, (dict, Mapping)) else None
    if not isinstance(cited, list) or usage.web_searches:
        return usage
    cites_pages = any(isinstance(each, Mapping) and each.get("type") == "url_citation" for each in cited)
    return replace(usage, web_searches=1) if cites_pages else usage


def error_of_completion(data: Mapping[str, Any]) -> object:
    """Return the error that a completion states, or None. Gateways put a provider's error beside the choices, or into
    the first one.
    """
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return stated_error(data) or (stated_error(first) if isinstance(first, (dict, Mapping)) else None)


def stated_error(data: Mapping[str, Any]) -> object:
    """Return the `error` in `data`, or None if there is none, or if its values are empty or say that nothing is wrong,
    as some gateways send it with every reply.
    """
    error = data.get("error")
    if not error:
        return None
    values = error.values() if isinstance(error, Mapping) else [error]
    return error if any(value and str(value).strip().casefold() not in _SUCCESS for value in values) else None


def _first_choice(data: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], (dict, Mapping)):
        raise ValueError("the completion has no choices")
    first: Mapping[str, Any] = choices[0]
    return first


def refused(message: Mapping[str, Any]) -> bool:
    """Return whether a message has a nonempty `refusal`, either the provider's or the model's."""
    return isinstance(message.get("refusal"), str) and bool(message["refusal"])
