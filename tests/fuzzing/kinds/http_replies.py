"""Replies of model servers: bytes on a real connection, read by the adapters `openai` and `claude_tool`."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from fuzzing.engine import Kind
from fuzzing.mutation import TEXT_OPS, broken, choose_weighted, documents, dump_json, parse_tree
from fuzzing.replies import sound
from karenina_core.errors import describe_error
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentOptions, Message, PortError, Usage
from karenina_core.plugins import active_plugins
from karenina_testing.server import Reply, Say, ScriptedServer
from karenina_testing.server.formats import completion_of
from karenina_toolkit.plugin_lookup import find_adapter

Exchange: TypeAlias = tuple[str, bytes]
"""Which port is to read the reply, and the reply as it goes over the wire."""

_CHAT: Final[dict[str, Any]] = {
    **completion_of(Say(usage=Usage(10, 5, 2, 1), model="m-2024")),
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "It is BCL2.",
                "refusal": None,
                "reasoning_content": "hm",
                "annotations": [],
            },
            "finish_reason": "stop",
            "logprobs": {"content": [{"token": "It", "logprob": -0.1, "bytes": [73], "top_logprobs": []}]},
        }
    ],
}
_CALL: Final[dict[str, Any]] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"gene": "x"}'},
}
_CALLS: Final[dict[str, Any]] = {
    **_CHAT,
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": None, "tool_calls": [_CALL, {**_CALL, "id": "c2"}]},
            "finish_reason": "tool_calls",
        }
    ],
}
_PARSED: Final[dict[str, Any]] = {
    **_CHAT,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": '{"gene": "BCL2"}'}, "finish_reason": "stop"}],
}
_ERRORS: Final[list[Any]] = [
    {
        "error": {
            "message": "max_tokens is not supported: use max_completion_tokens",
            "type": "x",
            "param": "y",
            "code": 400,
        }
    },
    {"error": {"message": "response_format json_schema is not supported", "code": "unsupported"}},
    {"error": "plain", "message": "stream_options", "detail": [{"loc": ["body"], "msg": "no"}]},
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"},
]
_CHUNKS: Final[list[Any]] = [
    {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "It "}}]},
    {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"content": "is", "reasoning_content": "hm"}}]},
    {"id": "1", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **_CALL}]}, "finish_reason": None}]},
    {"id": "1", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]},
    {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"id": "1", "choices": [], "usage": _CHAT["usage"]},
]
_MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": '{"gene": "BCL2"}', "citations": None},
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_creation_input_tokens": 1,
        "cache_read_input_tokens": 2,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 0},
    },
}
_TOOL_USE: Final[dict[str, Any]] = {
    **_MESSAGE,
    "content": [{"type": "tool_use", "id": "t1", "name": "look_up", "input": {"gene": "x"}}],
    "stop_reason": "tool_use",
}
_INFINITE: Final = {
    **_TOOL_USE,
    "content": [{"type": "tool_use", "id": "t1", "name": "look_up", "input": {"gene": math.inf}}],
}
_STATUSES: Final = (
    *(
        "200 OK",
        "200 OK",
        "200 OK",
        "200 OK",
        "429 Too Many Requests",
        "503 Busy",
        "529 Overloaded",
        "500 No",
        "400 No",
    ),
    *(
        "401 No",
        "404 No",
        "422 No",
        "301 Moved",
        "204 None",
        "206 Part",
        "304 Same",
        "100 Continue",
        "999 X",
        "0 X",
        "2000",
    ),
)
_HEADERS: Final = (
    *(b"Retry-After: 1", b"Retry-After: -1", b"Retry-After: 1e999", b"Retry-After: nan", b"Retry-After: " + b"9" * 400),
    *(
        b"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT",
        b"Retry-After: Mon, 01 Jan 0001 00:00:00 -2359",
        b"Retry-After: x",
    ),
    *(b"Retry-After: Fri, 31 Dec 99999 23:59:59 +9999", b"retry-after-ms: 1e400", b"x-ratelimit-reset: -1"),
    *(
        b"Content-Encoding: gzip",
        b"Content-Encoding: deflate",
        b"Content-Encoding: br",
        b"Content-Encoding: zstd, gzip",
    ),
    *(b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Content-Length: 1\r\nContent-Length: 2"),
    *(
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Location: http://192.0.2.1/",
        b"Location: //",
    ),
    *(
        b"Set-Cookie: a=b",
        b"Content-Type: text/html",
        b"Content-Type: text/event-stream",
        b"Connection: close",
        b"X\x00: y",
    ),
    *(
        b"No colon",
        b": empty",
        b"X: " + b"y" * 70_000,
        b" folded: x",
        b"X: \xff\xfe",
        b"Upgrade: h2c",
        b"request-id: \xed\xa0\x80",
    ),
)


def _framed(body: bytes, status: str, headers: Sequence[bytes], framing: int, kind: str) -> bytes:
    """Return a reply; `framing` says how its length is given, and whether that is true."""
    lines = [f"HTTP/1.1 {status}".encode(), f"Content-Type: {kind}".encode("latin-1"), *headers]
    if framing == 5:
        body = gzip.compress(body, 1)
        lines.append(b"Content-Encoding: gzip")
    if framing == 8:
        body = gzip.compress(body, 1) + _spaces()
        lines.append(b"Content-Encoding: gzip")
    if framing == 6:
        body = zlib.compress(body)[:-3]
        lines.append(b"Content-Encoding: deflate")
    if framing == 1:
        size = max(len(body) // 3, 1)
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
        lines.append(b"Transfer-Encoding: chunked")
    elif framing == 2:
        lines.append(b"Content-Length: %d" % (len(body) + 10))
    elif framing == 3:
        lines.append(b"Content-Length: %d" % (len(body) // 2))
    elif framing != 4:
        lines.append(b"Content-Length: %d" % len(body))
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" if framing == 7 else b""
    return early + b"\r\n".join([*lines, b"", b""]) + body


@cache
def _spaces() -> bytes:
    """Return a member of a gzip file with much more in it than a reply may have."""
    return gzip.compress(b" " * 150_000_000)


def _events(body: bytes) -> bytes:
    """Return a list of JSON values, one a line, as a stream of events."""
    return b"".join(b"data: " + line + b"\n\n" for line in body.split(b"\n") if line) + b"data: [DONE]\n\n"


def _lines(tree: Any) -> str:
    return "\n".join(map(dump_json, tree)) if type(tree) is list else dump_json(tree)


_HEADER_LISTS = choose_weighted((1, st.just([])), (1, st.lists(st.sampled_from(_HEADERS), min_size=1, max_size=3)))
_FRAMINGS = st.sampled_from((0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 5, 6, 7, 8))
_GOOD = st.just("200 OK")


def _replies(bodies: st.SearchStrategy[bytes], kind: str = "application/json") -> st.SearchStrategy[bytes]:
    plain = st.builds(_framed, bodies, _GOOD, st.just([]), st.just(0), st.just(kind))
    framed = st.builds(_framed, bodies, st.sampled_from(_STATUSES), _HEADER_LISTS, _FRAMINGS, st.just(kind))
    return choose_weighted((6, plain), (3, framed), (1, st.builds(broken, framed, TEXT_OPS)))


_REFUSALS = documents(_ERRORS, dump_json)
_BODIES = choose_weighted((5, documents([_CHAT, _CALLS, _PARSED], dump_json)), (1, _REFUSALS))
_CLAUDE = choose_weighted((5, documents([_MESSAGE, _TOOL_USE], dump_json)), (1, _REFUSALS))
_STREAMS = documents([_CHUNKS, [_CHAT], [*_CHUNKS[:1], _ERRORS[0]]], _lines).map(_events)
_TOOLS: Final = ("llm", "agent", "parser")


@dataclass(frozen=True)
class _LookUp:
    """A tool that agents have."""

    name: str = "look_up"
    description: str = "Look a gene up."

    @property
    def schema(self) -> Mapping[str, Any]:
        return {"type": "object", "properties": {"gene": {"type": "string"}}, "required": ["gene"]}

    async def call(self, arguments: Mapping[str, Any]) -> str:
        return f"found {arguments['gene']}"


class _Servers:
    """A server that says `reply` to each request and closes the connection, and the ports that ask it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.reply = b""
        self._ports: dict[str, Any] = {}
        self._server = ScriptedServer(lambda _: Reply(raw=self.reply, end="close"), keep_log=False)
        self.url = self._server.__enter__().url

    def port(self, name: str) -> Any:
        """Return the port of this name: an adapter's, the kind of port, and whether it streams."""
        if name not in self._ports:
            interface, kind, *streams = name.split(".")
            spec = find_adapter(active_plugins(), interface).spec
            model = ModelConfig(
                id="m",
                interface=interface,
                model_name="m",
                endpoint_base_url=f"{self.url}/v1" if interface == "openai" else self.url,
                endpoint_api_key="sk-canary-0123456789",
                request_timeout=3,
                extra={"stream": True} if streams else {},
            )
            made = {"llm": spec.llm, "agent": spec.agent, "parser": spec.parser}[kind]
            assert made is not None
            self._ports[name] = made(model)
        return self._ports[name]

    async def ask(self, name: str) -> bool:
        """Ask the port once. Whether there was an answer."""
        port = self.port(name)
        messages = [Message.user("Which gene is it?")]
        try:
            async with asyncio.timeout(20):
                if ".agent" in name:
                    reply = await port.run(messages, AgentOptions(max_turns=3, tools=(_LookUp(),)))
                elif ".parser" in name:
                    schema = {"type": "object", "properties": {"gene": {"type": "string"}}, "required": ["gene"]}
                    reply = await port.parse(messages, schema)
                else:
                    reply = await port.invoke(messages)
        except PortError as error:
            describe_error(error).encode("utf-8")
            if "sk-canary" in str(error):
                raise AssertionError("an error contains the key") from error
            if error.retry_after is not None and not 0 <= error.retry_after < math.inf:
                raise AssertionError("a time to wait that no clock knows") from error
            if error.partial is not None:
                sound(error.partial)
            return False
        sound(reply)
        return True

    def close(self) -> None:
        for port in self._ports.values():
            self.loop.run_until_complete(port.aclose())
        self._server.__exit__(None, None, None)
        self.loop.close()


@contextmanager
def _opened(_folder: Path) -> Iterator[Callable[[Exchange], bool]]:
    servers = _Servers()

    def check(one: Exchange) -> bool:
        name, servers.reply = one
        return servers.loop.run_until_complete(servers.ask(name))

    try:
        yield check
    finally:
        servers.close()


def _valid(name: str, body: Any) -> Exchange:
    if name.endswith(".stream"):
        return name, _framed(_events(_lines(parse_tree(body)).encode()), "200 OK", [], 4, "text/event-stream")
    return name, _framed(json.dumps(body).encode(), "200 OK", [], 0, "application/json")


def _through(name: str, replies: st.SearchStrategy[bytes]) -> st.SearchStrategy[Exchange]:
    return st.tuples(st.just(name), replies)


KIND: Final = Kind(
    "http_replies",
    st.one_of(
        *(_through(f"openai.{kind}", _replies(_BODIES)) for kind in _TOOLS),
        *(_through(f"openai.{kind}.stream", _replies(_STREAMS, "text/event-stream")) for kind in _TOOLS),
        *(_through(f"claude_tool.{kind}", _replies(_CLAUDE)) for kind in _TOOLS),
    ),
    _opened,
    valid=[
        *(_valid(f"openai.{kind}", _CHAT) for kind in ("llm", "agent")),
        *(_valid(f"openai.{kind}.stream", _CHUNKS) for kind in ("llm", "agent")),
        *(_valid(f"claude_tool.{kind}", _MESSAGE) for kind in ("llm", "agent")),
        _valid("openai.parser", _PARSED),
    ],
    regressions=[
        ("openai.llm", _framed(b"{}", "500 No", [b"X: \xff\xfe"], 0, "application/json")),
        ("openai.llm.stream", _framed(b"data: [DONE]\n\n", "200 OK", [], 4, "text/event-stream\xff")),
        ("claude_tool.agent", _framed(json.dumps(_INFINITE).encode(), "200 OK", [], 0, "application/json")),
    ],
    shown=lambda one: one[0].encode() + b"\n" + one[1],
    servers=True,
)
