"""A client of bytes: it sends what a test says, and returns what the server did, to the byte."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

End = Literal["closed", "reset", "silent", "open"]
PATIENCE = 60.0
"""Seconds that a busy server may take."""


@dataclass(frozen=True)
class Heard:
    """All bytes of a reply, how it ended, and the seconds from `began` to its first byte and to its last."""

    data: bytes
    end: End
    first: float
    last: float

    @property
    def status(self) -> int:
        """The status."""
        return int(self.data.split(b" ", 2)[1])

    @property
    def head(self) -> str:
        """The lines before the body, in lower case."""
        return self.data.partition(b"\r\n\r\n")[0].decode("latin-1").lower()

    @property
    def body(self) -> bytes:
        """The body, out of its chunks."""
        body = self.data.partition(b"\r\n\r\n")[2]
        if "transfer-encoding: chunked" not in self.head:
            return body
        parts = []
        while body:
            size, _, body = body.partition(b"\r\n")
            parts.append(body[: int(size, 16)])
            body = body[int(size, 16) + 2 :]
        return b"".join(parts)

    @property
    def whole(self) -> bool:
        """Whether the body is as long as it was announced."""
        if "transfer-encoding: chunked" in self.head:
            return self.data.endswith(b"0\r\n\r\n")
        length = next((line for line in self.head.splitlines() if line.startswith("content-length:")), ":-1")
        return len(self.body) == int(length.split(":")[1])


def chat(text: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a request of chat completions."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def request(body: Any, path: str = "/v1/chat/completions", *headers: str) -> bytes:
    """Return a request as bytes."""
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + data


def connect(url: str) -> socket.socket:
    """Return a connection to a server."""
    where = urlsplit(url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=PATIENCE)


def hear(
    connection: socket.socket,
    patience: float = PATIENCE,
    most: int = 2**26,
    *,
    pause: float = 0.3,
    one: bool = False,
    until: bytes = b"",
    began: float | None = None,
) -> Heard:
    """Return what comes until the connection ends, `one` reply is whole, or it has the bytes of `until`.

    It waits `patience` seconds for the first byte, and `pause` for each later piece.
    """
    connection.settimeout(patience)
    began = time.monotonic() if began is None else began
    parts: list[bytes] = []
    times = [began]
    end: End = "open"
    size = 0
    while size < most:
        try:
            piece = connection.recv(2**20)
        except TimeoutError:
            end = "silent"
            break
        except ConnectionResetError:
            end = "reset"
            break
        if not piece:
            end = "closed"
            break
        connection.settimeout(pause)
        parts.append(piece)
        size += len(piece)
        times.append(time.monotonic())
        said = b"".join(parts) if one or until else b""
        if (one and Heard(said, end, 0, 0).whole) or (until and until in said):
            break
    return Heard(b"".join(parts), end, times[min(1, len(times) - 1)] - began, times[-1] - began)


def exchange(url: str, body: Any, path: str = "/v1/chat/completions", pause: float = PATIENCE) -> Heard:
    """Send one request over a connection of its own, and return what comes."""
    with connect(url) as connection:
        began = time.monotonic()
        connection.sendall(request(body, path))
        return hear(connection, pause=pause, one=True, began=began)
