"""Whether a trace ends with an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_toolkit.traces.format_error import TraceFormatError
from karenina_toolkit.traces.formats import convert_recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.ports import Message
    from karenina_toolkit.traces.formats import Recording


@dataclass(frozen=True, slots=True)
class TraceVerdict:
    """Whether a trace is `valid`, with its `final` answer if so, else the `error`. It is true where it is valid."""

    valid: bool
    final: str | None = None
    error: str | None = None

    def __bool__(self) -> bool:
        return self.valid


def final_ai_message(trace: Recording) -> str | None:
    """The answer of a trace: its last message, where that is an assistant message with text and no tool call.

    None otherwise; an assistant message further up is never taken in its place. Raises `TraceFormatError` for a
    recording that cannot be read.
    """
    return _verdict(convert_recording(trace)).final


def validate_trace(trace: Recording) -> TraceVerdict:
    """Whether `trace` can be read and ends with an answer (see `final_ai_message`), and why not."""
    try:
        messages = convert_recording(trace)
    except TraceFormatError as error:
        return TraceVerdict(False, error=f"the trace cannot be read: {error}")
    return _verdict(messages)


def _verdict(messages: Sequence[Message]) -> TraceVerdict:
    if not messages:
        return TraceVerdict(False, error="the trace is empty")
    last = messages[-1]
    if last.role != "assistant":
        return TraceVerdict(False, error=f"the trace ends on a {last.role} message, not on one of the assistant")
    if last.tool_calls:
        return TraceVerdict(False, error=f"the trace ends while the assistant calls {last.tool_calls[0].name}")
    if not last.content.strip():
        return TraceVerdict(False, error="the last message of the assistant has no text")
    return TraceVerdict(True, final=last.content)
