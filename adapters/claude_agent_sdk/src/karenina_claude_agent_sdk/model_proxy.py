"""A proxy on the loopback interface between the CLI and the model's server.

The CLI sends its requests to this proxy, so that each request is counted, errors are classified by their status rather
than by the CLI, there are no hidden retries, and the API key is not in a process whose commands could read it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from karenina_claude_agent_sdk.conversion import WireMessage
from karenina_claude_agent_sdk.event_stream import PING, events_of

_PING_SECONDS: Final = 10.0
_LONGEST_REQUEST: Final = 256 * 2**20

Answer = Callable[[WireMessage, Mapping[str, str]], Awaitable[WireMessage | None]]
"""A function that returns the reply to a CLI's request, or None if the run is over."""


class ModelProxy:
    """A proxy for the requests of CLI runs, each of which has its own URL. The first run starts the proxy."""

    def __init__(self) -> None:
        self._runs: dict[str, Answer] = {}
        self._runner: web.ServerRunner | None = None
        self._starting = asyncio.Lock()
        self._url = ""

    async def start(self) -> None:
        """Start the proxy if it is not running."""
        async with self._starting:
            if self._runner is not None:
                return
            runner = web.ServerRunner(
                web.Server(self._serve, handler_cancellation=True, access_log=None), shutdown_timeout=0.1
            )
            try:
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", 0).start()
            except BaseException:  # also if cancelled; the next run then starts it again
                await asyncio.shield(runner.cleanup())
                raise
            self._url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._runner = runner

    @contextmanager
    def answering(self, answer: Answer) -> Iterator[str]:
        """Have `answer` reply to the requests of one run while the block lasts, and yield the run's base URL."""
        name = secrets.token_urlsafe(24)
        self._runs[name] = answer
        try:
            yield f"{self._url}/{name}"
        finally:
            del self._runs[name]

    async def aclose(self) -> None:
        """Stop listening."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        name, _, path = request.path.lstrip("/").partition("/")
        answer = self._runs.get(name)
        if answer is None or request.method != "POST" or path != "v1/messages":
            error = {"type": "not_found_error", "message": "there is nothing here"}
            return web.json_response({"type": "error", "error": error}, status=404)
        request._client_max_size = _LONGEST_REQUEST
        body: WireMessage = await request.json()
        asked = asyncio.ensure_future(answer(body, request.headers))
        try:
            if not body.get("stream"):
                return web.json_response(await self._wait_for_reply(asked))
            return await self._stream(request, asked)
        finally:
            asked.cancel()

    async def _stream(self, request: web.BaseRequest, asked: asyncio.Future[WireMessage | None]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        while not (await asyncio.wait([asked], timeout=_PING_SECONDS))[0]:
            await response.write(PING)
        for event in events_of(await self._wait_for_reply(asked)):
            await response.write(event)
        return response

    @staticmethod
    async def _wait_for_reply(asked: asyncio.Future[WireMessage | None]) -> WireMessage:
        """Return the reply. If there is none, wait until the CLI is ended, which cancels this task."""
        reply = await asked
        if reply is None:
            await asyncio.Event().wait()
            raise AssertionError
        return reply
