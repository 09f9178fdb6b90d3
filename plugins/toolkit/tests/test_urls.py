"""The shown part of a URL, and texts that are URLs without a scheme."""

from __future__ import annotations

import pytest

from karenina_toolkit.http.urls import complete_url, find_secret_parts, redact_url


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "https://api.openai.com/v1",
        "https://api.groq.com/openai/v1",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        "http://[::1]:8000/v1",
        "http://gpu1:8000/vllm/judge/v1",
        "https://host",
    ],
)
def test_a_usual_base_url_is_shown_as_it_is(url: str) -> None:
    assert (redact_url(url), find_secret_parts(url)) == (url, [])


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

    assert redact_url(url) == shown
    assert any(secret in part for part in find_secret_parts(url))
    assert all(part in url for part in find_secret_parts(url))


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("localhost", "http://localhost"),
        ("localhost:8000/v1", "http://localhost:8000/v1"),
        ("gpu1:8000", "http://gpu1:8000"),
        ("gpu1/v1", "http://gpu1/v1"),
        ("10.0.0.7/v1", "http://10.0.0.7/v1"),
        ("[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("//gpu1:8000/v1", "http://gpu1:8000/v1"),
        ("http:/gpu1/v1", "http://gpu1/v1"),
        ("HTTPS:gpu1", "https://gpu1"),
        ("api.example.com", "https://api.example.com"),
        ("api.example.com/v1", "https://api.example.com/v1"),
        ("api.example.com:8443/v1", "http://api.example.com:8443/v1"),
    ],
)
def test_an_address_without_its_scheme_is_completed(address: str, url: str) -> None:
    assert complete_url(address) == url


@pytest.mark.parametrize(
    "text",
    [
        *("", "http://gpu1:8000/v1", "HTTP://gpu1", "20240620", "latest", "v1.5"),
        *("cf/meta/llama-3.1-8b", "sha256:0f", "ftp://a.b"),
    ],
)
def test_other_texts_are_not_addresses(text: str) -> None:
    assert complete_url(text) is None
