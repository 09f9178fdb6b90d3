"""Servers over streamable HTTP: a real one, made with the MCP library, on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_models import model, outcome, saying
from served_apps import served

from karenina_core.models.ports import ErrorCategory, Message, PortError
from karenina_mcp import MCPSource

Scope = dict[str, Any]


def genes() -> MCPServer:
    server = MCPServer("genes")

    @server.tool()
    def lookup(n: int) -> str:
        """Look up a gene."""
        return f"gene {n} is BCL2"

    return server


@contextmanager
def serving(key: str | None = None, port: int = 0) -> Iterator[str]:
    """Yield the URL of a server that runs for the duration of the block; with `key`, it requires that key."""
    app = genes().streamable_http_app()

    async def guarded(
        scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[Any]]
    ) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and key is not None and headers.get(b"authorization") != f"Bearer {key}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await app(scope, receive, send)

    with served(guarded, port) as url:
        yield f"{url}/mcp"


@pytest.fixture
def url() -> Iterator[str]:
    with serving() as found:
        yield found


def test_a_tool_is_called_over_http(url: str) -> None:
    (said,) = saying(model({"genes": url}), "lookup")
    assert (said.content, said.is_error) == ("gene 1 is BCL2", False)


def test_a_server_on_this_machine_needs_no_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    (said,) = saying(model({"genes": url}), "lookup")
    assert said.content == "gene 1 is BCL2"


def test_an_environment_key_is_sent_in_a_header_only(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"genes": {"headers": {"Authorization": "Bearer ${GENES_TOKEN}"}}}
    with serving("s3cret-word") as url:
        monkeypatch.setenv("GENES_TOKEN", "s3cret-word")
        (said,) = saying(model({"genes": url}, mcp_server_options=options), "lookup")
        monkeypatch.setenv("GENES_TOKEN", "another-word")
        with pytest.raises(PortError) as caught:
            saying(model({"genes": url}, mcp_server_options=options), "lookup")
    assert said.content == "gene 1 is BCL2"
    assert "'genes'" in str(caught.value)
    assert "another-word" not in str(caught.value)


def test_calls_work_again_after_a_server_restarts() -> None:
    async def run() -> list[Message | PortError]:
        with serving() as url:
            configured = model({"genes": url}, mcp_server_options={"genes": {"call_timeout": 60, "start_timeout": 60}})
            session = MCPSource().open(configured, None)
            tools = {tool.name: tool for tool in await session.__aenter__()}
            said = [await outcome(tools, "lookup")]
        said += [await outcome(tools, "lookup"), await outcome(tools, "lookup")]
        with serving(port=int(url.rpartition(":")[2].removesuffix("/mcp"))):
            said.append(await outcome(tools, "lookup"))
        await session.__aexit__(None, None, None)
        return said

    before, gone, still_gone, back = asyncio.run(run())
    assert isinstance(before, Message)
    assert not before.is_error
    for error in (gone, still_gone):
        assert isinstance(error, PortError)
        assert error.category is ErrorCategory.CONNECTION
        assert "the MCP server 'genes'" in str(error)
        assert "cannot be used: All connection attempts failed" in str(error)
    assert back == before


class Forgetful:
    """A server with sessions, which answers as the TypeScript SDK does if it does not know one: `lost` says how. It
    forgets every session after a call, and with `always` before it, too.
    """

    def __init__(self, status: int, lost: dict[str, Any], *, always: bool = False) -> None:
        self.status, self.lost, self.always = status, lost, always
        self.session = self.opened = 0

    async def __call__(
        self, scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[Any]]
    ) -> None:
        body = json.loads((await receive()).get("body") or "{}") if scope["method"] == "POST" else {}
        status, headers, said = 405, [(b"content-type", b"application/json")], self._answer(body)
        if scope["method"] == "POST":
            status = 200 if said else 202
        if body.get("method") == "initialize":
            self.session += 1
            self.opened += 1
            headers.append((b"mcp-session-id", str(self.session).encode()))
        known = dict(scope["headers"]).get(b"mcp-session-id") == str(self.session).encode()
        if body.get("method") == "tools/call":
            if self.always or not known:
                status = self.status
                said = {"id": body["id"] if status == 200 else None, "error": self.lost}
            self.session += 1
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"jsonrpc": "2.0", **said}).encode()})

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "f", "version": "1"}}
        results = {
            "initialize": {"protocolVersion": "2025-06-18", **about},
            "tools/list": {"tools": [{"name": "lookup", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "BCL2"}]},
        }
        if "id" not in body:
            return {}
        if body["method"] not in results:
            return {"id": body["id"], "error": {"code": -32601, "message": "Method not found"}}
        return {"id": body["id"], "result": results[body["method"]]}


@pytest.mark.parametrize(
    ("status", "lost"),
    [
        (404, {"code": -32001, "message": "Session not found"}),
        (400, {"code": -32000, "message": "Bad Request: No valid session ID provided"}),
        (400, {"code": -32000, "message": "Bad Request: Server not initialized"}),
    ],
)
@pytest.mark.parametrize("always", [False, True])
def test_a_session_that_a_server_forgot_is_opened_again(status: int, lost: dict[str, Any], always: bool) -> None:
    with served(Forgetful(status, lost, always=always)) as url:
        said = saying(model({"genes": url}), "lookup", "lookup")
    for message in said:
        assert message.is_error is always
        assert lost["message"] in message.content if always else message.content == "BCL2"


def test_a_session_of_a_tool_is_not_that_of_the_server() -> None:
    forgets = Forgetful(200, {"code": -32603, "message": "Session not found"}, always=True)
    with served(forgets) as url:
        (said,) = saying(model({"genes": url}), "lookup")
    assert (said.is_error, "Session not found" in said.content) == (True, True)
    assert forgets.opened == 1


def answer_to(request: dict[str, Any], said: str) -> dict[str, Any]:
    """The result of a request to a server with the tool `cut`, which says `said`."""
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    if request["method"] == "tools/list":
        return {"tools": [{"name": "cut", "description": "Cut.", "inputSchema": {"type": "object"}}]}
    return {"content": [{"type": "text", "text": said}]}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("said", "read"),
    [("cut off \ud83e", "cut off \ufffd"), ("\udd80 off", "\ufffd off"), ("\\ud83e \U0001f980", "\\ud83e \U0001f980")],
)
def test_half_a_surrogate_pair_over_http_is_replaced(said: str, read: str, kind: str) -> None:
    async def app(scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[Any]]) -> None:
        if scope["type"] != "http":
            return
        request = json.loads((await receive()).get("body") or b"{}")
        status, body = (405, b"") if scope["method"] != "POST" else (202, b"")
        if "id" in request:
            known = request["method"] in ("initialize", "tools/list", "tools/call")
            outcome = {"result": answer_to(request, said)} if known else {"error": {"code": -32601, "message": "no"}}
            status, body = 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}).encode()
            body = b"event: message\ndata: " + body + b"\n\n" if kind == "text/event-stream" else body
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]})
        for at in range(0, len(body), 7):  # in pieces that split escapes
            await send({"type": "http.response.body", "body": body[at : at + 7], "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    with served(app, 0) as url:
        (message,) = saying(model({"x": f"{url}/mcp"}), "cut")
    assert (message.content, message.is_error) == (read, False)
