"""The way to one server: its addresses, the proxy before it, and TLS."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote, urlsplit

from aiohappyeyeballs import start_connection

from karenina_openai.http1 import Connection

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

_PORTS = {"http": 80, "https": 443}
_KNOWN = 10.0  # seconds that an address is taken for granted
_NEXT_ADDRESS = 0.25  # seconds until a host's next address is tried as well


class NoConnection(Exception):
    """Raised where no connection could be made; whether another attempt may be better stands in `hopeless`."""

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless


class Way:
    """Opens connections to the server of `url`, through `proxy` where one is given. Made without I/O.

    `authority` names the server in requests. Over a connection that ends at a proxy, their targets begin with `origin`
    (else it is empty), and `credentials` are among their headers.
    """

    def __init__(self, url: SplitResult, proxy: str | None) -> None:
        self._secure = url.scheme == "https"
        self._host, self._port = _place(url)
        self._proxy = None if proxy is None else _proxy(proxy)
        self._lookup: asyncio.Task[Sequence[AddrInfoType]] | None = None
        self._looked_up = 0.0
        self.authority = _authority(self._host, url.port if url.port != _PORTS[url.scheme] else None)
        self.origin = ""
        self.credentials: Mapping[str, str] = {}
        if self._proxy is not None and not self._secure:
            self.origin = f"http://{self.authority}"
            self.credentials = _credentials(self._proxy)

    def forget(self) -> None:
        """Give up a lookup, which belongs to an event loop that may have ended."""
        self._lookup = None

    async def open(self) -> Connection:
        """A connection that stands. Raises `NoConnection`."""
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
            connection.send(b"%b\r\n\r\n" % head(f"CONNECT {place}", {"host": place, **_credentials(proxy)}))
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
        lookup, now = self._lookup, asyncio.get_running_loop().time()
        if lookup is None or (lookup.done() and (now - self._looked_up > _KNOWN or _failed(lookup))):
            self._lookup = lookup = asyncio.create_task(_found(host, port))
            self._looked_up = now
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


def head(asked: str, headers: Mapping[str, str]) -> bytes:
    """The first line of a request and its headers. Raises `ValueError` where they would be others' as well."""
    lines = [f"{asked} HTTP/1.1", *(f"{name.title()}: {value}" for name, value in headers.items())]
    if any(character in line for line in lines for character in "\r\n\0"):
        raise ValueError("a header holds a line break or a zero byte")  # and would be several, or none
    return "\r\n".join(lines).encode()


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    both = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}
