"""What of a URL is printed and stored."""

from __future__ import annotations

import pytest

from karenina_toolkit.hosts import secret_parts, shown_url


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "https://api.openai.com/v1",
        "https://api.groq.com/openai/v1",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        "http://[::1]:8000/v1",
        "https://host",
    ],
)
def test_a_usual_base_url_is_shown_as_it_is(url: str) -> None:
    assert (shown_url(url), secret_parts(url)) == (url, [])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://gateway.example/hidden-42/v1", "https://gateway.example/***"),
        ("https://gateway.example/v1/HIDDEN", "https://gateway.example/***"),
        ("https://hidden-42@host/v1", "https://***@host/v1"),
        ("https://me:hidden-42@host:8443/v1", "https://***@host:8443/v1"),
        ("https://host/v1?key=hidden-42", "https://host/v1?***"),
        ("https://host/v1#hidden-42", "https://host/v1?***"),
        ("https://host/hidden-42?key=1", "https://host/***?***"),
        ("https://host:hidden-42", "***"),
        ("hidden-42", "***"),
    ],
)
def test_what_may_be_a_secret_in_a_url_is_masked(url: str, shown: str) -> None:
    secret = "HIDDEN" if "HIDDEN" in url else "hidden-42"

    assert shown_url(url) == shown
    assert any(secret in part for part in secret_parts(url))
    assert all(part in url for part in secret_parts(url))
