"""What went wrong with an HTTP call, as `PortError`s that show no secret and no prompt. For adapters."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

from karenina_core.models.ports import ErrorCategory, Message, PortError, category_of_status
from karenina_toolkit.error_cures import NO_CREDIT, cure_for_message, has_no_credit, read_page_text
from karenina_toolkit.reply_bounds import BrokenReply

SHOWN_CHARACTERS = 300
_LOOKED_AT = 2000
_LONGEST_ERROR = 1_000_000  # characters; what is longer is no error object
_WINDOW = 24  # characters in a row that are no chance agreement with the prompt
_SHORTEST = 6
CURES: Final[Mapping[int, str]] = {
    400: "see whether the server knows all parameters of this model's configuration",
    401: "check endpoint_api_key",
    402: NO_CREDIT,
    403: "check that the key may use this model",
    404: "check model_name, and that endpoint_base_url is what the server wants",
}
"""What to do about a status, where the adapter knows nothing better."""


class HTTPStatusError(PortError):
    """An HTTP status of 300 or more. `server_text` is all that the server said, for the adapter's own eyes."""

    def __init__(self, message: str, server_text: str, category: ErrorCategory, status: int, retry_after: float | None):
        super().__init__(message, category=category, status=status, retry_after=retry_after)
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
    """The error for a reply with `status`, made of what the server said in `body`.

    `where` names the model and its server; `secrets` and the passages of `prompt` are masked in the message; `cures`
    say for each status what the user may do, unless the server's words say it better.
    """
    said, codes = _said(body)
    category = category_of_status(status) if status >= 400 else ErrorCategory.PERMANENT
    cure = cure_for_message(status, said, codes) or cures.get(status, "")
    if has_no_credit(said, codes):
        category, cure = ErrorCategory.PERMANENT, NO_CREDIT
    elif status < 400:
        cure = "the server redirects: set endpoint_base_url to where it really is"
    page = read_page_text(body)
    shown = redact_text(said if page is None else f"a web page, {page}", secrets, prompt)
    message = f"{where} answered HTTP {status}{f': {shown}' if shown else ''}"
    message = f"{message.removesuffix('.')}; {cure}" if cure else message
    return HTTPStatusError(message, said, category, status, retry_after(headers))


def not_json_error(where: str, raw: bytes, secrets: Sequence[str], prompt: Sequence[Message], path: str) -> PortError:
    """The error for a reply of status 200 that is not JSON; it quotes the beginning, as far as that may be shown.

    `path` is as in `web_page_error`.
    """
    body = raw[:_LONGEST_ERROR].decode("utf-8", "replace")
    page = read_page_text(body)
    if page is not None:
        return web_page_error(where, page, secrets, prompt, path)
    shown = redact_text(body, secrets, prompt)
    said = f"its body is not JSON: {shown}" if shown else "its body is empty" if not raw.strip() else "it is not JSON"
    return BrokenReply(f"{where} sent no usable reply: {said}")


def web_page_error(where: str, page: str, secrets: Sequence[str], prompt: Sequence[Message], path: str) -> PortError:
    """The error for a web page of the text `page` in the place of a reply; `path` says what to do about the address.

    It is what another address of the server shows, so that the call is not repeated.
    """
    shown = redact_text(page, secrets, prompt)
    said = f"{where} sent a web page instead of JSON{f' ({shown})' if shown else ''}; {path}"
    return PortError(said, category=ErrorCategory.PERMANENT)


def find_system_error(error: BaseException) -> OSError | None:
    """What the system said: the first of its errors below an SDK's, or its own cause.

    HTTP clients hide it as a mere context, and contexts go on to what the caller was doing: hence not the last.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, OSError):
        found = found.__cause__ or found.__context__
    return found.__cause__ if found is not None and isinstance(found.__cause__, OSError) else found


def redact_text(text: str, secrets: Sequence[str], prompt: Sequence[Message] = ()) -> str:
    """What may be shown of a server's `text`: some 300 characters on one line, no secret, nothing of the prompt."""
    for secret in sorted(secrets, key=len, reverse=True):
        if secret:
            text = text.replace(secret, "***")
    text = text[:_LOOKED_AT]  # not before, or the half of a secret might be left
    text = " ".join(_without_prompt(text, prompt).split())
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS].rstrip() + "…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the server asks to wait, from `retry-after-ms` or `Retry-After` (seconds or an HTTP date)."""
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
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError, TypeError):  # a year or a zone that no clock knows
        return math.nan


def _said(body: str) -> tuple[str, frozenset[str]]:
    """The server's message, and the type and code that it gives; servers nest them in several ways."""
    if len(body) > _LONGEST_ERROR:
        return body[:_LONGEST_ERROR], frozenset()
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body, frozenset()
    error = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else body), frozenset()
    codes = frozenset(str(error[key]) for key in ("type", "code") if error.get(key))
    for key in ("message", "detail", "msg"):
        if isinstance(error.get(key), str):
            return str(error[key]), codes
    details = error.get("detail")
    return _listed(details) if isinstance(details, list) else body, codes


def _listed(details: Sequence[Any]) -> str:
    """Problems in a list, each with its place. What stood there is left out, as it may be the whole request."""
    found = []
    for detail in details:
        place = ".".join(map(str, detail.get("loc") or ())) if isinstance(detail, dict) else ""
        said = detail.get("msg", "") if isinstance(detail, dict) else detail
        found.append(f"{place}: {said}" if place else str(said))
    return "; ".join(found)


def _without_prompt(text: str, prompt: Sequence[Message]) -> str:
    """`text` with the passages masked that stand in the prompt, also where it was written as JSON."""
    for message in prompt:
        if _SHORTEST <= len(message.content) < _WINDOW:
            text = text.replace(message.content, "[prompt]")
    contents = [message.content for message in prompt]
    plain = "\n".join([*contents, json.dumps(contents), json.dumps(contents, ensure_ascii=False)])
    kept: list[str] = []
    at = 0
    while at < len(text):
        end = at + _WINDOW
        if end > len(text) or text[at:end] not in plain:
            kept.append(text[at])
            at += 1
            continue
        while end < len(text) and text[at : end + 1] in plain:
            end += 1
        kept.append("[prompt]")
        at = end
    return "".join(kept)
