"""Messages of the AG-UI protocol: those of OpenAI's chat messages, with other keys and further roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import TraceFormatError, in_entry
from karenina_toolkit.traces.formats.openai_chat import read_content, read_message

Entry = Mapping[str, Any]
_ROLES: Final = ("reasoning", "activity")


def claims(entry: Entry) -> bool:
    """Return whether `entry` has a role or a key of calls that only AG-UI uses."""
    return entry["role"] in _ROLES or "toolCalls" in entry or "toolCallId" in entry


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert messages of AG-UI. A message with the role `reasoning` becomes the reasoning of the assistant's message
    after it. Activities, which only the interface shows, are omitted. A tool message with an `error` has failed. Raises
    `TraceFormatError` if an entry is not in this format.
    """
    names: dict[str, str] = {}
    thoughts: list[str] = []
    for number, entry in enumerate(entries, 1):
        if entry["role"] == "activity":
            continue
        with in_entry(number):
            if entry["role"] == "reasoning":
                thoughts.append(read_content(entry.get("content")))
                continue
            calls, call_id, failed = entry.get("toolCalls"), entry.get("toolCallId"), entry.get("error")
            chat = {**entry, "tool_calls": calls, "tool_call_id": call_id, "is_error": failed}
            try:
                message = read_message(chat, names)
            except TraceFormatError as error:
                what = str(error).replace("tool_call_id", "toolCallId").replace("tool_calls", "toolCalls")
                raise TraceFormatError(what) from None
        names.update((call.id, call.name) for call in message.tool_calls)
        if thoughts:
            if message.role == "assistant":
                message = replace(message, reasoning="\n".join(filter(None, [*thoughts, message.reasoning])) or None)
            else:
                yield Message("assistant", reasoning="\n".join(thoughts))
            thoughts = []
        yield message
    if thoughts:
        yield Message("assistant", reasoning="\n".join(thoughts))
