"""HTTP requests to one server, using the library pyreqwest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import (
    BuilderError,
    ClientClosedError,
    ConnectError,
    PyreqwestError,
    RequestError,
    RequestTimeoutError,
)
from pyreqwest.http import Url
from pyreqwest.proxy import ProxyBuilder

from karenina_toolkit.http.urls import find_proxy_problem

if TYPE_CHECKING:
    from pyreqwest.request import StreamRequest
    from pyreqwest.response import Response

    from karenina_toolkit.replies.reply_bounds import ReplyBounds

_IDLE: Final = timedelta(seconds=15)
"""The time for which idle connections are kept. Many servers close them a little later, which would lose a request."""
_PATH: Final = "/%:@!$&'()*+,;=~-._"
_AT_ONCE: Final = 64
"""The number of pieces of a body to read at a time. Reading pieces that have arrived never waits."""
_PERMANENT: Final = ("certificate", "corrupt message", "received fatal alert")
"""Words that occur in the causes of failed connections that a retry cannot fix."""
_OWN_AUTHORITY: Final = "CaUsedAsEndEntity"
_ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"})
_PLAIN: Final = {
    "connection closed before message completed": "the server closed the connection before replying",
    "end of file before message length reached": "the server closed the connection in the middle of the reply",
    "unexpected end of file": "the compressed reply is incomplete",
}


class ConnectionFailed(Exception):
    """Raised if no connection can be made. `is_permanent` is true if a retry would fail too."""

    def __init__(self, why: str, *, is_permanent: bool = False) -> None:
        super().__init__(why)
        self.is_permanent = is_permanent


class ConnectionBroken(Exception):
    """Raised if a connection closes or does not speak HTTP before the reply is complete."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A request's limits: seconds in total and without data, and limits on the reply.

    `where` describes the server.
    """

    where: str
    seconds: float
    silence: float
    bounds: ReplyBounds


class _Cancellation:
    """The cancellation of the current task, which pyreqwest swallows if what it waits for arrives at the same time."""

    __slots__ = ("_before", "_task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()

    def check(self) -> None:
        """Raise `CancelledError` if the task was cancelled after this object was created, for example by a timeout."""
        if self._task.cancelling() > self._before:
            raise asyncio.CancelledError


class Reply:
    """The reply to a request after its status and headers have arrived. Header names are in lower case."""

    def __init__(self, response: Response, limits: Limits, cancellation: _Cancellation) -> None:
        self.status = response.status
        self._response = response
        self._limits = limits
        self._cancellation = cancellation

    def header(self, name: str) -> str:
        """Return a header's first value, or an empty string if the header is missing or not ASCII."""
        try:
            return self._response.get_header(name) or ""
        except ValueError:
            return ""

    @property
    def headers(self) -> dict[str, str]:
        """The first value of each header, by header name."""
        return {name.lower(): self.header(name) for name in self._response.headers}

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the decompressed body of the reply in pieces as it arrives. Raises `ConnectionBroken` if it is cut off
        or cannot be decompressed, `TimeoutError` if it takes too long, and `ReplyTooLarge` if it exceeds the request's
        limits.
        """
        reader, limits, cancellation = self._response.body_reader, self._limits, self._cancellation
        self._check_encoding()
        size = count = 0
        while True:
            try:
                piece = await reader.read_chunk()
            except PyreqwestError as error:
                raise _translate(error) from None
            cancellation.check()
            if piece is None:
                return
            size += len(piece)
            limits.bounds.check_size(limits.where, size)
            yield piece.to_bytes()
            count += 1
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def body(self) -> bytes:
        """Return the decompressed body. Raises the same errors as `pieces`."""
        self._check_encoding()
        reader, limits, cancellation = self._response.body_reader, self._limits, self._cancellation
        largest = limits.bounds.max_bytes
        content = bytearray()
        count = 0
        try:
            while (piece := await reader.read_chunk()) is not None:
                cancellation.check()
                content += piece
                if len(content) > largest:
                    limits.bounds.check_size(limits.where, len(content))
                count += 1
                if count % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        except PyreqwestError as error:
            raise _translate(error) from None
        cancellation.check()
        return bytes(content)

    def _check_encoding(self) -> None:
        """Raise `ConnectionBroken` if the body is still compressed because the library does not know the encoding."""
        encoding = self.header(
            "content-encoding"
        ).strip()  # the library removes this header if it has decompressed the body
        if encoding and encoding.lower() in _ENCODINGS:
            raise ConnectionBroken(f"the reply is compressed with {encoding!r}, which the request did not allow")


class Exchange:
    """A request as a context manager. Entering it sends the request and waits for the reply's headers.

    Leaving it ends the request. Entering may raise `ConnectionFailed`, `ConnectionBroken` or `TimeoutError`.
    """

    __slots__ = ("_limits", "_request")

    def __init__(self, request: StreamRequest, limits: Limits) -> None:
        self._request = request
        self._limits = limits

    async def __aenter__(self) -> Reply:
        cancellation = _Cancellation()
        try:
            response = await self._request.__aenter__()
        except PyreqwestError as error:
            raise _translate(error) from None
        try:
            cancellation.check()
        except asyncio.CancelledError:
            await self._request.__aexit__(None, None, None)
            raise
        return Reply(response, self._limits, cancellation)

    async def __aexit__(self, *error: object) -> None:
        await self._request.__aexit__(None, None, None)


class Server:
    """A server for POST requests to `url`, through `proxy` if that is set.

    Redirects are not followed, cookies are not stored, no request is retried, and replies are never assigned to the
    wrong request. TLS certificates are verified with the system's certificates or those in `SSL_CERT_FILE`. A header
    with a line break or zero byte raises `ValueError`.

    The first call in each process creates the client, because its threads do not survive a fork. In a process that was
    forked after the library was used, `send` raises `ConnectionFailed`.

    A call that is cancelled before the headers arrive keeps its connection until the request times out, because the
    library cannot end it earlier.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], query: Mapping[str, str], proxy: str | None, limits: Limits
    ) -> None:
        parts = urlsplit(url)
        path = quote(parts.path, safe=_PATH) + (f"?{urlencode(query)}" if query else "")
        self._url = f"{parts.scheme}://{_without_dot(parts)}{path}"
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._proxy = proxy
        self._limits = limits
        self._client: tuple[int, Client] | None = None
        self._parsed: Url | None = None
        self._closed = False
        for name, value in self._headers.items():
            if any(character in name + value for character in "\r\n\0"):
                raise ValueError("a header contains a line break or a zero byte")

    def send(self, body: bytes) -> Exchange:
        """Return an exchange that sends `body` when entered. Raises `ConnectionBroken` if the server was closed, and
        `ConnectionFailed` if the request cannot be built.
        """
        if self._closed:
            raise ConnectionBroken("this program closed the connection")
        try:
            if self._parsed is None:
                self._parsed = Url(self._url)
            builder = self._client_of_process().post(self._parsed).body_bytes(body)
            # Without a buffer, a request ends when its block is left; otherwise the library reads on in the background.
            request = builder.streamed_read_buffer_limit(0).build_streamed()
        except (BuilderError, ValueError) as error:
            raise ConnectionFailed(f"the request could not be built: {error}", is_permanent=True) from None
        return Exchange(request, self._limits)

    async def aclose(self) -> None:
        """Close all connections. Calls in progress may raise `ConnectionBroken`, and later calls always do."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client[1].close()

    def _client_of_process(self) -> Client:
        """Return this process's client. A process that was forked creates one of its own.

        Raises `ConnectionFailed` if the client cannot be created.
        """
        if self._client is None or self._client[0] != os.getpid():
            self._client = (os.getpid(), self._build_client())
        return self._client[1]

    def _build_client(self) -> Client:
        """Return a new client without redirects, with the server's proxy, headers and time limits. Raises
        `ConnectionFailed` if the proxy is invalid, or if this process was forked after the library was used.
        """
        builder = (
            ClientBuilder()
            .follow_redirects(False)
            .error_for_status(False)
            .referer(False)
            .brotli(False)
            .zstd(False)
            .no_proxy()
            .default_headers(self._headers)
            .pool_idle_timeout(_IDLE)
            .timeout(timedelta(seconds=self._limits.seconds))
            .read_timeout(timedelta(seconds=self._limits.silence))
            .http1_allow_obsolete_multiline_headers_in_responses(True)
            .http1_ignore_invalid_headers_in_responses(True)
        )
        if self._proxy is not None:
            builder = builder.proxy(_proxy(self._proxy))
        try:
            return builder.build()
        except (PyreqwestError, RuntimeError, ValueError) as error:  # RuntimeError: the library was used before a fork
            raise ConnectionFailed(str(error), is_permanent=True) from None


def _without_dot(url: SplitResult) -> str:
    """Return a URL's host and port. A trailing dot is removed from the host, because certificates do not contain it."""
    host, colon, port = url.netloc.rpartition(":")
    if not colon or not port.isdecimal():
        return url.netloc.removesuffix(".")
    return f"{host.removesuffix('.')}:{port}"


def _proxy(url: str) -> ProxyBuilder:
    """Return the proxy at `url`, which comes from the environment. Raises `ConnectionFailed` if the URL is invalid."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url.removeprefix('//')}")
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        _ = parts.port
        problem = find_proxy_problem(url)
        if problem is not None:
            raise ConnectionFailed(problem, is_permanent=True)
        if not parts.hostname:
            raise ValueError("the URL has no host")
        proxy = ProxyBuilder.all(place)
    except ValueError:
        raise ConnectionFailed(
            "the proxy in the environment is not a URL with a host and a port; correct or unset the environment "
            "variable",
            is_permanent=True,
        ) from None
    if parts.username is None:
        return proxy
    return proxy.basic_auth(unquote(parts.username), unquote(parts.password or ""))


def _translate(error: PyreqwestError) -> Exception:
    """Convert a library error to one of this module's errors or a `TimeoutError`, without the URL."""
    causes = _causes(error)
    why = causes[-1] if causes else error.message
    if isinstance(error, RequestTimeoutError):
        return TimeoutError(why)
    if isinstance(error, ClientClosedError):
        return ConnectionBroken("this program closed the connection")
    if isinstance(error, ConnectError) and any("(Connect)" in cause for cause in causes):
        if _OWN_AUTHORITY in why:
            why += "; a server certificate must not be a CA certificate, so create the certificate with CA:FALSE"
        is_permanent = any(word in cause for word in _PERMANENT for cause in causes)
        return ConnectionFailed(why, is_permanent=is_permanent)
    if why in _PLAIN:
        return ConnectionBroken(_PLAIN[why])
    if "gzip" in why or "decompression" in why:
        return ConnectionBroken(f"the reply cannot be decompressed: {why}")
    return ConnectionBroken(
        f"the server sent data that is not HTTP: {why}" if why.lower().startswith(("invalid", "message")) else why
    )


def _causes(error: PyreqwestError) -> list[str]:
    """Return an error's causes without the URL, which may contain a secret."""
    details: Any = error.details if isinstance(error, RequestError) else {}
    messages = [str(cause["message"]) for cause in details.get("causes") or ()]
    return [cause for cause in messages if not cause.startswith("error sending request for url")]
