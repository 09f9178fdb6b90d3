"""A server on loopback for tests: it records every request, and says what a function returns for its body."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from karenina_core.models.ports import Usage
from karenina_testing.server import Reply, Request, Say, ScriptedServer
from karenina_testing.server.formats import completion_of

SHARED_SERVERS = Path(__file__).parents[2] / "shared" / "servers"
"""The shared servers, beside this checkout."""
Said: TypeAlias = str | dict[str, Any] | Reply
"""The text of an answer, or its whole message, with calls of tools; or all that is sent, such as an error."""
Answering: TypeAlias = Callable[[dict[str, Any]], Said | Awaitable[Said]]
"""A plain function blocks all other requests until it returns; a coroutine function does not."""


class RecordingServer(ScriptedServer):
    """A server that keeps the bytes of every request, headers included, in `seen`; `reply` makes each answer."""

    def __init__(self, reply: Answering) -> None:
        super().__init__(self._answer, path="/v1", is_call=lambda _: True, keep_log=False)
        self.reply = reply
        self.usage: Callable[[dict[str, Any]], tuple[int, int]] = lambda _body: (3, 2)
        """The tokens that it counts of a request: in and out."""
        self.seen: list[str] = []

    async def _answer(self, request: Request) -> Reply:
        headers = request.head.decode("latin-1").partition("\r\n")[2].replace("\r\n", "\n")
        self.seen.append(f"{request.method} {request.path}\n{headers}\n{request.text}")
        try:
            body = json.loads(request.data)
        except ValueError:  # a page that was asked for, not a call
            return Reply({"error": {"message": "the body is not JSON"}}, 500)
        reply = self.reply(body)
        said = await reply if inspect.isawaitable(reply) else reply
        if isinstance(said, Reply):
            return said
        message = said if isinstance(said, dict) else {"content": said}
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        stated = body.get("model", "recording")
        completion = completion_of(Say(finish=finish, usage=Usage(*self.usage(body)), model=stated))
        completion["choices"][0]["message"] = {"role": "assistant", **message}
        return Reply(completion)


def recording_server(reply: Answering) -> RecordingServer:
    """Return a server, which runs as long as its `with` block lasts."""
    return RecordingServer(reply)


@contextmanager
def played_server(player: str, source: Path) -> Iterator[str]:
    """Run a script of this folder with the path `source`, and yield the URL that it prints. Skip without `source`."""
    if not source.exists():
        pytest.skip("the shared servers are not beside this checkout")
    command = [sys.executable, str(Path(__file__).with_name(player)), str(source)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
