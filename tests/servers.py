"""Servers on loopback for tests: one that records every request and answers in the OpenAI chat shape."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

Said = str | dict[str, Any] | web.Response
"""The text of an answer, or its whole message, with calls of tools; or all that is sent, such as an error."""
Reply = Callable[[dict[str, Any]], Said | Awaitable[Said]]
"""A plain function blocks all other requests until it returns; a coroutine function does not."""


class RecordingServer:
    """Keeps the bytes of every request, headers included; `reply` makes the text of each answer."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.usage: Callable[[dict[str, Any]], tuple[int, int]] = lambda _body: (3, 2)
        """The tokens that it counts of a request: in and out."""
        self.seen: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.text()
        headers = "\n".join(f"{name}: {value}" for name, value in request.headers.items())
        self.seen.append(f"{request.method} {request.path_qs}\n{headers}\n{body}")
        reply = self.reply(json.loads(body))
        said = await reply if isinstance(reply, Awaitable) else reply
        if isinstance(said, web.Response):
            return said
        sent, answered = self.usage(json.loads(body))
        message = said if isinstance(said, dict) else {"content": said}
        return web.json_response(
            {
                "id": "1",
                "object": "chat.completion",
                "model": "recording",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
                        "message": {"role": "assistant", **message},
                    }
                ],
                "usage": {"prompt_tokens": sent, "completion_tokens": answered, "total_tokens": sent + answered},
            }
        )


@contextmanager
def recording_server(reply: Reply) -> Iterator[RecordingServer]:
    """Provide a server in a thread of its own, as long as the block lasts."""
    server = RecordingServer(reply)
    started, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", server.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        sockets = runner.addresses
        server.url = f"http://127.0.0.1:{sockets[0][1]}/v1"
        loops.append(asyncio.get_running_loop())
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    if not started.wait(10):
        raise RuntimeError("the recording server did not start")
    try:
        yield server
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)
