"""One server: what it is asked, and the connections to it that can be used again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from karenina_openai.http1 import Broken, Connection
from karenina_openai.way import Way, head

_IDLE = 15.0  # seconds: servers close what rests longer, and a request that meets this is lost
_PATH = "/%:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply. The names of its `headers` are in lower case; its `body` is unpacked."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Server:
    """Posts bodies to `url`. Made without I/O; connections belong to the loop that the first call runs in.

    Redirects are not followed, cookies not kept, certificates checked as Python's `ssl` does by default. As many
    connections are opened as there are requests under way. Nothing is repeated, and only the caller limits time; what
    is cancelled ends its connection. Calls raise `NoConnection` and `Broken`.
    """

    def __init__(self, url: str, headers: Mapping[str, str], query: Mapping[str, str], proxy: str | None) -> None:
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        parts = urlsplit(url)
        self._way = Way(parts, proxy)
        target = self._way.origin + quote(parts.path, safe=_PATH) + (f"?{urlencode(query)}" if query else "")
        sent = {"host": self._way.authority, "accept-encoding": "gzip, deflate", **self._way.credentials}
        sent |= {name.lower(): value for name, value in headers.items()}
        self._head = b"%b\r\nContent-Length: " % head(f"POST {target}", sent)

    def __del__(self) -> None:
        """End the connections of one that nobody closed: else the loop would keep them."""
        for connection in self._idle:
            connection.abandon()

    async def post(self, body: bytes) -> Reply:
        """The reply to `body`."""
        connection = await self._taken()
        try:
            connection.send(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
            raw = await connection.rest()
            return Reply(connection.status, connection.headers, raw)
        finally:
            self._let_go(connection)

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Connection]:
        """The reply to `body`, of which the head has come."""
        connection = await self._taken()
        try:
            connection.send(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
            await connection.head()
            yield connection
        finally:
            self._let_go(connection)

    async def aclose(self) -> None:
        """End all connections; what is under way is `Broken`."""
        self._closed = True
        self._settle()
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # sockets are closed in the next turn of the loop

    async def _taken(self) -> Connection:
        connection = self._rested() or await self._way.open()
        if self._closed:
            connection.abort()
            raise Broken("it was closed here")
        self._busy.add(connection)
        return connection

    def _rested(self) -> Connection | None:
        """The connection that rested for the shortest time, if any is still good."""
        loop = self._settle()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is not loop:  # another thread's, which came meanwhile
                connection.abandon()
                continue
            if connection.usable() and _now() - connection.idle_since < _IDLE:
                return connection
            connection.abort()
        return None

    def _settle(self) -> asyncio.AbstractEventLoop:
        """Give up what belongs to another loop, which mostly has ended."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._way.forget()
            while self._idle:
                self._idle.pop().abandon()
            self._busy.clear()
        return loop

    def _let_go(self, connection: Connection) -> None:
        self._busy.discard(connection)
        now = _now()
        if connection.rested() and connection.loop is self._loop and not self._closed:
            connection.idle_since = now
            self._idle.append(connection)
        else:
            connection.abort()
        while self._idle and now - self._idle[0].idle_since >= _IDLE:
            self._idle.popleft().abort()


def _now() -> float:
    return asyncio.get_running_loop().time()
