"""Errors of a server of the Messages API, and their messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Any

import pytest
from claude_servers import error, model
from port_errors import ASK, KEY, PROMPT, assert_refused, fails

from karenina_claude_tool import plugin
from karenina_claude_tool.ports import ClaudeLLM
from karenina_core.models.ports import ErrorCategory, PortError, Usage
from karenina_testing.server import Reply, ScriptedServer, faults, refusing_url

pytestmark = pytest.mark.anyio
Keep = Callable[[Any], Any]
C = ErrorCategory


@pytest.mark.parametrize(
    ("status", "category"),
    [(302, C.PERMANENT), (402, C.PERMANENT), (413, C.PERMANENT)],
)
async def test_a_status_decides_the_category_and_the_sdk_repeats_nothing(
    status: int, category: ErrorCategory, server: ScriptedServer, open_port: Keep
) -> None:
    headers = {"x-should-retry": "true", "location": "/v1/other"}
    server.says(Reply(error("x", "sorry, 500 of them"), status, headers))
    found = await fails(open_port(ClaudeLLM(model(server.url))))
    assert (found.category, found.status) == (category, status)
    assert f"claude_tool:served at {server.url} responded with HTTP {status}: sorry, 500 of them" in str(found)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "cure"),
    [(401, "ANTHROPIC_API_KEY"), (402, "credit"), (404, "model_name"), (413, "shorten the prompt")],
)
async def test_an_error_says_what_to_do(status: int, cure: str, server: ScriptedServer, open_port: Keep) -> None:
    server.says(Reply(error("x", "no"), status))
    assert cure in str(await fails(open_port(ClaudeLLM(model(server.url)))))


@pytest.mark.parametrize("status", [200, 400])
async def test_no_secret_and_no_prompt_is_in_an_error(status: int, server: ScriptedServer, open_port: Keep) -> None:
    said = f"{KEY} header-secret: bad '{PROMPT[8:58]}'! and {PROMPT}"
    server.says(Reply(error("invalid_request_error", said), status))
    extra = {"headers": {"X-Token": "header-secret"}}
    found = await fails(open_port(ClaudeLLM(model(server.url, endpoint_api_key=KEY, extra=extra))))
    assert "*** ***: bad '[prompt]'! and [prompt]" in str(found)
    assert not [word for word in (KEY, "header-secret", "KX", "confidential") if word in f"{found} {found!r}"]
    assert found.__cause__ is None
    assert found.category is C.PERMANENT


async def test_a_refused_connection_names_server_and_reason(
    open_port: Keep,
) -> None:
    with refusing_url() as url:
        try:
            raise LookupError("the caller's own trouble")
        except LookupError:
            found = await fails(open_port(ClaudeLLM(model(url))))
    assert found.category is C.CONNECTION
    assert f"{url.removeprefix('http://')}: could not connect" in str(found)
    assert "Connect call failed" in str(found)


async def test_a_connection_that_breaks_says_so(server: ScriptedServer, open_port: Keep) -> None:
    server.says(faults.close)
    found = await fails(open_port(ClaudeLLM(model(server.url))))
    assert "lost the connection (Server disconnected" in str(found)


@asynccontextmanager
async def serving(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """Yield host and port of a server that runs `answer` for each connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        with suppress(OSError):
            await answer(writer)
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_an_endless_slow_reply_is_a_timeout(server: ScriptedServer, open_port: Keep) -> None:
    server.says(Reply(chunks=cycle([b" ", 0.05])))
    found = await fails(open_port(ClaudeLLM(model(server.url, request_timeout=0.3))))
    assert found.category is C.TIMEOUT


@pytest.mark.parametrize(("said", "category"), [(b"HTTP/1.1 200 OK\r\n\r\n", C.PERMANENT), (b"", C.CONNECTION)])
async def test_an_interrupted_handshake_is_retriable(said: bytes, category: ErrorCategory, open_port: Keep) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(said)

    async with serving(answer) as host:
        assert (await fails(open_port(ClaudeLLM(model(f"https://{host}"))))).category is category


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("Hello!", "not JSON"),
        ([], "not a JSON object"),
        ({}, "no content"),
        ({"status": "the model is not loaded"}, "the model is not loaded"),
        ({"content": "text"}, "not a list of blocks"),
        ({"content": [{"text": "x"}]}, "not a list of blocks"),
        ({"content": [{"type": "text", "text": 5}]}, "text block has no text"),
        ({"content": [{"type": "tool_use", "input": {}}]}, "tool_use has no name"),
    ],
)
async def test_a_reply_that_is_none_says_why(body: Any, why: str, server: ScriptedServer, open_port: Keep) -> None:
    server.says(Reply(body))
    found = await fails(open_port(ClaudeLLM(model(server.url))))
    assert found.category is C.SERVER
    assert "sent no usable reply: " in str(found)
    assert why in str(found)


@pytest.mark.parametrize(
    ("kind", "category"),
    [
        ("rate_limit_error", C.RATE_LIMIT),
        ("overloaded_error", C.SERVER),
        ("timeout_error", C.TIMEOUT),
        ("authentication_error", C.PERMANENT),
        ("of_tomorrow", C.SERVER),
    ],
)
async def test_an_error_passed_on_by_a_gateway_keeps_its_kind(
    kind: str, category: ErrorCategory, server: ScriptedServer, open_port: Keep
) -> None:
    server.says(error(kind, "slow down"))
    found = await fails(open_port(ClaudeLLM(model(server.url))))
    assert (found.category, f"{kind}: slow down" in str(found)) == (category, True)


async def test_a_reply_that_cannot_be_read_is_paid_for(server: ScriptedServer, open_port: Keep) -> None:
    server.says(Reply({"content": [{"type": "text"}], "usage": {"input_tokens": 7, "output_tokens": 3}}))
    assert (await fails(open_port(ClaudeLLM(model(server.url))))).usage == Usage(7, 3, calls=1)


async def test_an_error_without_tokens_is_not_paid_for(server: ScriptedServer, open_port: Keep) -> None:
    server.says(Reply({**error("api_error", "boom"), "usage": {"input_tokens": 0, "output_tokens": 0}}))
    assert (await fails(open_port(ClaudeLLM(model(server.url))))).usage == Usage()


async def test_text_beside_an_error_is_no_answer(server: ScriptedServer, open_port: Keep) -> None:
    counted = {"content": [{"type": "text", "text": "Par"}], "usage": {"input_tokens": 7, "output_tokens": 3}}
    server.says(Reply({**counted, "error": {"type": "overloaded_error", "message": "slow down"}}))
    found = await fails(open_port(ClaudeLLM(model(server.url))))
    assert (found.category, found.usage) == (C.SERVER, Usage(7, 3, calls=1))


@pytest.mark.parametrize(
    ("body", "category", "says"),
    [
        ({"error": "no GPU"}, C.SERVER, "forwarded an error: no GPU"),
        ({"content": [{"type": "text", "text": "Par"}], "error": "no GPU"}, C.SERVER, "forwarded an error: no GPU"),
        ({"detail": "the model is not loaded"}, C.SERVER, "forwarded an error: the model is not loaded"),
        ({"error": {"code": 429, "message": "Quota exceeded"}}, C.RATE_LIMIT, "429: Quota exceeded"),
        ({"error": {"type": "None", "code": "429", "message": "Slowly"}}, C.RATE_LIMIT, "error: 429: Slowly"),
        ({"error": {"code": 403, "message": "denied"}}, C.PERMANENT, "403: denied"),
        (
            {"content": None, "base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}},
            C.FILTERED,
            "1026: input new_sensitive",
        ),
        (
            {"content": [], "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
            C.PERMANENT,
            "no credit left",
        ),
    ],
)
async def test_an_error_may_have_the_form_of_a_gateway(
    body: Any, category: C, says: str, server: ScriptedServer, open_port: Keep
) -> None:
    server.says(Reply(body))
    found = await fails(open_port(ClaudeLLM(model(server.url))))
    assert (found.category, says in str(found)) == (category, True)


async def test_values_that_are_not_json_are_a_permanent_error(server: ScriptedServer, open_port: Keep) -> None:
    port = open_port(ClaudeLLM(model(server.url, extra={"body": {"metadata": object()}})))
    found = await fails(port)
    assert (found.category, server.requests) == (C.PERMANENT, [])
    assert "the request is invalid" in str(found)


SPEC = plugin.karenina_adapters()[0]


@pytest.mark.parametrize(
    ("url", "fields", "problem"),
    [
        (None, {}, "api.anthropic.com needs an API key; set ANTHROPIC_API_KEY"),
        ("http://host/v1/messages", {}, "base URL"),
        ("http://host", {"endpoint_api_key": "pw-secret\n"}, "line break"),
        ("http://host", {"temperature": 1.5}, "temperature: 1.5"),
        ("http://host", {"extra": {"header": {"X": "pw-secret"}}}, "extra.header: "),
        ("http://host", {"extra": {"prompt_caching": True}}, "extra.prompt_caching: "),
        ("http://host", {"extra": {"body": {"stream": True}}}, "body.stream is set by Karenina"),
        ("http://host", {"extra": {"body": {"output_config": {"format": {}}}}}, "without format"),
        ("http://host", {"extra": {"max_concurrency": 0}}, "extra.max_concurrency: "),
    ],
)
def test_what_would_fail_every_item_is_refused_before_the_run(
    url: str | None, fields: dict[str, Any], problem: str
) -> None:
    assert_refused(SPEC, model(url, **fields), problem)


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("http://127.0.0.1:8000", {}),
        (None, {"endpoint_api_key": "sk-1"}),
        (None, {"extra": {"headers": {"X-Api-Key": "sk-1"}}}),
    ],
)
def test_what_can_work_is_let_through(url: str | None, fields: dict[str, Any]) -> None:
    assert SPEC.check is not None
    SPEC.check(model(url, **fields))


def test_concurrency_is_a_setting() -> None:
    assert SPEC.concurrency is not None
    assert [SPEC.concurrency(model(None, extra=extra)) for extra in ({}, {"max_concurrency": 4})] == [None, 4]


async def test_the_password_of_a_proxy_is_not_in_errors(
    server: ScriptedServer, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a proxy that says again which credentials it was sent."""
    server.says(lambda asked: Reply({"error": {"message": f"{dict(asked.headers)} password"}}, 407))
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", server.url.replace("http://", "http://me:password@"))
    with pytest.raises(PortError, match="HTTP 407") as caught:
        await open_port(ClaudeLLM(model("http://model.example"))).invoke(ASK)

    assert not [word for word in ("password", "bWU6cGFzc3dvcmQ=") if word in str(caught.value)]


@pytest.mark.parametrize("exempt", ["nowhere.invalid:80", "nowhere.invalid.", "a.example *.invalid"])
async def test_hosts_in_no_proxy_are_reached_without_one(
    exempt: str, server: ScriptedServer, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says("Paris.")
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", exempt)
    with pytest.raises(PortError, match="could not connect"):
        await open_port(ClaudeLLM(model("http://nowhere.invalid"))).invoke(ASK)

    assert server.requests == []


@pytest.mark.parametrize("address", ["socks5://me:password@host:1", "file:///password"])
async def test_a_proxy_of_an_unknown_kind_is_an_error(
    address: str, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", address)
    with pytest.raises(PortError, match="the proxy set in the environment") as caught:
        await open_port(ClaudeLLM(model("http://model.example"))).invoke(ASK)

    assert "password" not in str(caught.value)
