"""The SDK client for one model on one server. Errors are `PortError`s without secrets or prompts."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import anthropic
import httpx2
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Omit, omit

from karenina_claude_tool.conversion import add, from_wire, join_turns, to_wire
from karenina_claude_tool.settings import (
    DEFAULT_MAX_TOKENS,
    DEFAULT_TIMEOUT,
    base_url_of,
    extra_of,
    find_api_key,
    may_receive_environment_secrets,
)
from karenina_core.models.ports import NO_USAGE, ErrorCategory, Message, PortError
from karenina_toolkit.attachments.wire import fill, has_attachments
from karenina_toolkit.http.http_errors import (
    MESSAGES_API_CURES,
    connection_error,
    find_message_error,
    find_system_error,
    messages_api_error,
    not_json_error,
    redact_text,
    status_error,
)
from karenina_toolkit.http.reply_body import ACCEPTED_ENCODINGS, make_bounding_hook
from karenina_toolkit.http.urls import find_secrets, redact_url, uses_proxy
from karenina_toolkit.replies.reply_bounds import BrokenReply, ReplyBounds, find_port_error, read_json
from karenina_toolkit.traces.formats.anthropic import read_usage

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Message, Turn, Usage


PATH_CURE: Final = "check endpoint_base_url (without /v1/messages)"
# An interrupted handshake may succeed on a retry; an invalid certificate will not.
_INTERRUPTED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def port_error(where: str, error: Exception, secrets: Sequence[str], prompt: Sequence[Message]) -> PortError:
    """Convert an SDK error to a `PortError` by its class and HTTP status, with `secrets` and `prompt` masked. Errors of
    other classes are invalid requests, which are permanent. Timeouts must be handled by the caller, who knows the
    limit.
    """
    if isinstance(error, anthropic.APIStatusError):
        reply = error.response
        return status_error(where, reply.status_code, reply.headers, reply.text, secrets, prompt, MESSAGES_API_CURES)
    if isinstance(error, anthropic.APIConnectionError):
        return _no_connection(where, error, secrets)
    shown = redact_text(str(error), secrets, prompt)
    return PortError(f"{where}: the request is invalid ({shown})", category=ErrorCategory.PERMANENT)


def _no_connection(where: str, error: Exception, secrets: Sequence[str]) -> PortError:
    """Return the error for a failed connection. It is permanent for a TLS error that a retry would repeat."""
    why = find_system_error(error) or error.__cause__ or error
    shown = redact_text(str(why), secrets) or type(why).__name__
    if isinstance(why, ssl.SSLError) and not isinstance(why, _INTERRUPTED):
        return connection_error(where, "cannot connect", shown, tls_error=str(why))
    return connection_error(where, "could not connect, or lost the connection", shown)


_MOST_PAUSES: Final = 4  # few, because a budget counts all requests for one reply together


class Client:
    """A client that posts requests. The first call opens connections in its event loop."""

    def __init__(self, model: ModelConfig) -> None:
        self.extra = extra_of(model)
        self._base_url = base_url_of(model)
        self.where = f"{model.display_string} at {redact_url(self._base_url)}"
        self.timeout = model.request_timeout or DEFAULT_TIMEOUT
        self._bounds = ReplyBounds.of(model)
        self._model_name = model.model_name
        self._max_tokens = model.max_tokens or DEFAULT_MAX_TOKENS
        self._base: dict[str, Any] = {} if model.temperature is None else {"temperature": model.temperature}
        self._base.update(self.extra.body)
        self._key = find_api_key(model)
        self._set_headers()
        self._sdk: AsyncAnthropic | None = None
        self._closed = False

    async def ask(self, messages: Sequence[Message], **fields: Any) -> Turn:
        """Send messages with `fields` added to the request, and return the reply. If the server pauses it, it is
        continued, up to `_MOST_PAUSES` times, and then returned unfinished. Raises `PortError` if a request fails or
        its reply cannot be used.
        """
        system, wire = to_wire(messages)
        reply = await self.post(messages, system, wire, **fields)
        for _ in range(_MOST_PAUSES):
            if not reply.unfinished:
                break
            add(wire, "assistant", reply.wire)
            try:
                reply = join_turns(reply, await self.post(messages, system, wire, **fields))
            except PortError as error:
                error.usage = reply.usage + error.usage
                raise
        return reply

    async def post(
        self,
        messages: Sequence[Message],
        system: str,
        wire: Sequence[Mapping[str, Any]],
        *,
        grows: bool = False,
        **fields: Any,
    ) -> Turn:
        """Send `system`, `wire`, which is the encoded `messages`, and further `fields` of the body, and return the
        reply, not continued if the server pauses it. Set `grows` if more turns will follow, to cache this one. Raises
        `PortError` if the request fails or its reply cannot be used.

        `fields` replace those in `extra.body`, except that `output_config` is merged.
        """
        body = {**self._base, **({"system": system} if system else {}), **fields}
        if "output_config" in fields:
            body["output_config"] = {**self.extra.body.get("output_config", {}), **fields["output_config"]}
        sent: list[Any] = list(wire)
        if self.extra.prompt_caching != "off":
            sent = _add_cache_marks(body, sent, {"type": "ephemeral", "ttl": self.extra.prompt_caching}, grows)
        if has_attachments(messages):
            sent = await fill(sent)
        data = self._read(await self._send(messages, sent, body), messages)
        try:
            return from_wire(data)
        except ValueError as error:
            raise self._unusable(str(error), _usage_of(data)) from None

    async def aclose(self) -> None:
        """Close the connections. Later calls raise `PortError`."""
        self._closed = True
        sdk, self._sdk = self._sdk, None
        if sdk is not None:
            await sdk.close()

    async def _send(self, messages: Sequence[Message], wire: list[Any], body: Mapping[str, Any]) -> bytes:
        """Send `wire` and the other fields in `body`, and return the body of the response. Raises `PortError`, in which
        `messages` are masked, if the request fails.
        """
        sdk = self._open_sdk()
        try:
            async with asyncio.timeout(self.timeout):
                response = await sdk.messages.with_raw_response.create(
                    model=self._model_name,
                    max_tokens=self._max_tokens,
                    messages=wire,
                    extra_headers=self._omitted_headers,
                    extra_body=dict(body),
                )
                return await response.read()
        except (TimeoutError, anthropic.APITimeoutError):
            raise PortError(
                f"{self.where} did not answer within {self.timeout:g} s; raise request_timeout",
                category=ErrorCategory.TIMEOUT,
            ) from None
        # TypeError and ValueError: extra.body or the messages (a server's infinity) cannot be encoded as JSON.
        except (anthropic.AnthropicError, TypeError, ValueError) as error:
            raise find_port_error(error) or port_error(self.where, error, self._secrets, messages) from None

    def _read(self, raw: bytes, messages: Sequence[Message]) -> Mapping[str, Any]:
        """Return the JSON object in a response body. Raises `PortError`, in which `messages` are masked, if it is
        anything else, reports an error, or has no content.
        """
        try:
            data = read_json(raw)
        except json.JSONDecodeError:
            raise not_json_error(self.where, raw, self._secrets, messages, PATH_CURE) from None
        except ValueError as error:
            raise self._unusable(str(error)) from None
        if not isinstance(data, dict):
            raise self._unusable("the reply body is not a JSON object")
        stated = find_message_error(data)
        if stated is not None:
            raise messages_api_error(self.where, *stated, self._secrets, messages, _usage_of(data))
        if "content" not in data:
            shown = redact_text(json.dumps(data, ensure_ascii=False), self._secrets, messages)
            raise self._unusable(f"the message has no content: {shown}")
        return data

    def _unusable(self, why: str, usage: Usage = NO_USAGE) -> PortError:
        """Return the error for a successful reply that cannot be used."""
        return BrokenReply(f"{self.where} sent no usable reply: {why}", usage)

    def _open_sdk(self) -> AsyncAnthropic:
        """Return the SDK client, creating it on first use. Raises `PortError` if the port is closed or the proxy in the
        environment cannot be used.
        """
        if self._closed:
            raise PortError(f"{self.where}: this client is closed", category=ErrorCategory.PERMANENT)
        if self._sdk is None:
            # Redirects are not followed: they would send the key elsewhere. NO_PROXY is read as by all adapters.
            try:
                http = DefaultAsyncHttpxClient(
                    verify=_tls(),
                    follow_redirects=False,
                    headers={"Accept-Encoding": ACCEPTED_ENCODINGS},
                    event_hooks={"response": [make_bounding_hook(httpx2.AsyncByteStream, self.where, self._bounds)]},
                    trust_env=uses_proxy(self._base_url),
                )
            except (ImportError, ValueError):  # the error's text can contain the proxy URL
                problem = (
                    "the proxy set in the environment has an unsupported scheme or is not a URL; correct or unset it "
                    "(for SOCKS, install socksio)"
                )
                raise PortError(f"{self.where}: {problem}", category=ErrorCategory.PERMANENT) from None
            # An explicit key, even an empty one, prevents the SDK from searching for credentials.
            self._sdk = AsyncAnthropic(
                api_key=self._key or "",
                base_url=self._base_url,
                timeout=self.timeout,
                max_retries=0,
                default_headers=self._headers,
                open_telemetry=False,
                http_client=http,
            )
        return self._sdk

    def _set_headers(self) -> None:
        """Set the headers that are sent (those in `extra`), the headers of the SDK that are removed, and the values
        that are secret. The SDK adds `ANTHROPIC_CUSTOM_HEADERS` to every request to any server. They are removed if
        secrets from the environment must not be sent to the server.
        """
        environment = dict(_custom_headers(os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "")))
        named = {name.lower(): name for name in ("Authorization", *environment)}
        own = {named.get(name.lower(), name): value.get_secret_value() for name, value in self.extra.headers.items()}
        trusted = may_receive_environment_secrets(self._base_url)
        sent = own if not trusted else {**environment, **own}
        left_out = {name for name in environment if name not in sent}
        if self._key is None and "Authorization" not in {named.get(name.lower(), name) for name in sent}:
            left_out.add("Authorization")
        self._headers = own
        self._omitted_headers: dict[str, str | Omit] = dict.fromkeys(left_out, omit)
        self._secrets = find_secrets(self._base_url, self._key, *own.values(), *environment.values())


def _usage_of(data: Mapping[str, Any]) -> Usage:
    """Return the usage that a reply without an answer states, or that of no call if it states no tokens."""
    usage = read_usage(data.get("usage"))
    return usage if usage.total_tokens else NO_USAGE


@cache
def _tls() -> ssl.SSLContext:
    """Return the TLS context with trusted certificates, which is cached because loading them is slow."""
    return httpx2.create_ssl_context()


def _add_cache_marks(body: dict[str, Any], conversation: list[Any], mark: Mapping[str, str], grows: bool) -> list[Any]:
    """Mark the system prompt (or, without one, the tools) in `body` for caching, and return the conversation: if it
    `grows` and its last message is from the user, a copy with that message marked.

    The server caches everything up to a mark, and tools come before the system prompt.
    """
    if "system" in body:
        body["system"] = [{"type": "text", "text": body["system"], "cache_control": mark}]
    elif body.get("tools"):
        body["tools"] = [*body["tools"][:-1], {**body["tools"][-1], "cache_control": mark}]
    if not grows or not conversation or conversation[-1]["role"] != "user":
        return conversation
    *before, last = conversation
    content = [*last["content"][:-1], {**last["content"][-1], "cache_control": mark}]
    return [*before, {**last, "content": content}]


def _custom_headers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the headers in `text`, one on each line, skipping lines without a colon."""
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()
