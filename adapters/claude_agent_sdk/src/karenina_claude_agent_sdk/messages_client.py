"""A Messages API client for one model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from karenina_claude_agent_sdk.conversion import WireMessage, turn_of
from karenina_claude_agent_sdk.event_stream import ServerReportedError, is_stream, read_reply
from karenina_claude_agent_sdk.settings import DEFAULT_TIMEOUT, base_url_of, extra_of, key_of
from karenina_core.models.ports import NO_USAGE, ErrorCategory, Message, PortError, Turn
from karenina_toolkit.http.http_errors import (
    MESSAGES_API_CURES,
    messages_api_error,
    not_json_error,
    redact_text,
    status_error,
)
from karenina_toolkit.http.post_json import Sender
from karenina_toolkit.http.reply_body import ACCEPTED_ENCODINGS, IncompleteStream, UnendedStream, check_stream_end
from karenina_toolkit.http.urls import find_secrets, redact_url
from karenina_toolkit.replies.reply_bounds import BrokenReply, ReplyBounds
from karenina_toolkit.replies.reply_ends import PAUSED
from karenina_toolkit.traces.formats.anthropic import read_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import ClientSession

    from karenina_core.models.model import ModelConfig

_MOST_PAUSES: Final = 4  # few, because a budget counts all requests for one reply together
_PATH_CURE: Final = "check endpoint_base_url (without /v1/messages)"
_KEPT_HEADERS: Final = ("anthropic-version", "anthropic-beta", "user-agent", "x-app")


class MessagesClient:
    """A client that forwards the CLI's requests. The first request opens connections."""

    def __init__(self, model: ModelConfig) -> None:
        base_url = base_url_of(model)
        key = key_of(model)
        own = {name: value.get_secret_value() for name, value in extra_of(model).headers.items()}
        self.where = f"{model.display_string} at {redact_url(base_url)}"
        self.timeout = model.request_timeout or DEFAULT_TIMEOUT
        self._url = f"{base_url}/v1/messages"
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": ACCEPTED_ENCODINGS}
        if key is not None and not {"authorization", "x-api-key"} & {name.lower() for name in own}:
            self._headers["X-Api-Key"] = key
        self._headers.update(own)
        self._secrets = find_secrets(base_url, key, *own.values())
        self._sender = Sender(self.where, self.timeout, ReplyBounds.of(model), self._secrets)
        self._fields = {
            name: value
            for name, value in (("temperature", model.temperature), ("max_tokens", model.max_tokens))
            if value is not None
        }
        self._session: ClientSession | None = None
        self._closed = False

    async def post(self, request: WireMessage, headers: Mapping[str, str], prompt: Sequence[Message]) -> Turn:
        """Forward a request of the CLI to the server, with the model's parameters, and return the reply. Of `headers`,
        only those in `_KEPT_HEADERS` are sent. If the server pauses a reply without tool calls, it is continued, up to
        `_MOST_PAUSES` times, and then returned unfinished. Raises `PortError` if a request fails or its reply cannot be
        used.

        `prompt` is masked in the server's error messages.
        """
        turn = await self._post_once(request, headers, prompt)
        for _ in range(_MOST_PAUSES):
            if turn.wire.get("stop_reason") not in PAUSED or turn.message.tool_calls:
                break
            message = {"role": "assistant", "content": turn.wire["content"]}
            going_on = {**request, "messages": [*request["messages"], message]}
            try:
                after = await self._post_once(going_on, headers, prompt)
            except PortError as error:
                error.usage = turn.usage + error.usage
                raise
            whole = {**after.wire, "content": [*turn.wire["content"], *after.wire["content"]]}
            turn = replace(turn_of(whole), usage=turn.usage + after.usage)
        return turn

    async def _post_once(self, request: WireMessage, headers: Mapping[str, str], prompt: Sequence[Message]) -> Turn:
        """Send one request, and return the reply, which the server may have paused. Raises `PortError` if the request
        fails or its reply cannot be used.
        """
        sent = {**self._headers, **{name: headers[name] for name in _KEPT_HEADERS if name in headers}}
        raw = await self._post(json.dumps({**request, **self._fields}).encode(), sent, prompt)
        reply: WireMessage = {}
        try:
            reply = read_reply(raw)
            turn = turn_of(reply)
            if is_stream(raw):
                check_stream_end(self._url, turn.usage, has_reason=bool(turn.wire.get("stop_reason")))
        except ServerReportedError as error:
            raise messages_api_error(self.where, error.kind, str(error), self._secrets, prompt, error.usage) from None
        except json.JSONDecodeError:
            raise not_json_error(self.where, raw, self._secrets, prompt, _PATH_CURE) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = str(error) if isinstance(error, ValueError) else "the reply does not have the expected structure"
            shown = redact_text(why, self._secrets, prompt)
            usage = read_usage(reply.get("usage"))
            raise BrokenReply(
                f"{self.where} sent no usable reply: {shown}", usage if usage.total_tokens else NO_USAGE
            ) from None
        except IncompleteStream as error:
            lost = ErrorCategory.INCOMPLETE if isinstance(error, UnendedStream) else ErrorCategory.CONNECTION
            raise PortError(f"{self.where}: {error}", category=lost, usage=error.usage) from None
        return turn

    async def aclose(self) -> None:
        """Close the connections. Later requests raise `PortError`."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, body: bytes, headers: Mapping[str, str], prompt: Sequence[Message]) -> bytes:
        """Send one request, and return the body of the response. Raises `PortError` if its status is 300 or higher, if
        there is no response, or if the port is closed.
        """
        if self._closed:
            raise PortError(f"{self.where}: this client is closed", category=ErrorCategory.PERMANENT)
        if self._session is None:
            self._session = self._sender.open_session()
        response, raw = await self._sender.post(
            self._session, self._url, data=body, headers=headers, params={"beta": "true"}
        )
        if response.status >= 300:
            text = raw.decode("utf-8", "replace")
            raise status_error(
                self.where, response.status, response.headers, text, self._secrets, prompt, MESSAGES_API_CURES
            )
        return raw
