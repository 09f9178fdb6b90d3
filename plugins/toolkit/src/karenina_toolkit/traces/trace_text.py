"""A trace's text for judges and people, its answer, and its metrics."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from karenina_toolkit.traces.blocks import TraceFormatError
from karenina_toolkit.traces.recording import convert_recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.ports import Message
    from karenina_toolkit.traces.recording import Recording

CONTENT_MARK = "| "
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")
_BEGINS_LIKE_AN_ERROR = re.compile(
    r"\s*(?:(?:error|exception|failure|failed|fatal|traceback)\b"
    r"|\w+(?:Error|Exception)\b\s*[:(]"
    r"|HTTP(?:/\S+)? ?[45]\d\d\b)",
    re.IGNORECASE,
)
_SAYS_IT_FAILED = re.compile(
    r"\b(?:timed out|permission denied|access denied|command not found|no such file or directory|connection refused)\b",
    re.IGNORECASE,
)
_SHORT = 300
"""The maximum length of an output to search for words such as "failed". Longer outputs mostly quote them.
"""
_ERROR_KEYS = ("error", "errors", "is_error", "isError", "exception")


def render_trace(trace: Recording, *, reasoning: bool = False) -> str:
    """Return a trace as text, with a heading such as `[2] assistant` for each message and each tool call, and `| `
    before each line of content, so that it cannot be mistaken for a heading. Reasoning is omitted unless `reasoning` is
    set. Raises `TraceFormatError` if a recording cannot be read.
    """
    lines: list[str] = []
    for number, message in enumerate(convert_recording(trace), 1):
        who = f"[{number}] {message.role}"
        if message.role == "tool":
            who += f" {_name(message.tool_name)} {'failed' if message.is_error else 'answered'}"
        if reasoning and message.reasoning:
            lines += [f"{who} thinks", _content(message.reasoning)]
        if message.content or not message.tool_calls:
            lines += [who, _content(message.content)]
        for call in message.tool_calls:
            arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
            lines += [f"{who} calls {_name(call.name)}", _content(arguments)]
    return "\n".join(line for line in lines if line)


def _content(text: str) -> str:
    """Return `text` with a marker at the start of each line."""
    # splitlines recognizes more line breaks than \n, and so may the reader of the text.
    return "\n".join(CONTENT_MARK + line for line in text.splitlines())


def _name(name: str | None) -> str:
    """Return the name of a tool. It is quoted if it could break the heading, because a model may have written it."""
    if not name:
        return "(unnamed)"
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)


@dataclass(frozen=True, slots=True)
class TraceVerdict:
    """Whether a trace is `valid`, with its `final` answer or an `error`. It is truthy if the trace is valid."""

    valid: bool
    final: str | None = None
    error: str | None = None

    def __bool__(self) -> bool:
        return self.valid


def final_ai_message(trace: Recording) -> str | None:
    """Return the answer: the text of the last message, or None if that is not an assistant message that has text and no
    tool calls. Raises `TraceFormatError` if a recording cannot be read.

    Earlier messages are never used.
    """
    return _verdict(convert_recording(trace)).final


def validate_trace(trace: Recording) -> TraceVerdict:
    """Return whether a trace can be read and ends in an answer (see `final_ai_message`), with the answer or the error.
    Never raises `TraceFormatError`.
    """
    try:
        messages = convert_recording(trace)
    except TraceFormatError as error:
        return TraceVerdict(False, error=f"the trace cannot be read: {error}")
    return _verdict(messages)


def _verdict(messages: Sequence[Message]) -> TraceVerdict:
    """Return a verdict that contains the answer at the end of the messages, or an error if there is none."""
    if not messages:
        return TraceVerdict(False, error="the trace is empty")
    last = messages[-1]
    if last.role != "assistant":
        return TraceVerdict(False, error=f"the trace ends with a {last.role} message, not with an assistant message")
    if last.tool_calls:
        return TraceVerdict(False, error=f"the trace ends with the assistant calling {last.tool_calls[0].name}")
    if not last.content.strip():
        return TraceVerdict(False, error="the last assistant message has no text")
    return TraceVerdict(True, final=last.content)


class AgentMetrics(TypedDict):
    """The `agent_metrics` of a result. Each tool is listed once, in the order of first use."""

    iterations: int
    tool_calls: int
    tools_used: list[str]
    tool_call_counts: dict[str, int]
    suspect_failed_tool_calls: int
    suspect_failed_tools: list[str]


def measure_trace(trace: Recording) -> AgentMetrics:
    """Return counts of assistant messages, tool calls (also by tool), and tool results that are errors or look like
    errors, with the names of the tools. Raises `TraceFormatError` if a recording cannot be read.

    A result looks like an error if it starts like an error message, if it is a JSON object with an error, or if it is
    short and says that something failed.
    """
    messages = convert_recording(trace)
    assistant_messages = [message for message in messages if message.role == "assistant"]
    calls = [call for message in assistant_messages for call in message.tool_calls]
    failed = [message for message in messages if message.role == "tool" and _looks_failed(message)]
    return AgentMetrics(
        iterations=len(assistant_messages),
        tool_calls=len(calls),
        tools_used=list(dict.fromkeys(call.name for call in calls)),
        tool_call_counts=dict(Counter(call.name for call in calls)),
        suspect_failed_tool_calls=len(failed),
        suspect_failed_tools=list(dict.fromkeys(message.tool_name or "(unnamed)" for message in failed)),
    )


def _looks_failed(message: Message) -> bool:
    """Return whether a tool result is marked as an error, or looks like one by its beginning, its JSON keys or its
    wording.
    """
    text = message.content
    if message.is_error or _BEGINS_LIKE_AN_ERROR.match(text):
        return True
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None
        if isinstance(data, dict):
            return any(data.get(key) for key in _ERROR_KEYS)
    return len(text) <= _SHORT and bool(_SAYS_IT_FAILED.search(text))
