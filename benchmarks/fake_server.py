"""A chat server on loopback for the benchmarks: fast, with a latency, and with a limit on what it does at once.

    python benchmarks/fake_server.py --latency 0.5 --allowed 20

It prints its base URL. A question names its item (`#17`), and its code word follows from the number; a request with a
JSON schema gets an object with the code word of the request. What comes while `--allowed` requests are
under way is answered with status 429 at once (and `Retry-After`, where `--retry-after` says so), and so is one of each
`--every` requests, drawn at random from a fixed seed. GET /stats has counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ITEM, CODE = re.compile(rb"#(\d+)"), re.compile(rb"CW\d+X")
USAGE = {"prompt_tokens": 60, "completion_tokens": 12, "total_tokens": 72}


def code(item: int) -> str:
    """Return the code word of an item."""
    return f"CW{(item * 6151 + 7) % 999983}X"


class Server:
    """The settings and counts that all connections share."""

    def __init__(self, latency: float, allowed: int, every: int, retry_after: str) -> None:
        self.latency = latency
        self.allowed = allowed
        self.every = every
        self.random = random.Random(1)
        self.retry_after = f"Retry-After: {retry_after}\r\n" if retry_after else ""
        self.under_way = 0
        self.counts = {"answered": 0, "refused": 0, "most": 0}

    def refuses(self) -> bool:
        """Return whether the request that arrives is refused."""
        full = self.allowed > 0 and self.under_way >= self.allowed
        return full or (self.every > 0 and self.random.randrange(self.every) == 0)


class Connection(asyncio.Protocol):
    """One connection, which serves one request after another."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.got = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer when a request is whole."""
        self.got += data
        head, mark, body = self.got.partition(b"\r\n\r\n")
        if not mark:
            return
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if length is not None and len(body) < int(length[1]):
            return
        self.got = b""
        if head.startswith(b"GET"):
            self.send(200, self.server.counts)
            return
        server = self.server
        if server.refuses():
            server.counts["refused"] += 1
            self.send(429, {"error": {"message": "too many requests at once"}}, server.retry_after)
            return
        server.under_way += 1
        server.counts["most"] = max(server.counts["most"], server.under_way)
        asyncio.get_running_loop().call_later(server.latency, self.answer, body)

    def answer(self, body: bytes) -> None:
        """Say the code word, as a sentence or as JSON."""
        self.server.under_way -= 1
        self.server.counts["answered"] += 1
        said = CODE.findall(body)
        if b"json_schema" in body:
            text = json.dumps({"word": said[-1].decode() if said else ""})
        else:
            found = ITEM.findall(body)
            text = f"The code word of item #{int(found[-1])} is {code(int(found[-1]))}." if found else "Which item?"
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        self.send(200, {"id": "1", "object": "chat.completion", "model": "fake", "choices": [choice], "usage": USAGE})

    def send(self, status: int, body: Any, headers: str = "") -> None:
        """Send a reply."""
        if self.transport is None or self.transport.is_closing():
            return
        content = json.dumps(body).encode()
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
        )
        self.transport.write(head.encode() + content)


@dataclass(frozen=True)
class Running:
    """A server in a process of its own."""

    url: str

    def counts(self) -> dict[str, int]:
        """Return how many requests were answered and refused, and how many were under way at once at the most."""
        with urllib.request.urlopen(f"{self.url}/stats") as reply:
            found: dict[str, int] = json.loads(reply.read())
        return found


@contextmanager
def running(latency: float, allowed: int = 0, retry_after: str = "", every: int = 0) -> Iterator[Running]:
    """Provide a server as long as the block lasts."""
    options = ["--latency", str(latency), "--allowed", str(allowed), "--every", str(every)]
    options += ["--retry-after", retry_after]
    process = subprocess.Popen([sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Running(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.wait()


async def serve(latency: float, allowed: int, every: int, retry_after: str) -> None:
    """Serve until the process ends."""
    server = Server(latency, allowed, every, retry_after)
    door = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listening = await asyncio.get_running_loop().create_server(lambda: Connection(server), sock=door, backlog=4096)
    print(f"http://127.0.0.1:{door.getsockname()[1]}/v1", flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--allowed", type=int, default=0, help="requests at once; 0: any number")
    parser.add_argument("--every", type=int, default=0, help="refuse one of so many requests at random; 0: none")
    parser.add_argument("--retry-after", default="", help="seconds, sent with status 429")
    given = parser.parse_args()
    asyncio.run(serve(given.latency, given.allowed, given.every, given.retry_after))
