"""Events of Google's Agent Development Kit (ADK), which contain Google's contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.replies.reply_ends import read_end
from karenina_toolkit.traces.blocks import get_entries
from karenina_toolkit.traces.formats import google
from karenina_toolkit.traces.formats.autogen import name_speakers

Entry = Mapping[str, Any]
_USER: Final = "user"
_ABOUT_EVENTS: Final = frozenset({"invocation_id", "invocationId", "actions"})
_MODELS_FAULT: Final = ("length", "content_filter")


def claims(entry: Entry) -> bool:
    """Return whether `entry` is an event of ADK."""
    if not isinstance(entry.get("author"), str) or "role" in entry:
        return False
    content = entry.get("content")
    return bool(entry.keys() & _ABOUT_EVENTS) or (isinstance(content, Mapping) and "parts" in content)


def is_session(document: Entry) -> bool:
    """Return whether `document` is a session of ADK, or contains its events."""
    events = document.get("events")
    listed = events if isinstance(events, list) and "messages" not in document else []
    return any(isinstance(event, Mapping) and claims(event) for event in listed)


def find_last(entries: Sequence[Entry]) -> Entry | None:
    """Return the last event that contains a message of an agent or an error, or a chunk whose whole text does not
    follow. If `entries` are not events of ADK, or the user's message is the last one, return None.
    """
    if not any(map(claims, entries)):
        return None
    if entries[-1].get("partial") is True and entries[-1].get("content"):
        return entries[-1]
    events = reversed(_select_events(entries))
    last = next((event for _, event in events if event.get("content") or _get(event, "error_code")), {})
    return None if last.get("author") == _USER else last


def find_stop(event: Entry) -> str | None:
    """Return the reason why an invocation ended early, if `event` is one with an error, or of a reply that was
    interrupted or is not whole, and otherwise None.
    """
    if not claims(event):
        return None
    if event.get("partial") is True:
        return "error: the stream of the reply broke off"
    code, message = _get(event, "error_code"), _get(event, "error_message")
    if code is None:
        return "error: the reply was interrupted" if event.get("interrupted") is True else None
    if read_end(code)[0] in _MODELS_FAULT:
        return str(code)
    return f"error: {code}" if message is None else f"error: {code}: {message}"


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert events of ADK to messages. Chunks of a stream, whose whole text follows, invocations that were taken
    back, and events without a message are omitted. If several agents spoke, the notes of the final answer name them.
    Raises `TraceFormatError` if an event cannot be read.
    """
    messages: list[Message] = []
    speakers: list[str] = []
    with_content = [
        (number, event) for number, event in _select_events(entries) if isinstance(event.get("content"), Mapping)
    ]
    for author, group in groupby(with_content, key=lambda item: str(item[1].get("author"))):
        numbers, events = zip(*group, strict=True)
        contents = [_read_content(event) for event in events]
        read = list(google.read(contents, numbers))
        speakers += [author] * any(message.role == "assistant" and message.content for message in read)
        messages += read
    last = messages[-1] if messages else None
    if last is not None and last.role == "assistant" and not last.tool_calls and speakers:
        messages[-1] = replace(last, notes=(*name_speakers(speakers), *last.notes))
    yield from messages


def _select_events(entries: Sequence[Entry]) -> list[tuple[int, Entry]]:
    """Return the events with their numbers, without chunks of a stream, and without invocations that were taken back:
    those from the one that a later event names on.
    """
    kept: list[tuple[int, Entry]] = []
    begun: dict[str, int] = {}
    for number, event in enumerate(entries, 1):
        actions = event.get("actions")
        rewound = _get(actions, "rewind_before_invocation_id") if isinstance(actions, Mapping) else None
        if rewound is not None and str(rewound) in begun:
            start = begun[str(rewound)]
            del kept[start:]
            begun = {name: place for name, place in begun.items() if place < start}
        elif rewound is None and event.get("partial") is not True:
            begun.setdefault(str(_get(event, "invocation_id")), len(kept))
            kept.append((number, event))
    return kept


def _read_content(event: Entry) -> Entry:
    """Return the content of an event with its role, which it may lack."""
    content: Entry = event["content"]
    role = _USER if event.get("author") == _USER else content.get("role") or "model"
    return {"role": role, "parts": get_entries(content, "parts")}


def _get(held: Entry, name: str) -> Any:
    """Return a value, whose name is in snake case or, from ADK's server, in camel case."""
    first, *rest = name.split("_")
    return held.get(name, held.get(first + "".join(map(str.capitalize, rest))))
