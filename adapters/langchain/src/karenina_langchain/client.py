"""Calls to LangChain chat models. Errors are `PortError`s without secrets or prompts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langchain_core import exceptions as langchain_errors
from langchain_core.messages import AIMessage

from karenina_core.models.ports import NO_USAGE, ErrorCategory, Message, PortError
from karenina_langchain.chat_models import BODY, describe_server, make_chat_model
from karenina_langchain.conversion import fill_messages, from_completion, from_langchain
from karenina_langchain.providers import provider_name, provider_of
from karenina_langchain.settings import DEFAULT_TIMEOUT, base_url_of, extra_of, key_of
from karenina_toolkit.attachments.wire import has_attachments
from karenina_toolkit.http.error_cures import cure_for_tls_error, find_page_text
from karenina_toolkit.http.http_errors import (
    CURES,
    connection_error,
    error_in_reply,
    find_reply_error,
    find_system_error,
    redact_text,
    status_error,
    usage_of_failure,
    web_page_error,
)
from karenina_toolkit.http.urls import find_secrets
from karenina_toolkit.replies.reply_bounds import BrokenReply, check_tool_call_count, find_port_error, read_json
from karenina_toolkit.structured.structured_modes import ModeUnsupported
from karenina_toolkit.traces.formats.openai_chat import usage_of
from karenina_toolkit.traces.token_counts import stated_cost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Message, Turn


_BY_CLASS: Final[tuple[tuple[type[Exception], ErrorCategory], ...]] = (
    (langchain_errors.ModelTimeoutError, ErrorCategory.TIMEOUT),
    (langchain_errors.ModelConnectionError, ErrorCategory.CONNECTION),
    (langchain_errors.ModelRateLimitError, ErrorCategory.RATE_LIMIT),
    (langchain_errors.ModelAPIError, ErrorCategory.SERVER),
    (langchain_errors.ModelError, ErrorCategory.PERMANENT),
    (TimeoutError, ErrorCategory.TIMEOUT),
    (OSError, ErrorCategory.CONNECTION),
)
# Error classes of HTTP clients and SDKs, by name: several packages define them, and none is required.
_BY_NAME: Final = {
    "TimeoutException": ErrorCategory.TIMEOUT,
    "APITimeoutError": ErrorCategory.TIMEOUT,
    "APIResponseValidationError": ErrorCategory.SERVER,
    "RemoteProtocolError": ErrorCategory.CONNECTION,
    "TransportError": ErrorCategory.CONNECTION,
    "APIConnectionError": ErrorCategory.CONNECTION,
    "ResponseError": ErrorCategory.SERVER,  # of Ollama, in a stream
    "ReadTimeoutError": ErrorCategory.TIMEOUT,  # of AWS's botocore, as are the following
    "ConnectTimeoutError": ErrorCategory.TIMEOUT,
    "EndpointConnectionError": ErrorCategory.CONNECTION,
    "HTTPClientError": ErrorCategory.CONNECTION,
}
_UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
_UNFINISHED: Final = ("queued", "in_progress")  # statuses of the Responses API
_CURES: Final = {
    **CURES,
    401: "check endpoint_api_key, or the environment variable for the provider's key",
    404: "check model_name and the server's base URL",
}


def port_error(where: str, error: Exception, secrets: Sequence[str], prompt: Sequence[Message]) -> PortError:
    """Convert an exception from LangChain or an SDK to a `PortError`, with `secrets` and `prompt` masked. Its category
    is derived from the HTTP status, an error in the reply, or the exception's class. Other classes that suggest an
    unreadable reply are server errors, and the rest are permanent.
    """
    status, headers, body = _response(error)
    if status is not None and status >= 300:
        return status_error(where, status, headers, body, secrets, prompt, _CURES)
    passed_on = error.args[0] if error.args else None
    if isinstance(error, ValueError) and isinstance(passed_on, Mapping | str):
        reported = error_in_reply(where, passed_on, NO_USAGE, secrets, prompt)
        if isinstance(passed_on, Mapping) or reported.category is ErrorCategory.FILTERED:
            return reported
    shown = redact_text(str(error), secrets, prompt)
    reason = f"{type(error).__name__}{f': {shown}' if shown else ''}"
    category = _category(error)
    if category is ErrorCategory.TIMEOUT:
        return PortError(f"{where} did not answer in time; raise request_timeout", category=category)
    if category is ErrorCategory.CONNECTION:
        why = find_system_error(error) or error.__cause__ or error
        cause = redact_text(str(why), secrets, prompt) or type(why).__name__
        if cure_for_tls_error(str(why)) is not None:
            return connection_error(where, "cannot connect", cause, tls_error=str(why))
        return connection_error(where, "could not connect, or lost the connection", cause)
    if category is None and isinstance(error, _UNREADABLE):
        page = find_page_text(str(error))  # the SDK's error has the reply only in its message
        if page is not None:
            return web_page_error(where, page, secrets, prompt, "check the server's base URL, including its path")
        return PortError(f"{where} sent no usable reply ({reason})", category=ErrorCategory.SERVER)
    return PortError(f"{where}: the call failed ({reason})", category=category or ErrorCategory.PERMANENT)


def is_unreadable(error: Exception) -> bool:
    """Return whether LangChain or an SDK failed to read a reply that may be readable without them."""
    status, *_ = _response(error)
    named = ("LengthFinishReasonError", "ContentFilterFinishReasonError")
    return status in (None, 200) and (
        type(error).__name__ in named or (isinstance(error, _UNREADABLE) and _category(error) is None)
    )


def read_body(body: bytes | bytearray) -> Mapping[str, Any] | None:
    """Return the JSON object in a body, or None if it is anything else."""
    try:
        data = read_json(bytes(body))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def read_completion(body: bytes | bytearray) -> Mapping[str, Any] | None:
    """Return the chat completion in a body, or None if there is none or it has no choices."""
    data = read_body(body) if b'"choices"' in body else None
    return data if data is not None and isinstance(data.get("choices"), list) and data["choices"] else None


def _stated_cost(body: bytearray) -> int:
    """Return the cost that the `usage` in a body states, in billionths of a dollar, or 0 if it states none. LangChain
    leaves it out.
    """
    data = read_body(body) if b'"cost' in body else None
    usage = data.get("usage") if data is not None else None
    return stated_cost(usage) if isinstance(usage, Mapping) else 0


def _category(error: Exception) -> ErrorCategory | None:
    """Return the category for an exception's class, or None if it is not known. Its own name takes precedence, because
    timeouts of botocore are an `OSError` too.
    """
    if type(error).__name__ in _BY_NAME:
        return _BY_NAME[type(error).__name__]
    for kind, category in _BY_CLASS:
        if isinstance(error, kind):
            return category
    for ancestor in type(error).__mro__:
        if ancestor.__name__ in _BY_NAME:
            return _BY_NAME[ancestor.__name__]
    return None


def _response(error: BaseException) -> tuple[int | None, Mapping[str, str], str]:
    """Return the HTTP status, headers and body of an SDK error, as far as it has them, or of the error that it was
    raised from, or (None, {}, "") if neither has a status.

    Without a response, the status is the error's `status_code` or `code` if that is from 300 to 599. The body is then
    the JSON in its `details` (Google) or `body` (Cohere), if any, or its message.
    """
    response: Any = getattr(error, "response", None)
    if isinstance(response, Mapping) and isinstance(stated := response.get("Error"), Mapping):  # of AWS's botocore
        meta = response.get("ResponseMetadata", {})
        body = json.dumps({"message": stated.get("Message"), "code": stated.get("Code")})
        return meta.get("HTTPStatusCode"), _ignoring_case(meta.get("HTTPHeaders", {})), body
    status = getattr(response, "status_code", None)
    if isinstance(status, int):
        try:
            body = str(response.text)
        except Exception:  # an unread body must not raise another error
            body = str(error)
        return status, response.headers, body
    codes = (getattr(error, name, None) for name in ("status_code", "code"))
    status = next((code for code in codes if isinstance(code, int) and 300 <= code < 600), None)
    if status is not None:
        given, headers = (getattr(error, name, None) for name in ("body", "headers"))
        details: Any = getattr(error, "details", None) or given
        body = json.dumps(details, default=str) if isinstance(details, dict) else str(error)
        return status, _ignoring_case(headers) if isinstance(headers, Mapping) else {}, body
    cause = error.__cause__
    return _response(cause) if cause is not None else (None, {}, "")


def _ignoring_case(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return headers under both forms of their names that errors are read for, `retry-after-ms` and `Retry-After`."""
    return {**{name.title(): value for name, value in headers.items()}, **{n.lower(): v for n, v in headers.items()}}


class Client:
    """A client for one model. The first call opens connections in its event loop."""

    def __init__(self, model: ModelConfig) -> None:
        base_url = base_url_of(model)
        self.extra = extra_of(model)
        self.provider = provider_of(model)
        self._name = provider_name(model)
        self.base_url = base_url
        self.where = describe_server(model)
        self.timeout = model.request_timeout or DEFAULT_TIMEOUT
        self.chat, self._close = make_chat_model(model)
        headers = (value.get_secret_value() for value in self.extra.headers.values())
        self._secrets = find_secrets(base_url, key_of(model), *headers)
        self._closed = False

    async def ask(self, runnable: Runnable[Any, Any], messages: Sequence[Message], sent: list[BaseMessage]) -> Turn:
        """Send `sent`, which is `messages` in LangChain's format, to `runnable`, the chat model with its arguments, and
        return the reply. Raises `PortError` if the port is closed, the call fails, or the reply cannot be used, and
        `ModeUnsupported` if the chat model returns only the object of structured output.

        For structured output, the raw reply is returned. If the body is a chat completion, the reply is read from it,
        even if LangChain could not read it.
        """
        if self._closed:
            raise PortError(f"{self.where}: this client is closed", category=ErrorCategory.PERMANENT)
        if has_attachments(messages):
            sent = await fill_messages(sent)
        deadline = asyncio.timeout(self.timeout)
        body = bytearray()
        token = BODY.set(body)
        try:
            async with deadline:
                output = await runnable.ainvoke(sent)
        except TimeoutError as error:
            if not deadline.expired():
                raise port_error(self.where, error, self._secrets, messages) from None
            raise PortError(
                f"{self.where} did not answer within {self.timeout:g} s; raise request_timeout",
                category=ErrorCategory.TIMEOUT,
            ) from None
        except Exception as error:
            if (refused := find_port_error(error)) is not None:
                raise refused from None
            data = read_body(body) if is_unreadable(error) else None
            if data is None:
                raise port_error(self.where, error, self._secrets, messages) from None
            if (stated := find_reply_error(self.where, data, self._secrets, messages)) is not None:
                raise stated from None
            if not isinstance(data.get("choices"), list) or not data["choices"]:
                failed = port_error(self.where, error, self._secrets, messages)
                failed.usage = usage_of_failure(data)
                raise failed from None
            return self._read(data, None, messages)
        finally:
            BODY.reset(token)
        if isinstance(output, dict) and "raw" not in output:  # ChatCohere ignores include_raw
            raise ModeUnsupported(self.explain_unsupported("structured output beside its message"))
        raw = output["raw"] if isinstance(output, dict) else output
        if isinstance(raw, AIMessage):
            check_tool_call_count(self.where, [*raw.tool_calls, *raw.invalid_tool_calls])
        if not isinstance(raw, AIMessage):
            raise PortError(
                f"{self.where} sent no usable reply: the reply is not a model message", category=ErrorCategory.SERVER
            )
        if (status := raw.response_metadata.get("status")) in _UNFINISHED:
            raise PortError(
                f"{self.where} answers in the background (status {status!r}), which is not supported; do not ask for "
                "it, and raise request_timeout if replies take long",
                category=ErrorCategory.PERMANENT,
            )
        completion = read_completion(body)
        if completion is not None:
            return self._read(completion, raw, messages)
        try:
            reply = from_langchain(raw, ends_with_reason=self._name == "ollama")
        except ValueError as problem:
            raise BrokenReply(f"{self.where} sent no usable reply: {problem}") from None
        cost = _stated_cost(body)
        return replace(reply, usage=replace(reply.usage, stated_cost=cost)) if cost else reply

    def _read(self, completion: Mapping[str, Any], message: AIMessage | None, messages: Sequence[Message]) -> Turn:
        """Return the reply in the original chat completion, because `message`, LangChain's version of it (None if that
        failed), lacks some parts. Raises `PortError` if the completion contains an error or cannot be read.

        `messages` are masked in errors.
        """
        error = find_reply_error(self.where, completion, self._secrets, messages)
        if error is not None:
            raise error
        try:
            reply = from_completion(completion, message)
        except ValueError as problem:
            raise BrokenReply(f"{self.where} sent no usable reply: {problem}", usage_of(completion)) from None
        check_tool_call_count(self.where, reply.message.tool_calls)
        return reply

    def explain_unsupported(self, way: str) -> str:
        """Return the error message for a chat model that does not support the mode `way`."""
        return f"{self.where}: LangChain's chat model does not support {way}; set extra.structured to auto or prompt"

    async def aclose(self) -> None:
        """Close the connections. Later calls raise `PortError`."""
        if not self._closed:
            self._closed = True
            await self._close()
