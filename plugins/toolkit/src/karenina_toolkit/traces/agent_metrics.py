"""Metrics of an agent's trace."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from karenina_toolkit.traces.recording import convert_recording

if TYPE_CHECKING:
    from karenina_core.models.ports import Message
    from karenina_toolkit.traces.recording import Recording

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
_SHORT = 300  # characters; in longer outputs such words are mostly quotations
_ERROR_KEYS = ("error", "errors", "is_error", "isError", "exception")


class AgentMetrics(TypedDict):
    """The `agent_metrics` of a result. Lists contain each tool once, in order of first use."""

    iterations: int
    tool_calls: int
    tools_used: list[str]
    tool_call_counts: dict[str, int]
    suspect_failed_tool_calls: int
    suspect_failed_tools: list[str]


def measure_trace(trace: Recording) -> AgentMetrics:
    """Count assistant turns, tool calls, and tool results that are or look like errors.

    A result is suspect if the trace marks it as an error, if it starts like an error message, if it is a JSON object
    with an error in it, or if it is short and says that something failed. Raises `TraceFormatError`.
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
    text = message.content
    if message.is_error or _BEGINS_LIKE_AN_ERROR.match(text):
        return True
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except ValueError:
            data = None
        if isinstance(data, dict):
            return any(data.get(key) for key in _ERROR_KEYS)
    return len(text) <= _SHORT and bool(_SAYS_IT_FAILED.search(text))
