"""Messages and events of AutoGen's agents and teams, and messages of its model clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, as_json, describe_block, get_entries, in_entry
from karenina_toolkit.traces.formats.openai_chat import read_arguments

Entry = Mapping[str, Any]
CODE_TOOL: Final = "code_execution"
"""The tool name used in calls that represent code run by a code executor."""

_TEXTS: Final = ("TextMessage", "MultiModalMessage", "HandoffMessage", "ToolCallSummaryMessage")
_STRUCTURED: Final = "StructuredMessage"
_REQUESTS: Final = ("ToolCallRequestEvent", "ToolCallMessage")
_RESULTS: Final = ("ToolCallExecutionEvent", "ToolCallResultMessage", "FunctionExecutionResultMessage")
_REPEATED: Final = ("ModelClientStreamingChunkEvent", "UserInputRequestedEvent")
_OTHERS: Final = (
    *("StopMessage", "ThoughtEvent", "MemoryQueryEvent", "SelectSpeakerEvent", "SelectorEvent"),
    *("CodeGenerationEvent", "CodeExecutionEvent"),
)
_OF_CLIENTS: Final = ("SystemMessage", "UserMessage", "AssistantMessage")
_KINDS: Final = frozenset({*_TEXTS, *_REQUESTS, *_RESULTS, *_REPEATED, *_OTHERS, *_OF_CLIENTS})
_TERMINATE: Final = "TERMINATE"
_LONGEST_NAMES: Final = 200
_USERS: Final = ("user", "user_proxy", "userproxy", "human")


def claims(entry: Entry) -> bool:
    """Return whether `entry` has the type of an AutoGen message or event."""
    kind = entry.get("type")
    return isinstance(kind, str) and "role" not in entry and (kind in _KINDS or kind.startswith(_STRUCTURED))


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert AutoGen's messages and events to messages. Those from `user`, `user_proxy`, `human` and agents that ask a
    person are the user's, all others the assistant's. Raises `TraceFormatError` for an entry of unknown type.

    A thought becomes the reasoning of the next message. The reason why a team stopped is added to the notes of the
    preceding message. Token counts are omitted, and so are chunks of a stream, because the whole text follows. If
    several agents spoke, the notes of the final answer name them. Also raises `TraceFormatError` if the last message
    only says that the chat has ended.
    """
    yield from _Reader(entries).read()


class _Reader:
    """The state while reading a recording: thoughts for the next message, and tool names by call id."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._names: dict[str, str] = {}
        self._thoughts: list[str] = []
        self._last: Message | None = None
        self._code: ToolCall | None = None
        self._speakers: list[str] = []
        asking = (entry for entry in entries if entry.get("type") == "UserInputRequestedEvent")
        self._users = {*_USERS, *(str(entry.get("source")).lower() for entry in asking)}

    def read(self) -> Iterator[Message]:
        """Yield the messages. Raises `TraceFormatError`, with the number of the entry, if an entry is invalid.

        Each message is held back until the next one is known, because the next entry may add notes.
        """
        for number, entry in enumerate(self._entries, 1):
            with in_entry(number):
                for message in self._read_entry(entry):
                    if self._last is not None:
                        yield self._last
                    self._last = message
        if self._last is not None:
            yield self._note_speakers(self._last)
        if self._thoughts:
            yield self._say("")

    def _read_entry(self, entry: Entry) -> Iterator[Message]:
        """Convert an entry to messages, maybe none: a thought is kept for the next message, a reason to stop may become
        a note, and what other entries repeat is dropped. Other events become system messages. Raises `TraceFormatError`
        if the entry cannot be read.
        """
        kind, content = str(entry.get("type")), entry.get("content")
        if (kind in _TEXTS or kind.startswith(_STRUCTURED)) and not self._is_user(entry):
            self._speakers.append(str(entry.get("source")))
        if kind in _TEXTS:
            text = _read_text(content)
            yield Message.user(text) if self._is_user(entry) else self._say(text)
        elif kind.startswith(_STRUCTURED):
            text = content if isinstance(content, str) else as_json(content)
            yield Message.user(text) if self._is_user(entry) else self._say(text)
        elif kind in _REQUESTS:
            yield self._call(_objects(content, "call"))
        elif kind in _RESULTS:
            yield from (self._result(result) for result in _objects(content, "result"))
        elif kind == "ThoughtEvent":
            self._thoughts.append(_read_text(content))
        elif kind in ("CodeGenerationEvent", "CodeExecutionEvent"):
            yield self._run_code(kind, entry)
        elif kind == "StopMessage":
            yield from self._stop(_read_text(content))
        elif kind in _OF_CLIENTS:
            yield self._read_client_message(kind, entry)
        elif kind in _KINDS:
            if kind not in _REPEATED:
                yield Message.system(describe_block(kind, {"content": content}))
        else:
            raise TraceFormatError(f"unknown message or event type {kind!r:.80}")

    def _note_speakers(self, last: Message) -> Message:
        """Return the last message with a note about the speakers if it is an agent's answer and there were several
        speakers, and otherwise unchanged. Raises `TraceFormatError` if the answer is just `TERMINATE`.
        """
        if last.role != "assistant" or last.tool_calls or not self._speakers:
            return last
        if last.content.strip() == _TERMINATE:
            raise TraceFormatError(
                f"the last message contains only {_TERMINATE}, which ends a chat; remove that message"
            )
        return replace(last, notes=(*name_speakers(self._speakers), *last.notes))

    def _is_user(self, entry: Entry) -> bool:
        """Return whether an entry comes from a person, or from an agent that asks a person."""
        return str(entry.get("source")).lower() in self._users

    def _say(self, text: str, calls: Sequence[ToolCall] = ()) -> Message:
        """Return an assistant message with the thoughts collected so far, and clear them."""
        thoughts, self._thoughts = "\n".join(filter(None, self._thoughts)), []
        return Message.assistant(text, calls, thoughts or None)

    def _call(self, entries: Sequence[Entry]) -> Message:
        """Return an assistant message with the calls in `entries`, and remember the names of the tools."""
        calls = [_read_call(call) for call in entries]
        self._names.update((call.id, call.name) for call in calls)
        return self._say("", calls)

    def _result(self, result: Entry) -> Message:
        """Convert a result to a tool message. If it does not name the tool, the name comes from its call."""
        call_id = str(result.get("call_id") or "")
        name = result.get("name")
        return Message(
            "tool",
            _read_text(result.get("content")),
            tool_call_id=call_id or None,
            tool_name=str(name) if name else self._names.get(call_id),
            is_error=result.get("is_error") is True,
        )

    def _run_code(self, kind: str, entry: Entry) -> Message:
        """Convert generated code to a call of `CODE_TOOL`, or its output to the result of that call."""
        if kind == "CodeGenerationEvent":
            number = entry.get("retry_attempt") or 0
            self._code = ToolCall(f"code_{number}", CODE_TOOL, {"code_blocks": list(get_entries(entry, "code_blocks"))})
            return self._say(_read_text(entry.get("content")), [self._code])
        result = entry.get("result")
        result = result if isinstance(result, Mapping) else {}
        call, self._code = self._code or ToolCall("", CODE_TOOL, {}), None
        return Message.tool(_read_text(result.get("output")), call, is_error=bool(result.get("exit_code")))

    def _stop(self, why: str) -> Iterator[Message]:
        """Add the reason why the chat stopped to the notes of the last message. If that message is not the assistant's,
        a system message with the reason is yielded instead.
        """
        if self._last is None or self._last.role != "assistant":
            yield Message.system(f"[StopMessage] {why}")
            return
        last = self._last
        notes = (*last.notes, f"the conversation was stopped: {why[:300]}")
        self._last = Message("assistant", last.content, last.tool_calls, reasoning=last.reasoning, notes=notes)

    def _read_client_message(self, kind: str, entry: Entry) -> Message:
        """Convert a message in the form of AutoGen's model clients. The thought of an assistant becomes the reasoning
        of its message.
        """
        content = entry.get("content")
        if kind != "AssistantMessage":
            text = _read_text(content)
            return Message.user(text) if kind == "UserMessage" else Message.system(text)
        if isinstance(entry.get("thought"), str):
            self._thoughts.append(entry["thought"])
        called = isinstance(content, Sequence) and not isinstance(content, str)
        return self._call(_objects(content, "call")) if called else self._say(_read_text(content))


def _read_text(content: Any) -> str:
    """Return the text of a message, which may be a string, None, or a list of strings and images; images are described.
    Raises `TraceFormatError` for anything else.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping) or not isinstance(content, Sequence):
        raise TraceFormatError(f"the content must be text, not {type(content).__name__}")
    return "\n".join(part if isinstance(part, str) else _describe(part) for part in content)


def _describe(part: Any) -> str:
    return describe_block("image", part if isinstance(part, Mapping) else {"value": part})


def _objects(content: Any, item_name: str) -> Sequence[Entry]:
    """Return the objects in `content`. Raises `TraceFormatError` if `content` is not a list of objects. The error
    message refers to each object as `item_name`.
    """
    listed = isinstance(content, Sequence) and not isinstance(content, str)
    if not listed or not all(isinstance(item, Mapping) for item in content):
        raise TraceFormatError(f"the content must be a list of objects, each of which is a {item_name}")
    return list(content)


def _read_call(call: Entry) -> ToolCall:
    if not isinstance(call.get("name"), str):
        raise TraceFormatError("a tool call has no name")
    return ToolCall(str(call.get("id") or ""), call["name"], read_arguments(call.get("arguments")))


def check_history(entries: Sequence[Entry]) -> None:
    """Raise `TraceFormatError` if the roles in an AutoGen 0.2 history are swapped, or if its last entry does nothing
    but end the chat.

    Each agent records its own messages as the assistant's, so the roles are swapped in the history of a user proxy. The
    last message of a chat often does nothing but end it.
    """
    for number, entry in enumerate(entries, 1):
        name = entry.get("name")
        if entry.get("role") == "assistant" and isinstance(name, str) and name.lower() in _USERS:
            raise TraceFormatError(
                f"entry {number} has the role 'assistant' but the name {name!r}. AutoGen 0.2 records roles from the "
                "perspective of the agent that started the chat; swap the roles `assistant` and `user`"
            )
    last = entries[-1] if entries else {}
    if last.get("content") == _TERMINATE and isinstance(last.get("name"), str):
        raise TraceFormatError(
            f"entry {len(entries)} contains only {_TERMINATE}, which ends an AutoGen chat; remove that entry"
        )


def name_speakers(speakers: Sequence[str]) -> tuple[str, ...]:
    """Return a tuple with a note that names the last speaker, who gave the answer, and the other speakers, cut to
    `_LONGEST_NAMES` characters in total. If there is only one speaker, the tuple is empty.
    """
    others = [name for name in dict.fromkeys(speakers) if name != speakers[-1]]
    named = ", ".join(others)[:_LONGEST_NAMES]
    return (f"the answer is from {speakers[-1]!r:.80}, which spoke last, after {named}",) if others else ()


def find_messages(document: Mapping[str, Any]) -> Sequence[Any] | None:
    """Return the messages in an AutoGen agent's response, or in the saved state of an agent or team, or None if
    `document` is anything else. Raises `TraceFormatError` if a team's state does not contain exactly one conversation.
    """
    if isinstance(document.get("chat_message"), Mapping):
        return [*get_entries(document, "inner_messages"), document["chat_message"]]
    context = document.get("llm_context")
    if isinstance(context, Mapping) and isinstance(context.get("messages"), Sequence):
        return list(context["messages"])
    if isinstance(document.get("message_thread"), Sequence):
        return list(document["message_thread"])
    states = document.get("agent_states")
    if isinstance(states, Mapping):
        threads = [find_messages(state) for state in states.values() if isinstance(state, Mapping)]
        held = [state["message_thread"] for state in states.values() if _is_thread(state)]
        conversations = held or [thread for thread in threads if thread is not None]
        if len(conversations) == 1:
            return list(conversations[0])
        raise TraceFormatError(
            f"agent_states contains {len(conversations)} conversations; provide the state of a single agent"
        )
    return None


def _is_thread(state: object) -> bool:
    return isinstance(state, Mapping) and isinstance(state.get("message_thread"), Sequence)
