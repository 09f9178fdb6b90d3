"""Event streams of the AG-UI protocol, from which the messages of a conversation are put together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import TraceFormatError, in_entry
from karenina_toolkit.traces.formats import ag_ui

Entry = Mapping[str, Any]
_SNAKE: Final = re.compile("(?<=[a-z])_([a-z])")
_STARTED: Final = "RUN_STARTED"
_ENDS: Final = (_STARTED, "RUN_FINISHED", "RUN_ERROR")
_SNAPSHOT: Final = "MESSAGES_SNAPSHOT"
_THOUGHT: Final = "reasoning"
_RESULT: Final = "TOOL_CALL_RESULT"
_TEXTS: Final = ("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK")
_THOUGHTS: Final = (
    *("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK"),
    *("THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_CONTENT"),
)
_CALLS: Final = ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK")
_WITHOUT_TEXT: Final = (
    *("TEXT_MESSAGE_END", "TOOL_CALL_END", "REASONING_START", "REASONING_MESSAGE_END", "REASONING_END"),
    *("REASONING_ENCRYPTED_VALUE", "THINKING_START", "THINKING_TEXT_MESSAGE_END", "THINKING_END"),
    *("STATE_SNAPSHOT", "STATE_DELTA", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "STEP_STARTED", "STEP_FINISHED"),
    *("SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR", "RAW", "CUSTOM"),
)
_KINDS: Final = frozenset({*_ENDS, _SNAPSHOT, _RESULT, *_TEXTS, *_THOUGHTS, *_CALLS, *_WITHOUT_TEXT})
_OUTCOMES: Final = {"cancelled": "the run was cancelled", "interrupt": "the run waits for a person"}


def claims(entry: Entry) -> bool:
    """Return whether `entry` has the type of an event of AG-UI."""
    kind = entry.get("type")
    return isinstance(kind, str) and kind in _KINDS


def find_last(entries: Sequence[Entry]) -> Entry | None:
    """Return the last event about the beginning or end of a run, or None if there is none."""
    return next((event for event in reversed(entries) if event.get("type") in _ENDS), None)


def find_stop(event: Entry) -> str | None:
    """Return the reason why a run ended early, if `event` is its error, its beginning although it has no end, or its
    end without success. Otherwise, return None.
    """
    kind, outcome = event.get("type"), event.get("outcome")
    if kind == _STARTED:
        return "error: the run has no end"
    if kind == "RUN_ERROR":
        return f"error: {event.get('message')}"
    ended = str(outcome.get("type")) if kind == "RUN_FINISHED" and isinstance(outcome, Mapping) else ""
    return f"error: {_OUTCOMES[ended]}" if ended in _OUTCOMES else None


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert the events of one thread to messages: those that a run began with, and those that were streamed. Events
    of subagents (unless there are no others) and about the state are omitted. A note on the last reply counts events of
    unknown types. Raises `TraceFormatError` if an event cannot be read, or if there are several threads.
    """
    unknown = Counter(str(entry.get("type")) for entry in entries if not claims(entry))
    messages = list(ag_ui.read(_Builder().build(entries)))
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=None)
    if unknown and last is not None:
        events = "1 event" if unknown.total() == 1 else f"{unknown.total()} events"
        note = f"{events} of unknown types left out: {', '.join(unknown)[:200]}"
        messages[last] = replace(messages[last], notes=(*messages[last].notes, note))
    yield from messages


class _Builder:
    """Puts messages of AG-UI together from events."""

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._texts: dict[int, tuple[dict[str, Any], str, list[str]]] = {}
        self._thread: object = None

    def build(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the messages. Raises `TraceFormatError`, with the number of the event, if one cannot be read."""
        said = (*_TEXTS, *_CALLS, _RESULT)
        alone = not any(
            entry.get("type") in said and not _in_camel_case(entry).get("subagentRunId") for entry in entries
        )
        for number, entry in enumerate(map(_in_camel_case, entries), 1):
            if alone or not entry.get("subagentRunId"):
                with in_entry(number):
                    self._add(entry)
        for holder, key, texts in self._texts.values():
            holder[key] = "".join(texts)
        return self._messages

    def _add(self, event: Entry) -> None:
        """Add an event. Raises `TraceFormatError` if it cannot be read, or belongs to another thread."""
        kind = event.get("type")
        if kind == _STARTED:
            thread = event.get("threadId")
            if self._thread not in (None, thread):
                raise TraceFormatError("the run of another thread begins; a trace must have only one thread")
            self._thread = thread
            given = event.get("input")
            known = {str(message.get("id")) for message in self._messages}
            asked = _list_messages(given if isinstance(given, Mapping) else {})
            self._messages += [message for message in asked if str(message.get("id")) not in known]
        elif kind == _SNAPSHOT:
            self._messages = _list_messages(event)
        elif kind in _TEXTS:
            self._add_text(event, str(event.get("role") or "assistant"))
        elif kind in _THOUGHTS:
            self._add_text(event, _THOUGHT)
        elif kind in _CALLS:
            self._add_call(event)
        elif kind == _RESULT:
            about = {"role": "tool", "toolCallId": event.get("toolCallId"), "content": event.get("content")}
            self._messages.append({"id": event.get("messageId"), **about})

    def _add_text(self, event: Entry, role: str) -> None:
        """Add a text to its message, which may be new, or to the last one if the event states none. Raises
        `TraceFormatError` if the text is not a string.
        """
        name, text = event.get("messageId"), event.get("delta")
        if text is not None and not isinstance(text, str):
            raise TraceFormatError(f"the delta must be text, not {type(text).__name__}")
        last = self._messages[-1] if self._messages else {}
        if name is None and str(event.get("type")).endswith("_START"):
            last = {}
        message = self._find(name) if name is not None else last if last.get("role") == role else None
        of_thoughts = message is not None and message.get("role") == _THOUGHT
        if message is None or of_thoughts != (role == _THOUGHT) or not isinstance(message.get("content", ""), str):
            message = {"id": name, "role": role, "content": ""}
            self._messages.append(message)
        self._append(message, "content", text)

    def _add_call(self, event: Entry) -> None:
        """Add a call to its message, which may be new, or a part of the arguments to its call. Raises
        `TraceFormatError` if the event belongs to no call, or if the part is not a string.
        """
        name, text = event.get("toolCallId"), event.get("delta")
        call: dict[str, Any] | None = None
        if event.get("type") != "TOOL_CALL_START":
            call = next((call for call in reversed(self._calls) if name is None or call["id"] == name), None)
        if call is None:
            if not isinstance(event.get("toolCallName"), str):
                raise TraceFormatError(f"a {event.get('type')} belongs to no call")
            message = self._find(event.get("parentMessageId"))
            if message is None or message.get("role") != "assistant":
                message = {"id": event.get("parentMessageId"), "role": "assistant", "content": ""}
                last = self._messages[-1] if self._messages else {}
                if event.get("parentMessageId") is None and last.get("role") == "assistant" and last.get("toolCalls"):
                    message = last  # calls beside each other
                else:
                    self._messages.append(message)
            call = {"id": name, "type": "function", "function": {"name": event["toolCallName"], "arguments": ""}}
            held = message.get("toolCalls")
            message["toolCalls"] = [*(held if isinstance(held, list) else ()), call]
            self._calls.append(call)
        if text is not None and not isinstance(text, str):
            raise TraceFormatError(f"the delta must be text, not {type(text).__name__}")
        self._append(call["function"], "arguments", text)

    def _append(self, holder: dict[str, Any], key: str, text: str | None) -> None:
        """Append a text to a value of `holder`. The texts are only joined at the end, because there may be many."""
        _, _, texts = self._texts.setdefault(id(holder), (holder, key, [holder.get(key) or ""]))
        texts.append(text or "")

    def _find(self, name: object) -> dict[str, Any] | None:
        """Return the last message with an id, unless results follow it, so that a new one begins after these."""
        open_ones = takewhile(lambda message: message.get("role") != "tool", reversed(self._messages))
        return next((message for message in open_ones if name is not None and message.get("id") == name), None)


def _list_messages(holder: Entry) -> list[dict[str, Any]]:
    """Return copies of the messages in a snapshot or input. Raises `TraceFormatError` if one is no message."""
    listed = holder.get("messages") or ()
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise TraceFormatError(f"the messages must be a list, not {type(listed).__name__}")
    if not all(isinstance(message, Mapping) and isinstance(message.get("role"), str) for message in listed):
        raise TraceFormatError("a message has no role")
    return [_in_camel_case(message) for message in listed]


def _in_camel_case(held: Entry) -> dict[str, Any]:
    """Return a copy of an event or message with names in camel case, which Python programs may write in snake case."""
    return {_SNAKE.sub(lambda found: found[1].upper(), key): value for key, value in held.items()}
