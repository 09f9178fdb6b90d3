"""Sessions of the Gemini CLI: its session files, and what `--output-format stream-json` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import TraceFormatError, get_entries, in_entry
from karenina_toolkit.traces.formats import google

Entry = Mapping[str, Any]
_MODEL: Final = "gemini"
_INTERFACE: Final = ("info", "warning", "error")
_SPEAKERS: Final = ("user", _MODEL)
_CANCELLED: Final = "Request cancelled."
_INIT: Final = "init"
_RESULT: Final = "result"
_CHUNKS: Final = "chunks"
_TURN_LIMIT: Final = "FatalTurnLimitedError"
_FAILED: Final = ("error", "cancelled")
_ENDED: Final = ("success", *_FAILED)


def claims(entry: Entry) -> bool:
    """Return whether `entry` is a message of the model or a change in a session file of the Gemini CLI, or an event of
    its stream.
    """
    kind = entry.get("type")
    if kind in _SPEAKERS:
        return entry.keys() >= {"content", "timestamp"} and not entry.keys() & {"role", "message"}
    return is_of_stream(entry) or (kind is None and isinstance(entry.get("projectHash"), str) and "sessionId" in entry)


def is_of_stream(entry: Entry) -> bool:
    """Return whether `entry` is an event of the stream that no other program writes."""
    kind = entry.get("type")
    if kind == _INIT:
        return "session_id" in entry and "model" in entry and "subtype" not in entry
    if kind == _RESULT:
        return "status" in entry and "subtype" not in entry and ("stats" in entry or "error" in entry)
    return kind in ("tool_use", "tool_result") and "tool_id" in entry


def is_output(document: Entry) -> bool:
    """Return whether `document` is what the Gemini CLI prints with `--output-format json`."""
    stats = document.get("stats")
    if not isinstance(stats, Mapping) or "type" in document:  # which only events of the stream have
        return False
    return isinstance(stats.get("models"), Mapping) and bool(document.keys() & {"response", "error"})


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert the messages of a session file, or the events of a stream, to messages. Messages that were taken back or
    replaced by later ones with the same id are omitted, and so is what only the interface shows. Raises
    `TraceFormatError` if an entry cannot be read.
    """
    contents: list[Entry] = []
    numbers: list[int] = []
    of_stream = any(is_of_stream(entry) for entry in entries)
    calls: set[str] = set()
    results: set[str] = set()
    for number, entry in enumerate(entries, 1) if of_stream else _select_messages(entries):
        with in_entry(number):
            found = _read_event(entry, contents) if of_stream else _read_message(entry, calls, results)
        contents += found
        numbers += [number] * len(found)
    joined = ({**held, "parts": [{"text": "".join(held[_CHUNKS])}]} if _CHUNKS in held else held for held in contents)
    yield from google.read(list(joined), numbers)


def find_last(entries: Sequence[Entry]) -> Entry | None:
    """Return the event with which a stream ends, or the last message of a session file, which may be about an error. If
    `entries` are neither, return None.
    """
    if not any(map(claims, entries)):
        return None
    if any(map(is_of_stream, entries)):
        last = entries[-1]
        if last.get("type") != _RESULT:
            return {"type": _INIT, "session_id": "", "model": ""}
        errors = [entry for entry in entries if entry.get("type") == "error" and entry.get("severity") == "error"]
        return {"error": errors[-1], **last} if errors else last
    shown = [entry for _, entry in _select_messages(entries)]
    return next((entry for entry in reversed(shown) if _is_end(entry)), None)


def is_turn_limit(entry: Entry) -> bool:
    """Return whether `entry` is the result of a run that reached its limit of turns."""
    error = entry.get("error")
    return is_of_stream(entry) and isinstance(error, Mapping) and error.get("type") == _TURN_LIMIT


def find_stop(entry: Entry) -> str | None:
    """Return the reason why a run ended early, if `entry` is its result with an error, the beginning of one without a
    result, or a message about an error or a cancellation. Otherwise, also for a limit of turns, return None.
    """
    kind, error, content = entry.get("type"), entry.get("error"), entry.get("content")
    if is_output(entry):
        return f"error: {error.get('message')}" if isinstance(error, Mapping) else None
    if is_of_stream(entry):
        if kind == _INIT:
            return "error: the stream has no result"
        if kind != _RESULT or entry.get("status") != "error" or is_turn_limit(entry):
            return None
        return f"error: {error.get('message')}" if isinstance(error, Mapping) else "error: the run failed"
    if "role" in entry or not isinstance(content, str) or not isinstance(entry.get("timestamp"), str):
        return None
    if kind == "info" and content == _CANCELLED:
        return "error: the request was cancelled"
    return f"error: {content}" if kind == "error" else None


def _is_end(entry: Entry) -> bool:
    """Return whether an entry of a session file is a message, or states that a request failed or was cancelled."""
    return entry.get("type") in _SPEAKERS or find_stop(entry) is not None


def _select_messages(entries: Sequence[Entry]) -> list[tuple[int, Entry]]:
    """Return the messages of a session file with their numbers, after all changes: a later message replaces the one
    with the same id, `$rewindTo` takes back those from an id on, and `$set` may replace all messages.
    """
    shown: dict[str, tuple[int, Entry]] = {}
    for number, entry in enumerate(entries, 1):
        rewound, changed = entry.get("$rewindTo"), entry.get("$set")
        listed = changed.get("messages") if isinstance(changed, Mapping) else None
        if rewound is not None:
            ids = list(shown)
            place = ids.index(rewound) if rewound in ids else 0
            shown = {name: shown[name] for name in ids[:place]}
        elif isinstance(listed, Sequence) and not isinstance(listed, str):
            messages = [message for message in listed if isinstance(message, Mapping)]
            shown = {str(message.get("id", place)): (number, message) for place, message in enumerate(messages)}
        elif isinstance(entry.get("type"), str):
            shown[str(entry.get("id", f"line {number}"))] = (number, entry)
    return list(shown.values())


def _read_message(entry: Entry, calls: set[str], results: set[str]) -> list[Entry]:
    """Convert a message of a session file to Google's contents: what the user said, or what the model thought, said and
    called, and the results. The ids of its calls and results are added to `calls` and `results`, because later messages
    may repeat them. Raises `TraceFormatError` if the message has an unknown type.
    """
    kind, content = entry.get("type"), entry.get("content")
    parts = _new_parts(_parts(content), calls, results)
    if kind == "user" or (kind in _INTERFACE and not isinstance(content, str)):
        return [{"role": "user", "parts": parts}] if parts or not _parts(content) else []
    if kind in _INTERFACE:
        return []
    if kind != _MODEL:
        raise TraceFormatError(f"unknown message type {kind!r:.80}; the types are 'user', 'gemini', 'info' and 'error'")
    if not any(isinstance(part, Mapping) and part.get("thought") for part in parts):
        parts = [*map(_thought, get_entries(entry, "thoughts")), *parts]
    answered: list[Any] = []
    for call in get_entries(entry, "toolCalls"):
        if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
            raise TraceFormatError("an entry in toolCalls has no name")
        about = {"id": call.get("id"), "name": call["name"], "args": call.get("args")}
        parts += _new_parts([{"functionCall": about}], calls, results)
        answered += _new_parts(_read_result(call), calls, results)
    said: Entry = {"role": "model", "parts": parts}
    return [said, {"role": "user", "parts": answered}] if answered else [said]


def _read_result(call: Entry) -> Sequence[Any]:
    """Return the parts of the result of a call, of which there are none if the call did not end."""
    result, status = call.get("result"), call.get("status")
    if isinstance(result, Sequence) and not isinstance(result, str) and result:
        return list(result)
    if isinstance(result, Mapping):
        return [result]
    if not result and status not in _ENDED:
        return ()
    shown = call.get("resultDisplay")
    text = result or (shown if isinstance(shown, str) else "" if status == "success" else status)
    response = {"error" if status in _FAILED else "output": text}
    return [{"functionResponse": {"id": call.get("id"), "name": call["name"], "response": response}}]


def _new_parts(parts: Sequence[Any], calls: set[str], results: set[str]) -> list[Any]:
    """Return the parts without calls and results whose ids are in `calls` or `results`, and add those of the others."""
    kept: list[Any] = []
    for part in parts:
        for key, known in (("functionCall", calls), ("functionResponse", results)):
            about = part.get(key) if isinstance(part, Mapping) else None
            name = about.get("id") if isinstance(about, Mapping) else None
            if isinstance(name, str) and name:
                if name in known:
                    break
                known.add(name)
        else:
            kept.append(part)
    return kept


def _parts(content: Any) -> list[Any]:
    """Return the parts in a content, which may be text, a part, or a list of both."""
    listed = isinstance(content, Sequence) and not isinstance(content, str)
    held = list(content) if listed else [] if content in (None, "") else [content]
    return [{"text": part} if isinstance(part, str) else part for part in held]


def _thought(thought: Any) -> Entry:
    """Return a thought, which has a subject and a description, as a part."""
    if not isinstance(thought, Mapping):
        raise TraceFormatError(f"a thought must be an object, not {type(thought).__name__}")
    texts = (thought.get("subject"), thought.get("description"))
    return {"text": ": ".join(str(text) for text in texts if text), "thought": True}


def _read_event(entry: Entry, before: list[Entry]) -> list[Entry]:
    """Convert an event of a stream to Google's contents. A chunk of text is added to the one before it. Raises
    `TraceFormatError` if the event cannot be read.
    """
    kind, name = entry.get("type"), str(entry.get("tool_id"))
    if kind == "message":
        text, is_chunk = entry.get("content"), entry.get("delta") is True
        if not isinstance(text, str):
            raise TraceFormatError(f"a message must contain text, not {type(text).__name__}")
        if is_chunk and before and _CHUNKS in before[-1]:
            before[-1][_CHUNKS].append(text)
            return []
        role = {"assistant": "model"}.get(str(entry.get("role")), entry.get("role"))
        return [{"role": role, **({_CHUNKS: [text]} if is_chunk else {"parts": [{"text": text}]})}]
    if kind == "tool_use":
        call = {"id": name, "name": entry.get("tool_name"), "args": entry.get("parameters")}
        return [{"role": "model", "parts": [{"functionCall": call}]}]
    if kind == "tool_result":
        error, failed = entry.get("error"), entry.get("status") == "error"
        text = entry.get("output") or (error.get("message") if isinstance(error, Mapping) else None)
        response = {"error": text or "error"} if failed else {"output": text}
        return [{"role": "user", "parts": [{"functionResponse": {"id": name, "name": "", "response": response}}]}]
    return []
