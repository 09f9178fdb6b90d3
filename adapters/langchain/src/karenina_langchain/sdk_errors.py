"""Conversion of errors of LangChain and its SDKs to `PortError`s without secrets and prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core import exceptions as langchain_errors

from karenina_core.models.ports import ErrorCategory, Message, PortError
from karenina_toolkit.error_cures import cure_for_tls_error, find_page_text
from karenina_toolkit.http_errors import (
    CURES,
    category_of_status,
    find_system_error,
    redact_text,
    status_error,
    web_page_error,
)

_BY_CLASS: Final[tuple[tuple[type[Exception], ErrorCategory], ...]] = (
    (langchain_errors.ModelTimeoutError, ErrorCategory.TIMEOUT),
    (langchain_errors.ModelConnectionError, ErrorCategory.CONNECTION),
    (langchain_errors.ModelRateLimitError, ErrorCategory.RATE_LIMIT),
    (langchain_errors.ModelAPIError, ErrorCategory.SERVER),
    (langchain_errors.ModelError, ErrorCategory.PERMANENT),
    (TimeoutError, ErrorCategory.TIMEOUT),
    (OSError, ErrorCategory.CONNECTION),
)
# Classes of HTTP clients and SDKs by name, because several packages define them and none is required.
_BY_NAME: Final = {
    "TimeoutException": ErrorCategory.TIMEOUT,
    "APITimeoutError": ErrorCategory.TIMEOUT,
    "APIResponseValidationError": ErrorCategory.SERVER,
    "RemoteProtocolError": ErrorCategory.CONNECTION,
    "TransportError": ErrorCategory.CONNECTION,
    "APIConnectionError": ErrorCategory.CONNECTION,
}
_UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
_CURES: Final = {
    **CURES,
    401: "check endpoint_api_key, or the environment variable of the provider's key",
    404: "check model_name, and the base URL of the server",
}


def port_error(where: str, error: Exception, secrets: Sequence[str], prompt: Sequence[Message]) -> PortError:
    """Return the `PortError` for `error`, from its class and its HTTP status, never from its text."""
    status, headers, body = _response(error)
    if status is not None and status >= 300:
        return status_error(where, status, headers, body, secrets, prompt, _CURES)
    passed_on = error.args[0] if error.args else None
    if isinstance(error, ValueError) and isinstance(passed_on, Mapping):
        return _gateway_error(where, passed_on, secrets, prompt)
    shown = redact_text(str(error), secrets, prompt)
    reason = f"{type(error).__name__}{f': {shown}' if shown else ''}"
    category = _category(error)
    if category is ErrorCategory.TIMEOUT:
        return PortError(f"{where} did not answer in time; raise request_timeout", category=category)
    if category is ErrorCategory.CONNECTION:
        why = find_system_error(error) or error.__cause__ or error
        cause = redact_text(str(why), secrets, prompt) or type(why).__name__
        cure = cure_for_tls_error(str(why))
        if cure is not None:
            said = f"{where}: no connection is possible ({cause}); {cure}"
            return PortError(said, category=ErrorCategory.PERMANENT)
        return PortError(
            f"{where}: no connection, or it broke ({cause}): check that the server is running, and its base URL",
            category=category,
        )
    if category is None and isinstance(error, _UNREADABLE):
        page = find_page_text(str(error))  # the SDK has the reply only in its message
        if page is not None:
            return web_page_error(where, page, secrets, prompt, "check the base URL of the server, and its path")
        return PortError(f"{where} sent no usable reply ({reason})", category=ErrorCategory.SERVER)
    return PortError(f"{where}: the call failed ({reason})", category=category or ErrorCategory.PERMANENT)


def find_truncated_reply(error: Exception) -> Mapping[str, Any] | None:
    """Return the completion that the openai SDK dropped because it was truncated or filtered, else None."""
    if type(error).__name__ not in ("LengthFinishReasonError", "ContentFilterFinishReasonError"):
        return None
    status, _, body = _response(error)
    if status != 200:
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _gateway_error(
    where: str, error: Mapping[str, Any], secrets: Sequence[str], prompt: Sequence[Message]
) -> PortError:
    """Return the error of a provider that a gateway sent as a reply of status 200, with the real status inside."""
    code = error.get("code")
    shown = redact_text(str(error.get("message") or dict(error)), secrets, prompt)
    if isinstance(code, int) and 400 <= code < 600:
        return PortError(f"{where} passed on HTTP {code}: {shown}", category=category_of_status(code), status=code)
    return PortError(f"{where} sent no usable reply: {shown}", category=ErrorCategory.SERVER)


def _category(error: Exception) -> ErrorCategory | None:
    for kind, category in _BY_CLASS:
        if isinstance(error, kind):
            return category
    for ancestor in type(error).__mro__:
        if ancestor.__name__ in _BY_NAME:
            return _BY_NAME[ancestor.__name__]
    return None


def _response(error: Exception) -> tuple[int | None, Mapping[str, str], str]:
    """Return the HTTP status, headers and body of an SDK's error, or (None, {}, "") if it has none."""
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if not isinstance(status, int):
        status = next(
            (value for name in ("status_code", "code") if isinstance(value := getattr(error, name, None), int)), None
        )
        return (status, {}, str(error)) if status is not None and 300 <= status < 600 else (None, {}, "")
    try:
        body = str(response.text)
    except Exception:  # a body that was not read must not raise another error
        body = str(error)
    return status, response.headers, body
