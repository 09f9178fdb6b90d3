"""One server: the way to it, directly or through a proxy, and the connections that can be used again."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from aiohappyeyeballs import start_connection

from karenina_openai.http1 import Broken, Connection

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

_PORTS = {"http": 80, "https": 443}
_IDLE = 15.0  # seconds: servers close what rests longer, and a request that meets this is lost
_KNOWN = 10.0  # seconds that an address is taken for granted
_NEXT_ADDRESS = 0.25  # seconds until a host's next address is tried as well
_PATH = "/%:@!$&'()*+,;=~-._"


class NoConnection(Exception):
    """Raised where no connection could be made; whether another attempt may be better stands in `hopeless`."""

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless


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
        self._lookup: asyncio.Task[Sequence[AddrInfoType]] | None = None
        self._looked_up = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host, self._port = _place(parts)
        self._proxy = None if proxy is None else _proxy(proxy)
        authority = _authority(self._host, parts.port if parts.port != _PORTS[parts.scheme] else None)
        target = quote(parts.path, safe=_PATH) + (f"?{urlencode(query)}" if query else "")
        sent = {"host": authority, "accept-encoding": "gzip, deflate"}
        if self._proxy is not None and not self._secure:
            target = f"http://{authority}{target}"
            sent |= _credentials(self._proxy)
        sent |= {name.lower(): value for name, value in headers.items()}
        self._head = b"%b\r\nContent-Length: " % _head(f"POST {target}", sent)

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
        connection = self._rested() or await self._opened()
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
            self._loop, self._lookup = loop, None
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

    async def _opened(self) -> Connection:
        try:
            return await (self._direct() if self._proxy is None else self._through(self._proxy))
        except (ssl.SSLError, UnicodeError) as error:
            raise NoConnection(str(error), hopeless=True) from None
        except OSError as error:
            raise NoConnection(str(error) or "it was closed while it was being made") from None

    async def _direct(self) -> Connection:
        return await self._connected(self._host, self._port, self._tls if self._secure else None)

    async def _through(self, proxy: SplitResult) -> Connection:
        if proxy.scheme not in _PORTS:
            raise NoConnection(f"a proxy of the kind {proxy.scheme}:// is not known here", hopeless=True)
        if not proxy.hostname:
            raise NoConnection("the environment's proxy is not a URL with a host and a port", hopeless=True)
        host, port = _place(proxy)
        connection = await self._connected(host, port, self._tls if proxy.scheme == "https" else None)
        if not self._secure:
            return connection
        try:
            place = _authority(self._host, self._port)
            connection.send(b"%b\r\n\r\n" % _head(f"CONNECT {place}", {"host": place, **_credentials(proxy)}))
            await connection.head()
            if connection.status != 200:
                raise NoConnection(f"the proxy answered HTTP {connection.status}")
            if not connection.usable():
                raise NoConnection("the proxy closed the connection")
            tunnel = Connection()
            assert connection.transport is not None
            loop = asyncio.get_running_loop()
            transport = await loop.start_tls(connection.transport, tunnel, self._tls, server_hostname=_name(self._host))
            if transport is None:
                raise NoConnection("the proxy closed the connection")
            tunnel.connection_made(transport)
        except BaseException:
            connection.abort()
            raise
        return tunnel

    async def _connected(self, host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
        loop = asyncio.get_running_loop()
        addresses = await self._addresses(host, port)
        made = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1, loop=loop)
        name = None if tls is None else _name(host)
        _, connection = await loop.create_connection(Connection, sock=made, ssl=tls, server_hostname=name)
        return connection

    async def _addresses(self, host: str, port: int) -> Sequence[AddrInfoType]:
        """Where the host is. One lookup serves all who ask meanwhile, and a moment longer."""
        with suppress(socket.gaierror):  # a name; a number needs no lookup, and with it no thread
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        lookup = self._lookup
        if lookup is None or (lookup.done() and (_now() - self._looked_up > _KNOWN or _failed(lookup))):
            self._lookup = lookup = asyncio.create_task(_found(host, port))
            self._looked_up = _now()
            lookup.add_done_callback(_failed)  # seen, also where nobody waits for it any more
        return await asyncio.shield(lookup)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


async def _found(host: str, port: int) -> Sequence[AddrInfoType]:
    loop = asyncio.get_running_loop()
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


def _failed(lookup: asyncio.Task[Sequence[AddrInfoType]]) -> bool:
    return lookup.cancelled() or lookup.exception() is not None


def _place(url: SplitResult) -> tuple[str, int]:
    host = url.hostname or ""
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        host = quote(host)  # no name that can be found
    return host, url.port or _PORTS[url.scheme]


def _proxy(url: str) -> SplitResult:
    """Its parts; those of no URL where it is none, which is told when it is used."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url.removeprefix('//')}")
        _ = parts.port
    except ValueError:
        return urlsplit("http:")
    return parts


def _name(host: str) -> str:
    """As certificates and servers know it: a dot at its end is for the lookup alone."""
    return host.removesuffix(".")


def _authority(host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else _name(host)
    return name if port is None else f"{name}:{port}"


def _head(asked: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{asked} HTTP/1.1", *(f"{name.title()}: {value}" for name, value in headers.items())]
    if any(character in line for line in lines for character in "\r\n\0"):
        raise ValueError("a header holds a line break or a zero byte")  # and would be several, or none
    return "\r\n".join(lines).encode()


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    both = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}


def _now() -> float:
    return asyncio.get_running_loop().time()
