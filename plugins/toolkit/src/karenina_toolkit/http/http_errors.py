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
    BEYOND_THE_LIMIT,
    BLOCKED,
    FAILED_GENERATION,
    NO_CREDIT,
    WRONG_PATH,
    cure_for_files,
    cure_for_message,
    cure_for_tls_error,
    has_no_credit,
    is_beyond_limit,
    is_failed_generation,
    is_filtered,
    is_wrong_path,
    read_page_text,
)
from karenina_toolkit.http.urls import MASK, mask_secrets, redact_url
from karenina_toolkit.replies.reply_bounds import BrokenReply
from karenina_toolkit.replies.reply_ends import read_choice_end
from karenina_toolkit.traces.formats.openai_chat import error_of_completion, stated_error, usage_of

SHOWN_CHARACTERS = 300
_LOOKED_AT = 2000
_SHOWN_REASON = 80
_LONGEST_ERROR = 1_000_000  # characters; anything longer is not an error object
_WINDOW = 24  # so many consecutive characters do not match the prompt by chance
_SHORTEST = 6
_MESSAGE_FIELDS: Final = ("message", "detail", "msg", "Message", "status_msg")  # the last two: AWS, MiniMax
_NUMBER: Final = r"(\d{1,9}(?:\.\d{1,9})?) ?"
_TIME: Final = (
    rf"(?:{_NUMBER}h(?:ours?)?(?![a-z]) ?)?(?:{_NUMBER}m(?:in(?:ute)?s?)?(?![a-z]) ?)?"
    rf"(?:{_NUMBER}(?:s|sec(?:ond)?s?)(?![a-z])|{_NUMBER}ms(?![a-z]))?"
)
_WAIT: Final = re.compile(rf"(?:try again|retry) (?:in|after) ?{_TIME}", re.IGNORECASE)  # OpenAI, Azure, Groq, LiteLLM
_DELAY: Final = re.compile(rf'retryDelay\\*": ?\\*"{_TIME}', re.IGNORECASE)  # Google
_RATE_LIMIT_CODES: Final = frozenset({"rate_limit_exceeded", "rate_limit_error"})  # OpenAI, Groq; Anthropic, LiteLLM
_GUARDRAIL: Final = 446  # Portkey and WSO2: a guardrail denied the request or the reply
_EVENT: Final = re.compile(r"\s*(?:(?:event|id|retry|):[^\n]*\n)*data:(?P<data>[^\n]*)")
_STATUSES_OF_FILTERS: Final = frozenset({400, 403, 406, 421, 422, 424, _GUARDRAIL, 451, 498, 500})  # 500: MiniMax
_MINIMAX_STATUSES: Final = {
    **dict.fromkeys((1002, 1039, 1041, 2045, 2056), 429),  # limits on requests, tokens, connections and usage
    **dict.fromkeys((1004, 2049), 401),
    **dict.fromkeys((1042, 2013), 400),
    1001: 504,
}
"""The HTTP statuses for MiniMax's codes (https://platform.minimax.io/docs/api-reference/errorcode), which it sends with
status 200. The other codes are server errors, or have a meaning of their own."""
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
    """Return the exception for a reply with `status`, with the server's message from `body`, in which `secrets` and
    passages of the `prompt` are masked, and a suggested fix if one is known: one for this message, otherwise the one in
    `cures` for the status. If the provider's filter refused the prompt, the category is `filtered`.

    The message refers to the model and its server as `where`. `headers` must ignore case.
    """
    detail, codes = _read_message(body)
    usage = _usage_of_filtered(body) if status in _STATUSES_OF_FILTERS else None
    category = category_of_status(status) if status >= 400 else ErrorCategory.PERMANENT
    cure = cure_for_message(status, detail, codes) or cures.get(status, "")
    if has_no_credit(detail, codes):
        category, cure = ErrorCategory.PERMANENT, NO_CREDIT
    elif status == _GUARDRAIL or usage is not None or (status in _STATUSES_OF_FILTERS and is_filtered(detail, codes)):
        category, cure = ErrorCategory.FILTERED, "the provider's content filter blocked the request or the reply"
        detail = detail if usage is None else "the completion was filtered"
    elif status < 400:
        target = redact_url(headers.get("location", ""))
        to = f" to {mask_secrets(target, secrets)}" if target != MASK else ""
        cure = f"the server redirects requests{to}; set endpoint_base_url to the target of the redirect"
    elif (refused := _cure_for_files(status, detail, prompt)) is not None:
        category, cure = ErrorCategory.PERMANENT, refused
    elif is_failed_generation(detail, codes):
        category, cure = ErrorCategory.SERVER, FAILED_GENERATION
    elif is_beyond_limit(detail):
        category, cure = ErrorCategory.PERMANENT, BEYOND_THE_LIMIT
    page = read_page_text(body)
    if page is not None and status == 403:
        cure = BLOCKED
    shown = redact_text(detail if page is None else f"a web page, {page}", secrets, prompt)
    message = f"{where} responded with HTTP {status}{f': {shown}' if shown else ''}"
    message = f"{message.removesuffix('.')}; {cure}" if cure else message
    wait = retry_after(headers)
    wait = _read_wait(detail, body, prompt) if wait is None else wait
    return HTTPStatusError(message, detail, category, status, wait, usage or NO_USAGE)


def error_in_reply(
    where: str, error: object, usage: Usage, secrets: Sequence[str], prompt: Sequence[Message]
) -> PortError:
    """Return the exception for an `error` object in a reply with status 200, with which gateways forward a provider's
    error. Its category follows from the object's `code` if that is an HTTP status, and is otherwise a rate limit if the
    code says so or the message states how long to wait, or a server error. Some messages determine the category
    regardless of the code (see `_read_stated`).

    `usage` is the reply's usage. The other parameters are explained in `status_error`.
    """
    body = json.dumps({"error": error}, default=str)
    detail, codes = _read_message(body)
    shown = redact_text(detail, secrets, prompt)
    stated = _stated_status(error)
    message = f"{where} {f'forwarded HTTP {stated}' if stated is not None else 'sent no usable reply'}: {shown}"
    category = category_of_status(stated) if stated is not None else ErrorCategory.SERVER
    wait = _read_wait(detail, body, prompt)
    if stated is None and (wait is not None or codes & _RATE_LIMIT_CODES):
        category = ErrorCategory.RATE_LIMIT
    category, cure = _read_stated(category, stated, detail, codes, prompt)
    return PortError(
        f"{message.removesuffix('.')}; {cure}" if cure is not None else message,
        category=category,
        status=stated,
        retry_after=wait,
        usage=usage,
    )


def messages_api_error(
    where: str, kind: str, message: str, secrets: Sequence[str], prompt: Sequence[Message], usage: Usage = NO_USAGE
) -> PortError:
    """Return the exception for an Anthropic Messages API error in a reply with status 200, with which gateways forward
    a provider's error. Its `kind`, which is the API's error type or a gateway's HTTP status, determines the category.
    Unknown ones are rate limits if the message states how long to wait, and otherwise server errors. Some messages
    determine the category regardless of it (see `_read_stated`). `usage` is the reply's usage.
    """
    status = _read_status(kind)
    wait = _read_wait(message, "", prompt)
    unknown = ErrorCategory.SERVER if wait is None else ErrorCategory.RATE_LIMIT
    unknown = category_of_status(status) if status is not None else unknown
    category = _MESSAGES_API_CATEGORIES.get(kind, unknown)
    category, cure = _read_stated(category, status, message, frozenset({kind}), prompt)
    shown = redact_text(f"{kind}: {message}" if kind else message, secrets, prompt)
    end = f"; {cure}" if cure is not None else ""
    return PortError(
        f"{where} forwarded an error: {shown.removesuffix('.') if end else shown}{end}",
        category=category,
        retry_after=wait,
        usage=usage,
    )


def find_message_error(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the kind and the message of the error that a Messages API reply states, with or without content, or None.
    Without content, the error may also be in the form of a gateway.
    """
    error = stated_error(data) or (None if data.get("content") else _find_failure(data))
    if error is None:
        return None
    fields = error if isinstance(error, Mapping) else {"message": error}
    status = _stated_status(fields)
    kinds = [str(fields[name]) for name in ("type", "code") if fields.get(name)]
    kinds += [str(code) for code in (status, fields.get("status_code")) if code]
    kind = next((kind for kind in kinds if kind != "None"), "")  # LiteLLM writes it as text
    return kind, next((str(fields[name]) for name in _MESSAGE_FIELDS if fields.get(name)), "no message")


def _read_stated(
    category: ErrorCategory, status: int | None, message: str, codes: frozenset[str], prompt: Sequence[Message]
) -> tuple[ErrorCategory, str | None]:
    """Return the category of an error in a reply with status 200, and a suggested fix or None. Its `message`, or the
    error `codes`, may say more than `category`, which follows from the `status` that it states, if any: a refusal by a
    filter is `filtered`, JSON that the model wrote wrong is worth another attempt, and missing credit, rejected files,
    a wrong path, and requests that are too long or beyond a limit are permanent.
    """
    if is_filtered(message, codes):
        return ErrorCategory.FILTERED, None
    if has_no_credit(message, codes):
        return ErrorCategory.PERMANENT, NO_CREDIT
    if (refused := _cure_for_files(status, message, prompt)) is not None:
        return ErrorCategory.PERMANENT, refused
    if is_wrong_path(message):
        return ErrorCategory.PERMANENT, WRONG_PATH
    if is_failed_generation(message, codes):
        return ErrorCategory.SERVER, FAILED_GENERATION
    if is_beyond_limit(message):
        return ErrorCategory.PERMANENT, BEYOND_THE_LIMIT
    # Without a status, an error may be any, but a rate limit on tokens is not about the length of the request.
    usual = 429 if category is ErrorCategory.RATE_LIMIT else 400
    cure = cure_for_message(status or usual, message, codes)
    return (category, None) if cure is None else (ErrorCategory.PERMANENT, cure)


def _stated_status(error: object) -> int | None:
    """Return the HTTP status of 400 or more that an error in a reply with status 200 states, or None."""
    if not isinstance(error, Mapping):
        return None
    status = _read_status(error.get("code")) or _read_status(error.get("http_code"))  # the latter: MiniMax
    own = error.get("status_code")
    return _MINIMAX_STATUSES.get(own) if status is None and isinstance(own, int) else status


def _read_status(code: object) -> int | None:
    """Return an error's code as an HTTP status of 400 or more, or None if it is none."""
    is_status = isinstance(code, int | str) and re.fullmatch("[45][0-9]{2}", str(code))
    return int(str(code)) if is_status else None


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


def find_reply_error(
    where: str, data: Mapping[str, Any], secrets: Sequence[str], prompt: Sequence[Message]
) -> PortError | None:
    """Return the exception for a chat completion with status 200 that states an error or, without choices, that the
    prompt was filtered, or None. The parameters are explained in `status_error`.
    """
    error = error_of_completion(data)
    if error is None and not data.get("choices"):
        refused = _find_prompt_filter(data)
        if refused is not None:
            problem = redact_text(f"the provider's content filter refused the prompt ({refused})", secrets, prompt)
            return PortError(f"{where}: {problem}", category=ErrorCategory.FILTERED, usage=usage_of(data))
        error = _find_failure(data)
    return None if error is None else error_in_reply(where, error, usage_of_failure(data), secrets, prompt)


def usage_of_failure(data: Mapping[str, Any]) -> Usage:
    """Return the usage of a reply that states an error or has no choices. Without choices and tokens, nothing was
    generated, so the usage is empty.
    """
    usage = usage_of(data)
    return usage if data.get("choices") or usage.total_tokens else NO_USAGE


def _find_failure(data: Mapping[str, Any]) -> object:
    """Return the error in a completion without choices: the first of its `errors` (Cloudflare), its `base_resp`
    (MiniMax), the completion itself if it contains a message, or None.
    """
    errors, base = data.get("errors"), data.get("base_resp")
    if isinstance(errors, list) and errors:
        return errors[0]
    if isinstance(base, Mapping) and base.get("status_code"):
        return base
    return data if any(isinstance(data.get(name), str) for name in ("message", "detail", "msg")) else None


def _find_prompt_filter(data: Mapping[str, Any]) -> str | None:
    """Return the filter that refused the prompt, such as `blockReason SAFETY`, or None. In completions without choices,
    Azure names it in `prompt_filter_results`, and Google in `promptFeedback`.
    """
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
    """Return the exception for a server that could not be reached, which states `what` happened and its cause, `shown`,
    which must contain no secrets. Its category is `connection`, or permanent if there is a `tls_error` (its message),
    because a retry would fail the same way.
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


def _read_wait(message: str, body: str, prompt: Sequence[Message]) -> float | None:
    """Return the seconds after which a server's error says to try again, or None if it does not. If it names several
    times, the longest is used. Only Google's `retryDelay` is read from the rest of the `body`, which may quote the
    model. Passages of the `prompt` do not count.
    """
    stated = _DELAY.findall(body[:_LONGEST_ERROR])
    if _WAIT.search(message[:_LOOKED_AT]):  # masking takes long
        stated += _WAIT.findall(_mask_prompt(message[:_LOOKED_AT], prompt))
    waits = [
        float(hours or 0) * 3600 + float(minutes or 0) * 60 + float(seconds or 0) + float(milliseconds or 0) / 1000
        for hours, minutes, seconds, milliseconds in stated
        if hours or minutes or seconds or milliseconds
    ]
    return max(waits, default=None)


def _until(date: str) -> float:
    """Return the seconds until an HTTP date. The result is negative for past dates and NaN for invalid ones."""
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError, TypeError):  # a year or a time zone that does not exist
        return math.nan


def _read_message(body: str) -> tuple[str, frozenset[str]]:
    """Return the server's message, and the error types and codes in the body, which servers nest in different ways. If
    the body is not JSON or has another structure, the message is the body, cut to `_LONGEST_ERROR` characters. It may
    be an event of a stream, and begin with a byte-order mark.
    """
    if len(body) > _LONGEST_ERROR:
        return body[:_LONGEST_ERROR], frozenset()
    body = body.removeprefix("\ufeff")
    if (event := _EVENT.match(body)) is not None:
        body = event["data"]
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body, frozenset()
    error = _find_error(data)
    if isinstance(error, str):
        return error, frozenset(re.findall(r"^\w+", error))  # a code, or the first word
    if not isinstance(error, dict):
        return body, frozenset()
    inner = error.get("innererror")
    codes = frozenset(
        str(level[key])
        for level in (error, *((inner,) if isinstance(inner, dict) else ()))
        for key in ("type", "code", "error_code", "status_code")
        if level.get(key)
    )
    text = next((error[key] for key in _MESSAGE_FIELDS if isinstance(error.get(key), str)), None)
    if text is None:
        details = error.get("detail")
        return _join_details(details) if isinstance(details, list) else body, codes
    provider = error.get("metadata")  # OpenRouter's
    if isinstance(provider, dict) and (raw := provider.get("raw")):
        theirs, their_codes = _read_message(raw if isinstance(raw, str) else json.dumps(raw))
        name = provider.get("provider_name")
        return f"{text}{f' ({name})' if name else ''}: {theirs}", codes | their_codes
    if text.lstrip().startswith(("{", "[")):
        theirs, their_codes = _read_message(text)
        return theirs, codes | their_codes
    return text, codes


def _find_error(data: Any) -> Any:
    """Return the error in a body: the first of its `errors` (Cloudflare, IBM watsonx), or of its `error` if that is a
    list (Cloudflare's guardrails), otherwise its `error`, the `message` of which it consists (Mistral), or the whole
    body. If the body is a list, as Google's OpenAI endpoint sends it, its first element is used.
    """
    if isinstance(data, list) and data:
        data = data[0]
    if not isinstance(data, dict):
        return data
    message = data.get("message")
    for errors in (data.get("errors"), data.get("error")):
        if isinstance(errors, list) and errors:
            return errors[0]
    return data.get("error") or (message if isinstance(message, dict) else data)


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
    """Return the category of an HTTP status of 400 or more. 408, 504 and Cloudflare's 524 are timeouts, and 429 is a
    rate limit. 409, 424 (the model failed: Hugging Face TGI, Bedrock), 425, 498 (no capacity: Groq), 499 (cancelled:
    Groq, Cohere, Google) and other 5xx statuses are server errors. All other 4xx statuses are permanent errors.
    """
    if status in (408, 504, 524):
        return ErrorCategory.TIMEOUT
    if status == 429:
        return ErrorCategory.RATE_LIMIT
    if status >= 500 or status in (409, 424, 425, 498, 499):
        return ErrorCategory.SERVER
    return ErrorCategory.PERMANENT
