"""Errors of the SDK and of servers as `PortError`s that show no secret and no prompt."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anthropic

from karenina_core.models.ports import ErrorCategory, Message, PortError
from karenina_toolkit.http.error_cures import cure_for_tls_error, is_filtered
from karenina_toolkit.http.http_errors import CURES, find_system_error, redact_text, status_error

PATH_CURE: Final = "check endpoint_base_url (without /v1/messages)"
_CURES: Final = {
    **CURES,
    401: "check the key: endpoint_api_key, or if it is not set, ANTHROPIC_API_KEY",
    404: "check model_name, and endpoint_base_url (without /v1/messages)",
    413: "the request is too large: shorten the prompt",
}
_CATEGORY_OF_TYPE: Final = {
    "rate_limit_error": ErrorCategory.RATE_LIMIT,
    "overloaded_error": ErrorCategory.SERVER,
    "api_error": ErrorCategory.SERVER,
    "timeout_error": ErrorCategory.TIMEOUT,
    "authentication_error": ErrorCategory.PERMANENT,
    "permission_error": ErrorCategory.PERMANENT,
    "billing_error": ErrorCategory.PERMANENT,
    "invalid_request_error": ErrorCategory.PERMANENT,
    "not_found_error": ErrorCategory.PERMANENT,
    "request_too_large": ErrorCategory.PERMANENT,
}
# An interrupted handshake may succeed on a retry; a wrong certificate stays wrong.
_INTERRUPTED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def port_error(where: str, error: Exception, secrets: Sequence[str], prompt: Sequence[Message]) -> PortError:
    """Return the `PortError` for an error of the SDK, by its class and its HTTP status.

    Timeouts are not handled here, because the caller knows the time limit.
    """
    if isinstance(error, anthropic.APIStatusError):
        reply = error.response
        return status_error(where, reply.status_code, reply.headers, reply.text, secrets, prompt, _CURES)
    if isinstance(error, anthropic.APIConnectionError):
        return _no_connection(where, error, secrets)
    shown = redact_text(str(error), secrets, prompt)
    return PortError(f"{where}: the request is invalid ({shown})", category=ErrorCategory.PERMANENT)


def gateway_error(where: str, error: Mapping[str, Any], secrets: Sequence[str], prompt: Sequence[Message]) -> PortError:
    """Return the error for a reply of status 200 that contains one: gateways forward a provider's error in this way."""
    kind = str(error.get("type") or "")
    shown = redact_text(f"{kind}: {error.get('message') or 'no message'}", secrets, prompt)
    category = _CATEGORY_OF_TYPE.get(kind, ErrorCategory.SERVER)
    if is_filtered(str(error.get("message") or ""), {kind}):
        category = ErrorCategory.FILTERED
    return PortError(f"{where} forwarded an error, {shown}", category=category)


def _no_connection(where: str, error: Exception, secrets: Sequence[str]) -> PortError:
    why = find_system_error(error) or error.__cause__ or error
    shown = redact_text(str(why), secrets) or type(why).__name__
    if isinstance(why, ssl.SSLError) and not isinstance(why, _INTERRUPTED):
        cure = cure_for_tls_error(str(why))
        said = f"{where}: cannot connect ({shown}){f'; {cure}' if cure else ''}"
        return PortError(said, category=ErrorCategory.PERMANENT)
    return PortError(
        f"{where}: could not connect, or lost the connection ({shown}); check that the server runs, and that "
        "its address (after '@', or in endpoint_base_url) is right",
        category=ErrorCategory.CONNECTION,
    )
