"""Requests of JSON to a model's server, for adapters."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import sys
import zlib
from typing import Any

import pytest

from karenina_core import ModelConfig
from karenina_core.catalog import install_command
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_core.models.settings_models import StrictSettings
from karenina_testing.server import Reply, ScriptedServer, faults
from karenina_toolkit.http.post_json import check_server, post_json

KEY = "sk-4711-never-shown"


def model(url: str | None, **fields: Any) -> ModelConfig:
    return ModelConfig(id="m", interface="x.chat", model_name="m", endpoint_base_url=url, **fields)


def post(server: ScriptedServer, body: dict[str, Any] | None = None, **fields: Any) -> Any:
    options = {name: fields.pop(name) for name in ("path", "key_header", "read", "read_wait") if name in fields}
    sent = {"text": "Where is it?"} if body is None else body
    return asyncio.run(post_json(model(server.url, **fields), sent, options.pop("read", lambda data: data), **options))


def failed(reply: Any, **fields: Any) -> PortError:
    with ScriptedServer(reply) as server, pytest.raises(PortError) as caught:
        post(server, **fields)
    return caught.value


def test_what_read_returns_is_returned() -> None:
    with ScriptedServer(Reply({"text": "Oslo."})) as server:
        assert post(server, read=lambda data: data["text"]) == "Oslo."


def test_the_body_is_sent_without_what_is_none() -> None:
    with ScriptedServer(Reply({})) as server:
        post(server, {"temperature": None, "max_tokens": 0, "messages": [{"content": None}], "text": "\ud800ü"})
        assert server.bodies == [{"max_tokens": 0, "messages": [{"content": None}], "text": "\ud800ü"}]


@pytest.mark.parametrize(
    ("base", "path", "sent"),
    [("", "", "/"), ("/v1/", "/chat", "/v1/chat"), ("/v1", "/chat", "/v1/chat"), ("/answer", "", "/answer")],
)
def test_the_path_follows_the_address(base: str, path: str, sent: str) -> None:
    with ScriptedServer(Reply({})) as server:
        asyncio.run(post_json(model(server.url + base), {}, dict, path=path))
        assert server.requests[0].path == sent


@pytest.mark.parametrize(
    ("header", "sent"), [("Authorization", f"Bearer {KEY}"), ("X-Api-Key", KEY), ("authorization", f"Bearer {KEY}")]
)
def test_the_key_is_in_its_header_alone(header: str, sent: str) -> None:
    with ScriptedServer(Reply({})) as server:
        post(server, endpoint_api_key=KEY, key_header=header)
        headers = server.requests[0].headers
    assert [name for name, value in headers.items() if KEY in value] == [header.lower()]
    assert headers[header.lower()] == sent


def test_without_a_key_there_is_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer(Reply({})) as server:
        for key in (None, ""):
            post(server, endpoint_api_key=key)
        assert [request.headers.get("authorization") for request in server.requests] == [None, None]


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirection_names_the_cure_and_reaches_nobody(status: int) -> None:
    with ScriptedServer(Reply({})) as other:
        error = failed(faults.redirect(f"{other.url}/?key={KEY}", status), endpoint_api_key=KEY)
        assert other.connections == 0
    assert (error.category, error.status) == (ErrorCategory.PERMANENT, status)
    assert f"redirects requests to {other.url}/?***; set endpoint_base_url" in str(error)


@pytest.mark.parametrize("status", [200, 500])
def test_replies_are_read_up_to_the_limit(status: int) -> None:
    long = Reply("x" * 20_000, status)
    assert "larger than 10000 bytes when decompressed" in str(failed(long, max_reply_bytes=10_000))
    assert "more than" not in str(failed(long, max_reply_bytes=20_000))


@pytest.mark.parametrize(
    ("pack", "encoding"), [(gzip.compress, "gzip"), (zlib.compress, "deflate"), (gzip.compress, "X-GZIP")]
)
def test_compressed_replies_are_read_up_to_the_limit(pack: Any, encoding: str) -> None:
    def packed(value: Any) -> Reply:
        return Reply(pack(json.dumps(value).encode()), headers={"Content-Encoding": encoding})

    with ScriptedServer(packed({"text": "Oslo."})) as server:
        assert post(server) == {"text": "Oslo."}
    assert "larger than 10000 bytes when decompressed" in str(failed(packed("x" * 20_000), max_reply_bytes=10_000))


@pytest.mark.parametrize("body", ["[" * 5000 + "]" * 5000, "[" * 300 + "]" * 300, f"[{'1,' * 2_000_001}1]"])
def test_json_of_too_many_levels_or_values_is_an_error(body: str) -> None:
    assert failed(Reply(body)).category in (ErrorCategory.SERVER, ErrorCategory.PERMANENT)


@pytest.mark.parametrize("body", [{}, [], None, "text", {"message": None}, {"message": {"content": 1}}, {"message": 3}])
def test_json_of_another_form_is_the_servers_fault(body: Any) -> None:
    error = failed(Reply(json.dumps(body)), read=lambda data: data["message"]["content"].strip())
    assert error.category is ErrorCategory.SERVER
    assert "the JSON does not have the expected structure" in str(error)


def test_the_error_of_read_is_quoted_without_the_prompt() -> None:
    missing = failed(Reply({"text": "Oslo."}), read=lambda data: data["txt"])
    assert "expected structure (KeyError: 'txt')" in str(missing)
    echoed = failed(Reply({"text": "Where is it?"}), read=lambda data: int(data["text"]))
    assert "expected structure (ValueError: invalid literal for int() with base 10: '[prompt]')" in str(echoed)


@pytest.mark.parametrize(
    ("body", "headers", "wait"),
    [
        ({"wait": 2}, {}, 2.0),
        ({"wait": "0.5"}, {}, 0.5),
        ({"wait": 2, "message": "Try again in 9 s."}, {}, 2.0),
        ({"wait": None, "message": "Try again in 9 s."}, {}, 9.0),
        ({"wait": -3}, {}, 0.0),
        ({"wait": 2}, {"Retry-After": "7"}, 7.0),
        ({"wait": None}, {}, None),
        ({"wait": "soon"}, {}, None),
        ({"wait": 10**400}, {}, None),
        ({}, {}, None),
        ("busy", {}, None),
    ],
)
def test_a_wait_in_the_body_of_an_error_is_read(body: Any, headers: dict[str, str], wait: float | None) -> None:
    error = failed(Reply(body, 429, headers), read_wait=lambda told: told["wait"])
    assert (error.category, error.retry_after) == (ErrorCategory.RATE_LIMIT, wait)


def test_a_web_page_names_the_setting_of_the_address() -> None:
    error = failed(faults.web_page)
    assert error.category is ErrorCategory.PERMANENT
    assert "sent a web page instead of JSON (Welcome Hello.); check endpoint_base_url" in str(error)


def test_no_part_of_prompt_key_or_secret_path_is_in_an_error() -> None:
    prompt = "A question that nobody else may read."
    told = {"error": {"message": f"{KEY} may not ask: {prompt}"}}
    with ScriptedServer(Reply(told, 403)) as server:
        asked = model(f"{server.url}/team-4711-path", endpoint_api_key=KEY)
        with pytest.raises(PortError) as caught:
            asyncio.run(post_json(asked, {"messages": [{"content": prompt}]}, dict))
    assert "*** may not ask: [prompt]" in str(caught.value)
    assert "4711" not in str(caught.value)


def test_a_silent_server_is_a_timeout() -> None:
    error = failed(faults.hang, request_timeout=0.1)
    assert error.category is ErrorCategory.TIMEOUT
    assert "did not answer within 0.1 s; raise request_timeout" in str(error)


def test_cookies_are_not_kept_from_one_call_to_the_next() -> None:
    with ScriptedServer(Reply({}, headers={"Set-Cookie": "a=b"})) as server:
        post(server)
        post(server)
        assert "cookie" not in server.requests[1].headers


def test_without_aiohttp_the_cure_is_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    error = failed(Reply({}))
    assert error.category is ErrorCategory.PERMANENT
    assert "aiohttp is not installed; install karenina-toolkit with the `http` extra" in str(error)  # results store it
    with pytest.raises(AdapterConfigError, match=re.escape(install_command("karenina-toolkit[http]"))):
        check_server(model("http://host/v1"))


class Extra(StrictSettings):
    """Settings of an adapter."""

    depth: int = 1


@pytest.mark.parametrize(
    ("url", "fields", "says"),
    [
        (None, {}, "endpoint_base_url is missing"),
        ("localhost:8000", {}, "did you mean 'http://localhost:8000'"),
        ("http://me:secret@host", {}, "contains a user name or password"),
        ("http://host", {"endpoint_api_key": "a\nb"}, "contains a line break"),
        ("http://host", {"extra": {"dpeth": 2}}, "extra.dpeth"),
    ],
)
@pytest.mark.parametrize("extra", [None, Extra])
def test_a_configuration_that_cannot_work_is_refused(url: str | None, fields: Any, says: str, extra: Any) -> None:
    with pytest.raises(AdapterConfigError, match="model 'm'") as caught:
        check_server(model(url, **fields), extra=extra)
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_right_configuration_passes() -> None:
    check_server(model("http://host/v1", endpoint_api_key=KEY))
    check_server(model("http://host/v1", extra={"depth": 2}), extra=Extra)


def test_the_proxy_of_the_environment_is_used_but_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(Reply({"by": "proxy"})) as proxy, ScriptedServer(Reply({"by": "server"})) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "own.invalid")
        assert asyncio.run(post_json(model("http://models.invalid/v1"), {}, dict)) == {"by": "proxy"}
        assert proxy.requests[0].path == "http://models.invalid/v1"
        assert post(server) == {"by": "server"}
        with pytest.raises(PortError, match="could not connect"):
            asyncio.run(post_json(model("http://own.invalid/v1"), {}, dict))


async def post_by_proxy(address: str, url: str, monkeypatch: pytest.MonkeyPatch) -> PortError:
    """Return the error of a request through a proxy at `address`, in which PORT is a proxy that repeats what it got."""

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await reader.readuntil(b"\r\n\r\n") + b"me pass%word"
        writer.write(b"HTTP/1.1 407 pass%%word\r\nContent-Length: %d\r\n\r\n" % len(said) + said)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(repeat, "127.0.0.1", 0) as proxy:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, address.replace("PORT", str(proxy.sockets[0].getsockname()[1])))
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(PortError) as caught:
            await post_json(model(url), {}, dict)
    return caught.value


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_password_of_a_proxy_is_not_in_errors(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a proxy that says again which credentials it was sent."""
    address = "http://me:pass%25word@127.0.0.1:PORT"
    told = str(asyncio.run(post_by_proxy(address, f"{scheme}://models.invalid/v1", monkeypatch)))

    assert "HTTP 407" in told
    assert not [word for word in ("pass", base64.b64encode(b"me:pass%word").decode()) if word in told]


@pytest.mark.parametrize(
    "address",
    ["http://me:password@host:99999", "me:password@host", "password", "file:///password", "socks5://password:1"],
)
def test_an_invalid_proxy_is_not_shown(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = asyncio.run(post_by_proxy(address, "http://models.invalid/v1", monkeypatch))

    assert (error.category, "password" in str(error)) == (ErrorCategory.PERMANENT, False)
    assert "the proxy" in str(error)


def test_a_key_with_a_line_break_is_an_error_of_the_port() -> None:
    with ScriptedServer(Reply({})) as server, pytest.raises(PortError, match="request could not be sent") as caught:
        post(server, endpoint_api_key="key\r\nX-Other: 1")

    assert (caught.value.category, server.requests) == (ErrorCategory.PERMANENT, [])
