"""Which format a recording has, and its messages in Karenina's own shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from karenina_core.ports import Message
from karenina_core.traces import anthropic, openai_chat
from karenina_core.traces.errors import TraceFormatError

Entry = Mapping[str, Any]
Recording = Sequence[Message] | Sequence[Entry] | Mapping[str, Any]


@dataclass(frozen=True)
class Format:
    """One format: whether an entry could stand in no other one, and how all of them are read.

    `read` raises `TraceFormatError` and gives with it, as `entry`, the number of the entry, counted from 1.
    """

    name: str
    claims: Callable[[Entry], bool]
    read: Callable[[Sequence[Entry]], Iterable[Message]]


def convert(recording: Recording) -> list[Message]:
    """The messages of `recording`: OpenAI chat messages, Anthropic messages, or Karenina's own.

    It is a list of messages, or an object whose `messages` holds them (with Anthropic's `system` beside it, if any).
    Messages that are no JSON any more are handed through. Raises `TraceFormatError` for anything else, for a mixture
    of formats, and for an entry that cannot be read; an empty list is an empty trace.
    """
    entries, before = _entries(recording)
    if all(isinstance(entry, Message) for entry in entries):
        return [*before, *(entry for entry in entries if isinstance(entry, Message))]
    checked: list[Entry] = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("role"), str):
            raise TraceFormatError(f"entry {number} is no message: it has no role; known formats are {_NAMES}")
        checked.append(entry)
    return [*before, *_format_of(checked).read(checked)]


def _entries(recording: object) -> tuple[Sequence[object], list[Message]]:
    before: list[Message] = []
    if isinstance(recording, Mapping):
        if "messages" not in recording:
            raise TraceFormatError(f"it is an object without 'messages'; known formats are {_NAMES}")
        if recording.get("system"):
            before.append(Message.system(openai_chat.read_content(recording["system"])))
        recording = recording["messages"]
    if isinstance(recording, (str, bytes)) or not isinstance(recording, Sequence):
        raise TraceFormatError(f"it is {type(recording).__name__}, not a list of messages")
    return recording, before


def _format_of(entries: Sequence[Entry]) -> Format:
    found: dict[str, tuple[Format, int]] = {}
    for number, entry in enumerate(entries, 1):
        for candidate in FORMATS:
            if candidate.claims(entry):
                found.setdefault(candidate.name, (candidate, number))
    if len(found) > 1:
        (one, first), (other, second), *_ = found.values()
        raise TraceFormatError(
            f"entry {first} is of {one.name}, entry {second} of {other.name}; a trace has one format"
        )
    for candidate, _ in found.values():
        return candidate
    return OPENAI


def _own(entry: Entry) -> bool:
    calls = entry.get("tool_calls")
    if isinstance(calls, Sequence) and calls and isinstance(calls[0], Mapping) and "arguments" in calls[0]:
        return True
    return bool({"tool_name"} & entry.keys())


def _read_own(entries: Sequence[Entry]) -> Iterable[Message]:
    for number, entry in enumerate(entries, 1):
        try:
            message = Message.from_dict(entry)
        except (ValueError, TypeError) as error:
            raise TraceFormatError(f"entry {number}: {error}") from None
        if not isinstance(message.content, str):
            raise TraceFormatError(f"entry {number}: its content is {type(message.content).__name__}, not text")
        yield message


def _openai(entry: Entry) -> bool:
    calls = entry.get("tool_calls")
    if isinstance(calls, Sequence) and calls and isinstance(calls[0], Mapping):
        return "function" in calls[0] or "custom" in calls[0]
    return isinstance(entry.get("function_call"), Mapping)


def _read_openai(entries: Sequence[Entry]) -> Iterable[Message]:
    names: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        try:
            message = openai_chat.read_message(entry, names)
        except TraceFormatError as error:
            raise TraceFormatError(f"entry {number}: {error}") from None
        names.update((call.id, call.name) for call in message.tool_calls)
        yield message


OPENAI = Format("OpenAI chat messages", _openai, _read_openai)
FORMATS = (
    OPENAI,
    Format("Anthropic messages", anthropic.claims, anthropic.read),
    Format("Karenina's own", _own, _read_own),
)
_NAMES = ", ".join(known.name for known in FORMATS)
