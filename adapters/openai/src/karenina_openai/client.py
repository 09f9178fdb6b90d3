"""The HTTP client for one model on one server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import orjson

from karenina_core.models.ports import NO_USAGE, ErrorCategory, Message, PortError
from karenina_openai.http import ConnectionBroken, ConnectionFailed, Limits, Reply, Server
from karenina_openai.settings import (
    DEFAULT_TIMEOUT,
    KEY_VARIABLES,
    SOUND_FORMATS,
    base_url_of,
    extra_of,
    find_api_key,
)
from karenina_openai.streaming import (
    NotStreamed,
    StallTimer,
    StreamStalled,
    assemble_stream,
    check_choice_end,
)
from karenina_toolkit.attachments.wire import Contents, data_url, fill, has_attachments, neutral_name
from karenina_toolkit.http.endpoints import cure_for_key
from karenina_toolkit.http.error_cures import cure_for_path
from karenina_toolkit.http.http_errors import (
    CURES,
    HTTPStatusError,
    connection_error,
    find_reply_error,
    not_json_error,
    redact_text,
    status_error,
    usage_of_failure,
)
from karenina_toolkit.http.reply_body import IncompleteStream, UnendedStream
from karenina_toolkit.http.urls import find_proxy, find_secrets, redact_url
from karenina_toolkit.replies.reply_bounds import BrokenReply, ReplyBounds, read_json
from karenina_toolkit.traces.formats.openai_chat import usage_of, write_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.attachments import Attachment
    from karenina_core.models.model import ModelConfig


def to_wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Convert `messages` to chat messages without reasoning, in which each attachment is a placeholder until they are
    sent. Tool messages consist of text only, so the attachments of tool results follow them in a user message, and a
    tool's failure only shows in its content.
    """
    wire: list[dict[str, Any]] = []
    pending: list[dict[str, Any]] = []
    for message in messages:
        if message.role != "tool" and pending:
            wire.append({"role": "user", "content": pending})
            pending = []
        wire.append(_to_wire(message))
        if message.role == "tool" and message.attachments:
            name = f"Attachments of the result of {message.tool_name or 'the tool'}:"
            pending += [{"type": "text", "text": name}, *map(_part_of, message.attachments, count(1))]
    return [*wire, {"role": "user", "content": pending}] if pending else wire


def _to_wire(message: Message) -> dict[str, Any]:
    """Convert a message, without the attachments of a tool result, which `to_wire` sends in a message of their own."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": message.content}
    if message.attachments:
        text = [{"type": "text", "text": message.content}] if message.content else []
        return {"role": message.role, "content": [*map(_part_of, message.attachments, count(1)), *text]}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    return {
        "role": message.role,
        "content": message.content or None,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": write_arguments(call.arguments)},
            }
            for call in message.tool_calls
        ],
    }


def _part_of(attachment: Attachment, number: int) -> dict[str, Any]:
    """Return the content part for attachment `number` of a message, counted from 1. Its contents are filled in when it
    is sent.
    """
    kind = attachment.media_type
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(attachment)}}
    if kind == "application/pdf":
        return {"type": "file", "file": {"filename": neutral_name(number), "file_data": data_url(attachment)}}
    return {"type": "input_audio", "input_audio": {"data": Contents(attachment), "format": SOUND_FORMATS[kind]}}


Watch = Callable[[Mapping[str, Any]], None]
NewClient = Callable[..., "Client"]
TokensField = Literal["max_tokens", "max_completion_tokens"]
_OTHER_FIELD: dict[TokensField, TokensField] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
_BEYOND_64_BITS = re.compile(rb"\d{19}")
"""Matches integers of 19 or more digits, which orjson reads as floats. Servers may send tool arguments as an object."""
_UNASKED_STREAM = re.compile(rb"(?:\s|:[^\n]*\n)*data:\s*\{[^\n]*\"chat\.completion\.chunk\"")
_GRACE = 1.0  # seconds added to the library's limits for streams, so that the limits enforced here apply first
_DRAINING = 0.5  # seconds to read what follows the end of a stream, so that its connection can be reused
_FAILURES = (StreamStalled, TimeoutError, ConnectionFailed, ConnectionBroken, IncompleteStream)
_NO_KEY = "set endpoint_api_key, or OPENAI_API_KEY (sent only to localhost, OpenAI and OPENAI_BASE_URL)"


@dataclass(frozen=True, slots=True)
class _Dialect:
    """The differences between servers, detected from their error messages."""

    tokens_field: TokensField
    counts_streams: bool = True


class Client:
    """A client that posts chat requests. Each call opens connections in its own event loop.

    `watch` is called with the JSON of each successful reply, for data that a port does not return. `path` is appended
    to the base URL.
    """

    def __init__(self, model: ModelConfig, *, watch: Watch | None = None, path: str = "/chat/completions") -> None:
        extra = extra_of(model)
        base_url = base_url_of(model)
        url = urlsplit(base_url)
        key = find_api_key(model)
        self.extra = extra
        self._watch = watch
        self.where = f"{model.display_string} at {redact_url(base_url)}"
        self.timeout = model.request_timeout or DEFAULT_TIMEOUT
        self._first = extra.first_token_timeout or self.timeout
        self._endpoint = (base_url, model.model_name)
        self._host = f"{url.hostname}:{url.port or (443 if url.scheme == 'https' else 80)}"
        query = {name: value.get_secret_value() for name, value in extra.query.items()}
        own = {name: value.get_secret_value() for name, value in extra.headers.items()}
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "karenina"}
        if key is not None and "authorization" not in {name.lower() for name in own}:
            headers["Authorization"] = f"Bearer {key}"
        self._secrets = find_secrets(base_url, key, *own.values(), *query.values())
        proxy = find_proxy(url)
        self._path_cure = cure_for_path(base_url)
        own_key = extra.has_header("authorization", "api-key")
        key_cure = "correct the key in extra.headers" if own_key else cure_for_key(model, key, KEY_VARIABLES, _NO_KEY)
        self._cures = {**CURES, 401: key_cure, 404: f"check model_name, or {self._path_cure}"}
        self._bounds = ReplyBounds.of(model)
        longest, silence = self.timeout, self.timeout
        if extra.stream:  # the limits of a stream are enforced here, each with its own error
            longest, silence = self._bounds.stream_seconds + _GRACE, max(self._first, self.timeout) + _GRACE
        limits = Limits(self.where, longest, silence, self._bounds)
        self._has_choices = path.endswith("completions")  # local models use other addresses of their servers, too
        self._server = Server(f"{base_url}{path}", {**headers, **own}, query, proxy, limits)
        self._closed = False
        self._dialect = _Dialect(extra.max_tokens_field or "max_tokens")
        self._base: dict[str, Any] = {"model": model.model_name}
        if model.temperature is not None:
            self._base["temperature"] = model.temperature
        self._base.update(extra.body)
        self._max_tokens = model.max_tokens

    async def post(self, messages: Sequence[Message], wire: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Send `wire`, the encoded form of `messages`, with `fields`, and return the reply. If the server needs the
        other name for the token limit, or does not accept `stream_options`, the request is repeated, and the client
        remembers what worked. Raises `PortError` if the port is closed, the request fails, or the reply cannot be used.
        """
        dialect = self._dialect
        tried = [dialect]
        while True:
            if self._closed:
                raise PortError(f"{self.where}: this client is closed", category=ErrorCategory.PERMANENT)
            if not has_attachments(messages):
                body = self._body(wire, fields, dialect)
            else:
                body = await fill(wire, partial(self._body, fields=fields, dialect=dialect))
            try:
                if self.extra.stream:
                    data = await self._post_streamed(messages, body)
                else:
                    async with self._server.send(body) as reply:
                        data = self._read(reply, await reply.body(), messages)
            except HTTPStatusError as error:
                dialect = self._adapt_dialect(dialect, error)
                if dialect in tried:
                    raise
                tried.append(dialect)
            except _FAILURES as error:
                raise self._port_error(error) from None
            else:
                self._dialect = dialect
                if self._watch is not None:
                    self._watch(data)
                return data

    async def aclose(self) -> None:
        """Close the connections. Later calls raise `PortError`."""
        self._closed = True
        await self._server.aclose()

    def unusable_reply(self, why: str, data: Mapping[str, Any] | None = None) -> PortError:
        """Return the error for an unusable reply with a success status, with the usage in the completion `data`."""
        usage = usage_of(data) if data is not None and data.get("usage") else NO_USAGE
        return BrokenReply(f"{self.where} sent no usable reply: {why}", usage)

    def _adapt_dialect(self, dialect: _Dialect, error: HTTPStatusError) -> _Dialect:
        """Return the dialect that an error asks for, or `dialect` if the error has another reason."""
        if error.status not in (400, 422):
            return dialect
        if self.extra.stream and "stream_options" in error.server_text:
            return replace(dialect, counts_streams=False)
        other = _OTHER_FIELD[dialect.tokens_field]
        settled = self.extra.max_tokens_field is not None or self._max_tokens is None
        return dialect if settled or other not in error.server_text else replace(dialect, tokens_field=other)

    def _body(self, wire: list[dict[str, Any]], fields: Mapping[str, Any], dialect: _Dialect) -> bytes:
        """Return a request with the messages `wire` and the `fields`, which replace configured ones, as JSON. `dialect`
        determines the field for the token limit, and whether a stream is asked for token counts.
        """
        body = {**self._base, "messages": wire, **fields}
        if self._max_tokens is not None:
            body[dialect.tokens_field] = self._max_tokens
        if self.extra.stream:
            body["stream"] = True
            if dialect.counts_streams:
                body["stream_options"] = {"include_usage": True}
        return _dumps(body)

    def _port_error(self, error: Exception) -> PortError:
        """Return the `PortError` for a request without a complete reply. `error` is one of `_FAILURES`."""
        if isinstance(error, StreamStalled):
            failure = "sent no data for" if error.began else "did not start its reply within"
            setting = "request_timeout" if error.began or self._first == self.timeout else "extra.first_token_timeout"
            message = f"{self.where} {failure} {error.seconds:g} s; raise {setting}"
            return PortError(message, category=ErrorCategory.TIMEOUT)
        if isinstance(error, TimeoutError):
            return self._timeout_error()
        if isinstance(error, UnendedStream):
            return PortError(f"{self.where}: {error}", category=ErrorCategory.INCOMPLETE, usage=error.usage)
        shown = self._shown(error)
        if not isinstance(error, ConnectionFailed):
            usage = error.usage if isinstance(error, IncompleteStream) else NO_USAGE
            message = f"{self.where}: the connection to {self._host} was lost ({shown})"
            return PortError(message, category=ErrorCategory.CONNECTION, usage=usage)
        if error.is_permanent:
            return connection_error(self.where, f"cannot connect to {self._host}", shown, tls_error=str(error))
        return connection_error(self.where, f"could not connect to {self._host}", shown)

    def _timeout_error(self) -> PortError:
        """Return the error for a reply that was not complete in time, which names the setting to raise."""
        if self.extra.stream:
            message = f"did not finish its reply within {self._bounds.stream_seconds:g} s; raise stream_timeout"
        else:
            message = f"did not answer within {self.timeout:g} s; raise request_timeout"
        return PortError(f"{self.where} {message}", category=ErrorCategory.TIMEOUT)

    async def _post_streamed(self, messages: Sequence[Message], body: bytes) -> dict[str, Any]:
        """Send `body`, and return the reply assembled from the stream, or the plain reply if the server does not
        stream. Raises `PortError`, or one of `_FAILURES` if the stream stalls or breaks.
        """
        async with (
            asyncio.timeout(self._bounds.stream_seconds),
            StallTimer(self._first, self.timeout) as timer,
            self._server.send(body) as reply,
        ):
            kind = reply.header("content-type").partition(";")[0].strip().lower()
            if reply.status >= 300:
                return self._read(reply, await reply.body(), messages)
            pieces = reply.pieces()
            try:
                data = await assemble_stream(self.where, pieces, timer, _loads, declared=kind == "text/event-stream")
                check_choice_end(self._endpoint, data)
            except NotStreamed as error:
                return self._read(reply, error.body, messages)
            except json.JSONDecodeError:
                raise self.unusable_reply("a chunk of the stream is not a JSON object") from None
            except ValueError as error:
                raise self.unusable_reply(str(error)) from None
            self._check_choice(data, messages)
            timer.restart(is_answer=True)
            with suppress(TimeoutError, ConnectionBroken):
                async with asyncio.timeout(min(_DRAINING, self.timeout / 2)):
                    async for _ in pieces:
                        pass
            return data

    def _read(self, reply: Reply, body: bytes, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the JSON object in a reply. Raises `PortError` if the reply has a status of 300 or more, reports an
        error, lacks choices, or contains anything else.
        """
        if reply.status >= 300:
            raise self._status_error(reply.status, reply.headers, body, messages)
        try:
            data = _loads(body)
        except json.JSONDecodeError:
            if _UNASKED_STREAM.match(body):
                problem = f"{self.where} streams its replies although it was not asked to; set extra.stream to true"
                raise PortError(problem, category=ErrorCategory.PERMANENT) from None
            raise not_json_error(self.where, body, self._secrets, messages, self._path_cure) from None
        except ValueError as error:
            raise self.unusable_reply(str(error)) from None
        if not isinstance(data, dict):
            raise self.unusable_reply("the reply body is not a JSON object")
        self._check_choice(data, messages)
        return data

    def _check_choice(self, data: Mapping[str, Any], messages: Sequence[Message]) -> None:
        """Raise `PortError` if the reply `data` states an error, with or without text, says that the prompt was
        filtered, or has no choices although it should (`_has_choices`). `messages` are masked in the error.
        """
        error = find_reply_error(self.where, data, self._secrets, messages)
        if error is not None:
            raise error
        if self._has_choices and not data.get("choices"):
            sent = {name: value for name, value in data.items() if value}
            shown = f": {redact_text(json.dumps(sent, ensure_ascii=False), self._secrets, messages)}" if sent else ""
            problem = f"{self.where} sent no usable reply: the completion has no choices{shown}"
            raise BrokenReply(problem, usage_of_failure(data), is_blank=True)

    def _status_error(
        self, status: int, headers: Mapping[str, str], raw: bytes, messages: Sequence[Message]
    ) -> HTTPStatusError:
        """Return the error for a reply with an error status. Secrets and the prompt in `messages` are masked in it."""
        body = raw.decode("utf-8", "replace")
        named = {name.title() if name == "retry-after" else name: value for name, value in headers.items()}
        return status_error(self.where, status, named, body, self._secrets, messages, self._cures)

    def _shown(self, error: BaseException) -> str:
        """Return the message of `error` without secrets, or its type if it has no message."""
        return redact_text(str(error), self._secrets) or type(error).__name__


def _dumps(body: Mapping[str, Any]) -> bytes:
    """Encode `body` as JSON. Raises `TypeError` or `ValueError` for values that JSON does not support."""
    try:
        return orjson.dumps(body)
    except TypeError:  # lone surrogates and integers beyond 64 bits, which the standard library can encode
        return json.dumps(body).encode()


def _loads(raw: bytes) -> Any:
    """Parse JSON. Raises `ValueError` if it is invalid or exceeds the limits for replies."""
    return read_json(raw, _orjson_loads)


def _orjson_loads(raw: bytes) -> Any:
    """Parse JSON, using the standard library where orjson would change or reject a value.

    Raises `ValueError` if the JSON is invalid.
    """
    if b'"arguments"' in raw and _BEYOND_64_BITS.search(raw):
        return json.loads(raw)
    try:
        return orjson.loads(raw)
    except ValueError:  # constants such as NaN, which the standard library can parse
        return json.loads(raw)
