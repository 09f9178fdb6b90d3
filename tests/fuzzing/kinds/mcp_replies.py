"""Replies of MCP servers, over HTTP and over stdio: the handshake, the list of tools, and their results."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from fuzzing import mutation
from fuzzing.engine import Kind
from fuzzing.mcp_server import UNKNOWN
from fuzzing.replies import sound_text
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import PortError, ToolCall
from karenina_mcp import MCPSource
from karenina_toolkit.agents.tools import run_tool

Replies: TypeAlias = tuple[bool, str, list[mutation.Op], list[mutation.TextOp]]
"""If true over stdio with one server, else over HTTP with several servers and their own changes; the method with the
changed reply; changes of its tree, and of its bytes."""

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0}, "s": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["n"],
}
_RESULTS: Final[dict[str, dict[str, Any]]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "fuzz", "version": "1", "title": "Fuzz"},
        "instructions": "Use it.",
    },
    "tools/list": {
        "tools": [
            {"name": "one", "title": "One", "description": "Does one.", "inputSchema": _SCHEMA},
            {
                "name": "two",
                "inputSchema": {"type": "object"},
                "outputSchema": _SCHEMA,
                "annotations": {"readOnlyHint": True},
            },
        ]
    },
    "tools/call": {
        "content": [
            {"type": "text", "text": "found"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "y", "mimeType": "text/plain"}},
        ],
        "structuredContent": {"n": 1},
        "isError": False,
    },
}
_SERVERS: Final = 8
_ERROR: Final = {"code": -32601, "message": "there is no such method", "data": {"x": 1}}


def _reply(result: Any, *, failed: bool = False) -> Any:
    return {"jsonrpc": "2.0", "id": "@ID@", **({"error": _ERROR} if failed else {"result": result})}


_TREES: Final = {method: mutation.parse_tree(_reply(result)) for method, result in _RESULTS.items()}
_DONORS: Final = [
    part for tree in [*_TREES.values(), mutation.parse_tree(_reply({}, failed=True))] for part in mutation.parts(tree)
]


def _replies(one: Replies, number: int = 0) -> dict[str, bytes]:
    _, method, ops, text_ops = one
    ops = mutation.shift_bytes(ops, number)
    found = {name: mutation.dump_json(tree).encode("utf-8", "surrogatepass") for name, tree in _TREES.items()}
    for name in _TREES if method == "all" else [method]:
        found[name] = mutation.dump_json(mutation.apply_changes(_TREES[name], ops, _DONORS)).encode(
            "utf-8", "surrogatepass"
        )
        found[name] = mutation.broken(found[name], text_ops) if text_ops else found[name]
    return found


class _Server:
    """Servers over HTTP with replies that change, each with a number in its path."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.replies: Sequence[Mapping[str, bytes]] = ()
        self._server = loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                sent = await reader.readexactly(int(lengths[0]) if lengths else 0)
                message = json.loads(sent) if sent else {}
                replies = self.replies[int(head.split()[1].rpartition(b"/")[2])]
                reply = replies.get(message.get("method", ""), UNKNOWN.encode())
                if "id" not in message:
                    status, body = (b"202 Accepted" if sent else b"405 No"), b""
                else:
                    status, body = b"200 OK", reply.replace(b'"@ID@"', json.dumps(message["id"]).encode())
                lines = (b"HTTP/1.1 " + status, b"Content-Type: application/json", b"Content-Length: %d" % len(body))
                writer.write(b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body)
                await writer.drain()
        writer.close()

    def close(self) -> None:
        self._server.close()


async def _use(model: ModelConfig) -> bool:
    """Open the servers and call each tool. Whether a tool could be called."""
    called = False
    try:
        async with asyncio.timeout(30), MCPSource().open(model, None) as tools:
            named = {tool.name: tool for tool in tools}
            for tool in tools:
                sound_text(tool.description)
                json.dumps(tool.schema, ensure_ascii=False).encode("utf-8")
                message = await run_tool(ToolCall("c1", tool.name, {"n": 1}), named)
                sound_text(message.content)
                called = called or not message.is_error
    except PortError as error:
        str(error).encode("utf-8")
    return called


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[Replies], bool]]:
    loop = asyncio.new_event_loop()
    server = _Server(loop)
    file = folder / "replies.json"
    program = Path(__file__).parents[1] / "mcp_server.py"
    command = shlex.join([sys.executable, "-I", "-S", str(program), str(file)])

    hurried = False  # what is valid has to arrive, however busy the machine is; what is broken may wait for long

    def model(place: str) -> ModelConfig:
        options = {"start_timeout": 3 if place == command else 0.7, "call_timeout": 0.3} if hurried else {}
        named = {"mcp_urls_dict": {"fuzz": place}, "mcp_server_options": {"fuzz": options}}
        return ModelConfig(id="m", interface="openai", model_name="m", **named)

    async def over_http() -> bool:
        models = [model(f"{server.url}/mcp/{number}") for number in range(len(server.replies))]
        return any(await asyncio.gather(*map(_use, models)))

    def check(one: Replies) -> bool:
        nonlocal hurried
        hurried = bool(one[2] or one[3])
        if one[0]:
            found = {name: reply.decode("latin-1") for name, reply in _replies(one).items()}
            file.write_text(json.dumps(found), "utf-8")
            return loop.run_until_complete(_use(model(command)))
        server.replies = [_replies(one, number) for number in range(_SERVERS)]
        return loop.run_until_complete(over_http())

    try:
        yield check
    finally:
        server.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def _ours(arguments: Any) -> bool:
    """Return whether a started program is our server."""
    return any("mcp_server.py" in str(argument) for argument in arguments)


_METHODS = st.sampled_from(("tools/list", "tools/call", "initialize", "tools/list", "tools/call", "all"))
KIND: Final = Kind(
    "mcp_replies",
    st.tuples(
        mutation.choose_weighted((9, st.just(False)), (1, st.just(True))),
        _METHODS,
        mutation.OPS,
        mutation.choose_weighted((4, st.just([])), (1, mutation.TEXT_OPS)),
    ),
    _opened,
    valid=[(False, "all", [], []), (True, "all", [], [])],
    shown=lambda one: repr(one).encode() + b"\n" + b"\n".join(_replies(one).values()),
    servers=True,
    programs=_ours,
)
