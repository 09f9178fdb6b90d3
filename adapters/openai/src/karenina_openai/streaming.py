"""Assemble a streamed chat completion as if it had come in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from karenina_toolkit.reply_sanitizer import check_tool_call_count

_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class IncompleteStream(Exception):
    """Raised if a stream ends before its reply does."""


class StreamStalled(Exception):
    """Raised if a stream sends nothing for too long; `began` says whether the answer had begun."""

    def __init__(self, seconds: float, *, began: bool) -> None:
        super().__init__(f"no data for {seconds:g} s")
        self.seconds = seconds
        self.began = began


class StallTimer:
    """The time limit of a stream: `first` seconds until the answer begins, then `between` seconds between pieces."""

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
        """Restart the timer after a piece, once the answer has begun: pieces without content do not extend the first
        limit.
        """
        self._began = self._began or is_answer
        if self._began:
            self._seconds = self._between
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._between)


async def assemble_stream(
    where: str, pieces: AsyncIterable[bytes], timer: StallTimer, loads: Callable[[bytes], Any]
) -> tuple[dict[str, Any], bytes]:
    """Return the chat completion in a stream of server-sent events, and the last event in raw form.

    An object with an `error` ends the stream and is returned as it is. Raises `IncompleteStream` if the stream ends
    before the reply does, `ValueError` for an event that is not a JSON object, and `ReplyTooLarge` for too many tool
    calls.
    """
    reply = _Reply(where)
    done = False
    async for event in _events(pieces):
        if event == b"[DONE]":
            done = True
            break
        chunk = loads(event)
        if not isinstance(chunk, dict):
            raise ValueError("a piece of its stream is not a JSON object")  # noqa: TRY004 - data from outside
        if chunk.get("error"):
            return {"error": chunk["error"]}, event
        timer.restart(is_answer=reply.add(chunk))
    if not done and reply.finish_reason is None:
        raise IncompleteStream("the stream ended before the reply did")
    return reply.whole(), b""


async def _events(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each event; an event that was cut off by the end of the stream is left out."""
    rest = bytearray()
    data: list[bytes] = []
    async for piece in pieces:
        rest += piece
        if b"\n" not in piece:  # do not search a long line again for each of its pieces
            continue
        *lines, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for raw in lines:
            line = raw.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                yield b"\n".join(data)
                data = []


class _Reply:
    """The first choice, as far as it has arrived."""

    def __init__(self, where: str) -> None:
        self.finish_reason: str | None = None
        self._where = where
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, _Call] = {}
        self._by_id: dict[str, int] = {}
        self._last = -1
        self._any = False
        self._model: Any = None
        self._usage: Any = None

    def add(self, chunk: Mapping[str, Any]) -> bool:
        """Add a piece. Return whether it has content from the model."""
        self._model = chunk.get("model") or self._model
        self._usage = chunk.get("usage") or self._usage
        has_content = False
        for choice in _mappings(chunk.get("choices")):
            if choice.get("index", 0) != 0:
                continue
            self._any = True
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            delta = choice.get("delta")
            if isinstance(delta, Mapping):
                has_content = self._add_delta(delta) or has_content
        return has_content

    def whole(self) -> dict[str, Any]:
        """Return the reply as the server would have sent it in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: "".join(texts) for name, texts in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [self._calls[index].whole() for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        return {"model": self._model, "choices": [choice] if self._any else [], "usage": self._usage}

    def _add_delta(self, delta: Mapping[str, Any]) -> bool:
        has_content = False
        for name in _TEXTS:
            text = delta.get(name)
            if isinstance(text, str) and text:
                self._texts.setdefault(name, []).append(text)
                has_content = True
        for place, piece in enumerate(_mappings(delta.get("tool_calls"))):
            self._call(piece, place)
            has_content = True
        return has_content

    def _call(self, piece: Mapping[str, Any], place: int) -> None:
        given = piece.get("index")
        id = piece.get("id")
        known = id if isinstance(id, str) else ""
        index = given if isinstance(given, int) else self._index_without_number(known, place)
        call = self._calls.setdefault(index, _Call())
        check_tool_call_count(self._where, self._calls)
        self._last = max(self._last, index)
        if id:
            call.id = id
        if known:
            self._by_id.setdefault(known, index)
        function = piece.get("function")
        if isinstance(function, Mapping):
            # Names are complete, once or in each piece; arguments come in parts.
            call.name = function.get("name") or call.name
            if isinstance(arguments := function.get("arguments"), str):
                call.arguments.append(arguments)

    def _index_without_number(self, id: str, place: int) -> int:
        """Return the index of a call without one: a new one if its id is new, else that of the last call."""
        if id:
            return self._by_id.get(id, len(self._calls))
        return max(self._last, place) if self._calls else 0


@dataclass(slots=True)
class _Call:
    """A tool call, as far as it has arrived."""

    id: Any = ""
    name: Any = ""
    arguments: list[str] = field(default_factory=list)

    def whole(self) -> dict[str, Any]:
        """Return the call as the server would have sent it in one piece."""
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []
