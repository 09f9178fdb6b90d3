"""HTTP failures and their messages, the same for all adapters."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import ErrorCategory, Message
from karenina_toolkit.http.http_errors import HTTPStatusError, redact_text, retry_after, status_error

C = ErrorCategory
KEY = "sk-very-secret-key-000"
PROMPT = "Tell me everything about the confidential compound KX-4711, which nobody may know about."


def failure(status: int, body: Any, headers: dict[str, str] | None = None) -> HTTPStatusError:
    said = body if isinstance(body, str) else json.dumps(body)
    return status_error("any:m at HOST", status, headers or {}, said, [KEY], [Message.user(PROMPT)])


@pytest.mark.parametrize(
    ("status", "category", "cure"),
    [
        (302, C.PERMANENT, "the server redirects requests; set endpoint_base_url"),
        (400, C.PERMANENT, "the server may not support all parameters"),
        (401, C.PERMANENT, "check endpoint_api_key"),
        (403, C.PERMANENT, "check that the key has access to this model"),
        (404, C.PERMANENT, "check model_name"),
        (408, C.TIMEOUT, None),
        (409, C.SERVER, None),
        (413, C.PERMANENT, "the request is too large for the server"),
        (422, C.PERMANENT, None),
        (429, C.RATE_LIMIT, None),
        (500, C.SERVER, None),
        (503, C.SERVER, "the server is overloaded or down"),
        (504, C.TIMEOUT, None),
        (529, C.SERVER, None),
    ],
)
def test_a_status_decides_the_category_and_what_to_do(status: int, category: ErrorCategory, cure: str | None) -> None:
    error = failure(status, {"error": {"message": "sorry, 500 of them", "type": "x"}})
    assert (error.category, error.status) == (category, status)
    said = f"any:m at HOST responded with HTTP {status}: sorry, 500 of them"
    assert str(error) == said if cure is None else str(error).startswith(f"{said}; {cure}")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"error": "plain"}, "plain"),
        ({"detail": "of another kind"}, "of another kind"),
        ({"object": "error", "message": "flat"}, "flat"),
        ({"detail": [{"loc": ["body", "seed"], "msg": "no number", "input": "all"}]}, "body.seed: no number"),
        ("<html>Bad Gateway</html>", "a web page, Bad Gateway"),
        ([], "[]"),
        ({"error": {"message": "x" * 5000}}, "x" * 300 + "…"),
    ],
)
def test_the_servers_message_is_shortened(body: Any, shown: str) -> None:
    assert str(failure(500, body)).endswith(f"HTTP 500: {shown}")


@pytest.mark.parametrize(
    "error", [{"code": "insufficient_quota"}, {"type": "billing_error"}, {"code": "billing_not_active"}]
)
def test_an_account_without_credit_is_not_tried_again(error: dict[str, str]) -> None:
    found = failure(429, {"error": {"message": "quota", **error}}, {"Retry-After": "1"})
    assert (found.category, found.retriable) == (C.PERMANENT, False)
    assert "no credit left" in str(found)


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "7"}, 7, 7),
        ({"Retry-After": "0.5"}, 0.5, 0.5),
        ({"Retry-After": "-3"}, 0, 0),
        ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25, 0.25),
        ({"Retry-After": "DATE"}, 20, 60),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0, 0),
    ],
)
def test_the_time_to_wait_is_data(headers: dict[str, str], low: float, high: float) -> None:
    date = formatdate(time.time() + 60, usegmt=True)
    found = failure(429, {}, {name: value.replace("DATE", date) for name, value in headers.items()}).retry_after
    assert found is not None
    assert low <= found <= high


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "soon"}, {"Retry-After": "nan"}, {"Retry-After": "inf"}])
def test_a_time_to_wait_that_cannot_be_read_is_none(headers: dict[str, str]) -> None:
    assert retry_after(headers) is None


def test_no_secret_and_no_prompt_is_in_an_error() -> None:
    error = failure(400, {"error": {"message": f"{KEY}: bad {PROMPT[:50]}! and {PROMPT}"}})
    assert "***: bad [prompt]! and [prompt]" in str(error)
    assert not [word for word in (KEY, "KX-4711") if word in f"{error} {error!r}"]


@given(
    secret=st.text("abcdefgh0123456789-", min_size=8, max_size=40),
    before=st.text(max_size=2100),
    after=st.text(max_size=400),
)
def test_secrets_are_masked_in_any_context(secret: str, before: str, after: str) -> None:
    shown = redact_text(f"{before} {secret} {after}", [secret])
    assert secret not in shown
    assert len(shown) <= 301
