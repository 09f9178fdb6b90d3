"""Recordings: conversations as lists of messages, and the objects that contain them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import TraceFormatError, get_entries
from karenina_toolkit.traces.formats import (
    adk,
    autogen,
    bedrock,
    google,
    inspect_ai,
    openai_chat,
    openai_responses,
    opentelemetry,
)
from karenina_toolkit.traces.formats.coding_agents import gemini_cli, swe_agent
from karenina_toolkit.traces.formats.registry import (
    ADK,
    AUTOGEN,
    BEDROCK,
    CLAUDE_CODE,
    GOOGLE,
    NAMES,
    OPENAI,
    OPENAI_AGENTS,
    RESPONSES,
    SWE_AGENT,
    Entry,
    Format,
    find_owners,
    read_entries,
)
from karenina_toolkit.traces.formats.transcripts import is_delimited, is_transcript, read_delimited, read_transcript

_OF_RESULTS: Final = frozenset({"session_id", "subtype", "duration_ms", "is_error"})
_ASKING: Final = ("system", "developer", "user", "human")
_STATES: Final = ("values", "channel_values")
_MODELS: Final = ("assistant", "ai", "model")
Recording = Sequence[Message] | Sequence[Entry] | Mapping[str, Any]


@dataclass(frozen=True)
class OpenedRecording:
    """The entries of a recording without its envelope.

    `before` contains instructions that the envelope stores separately. `format` is the format of the envelope, or None.
    """

    entries: Sequence[object]
    before: Sequence[Message] = ()
    format: Format | None = None


@dataclass(frozen=True)
class Envelope:
    """A kind of object that contains a conversation.

    `marks` returns whether an object is of this kind. `open` returns the object's entries, or raises
    `TraceFormatError`. `keys` describes this kind of object in messages.
    """

    name: str
    keys: str
    marks: Callable[[Entry], bool]
    open: Callable[[Entry], OpenedRecording]


def convert_recording(recording: Recording) -> list[Message]:
    """Convert a recording in any known format to a trace, detecting the format. `Message` objects are returned
    unchanged, and an empty list results in an empty trace. Raises `TraceFormatError` if an entry cannot be read, if
    formats are mixed, or if `recording` is not a recording.

    A recording is a list of messages, items or events in one of `FORMATS`, or an object that contains one
    (`ENVELOPES`), such as a request, a response, or the result or state of a framework.

    Nothing is lost silently: pictures and unknown blocks are described in text. Item ids, signatures, citations, log
    probabilities and token counts are omitted.
    """
    opened = open_recording(recording)
    if opened.format is None and all(isinstance(entry, Message) for entry in opened.entries):
        return [*opened.before, *(entry for entry in opened.entries if isinstance(entry, Message))]
    return [*opened.before, *read_entries(opened.entries, opened.format)]


def open_recording(recording: object) -> OpenedRecording:
    """Return the entries of a recording, taken out of the object around them (`ENVELOPES`) if there is one, with the
    instructions that it stores separately and its format. Raises `TraceFormatError` if that object is unknown, or if
    the recording is neither an object nor a list.
    """
    if isinstance(recording, Mapping):
        envelope = find_envelope(recording)
        if envelope is None:
            keys = ", ".join(candidate.keys for candidate in ENVELOPES)
            raise TraceFormatError(
                f"the recording is an object without any of the keys {keys}; the known formats are {NAMES}"
            )
        return envelope.open(recording)
    return OpenedRecording(_require_list(recording))


def find_envelope(recording: Entry) -> Envelope | None:
    """Return the kind of object that a recording is, such as a response with choices, or None if it is unknown. Raises
    `TraceFormatError` if it may be several kinds.
    """
    fitting = [envelope for envelope in ENVELOPES if envelope.marks(recording)]
    if not fitting and _is_single(recording):
        return SINGLE
    if len(fitting) > 1:
        raise TraceFormatError(
            f"the recording has both {fitting[0].keys} and {fitting[1].keys}; provide only one of them, or a request "
            "and its response as `exchanges`"
        )
    return fitting[0] if fitting else None


def is_conversation(document: object) -> bool:
    """Return whether the keys of `document` show that it is a conversation rather than a list of outputs. It must have
    a known envelope and an entry written by a model.
    """
    try:
        opened = open_recording(document)
    except TraceFormatError:
        return False
    entries = [entry for entry in opened.entries if isinstance(entry, Mapping)]
    if len(entries) < len(opened.entries) or all(_is_asked(entry) for entry in entries):
        return any(message.role == "assistant" for message in opened.before)
    if opened.format is not None and any(entry.keys() & {"role", "type", "parts"} for entry in entries):
        return True
    if any(map(find_owners, entries)):
        return True
    return all(isinstance(entry.get("role"), str) and "content" in entry for entry in entries)


def _is_asked(entry: Entry) -> bool:
    """Return whether an entry comes from the system or the user."""
    return _role_of(entry) in _ASKING


def _role_of(entry: Entry) -> object:
    """Return the role of an entry, or its type if it has none."""
    return entry.get("role", entry.get("type"))


def parse_json_conversation(text: str) -> Any:
    """Parse JSON text that is a complete conversation with a message from a model. Return None for any other text, even
    if it is JSON.

    A JSON answer may also have keys such as `type` and `role`, but it contains no text from a model.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        document = json.loads(text)
        return document if is_conversation(document) and _has_model(document) else None
    except (ValueError, RecursionError):
        return None


def _has_model(document: Any) -> bool:
    """Return whether a conversation contains text from a model. If it cannot be read, any entry from a model counts."""
    try:
        messages = convert_recording(document)
    except TraceFormatError:
        entries = open_recording(document).entries
        return any(isinstance(entry, Mapping) and _role_of(entry) in _MODELS for entry in entries)
    return any(message.role == "assistant" and message.content.strip() for message in messages)


def parse_conversation(text: str) -> list[Message] | None:
    """Parse a complete conversation, in JSON or with headings or roles. Return None for anything else. Raises
    `TraceFormatError` if the conversation cannot be read.
    """
    document = parse_json_conversation(text)
    if document is not None:
        return convert_recording(document)
    if is_delimited(text):
        return read_delimited(text)
    return read_transcript(text) if is_transcript(text) else None


def _require_list(value: object) -> Sequence[object]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise TraceFormatError(f"the recording must be a list of messages, not {type(value).__name__}")
    return value


def _read_instructions(value: Any) -> list[Message]:
    """Convert instructions that are stored separately from the entries to messages, from any service's format."""
    if not value:
        return []
    if isinstance(value, Mapping):
        return list(google.read([{**value, "role": "system"}]))
    if not isinstance(value, str) and isinstance(value, Sequence) and not _has_types(value):
        return list(bedrock.read([{"role": "system", "content": value}]))
    return [Message.system(openai_chat.read_content(value))]


def _has_types(blocks: Sequence[Any]) -> bool:
    """Return whether all blocks are text or have a `type`. Bedrock's blocks do not."""
    return all(isinstance(block, str) or (isinstance(block, Mapping) and "type" in block) for block in blocks)


def _open_messages(document: Entry) -> OpenedRecording:
    """Return the `messages` and system instructions of an object. The attachments of an Inspect sample are resolved.
    Raises `TraceFormatError` if `messages` is not a list.
    """
    held = _holder_of_messages(document)
    entries = _require_list(held["messages"])
    attachments = held.get("attachments")
    if isinstance(attachments, Mapping):
        entries = inspect_ai.resolve_attachments(entries, attachments)
    return OpenedRecording(entries, _read_instructions(held.get("system")))


def _holder_of_messages(document: Entry) -> Entry:
    """Return the object that contains the messages. It may be the values of a LangGraph snapshot or checkpoint."""
    if "messages" in document:
        return document
    checkpoint = document.get("checkpoint")
    if isinstance(checkpoint, Mapping):
        document = checkpoint
    return next((document[key] for key in _STATES if isinstance(document.get(key), Mapping)), document)


def _open_responses(document: Entry) -> OpenedRecording:
    """Return the instructions, input and output of a Responses API request or response. Raises `TraceFormatError` if
    the input is neither text nor a list.
    """
    request, output = document.get("input"), document.get("output")
    asked = [{"role": "user", "content": request}] if isinstance(request, str) else _require_list(request or [])
    entries = [*asked, *(output if isinstance(output, Sequence) else ())]
    return OpenedRecording(entries, _read_instructions(document.get("instructions")), RESPONSES)


def _marks_responses(document: Entry) -> bool:
    """Return whether an object is a Responses API request or response."""
    if "messages" in document or openai_responses.is_run(document):
        return False
    output = document.get("output")
    if isinstance(output, Sequence) and not isinstance(output, str):
        return True
    return "input" in document and "output" not in document


def _open_contents(document: Entry) -> OpenedRecording:
    instructions = document.get("systemInstruction") or document.get("system_instruction")
    return OpenedRecording(_require_list(document["contents"]), _read_instructions(instructions), GOOGLE)


def open_reply(response: Entry) -> OpenedRecording | None:
    """Return the reply in the choices or candidates of a response, or None if it has neither. Raises `TraceFormatError`
    if there are several replies.
    """
    for key, inner, format in (("choices", "message", OPENAI), ("candidates", "content", GOOGLE)):
        several = get_entries(response, key)
        if not several:
            continue
        if len(several) > 1:
            raise TraceFormatError(f"the response has {len(several)} {key}, but a trace can have only one reply")
        first = several[0]
        if not isinstance(first, Mapping):
            raise TraceFormatError(f"an entry in {key} must be an object, not {type(first).__name__}")
        if isinstance(first.get("text"), str) and not first.get(inner):  # a completion of a prompt
            return OpenedRecording([{"role": "assistant", "content": first["text"]}], (), format)
        return OpenedRecording([first[inner]] if first.get(inner) else [], (), format)
    return None


def _open_reply(document: Entry) -> OpenedRecording:
    """Return the reply in a response. If it contains no replies, there are no entries."""
    return open_reply(document) or OpenedRecording(())


def _is_single(document: Entry) -> bool:
    """Return whether `document` is a single message, item or event."""
    return bool(find_owners(document)) or (isinstance(document.get("role"), str) and "content" in document)


def _open_bedrock(document: Entry) -> OpenedRecording:
    return OpenedRecording([document["output"]["message"]], (), BEDROCK)


def _open_spans(document: Entry) -> OpenedRecording:
    return OpenedRecording((), opentelemetry.read_spans(opentelemetry.find_spans(document)))


def _open_output(document: Entry) -> OpenedRecording:
    """Return the answer that the Gemini CLI printed as a recording with a single entry, or none if it printed none."""
    text = document.get("response")
    return OpenedRecording([] if text is None else [{"role": "model", "parts": [{"text": text}]}], (), GOOGLE)


def _open_result(document: Entry) -> OpenedRecording:
    """Return the result of a Claude Code run as a recording with a single entry."""
    return OpenedRecording([document], (), CLAUDE_CODE)


ENVELOPES: Final = (
    Envelope(
        "messages",
        "'messages'",
        lambda held: "messages" in _holder_of_messages(held) and not swe_agent.is_run(held),
        _open_messages,
    ),
    Envelope("Responses request or response", "'input' or 'output'", _marks_responses, _open_responses),
    Envelope("Google request", "'contents'", lambda held: "contents" in held, _open_contents),
    Envelope(
        "chat completion",
        "'choices'",
        lambda held: "choices" in held,
        _open_reply,
    ),
    Envelope(
        "Google response",
        "'candidates'",
        lambda held: "candidates" in held,
        _open_reply,
    ),
    Envelope(
        "Bedrock response",
        "'output.message'",
        lambda held: isinstance(held.get("output"), Mapping) and isinstance(held["output"].get("message"), Mapping),
        _open_bedrock,
    ),
    Envelope(
        "OpenAI Agents result",
        "'new_items'",
        openai_responses.is_run,
        lambda held: OpenedRecording(openai_responses.find_run_items(held), (), OPENAI_AGENTS),
    ),
    Envelope(
        "AutoGen response or state",
        "'chat_message', 'llm_context' or 'agent_states'",
        lambda held: bool(held.keys() & {"chat_message", "llm_context", "message_thread", "agent_states"}),
        lambda held: OpenedRecording(autogen.find_messages(held) or (), (), AUTOGEN),
    ),
    Envelope(
        "OpenTelemetry spans",
        "'gen_ai.input.messages', 'llm.input_messages' or 'gen_ai.prompt'",
        lambda held: bool(opentelemetry.find_spans(held)),
        _open_spans,
    ),
    Envelope(
        "Claude Code result",
        "'result'",
        lambda held: held.get("type") == "result" and "result" in held and bool(held.keys() & _OF_RESULTS),
        _open_result,
    ),
    Envelope(
        "SWE-agent trajectory",
        "'trajectory_format' or 'trajectory'",
        swe_agent.is_run,
        lambda held: OpenedRecording(swe_agent.find_entries(held), (), SWE_AGENT),
    ),
    Envelope("ADK session", "'events'", adk.is_session, lambda held: OpenedRecording(held["events"], (), ADK)),
    Envelope("Gemini CLI output", "'stats'", gemini_cli.is_output, _open_output),
)
SINGLE: Final = Envelope("one message", "'role'", _is_single, lambda held: OpenedRecording([held]))
