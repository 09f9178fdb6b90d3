"""Conversion between Messages API replies and event streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from karenina_claude_agent_sdk.conversion import WireMessage
from karenina_core.models.ports import NO_USAGE
from karenina_toolkit.http.http_errors import find_message_error
from karenina_toolkit.http.reply_body import IncompleteStream
from karenina_toolkit.replies.reply_bounds import read_json
from karenina_toolkit.replies.reply_ends import more_serious
from karenina_toolkit.traces.formats.anthropic import read_usage
from karenina_toolkit.traces.formats.openai_chat import read_arguments, stated_error

_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""The types of deltas that extend a text field, each with the name of the field."""


_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:")
"""The characters with which an event stream starts."""


class ServerReportedError(Exception):
    """Raised if a reply with status 200 reports an error. `kind` is the API's error type, and `usage` what the reply
    states (`counted`), or that of no call if it states no tokens.
    """

    def __init__(self, kind: str, message: str, counted: object) -> None:
        super().__init__(message)
        self.kind = kind
        usage = read_usage(counted)
        self.usage = usage if usage.total_tokens else NO_USAGE


def read_reply(raw: bytes) -> WireMessage:
    """Read the reply in a response body, which is JSON or an event stream. Raises `ServerReportedError` if the reply
    states an error, with or without content, `JSONDecodeError` if a body that is no stream is not JSON,
    `IncompleteStream` if a stream ends too early, `ValueError` with the reason if the reply is invalid, and also
    `KeyError`, `TypeError` or `AttributeError` if fields are missing.
    """
    text = raw.decode("utf-8-sig", "replace")
    return _assemble_reply(text) if is_stream(raw) else _check_reply(read_json(text.encode("utf-8", "replace")))


def is_stream(raw: bytes) -> bool:
    """Return whether a body is an event stream, by its first characters."""
    return raw.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_FIELDS)


def events_of(reply: WireMessage) -> Iterator[bytes]:
    """Yield a reply as an event stream. Fields that every reply needs, such as the id, get defaults."""
    usage = reply.get("usage") or {"input_tokens": 0, "output_tokens": 0}
    head = {"id": "msg", "type": "message", "role": "assistant", "model": "", **reply}
    yield _event("message_start", message={**head, "content": [], "stop_reason": None, "usage": usage})
    for index, block in enumerate(reply["content"]):
        empty, deltas = _split_block(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": reply.get("stop_reason"), "stop_sequence": reply.get("stop_sequence")}
    yield _event("message_delta", delta=ending, usage=usage)
    yield _event("message_stop")


PING = b'event: ping\ndata: {"type": "ping"}\n\n'
"""An event without content that keeps the connection alive."""


def _event(kind: str, **fields: Any) -> bytes:
    """Encode one event of type `kind`."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _split_block(block: WireMessage) -> tuple[WireMessage, list[WireMessage]]:
    """Return a block without its content, and the deltas that add this content to it. A block whose type has no deltas
    is returned unchanged.
    """
    kind = block.get("type")
    if kind == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block.get("text", "")}]
    if kind == "tool_use":
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}]
    if kind == "thinking":
        deltas = [(name, field) for name, field in _TEXTS.items() if field != "text" and field in block]
        empty = {**block, "thinking": "", "signature": ""}
        return empty, [{"type": name, field: block[field]} for name, field in deltas]
    return block, []


def _assemble_reply(text: str) -> WireMessage:
    """Return the reply that the events of a stream add up to, as if it had not been streamed. Raises
    `ServerReportedError` if the stream contains an error, `IncompleteStream` if it ends too early, `ValueError` if it
    is invalid, and also `KeyError`, `TypeError` or `AttributeError` if fields are missing.
    """
    reply: WireMessage | None = None
    ended = False
    written: dict[int, list[str]] = {}
    deltas: dict[tuple[int, str], list[str]] = {}
    for event in _iter_events(text):
        kind = event.get("type")
        if kind == "error" or stated_error(event) is not None:
            raise ServerReportedError(*(find_message_error(event) or ("", "no message")), (reply or {}).get("usage"))
        if kind == "message_start":
            reply = {**event["message"], "content": []}
        elif reply is None:
            continue
        elif kind == "content_block_start":
            reply["content"].append(dict(event["content_block"]))
        elif kind == "content_block_delta":
            _collect_delta(reply["content"], event, written, deltas)
        elif kind == "message_delta":
            ending = dict(event.get("delta") or {})
            reason = more_serious(reply.get("stop_reason"), ending.get("stop_reason"))
            reply.update({**ending, "stop_reason": reason})
            reply["usage"] = _merge_usage(reply.get("usage") or {}, event.get("usage") or {})
        elif kind == "message_stop":
            ended = True
    if reply is None or not ended:
        usage = read_usage(reply.get("usage")) if reply is not None else NO_USAGE
        raise IncompleteStream("the event stream ended before the reply was complete", usage)
    for (index, name), texts in deltas.items():
        reply["content"][index][name] = "".join([str(reply["content"][index].get(name) or ""), *texts])
    for index, parts in written.items():
        reply["content"][index]["input"] = read_arguments("".join(parts))
    return _check_reply(reply)


def _merge_usage(before: WireMessage, after: WireMessage) -> WireMessage:
    """Merge the usage of two events. Later counts are used unless they are 0 or null."""
    return {**before, **{name: count for name, count in after.items() if count or not before.get(name)}}


def _collect_delta(
    content: list[WireMessage],
    event: WireMessage,
    written: dict[int, list[str]],
    deltas: dict[tuple[int, str], list[str]],
) -> None:
    """Add an event's delta to `written` (arguments, by block) or `deltas` (text, by block and field), or ignore it if
    it is of another type. Raises `ValueError` if it belongs to no block in `content`.

    Strings are joined only at the end, which is faster.
    """
    index = event.get("index")
    if not isinstance(index, int) or not 0 <= index < len(content):
        raise ValueError("the event stream contains an event that does not belong to any block")
    delta = event.get("delta") or {}
    kind = delta.get("type")
    if kind == "input_json_delta":
        written.setdefault(index, []).append(str(delta.get("partial_json", "")))
    elif kind in _TEXTS:
        name = _TEXTS[kind]
        deltas.setdefault((index, name), []).append(str(delta.get(name, "")))


def _iter_events(text: str) -> Iterator[Any]:
    """Yield the events of a stream, without those that have no data and a last one that was cut off. Raises
    `ValueError` if another one is not JSON, or if one exceeds the limits for replies.
    """
    events = text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n")
    for number, event in enumerate(events, 1):
        lines = [line[5:].lstrip() for line in event.split("\n") if line.startswith("data:")]
        try:
            found = [read_json("\n".join(lines).encode("utf-8", "replace"))] if lines else []
        except json.JSONDecodeError:
            if number < len(events):
                raise ValueError("an event of the stream is not JSON") from None
            return
        yield from found


def _check_reply(reply: Any) -> WireMessage:
    """Return the reply unchanged. Raises `ValueError` if it has no content, and `ServerReportedError` if it states an
    error.
    """
    if not isinstance(reply, dict):
        raise ValueError("the reply is not a JSON object")  # noqa: TRY004 - invalid data, not a wrong type
    if (stated := find_message_error(reply)) is not None:
        raise ServerReportedError(*stated, reply.get("usage"))
    if not isinstance(reply.get("content"), list):
        raise ValueError(f"the reply has no content: {json.dumps(reply, ensure_ascii=False)}")  # noqa: TRY004
    return reply
