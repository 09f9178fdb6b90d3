"""Detect the format of a recording, and read its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from karenina_core.models.ports import Message
from karenina_toolkit.traces import anthropic, google, openai_chat, openai_responses, trace_messages
from karenina_toolkit.traces.format_error import TraceFormatError

Entry = Mapping[str, Any]
Recording = Sequence[Message] | Sequence[Entry] | Mapping[str, Any]


@dataclass(frozen=True)
class Format:
    """One format: whether an entry can only be of this format, and how all entries are read.

    `read` raises `TraceFormatError`, which names the entry by its number, from 1. Entries of a format with `needs_role`
    false may lack a role.
    """

    name: str
    claims: Callable[[Entry], bool]
    read: Callable[[Sequence[Entry]], Iterable[Message]]
    needs_role: bool = True


@dataclass(frozen=True)
class OpenedRecording:
    """The entries of a recording without its envelope, the instructions beside them, and the format that the envelope
    implies.
    """

    entries: Sequence[object]
    before: Sequence[Message]
    format: Format | None


def convert_recording(recording: Recording) -> list[Message]:
    """Return the messages of `recording`, in any of the known formats.

    These are OpenAI chat messages, OpenAI Responses items, Anthropic messages, Google contents, the `trace_messages` of
    the reference project, and Karenina's own. A recording is a list of them, or an object as the services accept it,
    with the list and the instructions: `messages` (and `system`), `input` (and `instructions`) or `contents` (and
    `systemInstruction`). `Message` objects are returned as they are.

    Nothing is lost silently: pictures and blocks of unknown kinds become text that describes them. Ids of items,
    signatures, citations, log probabilities and token counts are left out. Raises `TraceFormatError` for anything else,
    for a mixture of formats, and for an entry that cannot be read; an empty list is an empty trace.
    """
    opened = open_recording(recording)
    if opened.format is None and all(isinstance(entry, Message) for entry in opened.entries):
        return [*opened.before, *(entry for entry in opened.entries if isinstance(entry, Message))]
    return [*opened.before, *read_entries(opened.entries, opened.format)]


def open_recording(recording: object) -> OpenedRecording:
    """Return the entries of `recording` without their envelope. Raises `TraceFormatError`."""
    before: list[Message] = []
    implied: Format | None = None
    if isinstance(recording, Mapping):
        envelope = next((one for one in _ENVELOPES if one.key in recording), None)
        if envelope is None:
            keys = ", ".join(f"'{one.key}'" for one in _ENVELOPES)
            raise TraceFormatError(f"it is an object without {keys}; known formats are {_NAMES}")
        instructions = next((recording[key] for key in envelope.instructions if recording.get(key)), None)
        if isinstance(instructions, Mapping) and envelope.format is GOOGLE:
            before = list(google.read([{**instructions, "role": "system"}]))
        elif instructions is not None:
            before = [Message.system(openai_chat.read_content(instructions))]
        implied = envelope.format
        recording = recording[envelope.key]
        if implied is RESPONSES and isinstance(recording, str):
            recording = [{"role": "user", "content": recording}]
    if isinstance(recording, (str, bytes)) or not isinstance(recording, Sequence):
        raise TraceFormatError(f"it is {type(recording).__name__}, not a list of messages")
    return OpenedRecording(recording, before, implied)


def read_entries(entries: Sequence[object], format: Format | None = None) -> list[Message]:
    """Return the messages of `entries`, in `format` or the detected format. Raises `TraceFormatError`."""
    shown = format or _format_of(entries)
    checked: list[Entry] = []
    for number, entry in enumerate(entries, 1):
        named = isinstance(entry, Mapping) and (isinstance(entry.get("role"), str) or not shown.needs_role)
        if not isinstance(entry, Mapping) or not named:
            raise TraceFormatError(f"entry {number} is not a message: it has no role; known formats are {_NAMES}")
        checked.append(entry)
    return list(shown.read(checked))


def _format_of(entries: Sequence[object]) -> Format:
    found: dict[str, tuple[Format, int]] = {}
    for number, entry in enumerate(entries, 1):
        for candidate in FORMATS:
            if isinstance(entry, Mapping) and candidate.claims(entry):
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


_OWN_NAMES = ("reasoning", "tool_call_id", "tool_name")


def _read_own(entries: Sequence[Entry]) -> Iterable[Message]:
    for number, entry in enumerate(entries, 1):
        try:
            message = Message.from_dict(entry)
        except (ValueError, TypeError) as error:
            raise TraceFormatError(f"entry {number}: {error}") from None
        wrong = _find_mistyped(message)
        if wrong is not None:
            raise TraceFormatError(f"entry {number}: {wrong}")
        yield message


def _find_mistyped(message: Message) -> str | None:
    """Return which field of a message in our format has a value of the wrong type, if any."""
    texts: list[tuple[str, object]] = [("content", message.content)]
    texts += [(name, value) for name in _OWN_NAMES if (value := getattr(message, name)) is not None]
    for call in message.tool_calls:
        arguments: object = call.arguments
        if not isinstance(arguments, Mapping):
            return f"the arguments of a call are {type(arguments).__name__}, not an object"
        texts += [("id of a call", call.id), ("name of a call", call.name)]
    for name, value in texts:
        if not isinstance(value, str):
            return f"its {name} is {type(value).__name__}, not text"
    return None


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
RESPONSES = Format("OpenAI Responses items", openai_responses.claims, openai_responses.read, needs_role=False)
ANTHROPIC = Format("Anthropic messages", anthropic.claims, anthropic.read)
GOOGLE = Format("Google contents", google.claims, google.read, needs_role=False)
FORMATS = (
    OPENAI,
    RESPONSES,
    ANTHROPIC,
    GOOGLE,
    Format("trace_messages", trace_messages.claims, trace_messages.read),
    Format("Karenina's own", _own, _read_own),
)
_NAMES = ", ".join(known.name for known in FORMATS)


@dataclass(frozen=True)
class _Envelope:
    """An object with entries under `key`, with instructions beside them, and the only possible format, if known."""

    key: str
    instructions: tuple[str, ...]
    format: Format | None = None


_ENVELOPES = (
    _Envelope("messages", ("system",)),
    _Envelope("input", ("instructions",), RESPONSES),
    _Envelope("contents", ("systemInstruction", "system_instruction"), GOOGLE),
)
