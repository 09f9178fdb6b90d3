"""Connections to a server: what comes over them, how they end, and which are used again. Byte for byte, on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import queue
import socket
import threading
import zlib
from typing import Any

import pytest
from openai_servers import chunk, completion, model
from wire import (
    ASK,
    BODY,
    Caller,
    Wire,
    always,
    chunked,
    each,
    fails,
    reply,
    served,
    silence,
    uses_its_connections_again,
)
from wire import either_loop as anyio_backend  # noqa: F401 - a fixture

from karenina_core.models.ports import ErrorCategory, Message, PortError
from karenina_openai.parser import OpenAILLM

pytestmark = pytest.mark.anyio
C = ErrorCategory


async def nothing_is_left() -> None:
    """Assert that no task of the client is left."""
    await asyncio.sleep(0)
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
    assert not [name for name in names if "karenina" in name]


KEPT = [
    reply(),
    chunked(),
    chunked(size=1),
    b"HTTP/1.1 100 Continue\r\n\r\n" + reply(),
    b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + reply(),
    reply(gzip.compress(BODY), "Content-Encoding: gzip"),
    reply(zlib.compress(BODY), "Content-Encoding: deflate"),
    reply(BODY, "Content-Encoding: identity"),
    reply(BODY, "Upgrade: h2c", "Connection: Upgrade"),
    reply(BODY, "X-Name: Jos\u00e9", "Set-Cookie: a=b", "Set-Cookie: c=d"),
]


@pytest.mark.parametrize("data", KEPT)
async def test_replies_of_many_forms_are_read_over_one_connection(data: bytes) -> None:
    async with served(always(data)) as wire:
        port = OpenAILLM(model(wire.url))
        assert await uses_its_connections_again(port, wire)
        assert not [line for head in wire.heads for line in head if line.startswith("Cookie")]
        await port.aclose()


async def test_headers_beyond_ascii_do_not_hide_an_error() -> None:
    async with served(each(reply(b"{}", "X-Name: Jos\u00e9", "Retry-After: 7", status="503 No"))) as wire:
        port = OpenAILLM(model(wire.url))
        error = await fails(port)
        assert (error.status, error.retry_after) == (503, 7)
        await port.aclose()


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + BODY,  # its end is that of the connection
        b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY),
        reply(BODY, "Connection: close"),
        reply(BODY) + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",  # more than was requested
    ],
)
async def test_an_unusable_connection_is_not_reused(data: bytes) -> None:
    async with served(each(data)) as wire:
        port = OpenAILLM(model(wire.url))
        assert [(await port.invoke(ASK)).text for _ in range(2)] == ["Paris."] * 2
        assert len(wire.callers) == 2
        await port.aclose()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "closed the connection before replying"),
        (b"HTTP/1.1 200 OK\r\nConte", "closed the connection before replying"),
        (reply()[:-9], "closed the connection in the middle of the reply"),
        (chunked()[:-9], "closed the connection in the middle of the reply"),
        (chunked().replace(b"\r\na\r\n", b"\r\nzz\r\n"), "not HTTP"),
        (b"Hello!\r\n\r\n", "not HTTP"),
        (reply().replace(b"Content-Length: ", b"Content-Length: 1\r\nContent-Length: "), "not HTTP"),
        (reply(gzip.compress(BODY)[:-9], "Content-Encoding: gzip"), "is incomplete"),
        (reply(BODY, "Content-Encoding: gzip"), "cannot be decompressed"),
        (reply(BODY, "Content-Encoding: br"), "compressed with 'br'"),
    ],
)
async def test_a_broken_reply_is_worth_another_attempt(data: bytes, why: str) -> None:
    async with served(each(data)) as wire:
        port = OpenAILLM(model(wire.url))
        error = await fails(port)
        assert error.category is C.CONNECTION
        assert f"the connection to 127.0.0.1:{wire.port} was lost (" in str(error)
        assert why in str(error)
        await port.aclose()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"])
async def test_a_reset_connection_is_worth_another_attempt(said: bytes) -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        await caller.request()
        await caller.says(said)
        await asyncio.sleep(0.02)
        caller.reset()

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url))
        error = await fails(port)
        assert error.category is C.CONNECTION
        assert "reset" in str(error)
        await port.aclose()


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        await caller.request()
        await caller.says(reply())
        caller.writer.write_eof()
        await caller.hears_the_end()

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url))
        await port.invoke(ASK)
        await wire.callers[0].gone.wait()
        await port.invoke(ASK)
        assert len(wire.callers) == 2
        await port.aclose()


async def test_a_request_on_a_closing_connection_is_retriable() -> None:
    closed = asyncio.Event()

    async def script(wire: Wire, caller: Caller) -> None:
        await caller.request()
        await caller.says(reply())
        await caller.request()
        if not closed.is_set():  # the others that a busy machine may have opened stay open
            closed.set()
            return
        while True:
            await caller.says(reply())
            await caller.request()

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url))
        with pytest.raises(PortError) as caught:
            await uses_its_connections_again(port, wire)
        assert caught.value.category is C.CONNECTION
        assert (await port.invoke(ASK)).text == "Paris."
        await port.aclose()


async def test_what_comes_unasked_ends_the_connection() -> None:
    received = asyncio.Event()

    async def script(wire: Wire, caller: Caller) -> None:
        await caller.request()
        await caller.says(reply())
        await received.wait()
        await caller.says(reply(json.dumps(completion("Rome.")).encode()))
        await caller.hears_the_end()

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url))
        await port.invoke(ASK)
        received.set()
        await wire.callers[0].gone.wait()
        assert (await port.invoke(ASK)).text == "Paris."
        await port.aclose()


@pytest.mark.parametrize(
    ("begun", "limits"),
    [
        # Before the head of its reply has arrived, the library ends a request when its time is over.
        (b"", {"request_timeout": 2}),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", {}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_cancelled_call_frees_its_connection(begun: bytes, limits: dict[str, Any], stream: bool) -> None:
    async with served(silence(begun)) as wire:
        port = OpenAILLM(model(wire.url, extra={"stream": stream}, **limits))
        call = asyncio.create_task(port.invoke(ASK))
        await wire.asked.wait()
        await asyncio.sleep(1 if begun else 0)  # the reply has arrived
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(wire.callers[0].gone.wait(), 60)
        await nothing_is_left()
        await port.aclose()


@pytest.mark.parametrize(
    "begun",
    [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"],
)
async def test_the_timeout_covers_the_reply_and_frees_the_connection(begun: bytes) -> None:
    async with served(silence(begun)) as wire:
        port = OpenAILLM(model(wire.url, request_timeout=1))
        error = await fails(port)
        assert error.category is C.TIMEOUT
        assert "did not answer within 1 s; raise request_timeout" in str(error)
        while not wire.callers:  # noqa: ASYNC110 - a busy server accepts the connection late
            await asyncio.sleep(0.01)
        await asyncio.wait_for(wire.callers[0].gone.wait(), 60)
        await port.aclose()


async def test_the_time_out_is_for_the_connecting_as_well() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        port = OpenAILLM(model(f"http://127.0.0.1:{full.getsockname()[1]}/v1", request_timeout=0.2))
        assert (await fails(port)).category is C.TIMEOUT
        await port.aclose()
        for one in waiting:
            one.close()


async def test_closing_the_port_ends_the_calls_under_way() -> None:
    async with served(silence()) as wire:
        port = OpenAILLM(model(wire.url, request_timeout=4))
        call = asyncio.create_task(fails(port))
        await wire.asked.wait()
        await port.aclose()
        assert (await call).category is C.CONNECTION
        await asyncio.wait_for(wire.callers[0].gone.wait(), 60)
        assert "this client is closed" in str(await fails(port))


async def test_a_stream_that_ends_in_an_error_frees_its_connection() -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        await caller.request()
        await caller.says(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        await caller.says(chunk(content="Par").encode() + b'data: {"error": {"message": "lost"}}\n\n')
        await caller.hears_the_end()

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url, extra={"stream": True}))
        assert "lost" in str(await fails(port))
        await asyncio.wait_for(wire.callers[0].gone.wait(), 60)
        await port.aclose()


async def test_a_packed_stream_is_read_over_one_connection() -> None:
    events = [chunk(content="Par").encode(), chunk("stop", content="is.").encode() + b"data: [DONE]\n\n"]
    packer = zlib.compressobj(wbits=31)
    parts = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in events] + [packer.flush()]

    async def script(wire: Wire, caller: Caller) -> None:
        while True:
            await caller.request()
            await caller.says(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            for part in [*parts, b""]:
                await caller.says(b"%x\r\n%b\r\n" % (len(part), part))
                # What follows the last event comes at once: a busy machine takes long for each pause.
                await asyncio.sleep(0.01 if part is parts[0] else 0)

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url, extra={"stream": True}))
        assert await uses_its_connections_again(port, wire)
        await port.aclose()


async def test_hundreds_of_concurrent_calls_reuse_their_connections() -> None:
    gate = asyncio.Event()
    arrived: list[Caller] = []

    async def script(wire: Wire, caller: Caller) -> None:
        while True:
            await caller.request()
            arrived.append(caller)
            if len(arrived) == 200:
                gate.set()
            await gate.wait()
            await caller.says(reply())

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url))
        assert await uses_its_connections_again(port, wire, 200)
        await port.aclose()


async def test_megabytes_go_both_ways() -> None:
    long = "x\u00e9" * 2_000_000

    async def script(wire: Wire, caller: Caller) -> None:
        _, body = await caller.request()
        assert json.loads(body)["messages"][0]["content"] == long
        await caller.says(reply(json.dumps(completion(long)).encode()))

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url))
        assert (await port.invoke([Message.user(long)])).text == long
        await port.aclose()


async def test_a_reply_before_the_end_of_the_request_is_accepted() -> None:
    async def script(wire: Wire, caller: Caller) -> None:
        await caller.reader.readuntil(b"\r\n\r\n")
        await caller.says(reply(b'{"error": {"message": "too long"}}', status="413 Content Too Large"))
        await caller.hears_the_end()

    async with served(script) as wire:
        port = OpenAILLM(model(wire.url))
        assert (await fails(port)).status == 413
        await port.aclose()


@pytest.mark.parametrize(
    ("path", "extra", "line", "headers"),
    [
        ("/v1", {}, "POST /v1/chat/completions HTTP/1.1", {"user-agent": "karenina"}),
        ("/a b/\u00e9/%2F/v1/", {}, "POST /a%20b/%C3%A9/%2F/v1/chat/completions HTTP/1.1", {}),
        (
            "/v1",
            {"query": {"api-version": "2026 &+", "k\u00e4y": "="}},
            "POST /v1/chat/completions?api-version=2026+%26%2B&k%C3%A4y=%3D HTTP/1.1",
            {},
        ),
        (
            "/v1",
            {"headers": {"AUTHORIZATION": "Basic eA==", "content-type": "application/json; x=y", "api-key": "k"}},
            "POST /v1/chat/completions HTTP/1.1",
            {"authorization": "Basic eA==", "content-type": "application/json; x=y", "api-key": "k"},
        ),
    ],
)
async def test_what_is_sent(path: str, extra: dict[str, Any], line: str, headers: dict[str, str]) -> None:
    async with served(each(reply())) as wire:
        base = wire.url.removesuffix("/v1") + path
        port = OpenAILLM(model(base, extra=extra, endpoint_api_key="sk-mine"))
        await port.invoke(ASK)
        first, *rest = wire.heads[0]
        sent = [(name.lower(), value) for name, _, value in (one.partition(": ") for one in rest)]
        assert first == line
        assert len({name for name, _ in sent}) == len(sent)
        expected = {"host": f"127.0.0.1:{wire.port}", "authorization": "Bearer sk-mine", **headers}
        assert expected.items() <= dict(sent).items()
        await port.aclose()


async def test_a_host_may_be_a_number_of_the_sixth_version() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    async with served(each(reply()), host="::1") as wire:
        port = OpenAILLM(model(wire.url))
        assert (await port.invoke(ASK)).text == "Paris."
        assert f"Host: [::1]:{wire.port}" in wire.heads[0]
        await port.aclose()


async def test_all_addresses_of_a_host_are_tried() -> None:
    async with served(always()) as wire:
        port = OpenAILLM(model(wire.url.replace("127.0.0.1", "localhost")))
        replies = await asyncio.gather(*(port.invoke(ASK) for _ in range(20)))
        assert {one.text for one in replies} == {"Paris."}
        await nothing_is_left()
        await port.aclose()


async def test_an_unknown_host_is_retriable() -> None:
    port = OpenAILLM(model("http://nowhere.invalid/v1"))
    errors = await asyncio.gather(*(fails(port) for _ in range(5)))
    assert {error.category for error in errors} == {C.CONNECTION}
    assert "could not connect to nowhere.invalid:80 (" in str(errors[0])
    await port.aclose()


def test_a_port_outlives_the_loop_that_it_was_used_in() -> None:
    over = threading.Event()
    urls: queue.Queue[str] = queue.Queue()

    async def serve() -> None:
        async with served(always()) as wire:
            urls.put(wire.url)
            await asyncio.to_thread(over.wait)

    server = threading.Thread(target=asyncio.run, args=(serve(),))
    server.start()
    try:
        port = OpenAILLM(model(urls.get(timeout=60), request_timeout=60))
        assert [asyncio.run(port.invoke(ASK)).text for _ in range(2)] == ["Paris."] * 2
        asyncio.run(port.aclose())
    finally:
        over.set()
        server.join()
