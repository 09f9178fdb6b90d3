"""HTTP errors as `PortError`s, which show neither secrets nor the prompt."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

from karenina_core.models.ports import NO_USAGE, ErrorCategory, Message, PortError, Usage
from karenina_toolkit.http.error_cures import (
    NO_CREDIT,
    cure_for_files,
    cure_for_message,
    cure_for_tls_error,
    has_no_credit,
    is_filtered,
    read_page_text,
)
from karenina_toolkit.http.urls import mask_secrets
from karenina_toolkit.replies.reply_bounds import BrokenReply
from karenina_toolkit.replies.reply_ends import read_choice_end
from karenina_toolkit.traces.formats.openai_chat import usage_of

SHOWN_CHARACTERS = 300
_LOOKED_AT = 2000
_SHOWN_REASON = 80
_LONGEST_ERROR = 1_000_000  # characters; anything longer is not an error object
_WINDOW = 24  # so many consecutive characters do not match the prompt by chance
_SHORTEST = 6
_STATUSES_OF_FILTERS: Final = frozenset({400, 403, 406, 421, 422, 451})
CURES: Final[Mapping[int, str]] = {
    400: "the server may not support all parameters in this model's configuration",
    401: "check endpoint_api_key",
    402: NO_CREDIT,
    403: "check that the key has access to this model",
    404: "check model_name and endpoint_base_url",
    413: "the request is too large for the server; shorten the prompt, or raise the server's limit",
    503: "the server is overloaded or down; check the server, or try again later",
}
"""Suggested fixes, keyed by status. Adapters may have better ones."""
MESSAGES_API_CURES: Final[Mapping[int, str]] = {
    **CURES,
    401: "check the key in endpoint_api_key, or in ANTHROPIC_API_KEY if endpoint_api_key is not set",
    404: "check model_name, and endpoint_base_url (without /v1/messages)",
}
"""Suggested fixes for errors from the Anthropic Messages API, keyed by status."""
_MESSAGES_API_CATEGORIES: Final = {
    "rate_limit_error": ErrorCategory.RATE_LIMIT,
    "timeout_error": ErrorCategory.TIMEOUT,
    "authentication_error": ErrorCategory.PERMANENT,
    "permission_error": ErrorCategory.PERMANENT,
    "billing_error": ErrorCategory.PERMANENT,
    "invalid_request_error": ErrorCategory.PERMANENT,
    "not_found_error": ErrorCategory.PERMANENT,
    "request_too_large": ErrorCategory.PERMANENT,
}


class HTTPStatusError(PortError):
    """Raised for a status of 300 or more. Do not show `server_text`, because it may contain secrets."""

    def __init__(
        self,
        message: str,
        server_text: str,
        category: ErrorCategory,
        status: int,
        retry_after: float | None,
        usage: Usage = NO_USAGE,
    ) -> None:
        super().__init__(message, category=category, status=status, retry_after=retry_after, usage=usage)
        self.server_text = server_text


def status_error(
    where: str,
    status: int,
    headers: Mapping[str, str],
    body: str,
    secrets: Sequence[str],
    prompt: Sequence[Message],
    cures: Mapping[int, str] = CURES,
) -> HTTPStatusError:
    """Return the exception for a reply with `status`, with the server's message from `body` and, if known, a suggested
    fix. `secrets` and passages of the `prompt` are masked.

    The message refers to the model and its server as `where`. `headers` must ignore case. `cures` contains suggested
    fixes keyed by status, which are used unless the server's message suggests something better. If the provider's
    filter refused the prompt, the category is `filtered`.
    """
    detail, codes = _read_message(body)
    usage = _usage_of_filtered(body) if status in _STATUSES_OF_FILTERS else None
    category = category_of_status(status) if status >= 400 else ErrorCategory.PERMANENT
    cure = cure_for_message(status, detail, codes) or cures.get(status, "")
    if has_no_credit(detail, codes):
        category, cure = ErrorCategory.PERMANENT, NO_CREDIT
    elif usage is not None or (status in _STATUSES_OF_FILTERS and is_filtered(detail, codes)):
        category, cure = ErrorCategory.FILTERED, "the provider's content filter blocked the request or the reply"
        detail = detail if usage is None else "the completion was filtered"
    elif status < 400:
        cure = "the server redirects requests; set endpoint_base_url to the target of the redirect"
    elif (refused := _cure_for_files(status, detail, prompt)) is not None:
        category, cure = ErrorCategory.PERMANENT, refused
    page = read_page_text(body)
    shown = redact_text(detail if page is None else f"a web page, {page}", secrets, prompt)
    message = f"{where} responded with HTTP {status}{f': {shown}' if shown else ''}"
    message = f"{message.removesuffix('.')}; {cure}" if cure else message
    return HTTPStatusError(message, detail, category, status, retry_after(headers), usage or NO_USAGE)


def error_in_reply(
    where: str, error: object, usage: Usage, secrets: Sequence[str], prompt: Sequence[Message]
) -> PortError:
    """Return the exception for an `error` object in a reply with status 200, with which gateways forward a provider's
    error. Its category follows from the object's `code` if that is an HTTP status, and is otherwise a server error.

    A refusal by the provider's filter is always `filtered`, and missing credit is always permanent. `usage` is the
    reply's usage. The other parameters are explained in `status_error`.
    """
    body = json.dumps({"error": error}, default=str)
    detail, codes = _read_message(body)
    shown = redact_text(detail, secrets, prompt)
    code = error.get("code") if isinstance(error, Mapping) else None
    status = int(code) if isinstance(code, int | str) and str(code).isdecimal() and len(str(code)) == 3 else 0
    is_error = 400 <= status < 600
    category = category_of_status(status) if is_error else ErrorCategory.SERVER
    message = f"{where} {f'forwarded HTTP {status}' if is_error else 'sent no usable reply'}: {shown}"
    if is_filtered(detail, codes):
        category = ErrorCategory.FILTERED
    elif has_no_credit(detail, codes):
        category, message = ErrorCategory.PERMANENT, f"{message}; {NO_CREDIT}"
    elif (refused := _cure_for_files(status if is_error else None, detail, prompt)) is not None:
        category, message = ErrorCategory.PERMANENT, f"{message.removesuffix('.')}; {refused}"
    return PortError(message, category=category, status=status if is_error else None, usage=usage)


def messages_api_error(
    where: str, kind: str, message: str, secrets: Sequence[str], prompt: Sequence[Message]
) -> PortError:
    """Return the exception for an Anthropic Messages API error in a reply with status 200.

    Gateways use such replies to forward a provider's error. `kind` is the API's error type, which determines the
    category. Unknown types are server errors. A refusal by the provider's filter is always `filtered`.
    """
    category, refused = _MESSAGES_API_CATEGORIES.get(kind, ErrorCategory.SERVER), None
    if is_filtered(message, {kind}):
        category = ErrorCategory.FILTERED
    elif (refused := _cure_for_files(None, message, prompt)) is not None:
        category = ErrorCategory.PERMANENT
    shown = redact_text(f"{kind}: {message}", secrets, prompt)
    cure = f"; {refused}" if refused is not None else ""
    return PortError(
        f"{where} forwarded an error: {shown.removesuffix('.') if cure else shown}{cure}", category=category
    )


def _cure_for_files(status: int | None, message: str, prompt: Sequence[Message]) -> str | None:
    """Return a suggested fix if the server refused the attachments of the prompt, or None."""
    return cure_for_files(status, message) if any(sent.attachments for sent in prompt) else None


def _usage_of_filtered(body: str) -> Usage | None:
    """Return the usage of a filtered completion, or None if `body` is anything else."""
    if len(body) > _LONGEST_ERROR or '"choices"' not in body:
        return None
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    return usage_of(data) if read_choice_end(choices[0])[0] == "content_filter" else None


def find_prompt_filter(data: Mapping[str, Any]) -> str | None:
    """Return the filter that refused the prompt, such as `blockReason SAFETY`, or None. It is given in completions
    without choices, as `prompt_filter_results` by Azure and as `promptFeedback` by Google.
    """
    if data.get("choices"):
        return None
    feedback = data.get("promptFeedback")
    if isinstance(feedback, Mapping) and isinstance(feedback.get("blockReason"), str):
        return f"blockReason {feedback['blockReason'][:_SHOWN_REASON]}"
    results = data.get("prompt_filter_results")
    for result in results if isinstance(results, list) else ():
        filters = result.get("content_filter_results") if isinstance(result, Mapping) else None
        for name, verdict in filters.items() if isinstance(filters, Mapping) else ():
            if isinstance(verdict, Mapping) and verdict.get("filtered") is True:
                return f"prompt_filter_results {str(name)[:_SHOWN_REASON]}"
    return None


def not_json_error(where: str, raw: bytes, secrets: Sequence[str], prompt: Sequence[Message], path: str) -> PortError:
    """Return the exception for a reply with status 200 that is not JSON. The message quotes its beginning, with
    `secrets` and passages of the `prompt` masked. For a web page, the error is permanent, and `path` is the suggested
    fix. Anything else is a `BrokenReply`.
    """
    body = raw[:_LONGEST_ERROR].decode("utf-8", "replace")
    page = read_page_text(body)
    if page is not None:
        return web_page_error(where, page, secrets, prompt, path)
    if raw.startswith(b"\x1f\x8b"):
        detail = "the body is compressed with gzip, but has no header Content-Encoding that says so; check the proxy"
    elif not raw.strip():
        detail = "the body is empty"
    else:
        shown = redact_text(body, secrets, prompt)
        detail = f"the body is not JSON{f': {shown}' if shown else ''}"
    return BrokenReply(f"{where} sent no usable reply: {detail}")


def web_page_error(where: str, page: str, secrets: Sequence[str], prompt: Sequence[Message], path: str) -> PortError:
    """Return the exception for a web page received in place of a reply. `page` is the page's text, in which `secrets`
    and passages of the `prompt` are masked, and `path` is a suggested fix for the URL. The error is permanent, because
    a retry would return the same page.
    """
    shown = redact_text(page, secrets, prompt)
    detail = f"{where} sent a web page instead of JSON{f' ({shown})' if shown else ''}; {path}"
    return PortError(detail, category=ErrorCategory.PERMANENT)


def connection_error(where: str, what: str, shown: str, *, tls_error: str | None = None) -> PortError:
    """Return the exception for a server that could not be reached, which states `what` happened and the cause as
    `shown`. Its category is `connection`, or permanent for a TLS error, because a retry would fail the same way.

    `what` describes what happened, and `shown` is the cause without secrets. `tls_error` is the message of a TLS error,
    or None.
    """
    if tls_error is not None:
        cure = cure_for_tls_error(tls_error)
        message = f"{where}: {what} ({shown}){f'; {cure}' if cure else ''}"
        return PortError(message, category=ErrorCategory.PERMANENT)
    return PortError(
        f"{where}: {what} ({shown}); check that the server is running and that its address (after '@', or in "
        "endpoint_base_url) is correct",
        category=ErrorCategory.CONNECTION,
    )


def find_system_error(error: BaseException) -> OSError | None:
    """Return the innermost known cause of an SDK's exception that is an `OSError`, or None. HTTP clients keep the
    system's error only as a context.

    The search ends at the first `OSError` or its cause, because anything after it belongs to the caller.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return cause.__cause__ if cause is not None and isinstance(cause.__cause__, OSError) else cause


def redact_text(text: str, secrets: Sequence[str], prompt: Sequence[Message] = ()) -> str:
    """Return up to 300 characters of a server's `text` on one line, with secrets and the prompt masked. An ellipsis
    marks text that was cut off.
    """
    text = mask_secrets(text, secrets)[:_LOOKED_AT]  # not cut earlier, or part of a secret might remain
    text = " ".join(_mask_prompt(text, prompt).split())
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS].rstrip() + "…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait according to `retry-after-ms` or `Retry-After` (seconds or an HTTP date), or None. For
    times in the past, the result is 0. `headers` must ignore case.
    """
    for name, unit in (("retry-after-ms", 0.001), ("Retry-After", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            seconds = _until(value)
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _until(date: str) -> float:
    """Return the seconds until an HTTP date. The result is negative for past dates and NaN for invalid ones."""
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError, TypeError):  # a year or a time zone that does not exist
        return math.nan


def _read_message(body: str) -> tuple[str, frozenset[str]]:
    """Return the server's message, and the error types and codes in the body, which servers nest in different ways. If
    the body is not JSON or has another structure, the message is the body, cut to `_LONGEST_ERROR` characters.
    """
    if len(body) > _LONGEST_ERROR:
        return body[:_LONGEST_ERROR], frozenset()
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body, frozenset()
    error = data.get("error", data) if isinstance(data, dict) else data
    if isinstance(error, str):
        return error, frozenset(re.findall(r"^\w+", error))  # a code, or the first word
    if not isinstance(error, dict):
        return body, frozenset()
    inner = error.get("innererror")
    codes = frozenset(
        str(level[key])
        for level in (error, *((inner,) if isinstance(inner, dict) else ()))
        for key in ("type", "code")
        if level.get(key)
    )
    for key in ("message", "detail", "msg"):
        if isinstance(error.get(key), str):
            return str(error[key]), codes
    details = error.get("detail")
    return _join_details(details) if isinstance(details, list) else body, codes


def _join_details(details: Sequence[Any]) -> str:
    """Return the problems in a list as one text, each with its location but without the quoted input."""
    problems = []
    for detail in details:
        place = ".".join(map(str, detail.get("loc") or ())) if isinstance(detail, dict) else ""
        text = detail.get("msg", "") if isinstance(detail, dict) else detail
        problems.append(f"{place}: {text}" if place else str(text))
    return "; ".join(problems)


def _mask_prompt(text: str, prompt: Sequence[Message]) -> str:
    """Return `text` with `[prompt]` in place of passages from the prompt, as plain text or JSON, that have at least
    `_WINDOW` characters, and of whole messages that are shorter, but have at least `_SHORTEST` characters.
    """
    for message in prompt:
        if _SHORTEST <= len(message.content) < _WINDOW:
            text = text.replace(message.content, "[prompt]")
    contents = [message.content for message in prompt]
    plain = "\n".join([*contents, json.dumps(contents), json.dumps(contents, ensure_ascii=False)])
    pieces: list[str] = []
    at = 0
    while at < len(text):
        end = at + _WINDOW
        if end > len(text) or text[at:end] not in plain:
            pieces.append(text[at])
            at += 1
            continue
        while end < len(text) and text[at : end + 1] in plain:
            end += 1
        pieces.append("[prompt]")
        at = end
    return "".join(pieces)


def category_of_status(status: int) -> ErrorCategory:
    """Return the category of an HTTP status of 400 or more. 408 and 504 are timeouts, and 429 is a rate limit. 409, 425
    and other 5xx statuses are server errors. All other 4xx statuses are permanent errors.
    """
    if status in (408, 504):
        return ErrorCategory.TIMEOUT
    if status == 429:
        return ErrorCategory.RATE_LIMIT
    if status >= 500 or status in (409, 425):
        return ErrorCategory.SERVER
    return ErrorCategory.PERMANENT
