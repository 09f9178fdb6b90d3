"""The scripted server, which runs in its own thread."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

from karenina_testing.server import faults
from karenina_testing.server.connection import Connection
from karenina_testing.server.exchange import Reply, Request
from karenina_testing.server.faults import Fault
from karenina_testing.server.script import Entry, Log, One, Script, Sent, Side, asks_the_judge

WAIT: Final = 60.0
"""The number of seconds after which waiting fails."""


class ScriptedServer:
    """A server that replies and fails as scripted inside its `with` block and logs each call.

    - `answers`: the answering model's script, as a `Side`, its `items` (a mapping), or its `reply`.
    - `judge`: the same for the judge. By default, the judge's calls use the script in `answers`.
    - `item_of`: a function that returns the key of a request's item. By default, this is the KEY of the last mark
      `[item KEY]` in the messages; without a mark, the longest script key contained in the messages; without such a
      key, the last user message. A judge's messages contain the question, so its calls are assigned to the same
      item as the answer.
    - `is_judge`: a function that returns whether a request is for the judge. By default, this is the case if its
      path starts with `/judge/` (`f"{server.url}/judge/v1"` is a base URL) or if it asks for JSON (with a response
      format or a forced tool).
    - `is_call`: a function that returns whether a request is a model call; by default, POST requests are. Other
      requests are not logged: `/v1/models` lists `models`, `/log` returns the log as JSON lines with secrets
      masked, `/stats` returns counts (calls answered, calls refused with status 429), and any other path returns an
      empty JSON object.
    - `latency`: seconds before each reply without a fault.
    - `allowed`: the maximum number of calls in flight; calls beyond that get `refusal` (by default, status 429).
    - `tls`: an SSL context, which makes this an HTTPS server.
    - `path`: the path at the end of `url`, such as `/v1`.

    An exception raised in a function of the script, or in one of the three functions above, is added to `problems`, and
    the connection is closed. At the end of the block, the first problem is raised; if the block itself raised an
    exception, all problems are added to that exception as notes. A function that is still blocking the server a minute
    after the end of the block is also a problem.
    """

    def __init__(
        self,
        answers: Side | Sent | Mapping[str, Sent] = None,
        judge: Side | Sent | Mapping[str, Sent] = None,
        *,
        item_of: Callable[[Request], str] | None = None,
        is_judge: Callable[[Request], bool] = asks_the_judge,
        is_call: Callable[[Request], bool] = lambda request: request.method == "POST",
        latency: float = 0,
        allowed: int | None = None,
        refusal: Fault | None = None,
        models: Sequence[str] = ("served",),
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = "",
        keep_log: bool = True,
    ) -> None:
        self.script = Script(Side.of(answers), None if judge is None else Side.of(judge), item_of, is_judge)
        self.is_call = is_call
        self.latency = latency
        self._allowed = allowed
        self._refusal = refusal or faults.status(429)
        self.models = models
        self.log = Log()
        self.connections = 0
        self.problems: list[BaseException] = []
        self.url = ""
        self._tls, self._host, self._port, self._path, self._keep_log = tls, host, port, path, keep_log
        self._open: set[Connection] = set()
        self._counts = {"answered": 0, "refused": 0, "most": 0}
        self._faults: Counter[str] = Counter()
        self._under_way = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._over: asyncio.Event | None = None

    # --- Called by tests.

    def says(self, *replies: One) -> None:
        """Make the server send the given replies to the next calls of both sides, in order. The last one is repeated.

        They replace the scripts of both sides.
        """
        left = list(replies)
        self.script.answers = Side(lambda _: left.pop(0) if len(left) > 1 else left[0])
        self.script.judge = None

    @property
    def requests(self) -> list[Request]:
        """The requests of all calls."""
        return [entry.request for entry in self.log]

    @property
    def bodies(self) -> list[Any]:
        """The JSON bodies of all calls. Raises `ValueError` if a body is not JSON."""
        return [request.body for request in self.requests]

    def has_requests(self, number: int) -> bool:
        """Wait up to `WAIT` seconds for at least `number` calls, and return whether they arrived.

        This blocks, so call it in a thread.
        """
        with self.log.came:
            return self.log.came.wait_for(lambda: len(self.log) >= number, WAIT)

    def all_closed(self) -> bool:
        """Wait up to `WAIT` seconds for all connections to close, and return whether they did. This blocks."""
        with self.log.came:
            return self.log.came.wait_for(lambda: not self._open, WAIT)

    # --- Called by connections.

    def opened(self, connection: Connection) -> int:
        """Count an open connection and return its number, starting at 1."""
        with self.log.came:
            self._open.add(connection)
            self.connections += 1
            self.log.came.notify_all()
            return self.connections

    def closed(self, connection: Connection) -> None:
        """Count a closed connection."""
        with self.log.came:
            self._open.discard(connection)
            self.log.came.notify_all()

    def reply_to(self, request: Request) -> tuple[Entry | None, Reply | Awaitable[Reply]]:
        """Return the log entry of a request, or None if it is not a call, and its reply or an awaitable of it. Calls
        are counted and logged, and refused if too many are under way. If the script raises an exception, it is added to
        `problems`, and the reply closes the connection.
        """
        if not self.is_call(request):
            return None, self._other(request)
        entry = self.script.entry(request)
        if self._keep_log:
            self.log.add(entry)
        if self._allowed is not None and self._under_way >= self._allowed:
            self._counts["refused"] += 1
            entry.refused, entry.reply = True, self._refusal(request, Reply())
            return entry, entry.reply
        self._under_way += 1
        self._counts["most"] = max(self._counts["most"], self._under_way)
        try:
            reply = self.script.choose(entry)
        except BaseException as problem:
            self.problems.append(problem)
            reply = faults.close(request, Reply())
        if not isinstance(reply, Reply):
            return entry, self._awaited(entry, reply)
        entry.reply = self._delay(reply)
        return entry, entry.reply

    def failed(self, problem: BaseException) -> None:
        """Record a problem, which is raised at the end of the block."""
        self.problems.append(problem)

    def sent(self, note: Entry | None, whole: bool) -> None:
        """Record that a call is over, and whether the whole reply was sent. `note` is None if the request was not a
        call.
        """
        if note is None:
            return
        note.whole, note.sent_at = whole, time.monotonic()
        if not note.refused:
            self._under_way -= 1
            refused = note.reply is not None and note.reply.status == 429
            self._counts["refused" if refused else "answered"] += whole

    async def _awaited(self, entry: Entry, coming: Awaitable[Reply]) -> Reply:
        """Wait for a reply, log it, and return it. If that fails, record the problem, and return a reply that closes
        the connection.
        """
        try:
            reply = await coming
        except Exception as problem:
            self.problems.append(problem)
            reply = faults.close(entry.request, Reply())
        entry.reply = self._delay(reply)
        return entry.reply

    def _delay(self, reply: Reply) -> Reply:
        """Return the reply delayed by `latency`. A reply with a fault is only counted, and not delayed further."""
        if reply.name is not None:
            self._faults[reply.name] += 1
        elif self.latency:
            return replace(reply, delay=reply.delay + self.latency)
        return reply

    def _other(self, request: Request) -> Reply:
        """Return the reply to a request that is not a call: models, counts, the log, or an empty object, depending on
        the path.
        """
        path = request.path.partition("?")[0]
        if path.endswith("/models"):
            return Reply({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})
        if path.endswith("/stats"):
            return Reply({**self._counts, "connections": self.connections, "faults": dict(self._faults)})
        if path.endswith("/log"):
            return Reply(self.log.to_jsonl(), headers={"Content-Type": "application/jsonl"})
        return Reply({})

    # --- Start and stop.

    def __enter__(self) -> Self:
        """Start the server, wait until it listens, and return it. Raises `RuntimeError` if it cannot be started."""
        started: threading.Event = threading.Event()
        failed: list[BaseException] = []

        def work() -> None:
            """Serve in this thread until stopped. A failure is stored in `failed`."""
            try:
                asyncio.run(self.serve(started.set))
            except BaseException as problem:
                failed.append(problem)
                started.set()

        self._thread = threading.Thread(target=work, daemon=True, name="scripted server")
        self._thread.start()
        started.wait(WAIT)
        if failed or not self.url:
            raise RuntimeError("the scripted server did not start") from (failed[0] if failed else None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server. Raises the first problem, or adds all problems to `error` as notes."""
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
        if self._thread is not None:
            self._thread.join(WAIT)
            if self._thread.is_alive():
                self.problems.append(_blocked_error(self._thread))
        if self.problems and error is None:
            raise self.problems[0]
        if error is not None:
            for problem in self.problems:
                error.add_note(f"a problem with the scripted server: {problem!r}")

    async def serve(self, ready: Callable[[], object]) -> None:
        """Serve requests in this event loop until stopped. `ready` is called when the server listens."""
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        door = socket.create_server((self._host, self._port), family=family, backlog=4096)
        listening = await self._loop.create_server(lambda: Connection(self), sock=door, ssl=self._tls, backlog=4096)
        name = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{'http' if self._tls is None else 'https'}://{name}:{door.getsockname()[1]}{self._path}"
        try:
            ready()
            await self._over.wait()
        finally:
            listening.close()
            for connection in list(self._open):
                connection.close()
            await asyncio.sleep(0)


def _blocked_error(thread: threading.Thread) -> TimeoutError:
    """Return the error for a server that does not stop, naming the function that blocks it."""
    frame, called = sys._current_frames().get(thread.ident or 0), None
    while frame is not None and not _module(frame).startswith(__package__):
        frame, called = frame.f_back, frame
    name = "a coroutine function in the script that continued after it was cancelled"
    if called is not None and not _module(called).startswith("asyncio."):
        code = called.f_code
        name = f"{code.co_qualname} ({Path(code.co_filename).name}, line {called.f_lineno})"
    cure = "make the function return, or make it a coroutine function that waits with await"
    return TimeoutError(
        f"the scripted server did not stop within {WAIT:g} seconds because it is blocked by {name}; {cure}"
    )


def _module(frame: FrameType) -> str:
    """Return the name of the frame's module, or ""."""
    return str(frame.f_globals.get("__name__", ""))


@contextmanager
def refusing_url() -> Iterator[str]:
    """Yield a URL that refuses connections. Its port is reserved, but nothing listens on it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"
