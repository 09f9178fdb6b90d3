"""HTTP failures and their messages, the same for all adapters."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import NO_USAGE, ErrorCategory, Message
from karenina_toolkit.http.http_errors import (
    HTTPStatusError,
    error_in_reply,
    find_message_error,
    find_reply_error,
    messages_api_error,
    redact_text,
    retry_after,
    status_error,
)

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
        (424, C.SERVER, None),
        (498, C.SERVER, None),
        (499, C.SERVER, None),
        (429, C.RATE_LIMIT, None),
        (500, C.SERVER, None),
        (503, C.SERVER, "the server is overloaded or down"),
        (504, C.TIMEOUT, None),
        (524, C.TIMEOUT, None),
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
        ({"error": None, "message": "beside no error"}, "beside no error"),
        ('\ufeff{"error": {"message": "behind a mark"}}', "behind a mark"),
        ('id:1\nevent:error\n:HTTP_STATUS/500\ndata:{"code":"x","message":"in an event"}\n\n', "in an event"),
        ('data: {"error": {"message": "in an event"}}\n\ndata: [DONE]\n\n', "in an event"),
        ("data: broken", "broken"),
        pytest.param([{"error": {"code": 503, "message": "overloaded"}}], "overloaded", id="Google"),
        pytest.param({"error": {"message": '{"error": {"message": "no quota"}}'}}, "no quota", id="a gateway"),
        pytest.param({"error": {"message": "{braces}"}}, "{braces}", id="braces"),
        pytest.param(
            {"message": {"detail": [{"loc": ["body", "messages"], "msg": "Field required"}]}},
            "body.messages: Field required",
            id="Mistral",
        ),
        pytest.param({"errors": [{"code": "x", "message": "unknown model"}], "trace": "1"}, "unknown model", id="IBM"),
        pytest.param({"Message": "no such model"}, "no such model", id="AWS"),
        pytest.param(
            {"error": {"message": "Provider returned error", "metadata": {"raw": "busy", "provider_name": "X"}}},
            "Provider returned error (X): busy",
            id="OpenRouter",
        ),
    ],
)
def test_the_servers_message_is_shortened(body: Any, shown: str) -> None:
    assert str(failure(500, body)).endswith(f"HTTP 500: {shown}")


@pytest.mark.parametrize(
    ("theirs", "category", "cure"),
    [
        ({"code": "content_filter", "message": "no"}, C.FILTERED, "the provider's content filter blocked"),
        ({"code": "insufficient_quota", "message": "no"}, C.PERMANENT, "no credit left"),
        ({"message": "prompt is too long: 9 tokens > 8 maximum"}, C.PERMANENT, "context window"),
    ],
)
def test_the_error_of_a_provider_behind_openrouter_decides(
    theirs: dict[str, str], category: ErrorCategory, cure: str
) -> None:
    raw = json.dumps({"error": theirs})
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "Azure"}}
    found = failure(400, {"error": error})
    assert found.category == category
    assert "Provider returned error (Azure): " in str(found)
    assert cure in str(found)


@pytest.mark.parametrize(
    "error", [{"code": "insufficient_quota"}, {"type": "billing_error"}, {"code": "billing_not_active"}]
)
def test_an_account_without_credit_is_not_tried_again(error: dict[str, str]) -> None:
    found = failure(429, {"error": {"message": "quota", **error}}, {"Retry-After": "1"})
    assert (found.category, found.retriable) == (C.PERMANENT, False)
    assert "no credit left" in str(found)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://api.example.com/v1/chat/completions", " to https://api.example.com/v1/chat/completions"),
        (f"https://login.example.com/x?token={KEY}", " to https://login.example.com/***?***"),
        ("/v1/chat/completions/", ""),
    ],
)
def test_a_redirect_names_its_target_without_secrets(location: str, target: str) -> None:
    said = f"any:m at HOST responded with HTTP 301; the server redirects requests{target}; set endpoint_base_url"
    assert str(failure(301, "", {"location": location})).startswith(said)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Failed to generate JSON.", "code": "json_validate_failed", "failed_generation": "{"}},
        {"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}},
        {"errors": [{"message": "AiError: JSON Mode couldn't be met", "code": 5024}], "success": False},
        {"error": {"message": "Model did not output valid JSON.", "type": "Invalid JSON object"}},
    ],
)
def test_output_that_the_server_rejects_is_requested_again(body: Any) -> None:
    found = failure(400, body)
    assert (found.category, found.retriable) == (C.SERVER, True)
    assert str(found).endswith(
        "; the model wrote JSON or a tool call that the server rejects; choose another model "
        "or, for a judge, set extra.structured to prompt"
    )


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


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Rate limit reached. Please try again in 6m0s. Visit https://x", 360),
        ("Please try again in 1h2m3.5s.", 3723.5),
        ("Please try again in 842ms.", 0.842),
        ("Please retry after 26 seconds.", 26),
        ("Try again in 26 s. Requests of this size: try again in 3 s.", 26),
        ("Please retry in 34.074824224s.", 34.074824224),
        ("No deployments available, Try again in 5 seconds. Passed model=m", 5),
        ("Try again in 2 minutes.", 120),
        ("Please try again later.", None),
        ("Try again in a moment, m9s", None),
        ("Retry after 5 hits or 2 successful requests", None),
        ("Try again in 3 months", None),
    ],
)
def test_the_time_to_wait_may_be_in_the_message(message: str, seconds: float | None) -> None:
    assert failure(429, {"error": {"message": message}}).retry_after == seconds
    assert failure(429, {"error": {"message": message}}, {"Retry-After": "7"}).retry_after == 7
    forwarded = error_in_reply("any:m", {"code": 429, "message": message}, NO_USAGE, [], [])
    assert (forwarded.status, forwarded.retry_after) == (429, seconds)


@pytest.mark.parametrize("in_gateway", [False, True])
def test_the_time_to_wait_of_google_is_read(in_gateway: bool) -> None:
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    details = [{"@type": "QuotaFailure", "violations": ["x" * 3000]}, {"@type": kind, "retryDelay": "34.5s"}]
    body: Any = [{"error": {"code": 429, "message": "quota", "details": details}}]
    if in_gateway:
        body = {"error": {"message": json.dumps(body[0])}}
    assert failure(429, body).retry_after == 34.5


def test_a_time_in_the_text_of_the_model_or_the_prompt_is_none_to_wait() -> None:
    generated = {"message": "Failed", "code": "tool_use_failed", "failed_generation": "try again in 5 hours"}
    assert failure(400, {"error": generated}).retry_after is None
    prompt = "What does the message 'try again in 24 hours' mean?"
    error = status_error("any:m at HOST", 500, {}, f"Error in prompt: {prompt}", [], [Message.user(prompt)])
    assert error.retry_after is None


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


@pytest.mark.parametrize(
    ("code", "message", "category"),
    [
        (1000, "unknown error", C.SERVER),
        (1001, "request timeout", C.TIMEOUT),
        (1002, "rate limit", C.RATE_LIMIT),
        (1004, "not authorized", C.PERMANENT),
        (1008, "insufficient balance", C.PERMANENT),
        (1024, "internal error", C.SERVER),
        (1026, "input new_sensitive", C.FILTERED),
        (1027, "output new_sensitive", C.FILTERED),
        (1039, "token limit", C.RATE_LIMIT),
        (2013, "invalid params", C.PERMANENT),
        (2049, "invalid api key", C.PERMANENT),
        (2056, "usage limit exceeded", C.RATE_LIMIT),
    ],
)
def test_the_code_of_minimax_decides(code: int, message: str, category: ErrorCategory) -> None:
    data = {"choices": None, "base_resp": {"status_code": code, "status_msg": message}}
    error = find_reply_error("any:m", data, [], [])
    assert error is not None
    assert error.category is category
    assert message in str(error)
    stated = find_message_error(data)
    assert stated is not None
    assert messages_api_error("any:m", *stated, [], []).category is category


def test_the_status_that_minimax_adds_to_an_error_decides() -> None:
    error = {"type": "authorized_error", "message": "invalid api key", "http_code": "401"}
    found = find_reply_error("any:m", {"type": "error", "error": error}, [], [])
    assert found is not None
    assert found.category is C.PERMANENT
    filtered = {"type": "api_error", "message": "output new_sensitive (1027)", "http_code": "500"}
    assert failure(500, {"type": "error", "error": filtered}).category is C.FILTERED


def test_the_first_of_a_list_of_errors_is_shown() -> None:
    error = {"code": 2016, "message": "Prompt blocked due to security configurations"}
    found = failure(424, {"success": False, "result": [], "error": [error]})
    assert found.category is C.FILTERED
    assert str(found).startswith(
        "any:m at HOST responded with HTTP 424: Prompt blocked due to security configurations;"
    )
