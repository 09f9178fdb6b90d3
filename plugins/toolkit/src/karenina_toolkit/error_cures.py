"""What to do about a failed HTTP call, as far as the server's words or the base URL tell it."""

from __future__ import annotations

import html
import re
from collections.abc import Set as AbstractSet
from typing import Final
from urllib.parse import urlsplit

NO_CREDIT: Final = "the account has no credit left, or its spending limit is reached"
TOO_LONG: Final = (
    "the request is longer than the model's context: shorten the question, or what a judge is shown, lower max_tokens, "
    "or choose a model with a longer context"
)
WRITE_HTTPS: Final = "write https:// instead of http:// in endpoint_base_url"
WRITE_HTTP: Final = "the server does not speak TLS there: write http:// instead of https:// in endpoint_base_url"

_NO_CREDIT_CODES: Final = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"}
)
_NO_CREDIT_WORDS: Final = re.compile(
    r"insufficient (credit|balance|funds|quota)|credit balance is too low|out of credits", re.IGNORECASE
)
_TOO_LONG_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_TOO_LONG_WORDS: Final = re.compile(
    r"context (length|window|size)|(prompt|input) is too long|reduce the length of the messages", re.IGNORECASE
)
_TOO_LONG_STATUSES: Final = (400, 413, 422)
_PLAIN_TO_TLS: Final = re.compile(r"HTTP request (was sent )?to (an )?HTTPS (port|server)", re.IGNORECASE)
_TLS_TO_PLAIN: Final = ("InvalidContentType", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
_PAGE: Final = re.compile(r"\s*(<!--.{0,500}?-->\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_QUOTED_PAGE: Final = re.compile(r"<(!doctype\s+html|html)\b", re.IGNORECASE)
_NOT_READ: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"<[^<>]*>?")
_LOOKED_AT: Final = 5000


def has_no_credit(said: str, codes: AbstractSet[str]) -> bool:
    """Return whether a server refuses a call because it is not paid for: no later attempt will do better."""
    return bool(codes & _NO_CREDIT_CODES) or _NO_CREDIT_WORDS.search(said[:_LOOKED_AT]) is not None


def cure_for_message(status: int, said: str, codes: AbstractSet[str]) -> str | None:
    """Return what the words of an error say to do, which beats what its status says; None if nothing."""
    said = said[:_LOOKED_AT]
    if status in _TOO_LONG_STATUSES and (codes & _TOO_LONG_CODES or _TOO_LONG_WORDS.search(said)):
        return TOO_LONG
    return WRITE_HTTPS if _PLAIN_TO_TLS.search(said) else None


def cure_for_tls_error(said: str) -> str | None:
    """Return what to do about a failed TLS handshake if the server answered it in plain text."""
    upper = said.upper().replace(" ", "_")
    return WRITE_HTTP if any(word.upper() in upper for word in _TLS_TO_PLAIN) else None


def cure_for_path(base_url: str, usual: str = "/v1") -> str:
    """Return what to do about the path of a base URL that a server does not know; most servers have the `usual` one.

    No part of the path is repeated, as it may be a secret.
    """
    url = urlsplit(base_url)
    if url.path.strip("/"):
        return f"check that endpoint_base_url ends as the server wants it (mostly {usual})"
    return f"endpoint_base_url has no path: is it {url.scheme}://{url.netloc.rpartition('@')[2]}{usual}?"


def find_page_text(said: str) -> str | None:
    """Return the text of a web page that `said` quotes; None if there is none."""
    found = _QUOTED_PAGE.search(said[:_LOOKED_AT])
    if found is None:
        return None
    text = read_page_text(said[found.start() :].replace("\\n", " "))
    return text.rstrip("'\" ") if text is not None else None


def read_page_text(body: str) -> str | None:
    """Return the text of a web page, without its tags, from the beginning; None if `body` is no web page."""
    if _PAGE.match(body) is None:
        return None
    text = _TAG.sub(" ", _NOT_READ.sub(" ", body[:_LOOKED_AT]))
    return " ".join(html.unescape(text).split())
