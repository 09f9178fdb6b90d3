"""A request as it was received, and a reply as it is to be sent."""

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
    """The error for a request that cannot be read, which is answered with status 400."""


@dataclass(eq=False)
class Request:
    """One request as received. `path` includes the query; `connection` counts the server's connections from 1.

    Secrets in headers and query are as they were sent; the output of the log masks them.
    """

    method: str
    path: str
    head: bytes
    data: bytes
    connection: int = 0

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case."""
        lines = (line.partition(":") for line in self.head.decode("latin-1").split("\r\n")[1:])
        return {name.lower(): value.strip() for name, _, value in lines}

    @cached_property
    def text(self) -> str:
        """The body as text."""
        return self.data.decode("utf-8", "replace")

    @cached_property
    def body(self) -> Any:
        """The JSON of the body. Raises `ValueError` if it is not JSON."""
        return json.loads(self.data)

    @property
    def fields(self) -> Mapping[str, Any]:
        """The JSON object of the body; empty if there is none."""
        try:
            return self.body if isinstance(self.body, dict) else {}
        except ValueError:
            return {}

    def check(self) -> None:
        """Raise `MalformedRequest` if the body is nested too deeply to be read. It need not be JSON."""
        try:
            len(self.texts)
        except RecursionError:
            raise MalformedRequest("the body is nested too deeply") from None

    @property
    def whole(self) -> str:
        """Everything that was sent: line, headers and body."""
        lines = [f"{self.method} {self.path}", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\n".join([*lines, "", self.text])

    @property
    def speaks_messages(self) -> bool:
        """Whether this is a request of Anthropic's Messages API; all others are read as chat completions."""
        return self.path.partition("?")[0].endswith("/messages")

    @cached_property
    def texts(self) -> Sequence[tuple[str, str]]:
        """Role and text of each message; the system prompt of the Messages API is the first."""
        fields = self.fields
        found = [("system", _text(fields["system"]))] if fields.get("system") else []
        messages = fields.get("messages")
        dicts = (message for message in messages if isinstance(message, dict)) if isinstance(messages, list) else ()
        return [*found, *((str(message.get("role")), _text(message.get("content"))) for message in dicts)]

    @property
    def asks_for_json(self) -> bool:
        """Whether it asks for JSON: with a response format, an output format, or a tool that must be called."""
        fields = self.fields
        choice = fields.get("tool_choice")
        forced = isinstance(choice, dict) and choice.get("type") in ("function", "tool")
        output = fields.get("output_config")
        wanted = isinstance(output, dict) and "format" in output
        return forced or wanted or bool(fields.get("response_format"))


@dataclass(frozen=True, slots=True)
class Say:
    """What the model says: the server puts it into the format of the request, streamed if that asks for a stream.

    A text that is a JSON object fills the tool that a request forces, as a judge's may.
    `usage` is one token for four characters unless given; `finish` is `stop` or `tool_calls` unless given, one of the
    core's finish reasons or the word of a provider. `logprobs` is sent as it is, with chat completions only.
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
    """One reply over HTTP, word by word.

    - `body` is sent as it is if it is text or bytes, and as JSON otherwise.
    - `chunks` replace `body` by a stream: text and bytes are sent as they are, a number is a pause in seconds, and
      anything else is the JSON of a server-sent event. `done` adds `data: [DONE]`.
    - `raw` replaces everything, status line and headers included; only `chunks` follow it, as they are.
    - `headers` replace those that the server would send (`Content-Type`, `Content-Length`, `Transfer-Encoding`).
    - `delay` are seconds before the first byte.
    - `cut` is the share of the body that is sent; its announced length remains.
    - `end` is what happens to the connection afterwards: it is kept, closed, reset, or silent until the client leaves.
    - `name` is the name of the fault in the log.
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
        """Return the literal reply of a case: `status` and `body`, or `stream` (its events) and `done`.

        `headers`, `delay`, `cut` and `end` have their meaning; `raw` is text. Other things are ignored, and `case`
        is the name.
        """
        given = {
            name: case[name] for name in ("status", "body", "headers", "done", "delay", "cut", "end") if name in case
        }
        if "stream" in case:
            given["chunks"] = case["stream"]
        if "raw" in case:
            given["raw"] = str(case["raw"]).encode()
        return Reply(**given, name=case.get("case"))

    @property
    def payload(self) -> bytes:
        """The body without a stream, as bytes."""
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode("utf-8", "surrogatepass")

    def start(self, length: int | None) -> bytes:
        """Return status line and headers, for a body of `length` bytes or a stream in chunks."""
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
        """Return the pieces of the stream, and the seconds between them."""
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
    """Return a server-sent event."""
    line = f"event: {name}\n" if name else ""
    return f"{line}data: {json.dumps(data)}\n\n".encode()


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(_text(part) for part in content)
    if isinstance(content, dict):
        return _text(content.get("text", content.get("content", "")))
    return content if isinstance(content, str) else ""
