"""Assembly of a streamed chat completion into the form of an unstreamed one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from karenina_toolkit.http.reply_body import IncompleteStream, check_stream_end
from karenina_toolkit.replies.reply_bounds import check_tool_call_count
from karenina_toolkit.replies.reply_ends import more_serious
from karenina_toolkit.traces.blocks import TraceFormatError
from karenina_toolkit.traces.formats.openai_chat import (
    REASONING_FIELDS,
    UNREADABLE_ARGUMENTS,
    read_arguments,
    read_reasoning,
    split_parts,
    stated_error,
    usage_of,
)
from karenina_toolkit.traces.token_counts import larger_usage

_TEXTS = ("content", "refusal", *REASONING_FIELDS)
_BESIDE = ("error", "native_finish_reason", "provider_specific_fields", "content_filter_results")
_OF_WHOLE = ("prompt_filter_results", "promptFeedback", "service_tier")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DONE = b"data: [DONE]"
_PLAIN = (b"{", b"[", b"<", b"\x1f")
"""The bytes with which JSON, web pages and compressed data start, but no line of a stream."""
_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:", b"error:")
_LONGEST_FIELD = max(map(len, _FIELDS))


class StreamStalled(Exception):
    """Raised if a stream sends nothing for too long. `began` is true if the answer had started."""

    def __init__(self, seconds: float, *, began: bool) -> None:
        super().__init__(f"no data for {seconds:g} s")
        self.seconds = seconds
        self.began = began


class NotStreamed(Exception):
    """Raised if the body of a reply is no stream, although its type says so."""

    def __init__(self, body: bytes) -> None:
        super().__init__("the reply is not a stream")
        self.body = body


class StallTimer:
    """A stream's time limit: `first` seconds until the answer starts, then `between` seconds between chunks."""

    def __init__(self, first: float, between: float) -> None:
        self._between = between
        self._seconds = first
        self._began = False
        self._deadline = asyncio.timeout(first)

    async def __aenter__(self) -> StallTimer:
        await self._deadline.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._deadline.__aexit__(*error)
        except TimeoutError:
            if not self._deadline.expired():
                raise
            raise StreamStalled(self._seconds, began=self._began) from None

    def restart(self, *, is_answer: bool) -> None:
        """Restart the timer after a chunk, unless the answer has not begun. Set `is_answer` if the chunk belongs to the
        answer.
        """
        self._began = self._began or is_answer
        if self._began:
            self._seconds = self._between
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._between)


async def assemble_stream(
    where: str, pieces: AsyncIterable[bytes], timer: StallTimer, loads: Callable[[bytes], Any], *, declared: bool = True
) -> dict[str, Any]:
    """Return the chat completion that a stream of server-sent events adds up to, or, if an event reports an error, or
    the last one is a message beside the reply, this `error` and the `usage` so far. Raises `NotStreamed` if the body is
    no stream, `IncompleteStream` if the stream ends too early, `ReplyTooLarge` if there are too many tool calls, and
    `ValueError` if an event cannot be read.

    `loads` parses an event's data, and `timer` is restarted after each event. `declared` states whether the reply has
    the type of a stream. `ReplyTooLarge` names `where`.
    """
    reply = _Reply(where)
    done = False
    last_words: Mapping[str, Any] | None = None
    async for event in _events(pieces, declared=declared):
        if event == b"[DONE]":
            done = True
            break
        chunk = loads(event)
        if not isinstance(chunk, dict):
            raise ValueError("a chunk of the stream is not a JSON object")  # noqa: TRY004 - data from outside
        error = _error_of(chunk)
        if error is not None:
            reply.add({"usage": chunk.get("usage")})
            return {**reply.whole(), "choices": [], "error": error}
        is_answer = reply.add(chunk)
        timer.restart(is_answer=is_answer)
        if is_answer:
            last_words = None
        elif reply.finish_reason is None and _is_message(chunk):
            last_words = chunk
    whole = reply.whole()
    if last_words is not None:
        return {**whole, "choices": [], "error": dict(last_words)}
    if not done and reply.finish_reason is None:
        raise IncompleteStream("the stream ended before the reply was complete", usage_of(whole))
    return whole


def _error_of(chunk: Mapping[str, Any]) -> object:
    """Return the error that a chunk reports, or None."""
    error = stated_error(chunk)
    if error is not None or chunk.get("choices"):
        return error
    if chunk.get("error_code"):  # FastChat
        return {"code": chunk["error_code"], "message": str(chunk.get("text") or "no message")}
    if isinstance(base := chunk.get("base_resp"), Mapping) and base.get("status_code"):  # MiniMax
        return dict(base)
    if chunk.get("object") == "error":
        return dict(chunk)
    return None


def _is_message(chunk: Mapping[str, Any]) -> bool:
    """Return whether a chunk consists of a message to the user, which may be an error or the state of a queue."""
    if chunk.get("choices") or "usage" in chunk or str(chunk.get("code")) in ("0", "200"):
        return False
    return any(isinstance(text := chunk.get(name), str) and text for name in ("message", "detail", "msg"))


def check_choice_end(server: Hashable, data: Mapping[str, Any]) -> None:
    """Raise `IncompleteStream` if a stream ended with `[DONE]` but its first choice may be incomplete.

    The choice needs a finish reason or an error (see `check_stream_end`). A reply without choices is accepted.
    """
    if choices := data.get("choices"):
        has_reason = choices[0]["finish_reason"] is not None or bool(choices[0].get("error"))
        check_stream_end(server, usage_of(data), has_reason=has_reason)


async def _events(pieces: AsyncIterable[bytes], *, declared: bool) -> AsyncIterator[bytes]:
    """Yield each event's data. An event that was cut off or has no data is dropped, except for a cut-off `[DONE]`.
    Raises `NotStreamed` for a body that starts like JSON, a web page or compressed data or, unless it is `declared` to
    be a stream, like anything else.

    Lines may end with CR, LF or CRLF. A byte-order mark at the start is ignored. An `error:` line, with which llama.cpp
    reported errors until September 2025, is an event with an `error`, and so is an event named `error`.
    """
    rest = bytearray()
    data: list[bytes] = []
    begun = after_return = checked = is_error = False
    async for piece in pieces:
        if after_return and piece[:1] == b"\n":
            piece = piece[1:]
        after_return = piece[-1:] == b"\r"
        rest += piece
        if not checked and (start := rest.removeprefix(_BYTE_ORDER_MARK).lstrip()):
            if not declared and len(start) < _LONGEST_FIELD:
                continue
            checked = True
            if start.startswith(_PLAIN) or not (declared or start.startswith(_FIELDS)):
                raise NotStreamed(bytes(rest) + b"".join([more async for more in pieces]))
        if b"\n" not in piece and b"\r" not in piece:  # do not search a long line again for every piece of it
            continue
        text = bytes(rest)
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, last = text.split(b"\n")
        rest = bytearray(last)
        for line in lines:
            if not begun:
                begun, line = True, line.removeprefix(_BYTE_ORDER_MARK)
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif line.startswith(b"event:"):
                is_error = line[6:].strip() == b"error"
            elif line.startswith(b"error:"):
                data.append(b'{"error":%b}' % line[6:])
            elif not line:
                if data:
                    event = b"\n".join(data)
                    if event:
                        yield event if not is_error else _as_error(event)
                    data = []
                is_error = False
    if not (checked or declared):
        raise NotStreamed(bytes(rest))
    if rest.strip() == _DONE:
        yield _DONE[6:]


def _as_error(event: bytes) -> bytes:
    """Return the data of an event named `error` as an object with an `error`. It may also be that error, or a text."""
    try:
        data = json.loads(event)
    except (ValueError, RecursionError):
        data = event.decode("utf-8", "replace")
    stated = stated_error(data) if isinstance(data, dict) else None
    return json.dumps({"error": stated or data or "no message"}).encode()


class _Reply:
    """The reply received so far. Only its first choice is read."""

    def __init__(self, where: str) -> None:
        self.finish_reason: Any = None
        self._where = where
        self._index: Any = None
        self._texts: dict[str, list[str]] = {}
        self._messages: dict[str, list[str]] = {}
        self._message_is_late = False
        self._unknown: list[Mapping[str, Any]] = []
        self._calls: dict[int, _Call] = {}
        self._function: _Call | None = None
        self._beside: dict[str, Any] = {}
        self._cited: list[Any] = []
        self._by_id: dict[str, int] = {}
        self._by_number: dict[int, int] = {}
        self._last = -1
        self._any = False
        self._model: Any = None
        self._usage: Any = None
        self._of_whole: dict[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> bool:
        """Add a chunk, and return whether it has content from the model. Only the first choice is used. Raises
        `ValueError` if the chunk cannot be read, and `ReplyTooLarge` if there are too many tool calls.
        """
        self._model = chunk.get("model") or self._model
        self._usage = larger_usage(self._usage, chunk.get("usage"))
        if isinstance(own := chunk.get("x_groq"), Mapping):
            self._usage = larger_usage(self._usage, own.get("usage"))
        self._of_whole.update({name: chunk[name] for name in _OF_WHOLE if chunk.get(name)})
        has_content = False
        for choice in _mappings(chunk.get("choices")):
            index = choice.get("index") or 0
            if self._index is None:
                self._index = index  # some gateways count from 1
            if index != self._index:
                continue
            self._any = True
            self.finish_reason = more_serious(self.finish_reason, choice.get("finish_reason"))
            self._usage = larger_usage(self._usage, choice.get("usage"))
            self._beside.update({name: choice[name] for name in _BESIDE if choice.get(name)})
            if isinstance(delta := choice.get("delta"), Mapping):
                has_content = self._add_delta(delta, self._texts) or has_content
            if isinstance(message := choice.get("message"), Mapping):
                self._message_is_late = self._message_is_late or bool(self._texts)
                has_content = self._add_delta(message, self._messages) or has_content
        return has_content

    def whole(self) -> dict[str, Any]:
        """Return the reply as if it had not been streamed. If no chunk has choices, the reply has none."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: self._text(name) for name in {**self._texts, **self._messages}}
        if self._cited:
            message["annotations"] = self._cited
        if self._calls:
            message["tool_calls"] = [self._calls[index].whole() for index in sorted(self._calls)]
        if self._function is not None:
            message["function_call"] = self._function.whole()["function"]
        if self._unknown:
            message["content"] = [
                *([{"type": "text", "text": message["content"]}] if message["content"] else ()),
                *self._unknown,
            ]
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason, **self._beside}
        choices = [choice] if self._any else []
        return {"model": self._model, "choices": choices, "usage": self._usage, **self._of_whole}

    def _text(self, name: str) -> str:
        """Return a text field, from deltas or from complete messages sent with or after them. Messages that the deltas
        contain are ignored. Otherwise, messages replace earlier deltas and come before later ones.

        Messages are joined like chunks. If each message starts with the one before, the last message is complete and is
        used alone.
        """
        pieces, messages = "".join(self._texts.get(name, ())), self._messages.get(name, [])
        grows = all(after.startswith(before) for before, after in pairwise(messages))
        whole = messages[-1] if messages and grows else "".join(messages)
        if not pieces or not whole or whole in pieces:
            return pieces or whole
        return whole if self._message_is_late else whole + pieces

    def _add_delta(self, delta: Mapping[str, Any], texts: dict[str, list[str]]) -> bool:
        """Add a delta or message to `texts` and to the calls. Returns whether it has content from the model."""
        if isinstance(cited := delta.get("annotations"), list):
            self._cited += cited
        is_whole = texts is self._messages
        has_content = False
        for name in _TEXTS:
            text = delta.get(name)
            if isinstance(text, str):
                if text:
                    texts.setdefault(name, []).append(text)
                    has_content = True
            elif text:
                has_content = self._add_parts(name, text, texts) or has_content
        if isinstance(function := delta.get("function_call"), Mapping):
            self._function = self._function or _Call()
            self._function.add(function, is_whole=is_whole)
            has_content = True
        for place, piece in enumerate(_mappings(delta.get("tool_calls"))):
            self._call(piece, place, is_whole=is_whole)
            has_content = True
        return has_content

    def _add_parts(self, name: str, content: Any, texts: dict[str, list[str]]) -> bool:
        """Add a list of parts under the key `name` to `texts`, where they continue those of earlier chunks. Returns
        False if the list is `content` without any parts, and otherwise True. Raises `ValueError` if the parts cannot be
        read.

        `reasoning_details` are ignored if the reasoning has also arrived as text.
        """
        if name != "content":
            if not (name == "reasoning_details" and texts.keys() & {"reasoning", "reasoning_content"}):
                thought = read_reasoning({name: content})
                texts.setdefault(name, []).extend([thought] if thought else ())
            return True
        try:
            parts = split_parts(content)
        except TraceFormatError as error:
            raise ValueError(f"the message cannot be read: {error}") from None
        texts.setdefault("content", []).extend([parts.text] if parts.text else ())
        if parts.thoughts:
            texts.setdefault("reasoning_content", []).extend(["".join(parts.thoughts)])
        self._unknown += [part for part in parts.unknown if texts is self._texts or part not in self._unknown]
        return bool(parts.texts or parts.thoughts or parts.unknown)

    def _call(self, piece: Mapping[str, Any], place: int, *, is_whole: bool) -> None:
        """Add `piece`, part of a tool call, to the call with its index or, without one, to that with its id or at
        `place`, its position in the chunk. With `is_whole`, it is part of a complete message. Raises `ReplyTooLarge` if
        there are too many calls.
        """
        number = piece.get("index")
        id = piece.get("id")
        call_id = id if isinstance(id, str) else ""
        function = piece.get("function")
        if isinstance(number, int):
            index = self._index_of(number, call_id, function, is_whole=is_whole)
        else:
            index = place if is_whole and not call_id else self._index_without_number(call_id, place)
        call = self._calls.setdefault(index, _Call())
        check_tool_call_count(self._where, self._calls)
        self._last = max(self._last, index)
        if id:
            call.id = id
        if call_id:
            self._by_id.setdefault(call_id, index)
        if isinstance(function, Mapping):
            call.add(function, is_whole=is_whole)

    def _index_of(self, number: int, id: str, function: Any, *, is_whole: bool) -> int:
        """Return the index for a call that was sent with `number`. It is a new one if the number belongs to another
        call (by its `id` or, without one, because arguments come with a name) that is already complete, because
        Gemini's endpoint and gateways to it number several calls 0.

        Some servers send a new `id` with each piece of a call, but its name only once.
        """
        index = self._by_number.get(number, number)
        call = self._calls.get(index)
        if call is None or is_whole or not isinstance(function, Mapping) or not function.get("name"):
            return index
        is_other = id != call.id if id else bool(str(function.get("arguments") or "").strip())
        if is_other and call.is_complete:
            index = self._by_id.get(id, max(self._calls) + 1)
            self._by_number[number] = index
        return index

    def _index_without_number(self, id: str, place: int) -> int:
        """Return the index for a call that was sent without one. A call with a new `id` gets a new index, and one with
        a known `id` keeps its index. Without an `id`, it is the index of the last call, or the call's position `place`
        in the chunk if that is higher.
        """
        if id:
            return self._by_id.get(id, len(self._calls))
        return max(self._last, place) if self._calls else 0


@dataclass(slots=True)
class _Call:
    """A tool call as received so far."""

    id: Any = ""
    name: Any = None
    arguments: list[str] = field(default_factory=list)

    def add(self, function: Mapping[str, Any], *, is_whole: bool) -> None:
        """Add part of a call: its name, which is sent complete, or arguments, which come in parts or as an object. With
        `is_whole`, the part is from a complete message, whose arguments replace the earlier ones if they start with
        them, or if the earlier ones are already complete.
        """
        name = function.get("name")
        self.name = name if name or self.name is None else self.name
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments)
        if not isinstance(arguments, str):
            return
        if is_whole and arguments and self.arguments and (self.is_complete or arguments.startswith(self.text)):
            self.arguments = []
        self.arguments.append(arguments)

    @property
    def text(self) -> str:
        """The arguments received so far."""
        return "".join(self.arguments)

    @property
    def is_complete(self) -> bool:
        """Whether the arguments received so far are a JSON object."""
        return bool(self.text) and UNREADABLE_ARGUMENTS not in read_arguments(self.text)

    def whole(self) -> dict[str, Any]:
        """Return the call as if it had not been streamed. Without a name, it has none here either."""
        named = {"name": self.name} if self.name is not None else {}
        return {"id": self.id, "type": "function", "function": {**named, "arguments": self.text}}


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list. Any value that is not a list has none."""
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []
