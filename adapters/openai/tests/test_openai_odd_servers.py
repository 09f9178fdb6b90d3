"""Servers and proxies that are odd, careless or hostile: what is forgiven, and what is not."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import sys
import threading
from pathlib import Path

import pytest
import trustme
from openai_servers import model
from wire import (
    ASK,
    BODY,
    Caller,
    Wire,
    always,
    chunked,
    context,
    each,
    fails,
    reply,
    served,
    tunnel,
    uses_its_connections_again,
)
from wire import either_loop as anyio_backend  # noqa: F401 - a fixture

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import ErrorCategory, Message, PortError
from karenina_openai.parser import OpenAILLM

pytestmark = pytest.mark.anyio
C = ErrorCategory
TRAILER = b"Content-Encoding: gzip\r\nContent-Type: text/plain\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(reply().partition(b"\r\n\r\n")[0].replace(b"\r\n", b"\n") + b"\n\n" + BODY, id="lines end in LF"),
        pytest.param(reply(BODY, "X-Long: one\r\n two"), id="a header of two lines"),
        pytest.param(reply(BODY, "X-Odd: \x01"), id="a control character"),
        pytest.param(chunked().replace(b"a\r\n", b"a  \r\n"), id="padded sizes of chunks"),
        pytest.param(chunked()[:-2] + TRAILER, id="headers after the body"),
        pytest.param(reply(BODY, "Content-Encoding: utf-8"), id="an encoding that is no packing"),
        pytest.param(reply(BODY, "X-Long: " + "x" * 30_000), id="a long header"),
    ],
)
async def test_what_other_clients_forgive_is_forgiven(data: bytes) -> None:
    async with served(always(data)) as wire:
        port = OpenAILLM(model(wire.url, request_timeout=60))
        assert await uses_its_connections_again(port, wire)
        await port.aclose()


async def test_a_body_may_end_with_its_connection() -> None:
    async with served(each(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n" + BODY)) as wire:
        port = OpenAILLM(model(wire.url))
        assert (await port.invoke(ASK)).text == "Paris."
        await port.aclose()


@pytest.mark.parametrize(
    "data",
    [
        reply().replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length"),
    ],
)
async def test_a_body_with_two_lengths_is_refused(data: bytes) -> None:
    async with served(each(data)) as wire:
        port = OpenAILLM(model(wire.url))
        assert "was lost (" in str(await fails(port))
        await port.aclose()


@pytest.mark.parametrize(
    ("line", "category"),
    [
        (b"X-Endless: yes\r\n", C.CONNECTION),
        (b"x", C.CONNECTION),
        (b"HTTP/1.1 100 Continue\r\n\r\n", C.TIMEOUT),
    ],
)
async def test_a_head_without_an_end_is_given_up(line: bytes, category: ErrorCategory) -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        await caller.request()
        if not line.startswith(b"HTTP"):
            await caller.says(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not caller.writer.is_closing():
            await caller.says(line * 10_000)
            await asyncio.sleep(0)

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url, request_timeout=2 if category is C.TIMEOUT else 60))
        assert (await fails(port)).category is category
        await port.aclose()


async def test_an_early_reply_makes_the_next_request_reconnect() -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        head = await caller.reader.readuntil(b"\r\n\r\n")
        long = b"Content-Length: 2000" in head
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]  # typed as one that only writes
        await caller.says(reply(b"{}", status="413 Content Too Large") if long else reply())
        await caller.gone.wait()

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url, request_timeout=60))
        with pytest.raises(PortError, match="HTTP 413"):
            await port.invoke([Message.user("x" * 20_000_000)])
        assert (await port.invoke(ASK)).text == "Paris."
        assert len(wire.callers) == 2
        await port.aclose()


@pytest.mark.parametrize("key", ["sk\r\nX-Other: 1", "sk\n", "sk\0"])
def test_no_header_can_become_two(key: str) -> None:
    with pytest.raises(ValueError, match="line break") as caught:
        OpenAILLM(model("http://127.0.0.1:1/v1", endpoint_api_key=key))
    assert key not in str(caught.value)


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_the_length_of_a_request_is_not_for_settings(name: str) -> None:
    with pytest.raises(AdapterConfigError, match=rf"headers\.{name} is set by Karenina"):
        OpenAILLM(model("http://127.0.0.1:1/v1", extra={"headers": {name: "5"}}))


async def test_a_trailing_dot_of_a_host_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    async with served(always(), tls=context(authority, "model.example")) as wire, served(tunnel(wire.port)) as proxy:
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        port = OpenAILLM(model("https://model.example./v1", request_timeout=60))
        assert (await port.invoke(ASK)).text == "Paris."
        assert "Host: model.example" in wire.heads[0]
        await port.aclose()


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:port", "http://127.0.0.1:99999", "http://[::1", "http://"])
async def test_an_invalid_proxy_url_is_a_permanent_error(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", proxy)
    port = OpenAILLM(model("http://model.example/v1"))
    error = await fails(port)
    assert (error.category, "proxy in the environment is not a URL" in str(error)) == (C.PERMANENT, True)
    await port.aclose()


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "//127.0.0.1:{}", "HTTP://127.0.0.1:{}/"])
async def test_a_proxy_may_be_named_in_short(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    async with served(always()) as proxy:
        monkeypatch.setenv("http_proxy", form.format(proxy.port))
        port = OpenAILLM(model("http://model.example/v1"))
        assert (await port.invoke(ASK)).text == "Paris."
        await port.aclose()


async def test_a_connection_that_ends_while_it_is_made_says_so() -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        await caller.reader.read(10)

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url.replace("http:", "https:"), request_timeout=60))
        error = await fails(port)
        assert error.category is C.CONNECTION
        assert "NoConnection" not in str(error)
        await port.aclose()


async def test_a_proxy_that_closes_the_tunnel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    async with served(each(b"HTTP/1.1 200 OK\r\n\r\n")) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        port = OpenAILLM(model("https://model.example/v1", request_timeout=60))
        assert (await fails(port)).category is C.CONNECTION
        await port.aclose()


async def test_an_unclosed_port_leaves_no_connection() -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        await caller.request()
        await caller.says(reply())
        await caller.hears_the_end()

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url))
        await port.invoke(ASK)
        del port
        gc.collect()
        await asyncio.wait_for(wire.callers[0].gone.wait(), 60)


FORKING = """
import asyncio, os, sys
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message, PortError
from karenina_openai.parser import OpenAILLM

port = OpenAILLM(ModelConfig(id="m", interface="openai", model_name="served", endpoint_base_url=sys.argv[1]))

async def call():
    return (await port.invoke([Message.user("Where?")])).text

print(asyncio.run(call()), flush=True)
if os.fork() == 0:
    try:
        asyncio.run(call())
    except PortError as error:
        print(error.category.name, error, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
async def test_a_call_after_a_fork_is_a_clear_error() -> None:
    """The library's threads do not survive a fork, and it refuses to start others."""
    async with served(always(reply())) as wire:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", FORKING, wire.url, stdout=pipe)
        said, _ = await asyncio.wait_for(process.communicate(), 60)
    answer, error = said.decode().splitlines()
    assert answer == "Paris."
    assert error.startswith("PERMANENT ")
    assert "fork" in error


def test_a_connection_serves_only_the_loop_it_was_made_in() -> None:
    """A call that began in one loop ends while the port is used in another."""
    over = threading.Event()
    urls: queue.Queue[str] = queue.Queue()

    async def script(wire: Wire, caller: Caller) -> None:
        while True:
            await caller.request()
            await asyncio.sleep(0.1)
            await caller.says(reply())

    async def serve() -> None:
        async with served(script) as wire:
            urls.put(wire.url)
            await asyncio.to_thread(over.wait)

    server = threading.Thread(target=asyncio.run, args=(serve(),))
    server.start()
    port = OpenAILLM(model(urls.get(timeout=60), request_timeout=60))
    try:
        with asyncio.Runner() as one, asyncio.Runner() as other:
            call = one.get_loop().create_task(port.invoke(ASK))
            one.run(asyncio.sleep(0.02))
            assert other.run(port.invoke(ASK)).text == "Paris."

            async def ended() -> str:
                return (await call).text

            assert one.run(ended()) == "Paris."
            assert other.run(port.invoke(ASK)).text == "Paris."
            other.run(port.aclose())
    finally:
        over.set()
        server.join()


async def test_the_password_of_a_proxy_is_not_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a proxy that says again which credentials it was sent."""

    async def script(_wire: Wire, caller: Caller) -> None:
        await caller.says(reply(str(await caller.request()).encode() + b" password", status="407 Refused"))

    async with served(script) as proxy:
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("http_proxy", f"http://me:password@127.0.0.1:{proxy.port}")
        error = await fails(OpenAILLM(model("http://model.example/v1")))

    assert "HTTP 407" in str(error)
    assert not [word for word in ("password", "bWU6cGFzc3dvcmQ=") if word in str(error)]
