"""A provider's server that replies and fails as a test scripts it. Standard library only."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal

WAIT: Final = 10.0
"""Seconds after which something that a test waits for counts as failed."""

_CHECK = 0.02


@dataclass(frozen=True, slots=True)
class Request:
    """One request as received. Names of `headers` are in lower case; `path` includes its query."""

    method: str
    path: str
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        """The JSON of the body. Raises `ValueError` if it is not JSON."""
        return json.loads(self.text)

    @property
    def whole(self) -> str:
        """Everything that was sent: line, headers and body."""
        lines = [f"{self.method} {self.path}", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\n".join([*lines, "", self.text])


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply: `body` is sent as it is if it is text, and as JSON otherwise.

    `fault` is `hang` (send nothing until the client disconnects), `close` (disconnect without a reply) or `cut`
    (disconnect in the middle of the body).
    """

    body: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Literal["hang", "close", "cut"] | None = None


Answer = Callable[[Request], Reply]


@dataclass(eq=False)
class ScriptedServer:
    """A server that answers each request with `answer` and keeps it in `requests`, unless `is_call` returns False.

    Other requests (a check whether the server is up, for example) get an empty JSON object. `connections` counts all
    connections that were ever made, and `all_closed` waits until none of them is open.
    """

    answer: Answer
    is_call: Callable[[Request], bool]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    problems: list[BaseException] = field(default_factory=list)
    _open: int = 0
    _came: threading.Condition = field(default_factory=threading.Condition)
    _over: threading.Event = field(default_factory=threading.Event)

    def has_requests(self, number: int) -> bool:
        """Wait until there were so many calls. Return whether there were. It blocks: call it in a thread."""
        with self._came:
            return self._came.wait_for(lambda: len(self.requests) >= number, WAIT)

    def all_closed(self) -> bool:
        """Wait until every connection is closed. Return whether that happened."""
        with self._came:
            return self._came.wait_for(lambda: self._open == 0, WAIT)

    def reply_to(self, request: Request) -> Reply:
        """Return the reply to `request`. A script that fails is a problem of the test, not of the adapter."""
        if not self.is_call(request):
            return Reply({})
        with self._came:
            self.requests.append(request)
            self._came.notify_all()
        try:
            return self.answer(request)
        except BaseException as problem:
            self.problems.append(problem)
            raise

    def hang(self, client: socket.socket) -> None:
        """Send nothing until `client` disconnects, or the test is over."""
        while not self._over.is_set():
            readable, _, _ = select.select([client], [], [], _CHECK)
            if readable and not client.recv(1, socket.MSG_PEEK):
                return
            if readable:
                time.sleep(_CHECK)

    def count_connection(self, change: Literal[1, -1]) -> None:
        """Count a connection that was opened or closed."""
        with self._came:
            self.connections += change > 0
            self._open += change
            self._came.notify_all()


@contextmanager
def run_server(server: ScriptedServer) -> Iterator[ScriptedServer]:
    """Run `server` on loopback, in threads of its own, for the duration of the block."""

    class Handler(_Handler):
        scripted = server

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore clients that disconnect; a script that failed is in `problems`."""

    with Quiet(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": _CHECK}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server._over.set()
            http.shutdown()
            thread.join(WAIT)
    if server.problems:
        raise server.problems[0]


class _Handler(BaseHTTPRequestHandler):
    scripted: ScriptedServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        self.scripted.count_connection(1)
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            pass
        finally:
            self.connection.close()
            self.scripted.count_connection(-1)

    def _respond(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self._chunked() if "chunked" in self.headers.get("Transfer-Encoding", "") else self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.scripted.reply_to(Request(self.command, self.path, headers, text.decode("utf-8", "replace")))
        if reply.fault in ("hang", "close"):
            if reply.fault == "hang":
                self.scripted.hang(self.connection)
            self.close_connection = True
            return
        body = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if reply.fault == "cut":
            self.close_connection = True
            body = body[: len(body) // 2]
        if self.command != "HEAD":
            self.wfile.write(body)

    def _chunked(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    do_GET = do_HEAD = do_POST = _respond  # noqa: N815 - the names are http.server's
