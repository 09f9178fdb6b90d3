"""Received requests, and replies to be sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, Literal

from karenina_core.models.ports import ToolCall, Usage

End = Literal["keep", "close", "reset", "hang"]
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class MalformedRequest(ValueError):
    """Raised when a request cannot be read. The server replies with status 400."""


@dataclass(eq=False)
class Request:
    """A received request. `path` includes the query, and connections are numbered from 1.

    Secrets in headers and the query are hidden only when the log is written.
    """

    method: str
    path: str
    head: bytes
    data: bytes
    connection: int = 0

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers by lower-case name. If a name occurs several times, the last value is used."""
        lines = (line.partition(":") for line in self.head.decode("latin-1").split("\r\n")[1:])
        return {name.lower(): value.strip() for name, _, value in lines}

    @cached_property
    def text(self) -> str:
        """The body as text, with U+FFFD for bytes that are not UTF-8."""
        return self.data.decode("utf-8", "replace")

    @cached_property
    def body(self) -> Any:
        """The body as JSON. Raises `ValueError` if it is not JSON."""
        return json.loads(self.data)

    @property
    def fields(self) -> Mapping[str, Any]:
        """The body as a JSON object, or an empty mapping if it is anything else."""
        try:
            return self.body if isinstance(self.body, dict) else {}
        except ValueError:
            return {}

    def check(self) -> None:
        """Raise `MalformedRequest` if the body is nested too deeply. The body need not be JSON."""
        try:
            len(self.texts)
        except RecursionError:
            raise MalformedRequest("the body is nested too deeply") from None

    @property
    def whole(self) -> str:
        """Everything that the client sent: request line, headers and body."""
        lines = [f"{self.method} {self.path}", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\n".join([*lines, "", self.text])

    @property
    def speaks_messages(self) -> bool:
        """Whether the request is for the Messages API. All other requests count as chat completions."""
        return self.path.partition("?")[0].endswith("/messages")

    @cached_property
    def texts(self) -> Sequence[tuple[str, str]]:
        """Return the role and text of each message. In Messages API requests, the system prompt comes first."""
        fields = self.fields
        system = [("system", _text(fields["system"]))] if fields.get("system") else []
        messages = fields.get("messages")
        dicts = (message for message in messages if isinstance(message, dict)) if isinstance(messages, list) else ()
        return [*system, *((str(message.get("role")), _text(message.get("content"))) for message in dicts)]

    @property
    def asks_for_json(self) -> bool:
        """Whether the request asks for JSON, by a response format, an output format or a forced tool."""
        fields = self.fields
        choice = fields.get("tool_choice")
        forced = isinstance(choice, dict) and choice.get("type") in ("function", "tool")
        output = fields.get("output_config")
        formatted = isinstance(output, dict) and "format" in output
        return forced or formatted or bool(fields.get("response_format"))


@dataclass(frozen=True, slots=True)
class Say:
    """The model's reply, sent in the request's API format and streamed if the request asks for that.

    If the request forces a tool, as a judge's may, text that is a JSON object becomes the arguments of a call.

    `usage` defaults to one token for every four characters. `finish` is one of the core's finish reasons or a
    provider's own word, by default `stop` or `tool_calls`. `logprobs` is sent unchanged, but only with chat
    completions.
    """

    text: str | None = ""
    calls: Sequence[ToolCall] = ()
    reasoning: str = ""
    finish: str | None = None
    usage: Usage | None = None
    model: str = "served"
    logprobs: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One literal HTTP reply.

    - `body`: text and bytes are sent unchanged, anything else as JSON.
    - `chunks`: a stream to send instead of `body`. Text and bytes are sent unchanged, numbers are pauses in seconds,
      and anything else is sent as a server-sent event with JSON data. `done` adds `data: [DONE]`.
    - `raw`: bytes to send instead of everything, including the status line and headers; only `chunks` follow, without
      framing.
    - `headers`: additional headers. They replace any headers of the same name that the server would send
      (`Content-Type`, `Content-Length`, `Transfer-Encoding`).
    - `delay`: seconds before the first byte.
    - `cut`: the share of the body that is sent, from 0 to 1. The Content-Length header still states the length of the
      whole body.
    - `end`: what happens to the connection afterwards: it is kept open, closed, reset, or left silent until the client
      disconnects (`hang`).
    - `name`: the name of the fault in the log.
    """

    body: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Iterable[Any] | None = None
    done: bool = False
    raw: bytes | None = None
    delay: float = 0
    cut: float | None = None
    end: End = "keep"
    name: str | None = None

    @staticmethod
    def from_case(case: Mapping[str, Any]) -> Reply:
        """Return the literal reply in a test case: `status` and `body`, `stream` (events) and `done`, or `raw` (a
        text). `headers`, `delay`, `cut` and `end` set the reply's fields of the same name, and `case` becomes its name.
        Unknown keys are ignored.
        """
        fields = {
            name: case[name] for name in ("status", "body", "headers", "done", "delay", "cut", "end") if name in case
        }
        if "stream" in case:
            fields["chunks"] = case["stream"]
        if "raw" in case:
            fields["raw"] = str(case["raw"]).encode()
        return Reply(**fields, name=case.get("case"))

    @property
    def payload(self) -> bytes:
        """The body as bytes, ignoring `chunks`."""
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode("utf-8", "surrogatepass")

    def start(self, length: int | None) -> bytes:
        """Return the status line and headers, for a body of `length` bytes or a chunked stream (None)."""
        kind = "application/json" if self.chunks is None else "text/event-stream; charset=utf-8"
        framing = ("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))
        named = {name.lower() for name in self.headers} if self.headers else ()
        usual = [
            f"{name}: {value}\r\n" for name, value in (("Content-Type", kind), framing) if name.lower() not in named
        ]
        own = [f"{name}: {value}\r\n" for name, value in self.headers.items()]
        phrase = _PHRASES.get(self.status, "Unknown")
        return f"HTTP/1.1 {self.status} {phrase}\r\n{''.join([*usual, *own])}\r\n".encode("utf-8", "surrogateescape")

    def pieces(self) -> Iterable[bytes | float]:
        """Yield the pieces of the stream: data as bytes, and pauses as numbers of seconds."""
        for chunk in self.chunks or ():
            if isinstance(chunk, (bytes, int, float)):
                yield chunk
            elif isinstance(chunk, str):
                yield chunk.encode("utf-8", "surrogatepass")
            else:
                yield event(chunk)
        if self.done:
            yield DONE


DONE: Final = b"data: [DONE]\n\n"


def event(data: Any, name: str = "") -> bytes:
    """Format a server-sent event with `data` as JSON. Without `name`, the event has no `event` line."""
    line = f"event: {name}\n" if name else ""
    return f"{line}data: {json.dumps(data)}\n\n".encode()


def _text(content: Any) -> str:
    """Return the text of a message's content, with line breaks between its parts. It may be empty."""
    if isinstance(content, list):
        return "\n".join(_text(part) for part in content)
    if isinstance(content, dict):
        return _text(content.get("text", content.get("content", "")))
    return content if isinstance(content, str) else ""
