"""Message histories of Pydantic AI: requests and responses, which consist of parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, as_json, describe_block, get_entries, get_name, in_entry
from karenina_toolkit.traces.formats.openai_chat import Parts, read_arguments

Entry = Mapping[str, Any]
_REQUEST: Final = "request"
_RESPONSE: Final = "response"
_PROCESSED: Final = "Final result processed."
_SERVER_CALL: Final = "builtin-tool-call"
_RETURNS: Final = ("tool-return", "builtin-tool-return")
_CALLS: Final = ("tool-call", _SERVER_CALL)
_FAILED: Final = ("failed", "denied", "interrupted")
_UNFINISHED: Final = ("incomplete", "suspended", "interrupted")


def claims(entry: Entry) -> bool:
    """Return whether `entry` is a request or a response of Pydantic AI."""
    return entry.get("kind") in (_REQUEST, _RESPONSE) and isinstance(entry.get("parts"), list) and "role" not in entry


def find_stop(entry: Entry) -> str | None:
    """Return the reason why a run ended early, if `entry` is a response or request that is not complete, and otherwise
    None. Runs that are stopped while tools are called end with such a request.
    """
    if claims(entry) and entry.get("state") in _UNFINISHED:
        return f"error: the {entry['kind']} is {entry['state']}"
    return None


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert the messages of Pydantic AI to messages of a trace. The arguments of the call with which an agent
    returned its typed output are its answer, as JSON. Instructions, which each request repeats, are only read where
    they change. Raises `TraceFormatError` if a message cannot be read.
    """
    outputs = {name for entry in entries for name in _find_outputs(entry)}
    answers: dict[str, Message] = {}
    instructions: object = None
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            if not claims(entry):
                raise TraceFormatError("this is neither a request nor a response")
            if entry["kind"] == _RESPONSE:
                yield from _read_response(_parts(entry), outputs, answers)
                continue
            if isinstance(entry.get("instructions"), str) and entry["instructions"] not in ("", instructions):
                instructions = entry["instructions"]
                yield Message.system(entry["instructions"])
            yield from _read_request(_parts(entry), answers)


def _find_outputs(entry: Entry) -> Iterator[str]:
    """Yield the ids of calls with which an agent returned its output, according to their results in `entry`."""
    parts = entry.get("parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and part.get("part_kind") == _RETURNS[0] and part.get("content") == _PROCESSED:
            yield str(part.get("tool_call_id"))


def _parts(entry: Entry) -> Sequence[Entry]:
    """Return the parts of a message. Raises `TraceFormatError` if one is not an object with a kind."""
    parts = get_entries(entry, "parts")
    if not all(isinstance(part, Mapping) and isinstance(part.get("part_kind"), str) for part in parts):
        raise TraceFormatError("a part has no part_kind")
    return parts


def _read_request(parts: Sequence[Entry], answers: Mapping[str, Message]) -> Iterator[Message]:
    """Convert the parts of a request to messages. In place of the result of a call that returned an output, its answer
    follows after the results of other calls.
    """
    processed: list[Message] = []
    for part in parts:
        kind, content = part["part_kind"], part.get("content")
        name = str(part.get("tool_call_id"))
        if kind in _RETURNS and content == _PROCESSED and name in answers:
            processed.append(answers[name])
        elif kind in _RETURNS:
            yield _read_return(part)
        elif kind == "retry-prompt":
            yield _read_return(part, failed=True) if part.get("tool_name") else Message.user(_text_of(content))
        elif kind == "user-prompt":
            yield Message.user(_read_content(content))
        elif kind == "speech":
            yield Message.user(str(part.get("transcript") or describe_block(kind, {"audio": part.get("audio")})))
        elif kind in ("system-prompt", "instruction"):
            yield Message.system(_text_of(content))
        else:
            yield Message.system(describe_block(kind, {key: part[key] for key in part if key != "part_kind"}))
    yield from processed


def _read_response(parts: Sequence[Entry], outputs: set[str], answers: dict[str, Message]) -> Iterator[Message]:
    """Convert the parts of a response to messages, of which there are several if the server ran tools. Calls that
    return an output, whose ids are in `outputs`, are added to `answers` instead.
    """
    said, calls, answer = Parts(), list[ToolCall](), list[Entry]()
    begun = not parts
    for part in parts:
        kind, content = part["part_kind"], part.get("content")
        if kind in (_RETURNS[1], "compaction"):
            if begun:
                yield said.to_message(calls)
            said, calls, begun = Parts(), [], False
            is_return = kind == _RETURNS[1]
            yield _read_return(part) if is_return else Message.system(describe_block(kind, {"content": content}))
            continue
        begun = True
        if kind == "text":
            said.add_text(_text_of(content))
        elif kind == "thinking":
            said.add_thought(_text_of(content))
        elif kind in _CALLS:
            if str(part.get("tool_call_id")) in outputs:
                answer.append(part)
            else:
                calls.append(_read_call(part))
            said.end_line()
        elif kind == "speech":
            said.add_text(str(part.get("transcript") or ""))
        elif kind == "file":
            said.add_text(_read_content([content]), kind)
        else:
            said.add_unknown({"type": kind, **{key: part[key] for key in part if key != "part_kind"}})
    reasoning: str | None = None
    if begun and answer and not said.texts and not calls:
        reasoning = said.to_message().reasoning  # of the answer, because nothing else was said
    elif begun:
        yield said.to_message(calls)
    for part in answer:
        given = part.get("args")
        text = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
        answers[str(part.get("tool_call_id"))] = Message.assistant(text, (), reasoning)


def _read_call(part: Entry) -> ToolCall:
    """Convert a call. Raises `TraceFormatError` if it has no name."""
    name = get_name(part, "tool_name")
    if name is None:
        raise TraceFormatError(f"a {part['part_kind']} has no tool_name")
    return ToolCall(get_name(part, "tool_call_id") or "", name, read_arguments(part.get("args")))


def _read_return(part: Entry, *, failed: bool = False) -> Message:
    """Convert the result of a call, or the request to try it again, to a tool message."""
    call_id, name = get_name(part, "tool_call_id"), get_name(part, "tool_name")
    is_error = failed or part.get("outcome") in _FAILED
    return Message("tool", _text_of(part.get("content")), tool_call_id=call_id, tool_name=name, is_error=is_error)


def _text_of(content: Any) -> str:
    """Return a content that is text, or its JSON."""
    return "" if content is None else content if isinstance(content, str) else as_json(content)


def _read_content(content: Any) -> str:
    """Return what a user sent as text: a string, or a list of strings, texts and files, which are described."""
    if isinstance(content, str) or not isinstance(content, Sequence):
        return _text_of(content)
    texts: list[str] = []
    for item in content:
        kind = str(item.get("kind")) if isinstance(item, Mapping) else ""
        if kind == "text-content":
            texts.append(_text_of(item.get("content")))
        elif kind and kind != "cache-point":
            texts.append(describe_block(kind, {key: value for key, value in item.items() if key != "kind"}))
        elif not kind:
            texts.append(_text_of(item))
    return "\n".join(texts)
