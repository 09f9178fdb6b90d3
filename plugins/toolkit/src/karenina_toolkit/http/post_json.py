"""JSON requests over HTTP with aiohttp, for adapters.

`post_json` sends a request, and `check_server` checks a model's settings. aiohttp is only imported on the first
request. The extra `karenina-toolkit[http]` installs it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from karenina_core.catalog import install_command
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import ErrorCategory, Message, PortError
from karenina_toolkit.adapter_settings import extra_of
from karenina_toolkit.http.endpoints import check_api_key, check_base_url, find_api_key
from karenina_toolkit.http.http_errors import (
    CURES,
    connection_error,
    not_json_error,
    redact_text,
    retry_after,
    status_error,
)
from karenina_toolkit.http.reply_body import ACCEPTED_ENCODINGS, bound_body
from karenina_toolkit.http.urls import find_proxy, find_proxy_problem, find_secrets, redact_url
from karenina_toolkit.replies.reply_bounds import BrokenReply, ReplyBounds, read_json

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.settings_models import StrictSettings

T = TypeVar("T")

DEFAULT_TIMEOUT: Final = 300.0
"""The default time limit for a request, in seconds."""

_UNREADABLE: Final = (LookupError, TypeError, ValueError, AttributeError)


def check_server(
    model: ModelConfig, *, extra: type[StrictSettings] | None = None, like: str = "http://localhost:8000"
) -> None:
    """Raise `AdapterConfigError` if `post_json` cannot work for a model: if aiohttp is not installed, a setting in
    `model.extra` is not one of the class `extra` (None: there are no such settings), the URL is missing or invalid, or
    the key is invalid.

    No request is sent. `like` is an example of a valid URL.
    """
    if find_spec("aiohttp") is None:
        command = install_command("karenina-toolkit[http]")
        raise AdapterConfigError(f"model {model.id!r}: aiohttp is not installed; install it with: {command}")
    if extra is not None:
        extra_of(model, extra)
    elif model.extra:
        names = ", ".join(f"extra.{name}" for name in model.extra)
        raise AdapterConfigError(
            f"model {model.id!r} sets {names}, but its adapter has no settings under `extra`; remove `extra`"
        )
    if model.endpoint_base_url is None:
        raise AdapterConfigError(f"model {model.id!r}: endpoint_base_url is missing; set it to a URL such as {like}")
    check_base_url(model, model.endpoint_base_url, like=like)
    check_api_key(model, _key_of(model), ())


async def post_json(
    model: ModelConfig,
    body: Mapping[str, Any],
    read: Callable[[Any], T],
    *,
    path: str = "",
    key_header: str = "Authorization",
    read_wait: Callable[[Any], float | None] | None = None,
) -> T:
    """Send `body` as JSON to `path` of the model's server, without fields that are None, and return the result of
    calling `read` with the parsed reply. Raises `PortError` if the call fails or the reply is unusable, which `read`
    indicates by raising `LookupError`, `TypeError`, `ValueError` or `AttributeError`.

    - The URL is `endpoint_base_url` followed by `path`. Proxies are taken from the environment. Redirects are errors,
      because only the configured server may receive the prompt and the key.
    - `endpoint_api_key` is sent in the header `key_header`, as `Bearer KEY` if that is `Authorization`. Without a key,
      the header is omitted.
    - The reply is limited to `max_reply_bytes` after decompression, and to `request_timeout` seconds.
    - The connection is closed afterwards.

    The message quotes the error that `read` raises, but shows neither the key nor passages from `body`.

    `read_wait` is for a server that states in the JSON of an error, instead of in the header `Retry-After`, how many
    seconds to wait. It returns them, or None. If it raises one of these errors, no time is known.
    """
    base_url, key = model.endpoint_base_url or "", _key_of(model)
    where = f"{model.display_string} at {redact_url(base_url)}"
    headers = {"Content-Type": "application/json", "Accept-Encoding": ACCEPTED_ENCODINGS}
    if key is not None:
        headers[key_header] = f"Bearer {key}" if key_header.lower() == "authorization" else key
    sender = Sender(where, model.request_timeout or DEFAULT_TIMEOUT, ReplyBounds.of(model), find_secrets(base_url, key))
    sent = {name: value for name, value in body.items() if value is not None}
    async with sender.open_session() as session:
        url = f"{base_url.rstrip('/')}{path}" if path else base_url
        response, raw = await sender.post(session, url, data=json.dumps(sent).encode(), headers=headers)
    prompt = [Message.user(text) for text in _strings_in(sent.values())]
    if response.status >= 300:
        text = raw.decode("utf-8", "replace")
        failure = status_error(where, response.status, response.headers, text, sender.secrets, prompt, CURES)
        stated = None if read_wait is None else _find_wait(raw, read_wait)
        if stated is not None and retry_after(response.headers) is None:
            failure.retry_after = stated
        raise failure
    try:
        data = read_json(raw)
    except json.JSONDecodeError:
        raise not_json_error(where, raw, sender.secrets, prompt, "check endpoint_base_url") from None
    except ValueError as error:
        raise BrokenReply(f"{where} sent no usable reply: {error}") from None
    try:
        return read(data)
    except _UNREADABLE as error:
        shown = redact_text(f"{type(error).__name__}: {error}", sender.secrets, prompt)
        what = f"the JSON does not have the expected structure ({shown})"
        raise BrokenReply(f"{where} sent no usable reply: {what}") from None


@dataclass(frozen=True, slots=True)
class Sender:
    """A client that posts to one server, within limits. All failures are `PortError`s with `secrets` masked."""

    where: str
    seconds: float
    bounds: ReplyBounds
    secrets: Sequence[str]

    def open_session(self) -> ClientSession:
        """Return a session that stores no cookies, does not decompress replies, ignores `.netrc`, and has the sender's
        time limit. Raises `PortError` if aiohttp is not installed.
        """
        try:
            import aiohttp
        except ImportError as error:
            missing = "aiohttp is not installed; install karenina-toolkit with the `http` extra"  # results store this
            raise PortError(f"{self.where}: {missing}", category=ErrorCategory.PERMANENT) from error

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self.seconds),
            trust_env=False,
            auto_decompress=False,  # decompressed with a bound on its size
        )

    async def post(self, session: ClientSession, url: str, **request: Any) -> tuple[ClientResponse, bytes]:
        """Send a POST request with these arguments of aiohttp, through the environment's proxy, and return the response
        with its decompressed body, whatever the status. Redirects are not followed. Raises `PortError` if there is no
        complete reply within the size and time limits.
        """
        import aiohttp

        proxy = find_proxy(urlsplit(url))
        problem = None if proxy is None else find_proxy_problem(proxy)
        if problem is not None:
            raise PortError(f"{self.where}: {problem}", category=ErrorCategory.PERMANENT)
        try:
            async with session.post(url, proxy=proxy, allow_redirects=False, **request) as response:
                pieces = response.content.iter_any()
                encoding = response.headers.get("Content-Encoding", "")
                return response, b"".join(
                    [piece async for piece in bound_body(pieces, encoding, self.where, self.bounds)]
                )
        except TimeoutError:
            raise PortError(
                f"{self.where} did not answer within {self.seconds:g} s; raise request_timeout",
                category=ErrorCategory.TIMEOUT,
            ) from None
        except aiohttp.ClientHttpProxyError as error:  # its text contains the proxy's URL
            what = f"the connection failed because the proxy set in the environment responded with HTTP {error.status}"
            raise PortError(f"{self.where}: {what}", category=ErrorCategory.CONNECTION) from None
        except aiohttp.InvalidURL:  # its text is the whole URL
            what = (
                "the server address"
                if proxy is None
                else "the server address, or the proxy address in the environment,"
            )
            raise PortError(
                f"{self.where}: {what} is not a URL with a host and a port", category=ErrorCategory.PERMANENT
            ) from None
        except aiohttp.ClientSSLError as error:
            raise connection_error(self.where, "cannot connect", self._show(error), tls_error=str(error)) from None
        except aiohttp.ClientConnectorError as error:
            raise connection_error(self.where, "could not connect", self._show(error.os_error)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure("the connection was lost", error, ErrorCategory.CONNECTION) from None
        except ValueError as error:  # a line break in the key, for example
            raise self._failure("the request could not be sent", error, ErrorCategory.PERMANENT) from None

    def _failure(self, what: str, error: BaseException, category: ErrorCategory) -> PortError:
        """Return a `PortError` that describes what failed at which server, with secrets masked."""
        return PortError(f"{self.where}: {what} ({self._show(error)})", category=category)

    def _show(self, error: BaseException) -> str:
        """Return the error message without secrets. If it is empty, return the error's type."""
        return redact_text(str(error), self.secrets) or type(error).__name__


def _find_wait(raw: bytes, read_wait: Callable[[Any], float | None]) -> float | None:
    """Return the seconds to wait that the JSON of an error states, or None. Negative times become 0."""
    with suppress(*_UNREADABLE, OverflowError):
        wait = read_wait(read_json(raw))
        if wait is not None and math.isfinite(seconds := float(wait)):
            return max(0.0, seconds)
    return None


def _key_of(model: ModelConfig) -> str | None:
    """Return the API key in the model's settings, or None. The environment is ignored."""
    return find_api_key(model, model.endpoint_base_url, (), ())


def _strings_in(values: Any) -> Iterator[str]:
    """Yield all strings in a JSON value except the keys of objects."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping):
        yield from _strings_in(values.values())
    elif not isinstance(values, bytes) and hasattr(values, "__iter__"):
        for value in values:
            yield from _strings_in(value)
