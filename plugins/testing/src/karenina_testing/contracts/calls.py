"""The contract for all calls: error categories, no hidden retries, no leftovers and no exposed secrets."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import asyncio
import logging
import os
import time
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import ErrorCategory, FinishReason, Port, PortError, Usage
from karenina_testing.contracts.odd_replies import OddReply
from karenina_testing.contracts.wire_format import KEY, PortContract
from karenina_testing.server import Fault, Reply, Request, ScriptedServer, faults, refusing_url
from karenina_testing.server.scripted import WAIT

T = TypeVar("T")
C = ErrorCategory

STATUSES = [
    (400, C.PERMANENT),
    (401, C.PERMANENT),
    (403, C.PERMANENT),
    (404, C.PERMANENT),
    (408, C.TIMEOUT),
    (409, C.SERVER),
    (422, C.PERMANENT),
    (429, C.RATE_LIMIT),
    (500, C.SERVER),
    (503, C.SERVER),
    (504, C.TIMEOUT),
    (529, C.SERVER),
]


class PortReply(Protocol):
    """The attributes shared by all ports' replies."""

    @property
    def usage(self) -> Usage:
        """The token usage."""

    @property
    def finish_reason(self) -> FinishReason:
        """The reason why the model stopped."""


class CallContract(PortContract):
    """The contract for all ports.

    `call` makes a call, and `good` returns a successful server reply.
    """

    def call(self, port: Any) -> Coroutine[Any, Any, PortReply]:
        """Make one call through `port`."""
        raise NotImplementedError

    def good(self) -> Callable[[Request], Reply]:
        """Return the server's successful reply to `call`."""
        raise NotImplementedError

    def using(self, use: Callable[[Any], Coroutine[Any, Any, T]], url: str, **fields: Any) -> T:
        """Return what `use` returns for a new port, whose model uses the server at `url` and has the additional
        `fields`. The port is then closed, and nothing may be left behind.
        """

        async def run() -> T:
            before = child_processes()
            port = self.make(self.model(url, **fields))
            try:
                return await use(port)
            finally:
                await port.aclose()
                await assert_nothing_left(before)

        return asyncio.run(run())

    def failed(self, url: str, **fields: Any) -> PortError:
        """Return the `PortError` of a call that must fail. `url` and `fields` are the same as for `using`."""

        async def fail(port: Port) -> PortError:
            with pytest.raises(PortError) as caught:
                await self.call(port)
            return caught.value

        return self.using(fail, url, **fields)

    def failed_with(self, fault: Fault) -> PortError:
        """Return the error of a call to a server with the given fault. Replies are limited to one megabyte, which a
        busy machine has a minute to read.
        """
        limits: dict[str, Any] = {"max_reply_bytes": 2**20, "request_timeout": 60.0, "stream_timeout": 60.0}
        with self.server(lambda request: fault(request, self.good()(request))) as server:
            return self.failed(server.url, **limits)

    def come_to(self, odd: OddReply, use: Callable[[Any], Coroutine[Any, Any, T]]) -> T | PortError:
        """Return the result of `use`, or the `PortError` that it raises, when the server sends the given odd reply."""
        with self.server(Reply(odd.body, odd.status)) as server:
            try:
                return self.using(use, server.url)
            except PortError as error:
                return error

    def test_usage_is_what_the_server_counted(self) -> None:
        with self.server(self.good()) as server:
            assert self.using(self.call, server.url).usage == self.usage

    @pytest.mark.parametrize(("status", "category"), STATUSES)
    def test_a_status_decides_the_category(self, status: int, category: ErrorCategory) -> None:
        with self.server(self.failing(status)) as server:
            error = self.failed(server.url)
        assert (error.category, error.status) == (category, status)

    @pytest.mark.parametrize("status", [429, 503])
    def test_the_retry_after_header_is_returned(self, status: int) -> None:
        with self.server(self.failing(status, Retry_After="7")) as server:
            assert self.failed(server.url).retry_after == 7

    def test_a_failure_without_a_time_to_wait_has_none(self) -> None:
        with self.server(self.failing(429)) as server:
            assert self.failed(server.url).retry_after is None

    def test_a_refused_connection_is_one_of_the_connection(self) -> None:
        with refusing_url() as url:
            error = self.failed(url)
        assert (error.category, error.status) == (C.CONNECTION, None)

    @pytest.mark.parametrize("fault", [faults.close, faults.cut], ids=str)
    def test_a_connection_that_breaks_is_one_of_the_connection(self, fault: Fault) -> None:
        def broken(request: Request) -> Reply:
            return fault(request, self.good()(request))

        with self.server(broken) as server:
            assert self.failed(server.url).category is C.CONNECTION

    @pytest.mark.parametrize("body", ["", "Hello!", '"Hello!"', "{}"])
    def test_a_reply_that_is_none_is_the_servers_fault(self, body: str) -> None:
        with self.server(Reply(body)) as server:
            assert self.failed(server.url).category is C.SERVER

    def test_cut_json_is_the_servers_fault(self) -> None:
        def cut(request: Request) -> Reply:
            good = self.good()(request)
            return replace(good, body=good.payload[:-9])

        with self.server(cut) as server:
            assert self.failed(server.url).category is C.SERVER

    def test_a_silent_server_is_a_timeout_without_leftovers(self) -> None:
        with self.server(faults.hang) as server:
            error = self.failed(server.url, request_timeout=0.3)
            assert error.category is C.TIMEOUT
            assert server.all_closed()

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_a_redirection_is_an_error_and_is_not_followed(self, status: int) -> None:
        with ScriptedServer(self.good()) as other:
            with self.server(faults.redirect(f"{other.url}{self.base_path}", status)) as server:
                error = self.failed(server.url)
                assert len(server.requests) == 1
            assert other.connections == 0, "the request, including its key and prompt, was sent to another server"
        assert error.category is C.PERMANENT

    def test_of_a_gigabyte_only_the_limit_is_read(self) -> None:
        error = self.failed_with(faults.oversized(1024))
        assert error.category is C.PERMANENT, "a retry would get the same reply"
        assert "max_reply_bytes" in str(error)

    def test_a_reply_that_unpacks_beyond_the_limit_is_an_error(self) -> None:
        """The reply is a few kilobytes that decompress to 64 megabytes."""
        assert self.failed_with(faults.bomb(64)).category in (C.PERMANENT, C.SERVER)

    def test_a_model_without_a_key_sends_no_empty_one(self) -> None:
        with self.server(self.good()) as server:
            with suppress(AdapterConfigError, PortError):  # the adapter may need a key
                self.using(self.call, server.url, endpoint_api_key=None)
            headers = [header for request in server.requests for header in request.headers.items()]
        assert [name for name, value in headers if value.strip().lower() in ("", "bearer", "basic", "token")] == []

    @pytest.mark.parametrize("status", [408, 429, 500, 503])
    def test_a_failed_request_is_not_repeated_by_the_port(self, status: int) -> None:
        with self.server(self.failing(status, Retry_After="0")) as server:
            self.failed(server.url)
            assert len(server.requests) == 1

    def test_a_broken_connection_is_not_tried_again_by_the_port(self) -> None:
        with self.server(faults.close) as server:
            self.failed(server.url)
            assert len(server.requests) == 1

    @pytest.mark.parametrize("first", [500, 401, None])
    def test_a_failed_call_leaves_the_port_usable(self, first: int | None) -> None:
        async def twice(port: Port) -> PortReply:
            with pytest.raises(PortError):
                await self.call(port)
            return await self.call(port)

        failure: Fault | Reply = faults.close if first is None else self.failing(first)
        with self.server(failure, self.good()) as server:
            assert self.using(twice, server.url).usage == self.usage

    def test_calls_are_under_way_side_by_side(self) -> None:
        """Calls of one port are under way at the same time. The first call is made alone, because the port may use it
        to find out what the server supports.
        """
        both = asyncio.Barrier(2)

        async def together(request: Request) -> Reply:
            async with asyncio.timeout(WAIT):
                await both.wait()
            return self.good()(request)

        async def two(port: Port) -> list[PortReply]:
            await self.call(port)
            return list(await asyncio.gather(self.call(port), self.call(port)))

        with self.server(self.good(), together) as server:
            assert [reply.usage for reply in self.using(two, server.url)] == [self.usage, self.usage]

    def test_a_call_that_is_cancelled_ends_and_leaves_nothing_behind(self) -> None:
        async def cancel(port: Port) -> None:
            under_way = asyncio.create_task(self.call(port))
            assert await asyncio.to_thread(server.has_requests, 1), "the server received no request"
            under_way.cancel()
            done, _ = await asyncio.wait([under_way], timeout=WAIT)
            assert done, "the call continued after it was cancelled"
            assert under_way.cancelled(), (
                f"the call ended without being cancelled; its exception is {under_way.exception()!r}"
            )

        with self.server(faults.hang) as server:
            self.using(cancel, server.url)
            assert server.all_closed()

    def test_a_closed_port_has_no_connection_open(self) -> None:
        with self.server(self.good()) as server:
            self.using(self.call, server.url)
            assert server.all_closed()

    def test_a_port_may_be_closed_twice(self) -> None:
        async def close(port: Port) -> None:
            await self.call(port)
            await port.aclose()

        with self.server(self.good()) as server:
            self.using(close, server.url)

    @pytest.mark.parametrize("status", [400, 401, 500])
    def test_no_secret_is_in_an_error_or_a_log(self, status: int, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        with self.server(self.failing(status, f"the key {KEY} is wrong")) as server:
            error = self.failed(server.url)
        shown = "".join(traceback.format_exception(error))
        places = {"error": f"{error} {error!r} {error.args}", "traceback": shown, "log": caplog.text}
        assert [place for place, text in places.items() if KEY in text] == []

    def test_the_log_of_a_successful_call_shows_no_secret(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        with self.server(self.good()) as server:
            self.using(self.call, server.url)
            if self.sends_key:
                assert KEY in server.requests[0].whole, "the key did not reach the server"
        assert KEY not in caplog.text


def child_processes() -> set[int]:
    """Return the ids of this process's running children. Outside Linux, the set is always empty."""
    children: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            children |= {int(number) for number in task.read_text("ascii").split()}
        except OSError:  # the thread has ended
            continue
    return children - {os.getpid()}


async def assert_nothing_left(before: set[int]) -> None:
    """Wait up to `WAIT` seconds until no tasks, and no child processes besides those in `before`, are left, or fail."""
    until = time.monotonic() + WAIT
    while True:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        processes = child_processes() - before
        if not tasks and not processes:
            return
        if time.monotonic() > until:
            raise AssertionError(f"the port left behind tasks {[*map(repr, tasks)]} and processes {sorted(processes)}")
        await asyncio.sleep(0.05)
