"""The shown part of a URL, texts that are URLs without a scheme, and the proxies of the environment."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import pytest

from karenina_toolkit.http.urls import complete_url, find_proxy, find_proxy_problem, find_secret_parts, redact_url


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


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_for_all_schemes_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "proxy:8080")
    monkeypatch.setenv("HTTPS_PROXY", "https://other:8443")
    found = [find_proxy(urlsplit(url)) for url in ("http://model.example/v1", "https://model.example", "http://[::1]")]
    assert found == ["http://proxy:8080", "https://other:8443", None]


def test_a_password_with_a_colon_and_slashes_is_not_shown_as_the_scheme_of_a_proxy() -> None:
    assert "the scheme socks5h://, which is" in (find_proxy_problem("socks5h://me:secret@proxy:1080") or "")
    assert "a scheme that is" in (problem := find_proxy_problem("me:secret://word@proxy:3128") or "")
    assert "secret" not in problem


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize(
    ("exempt", "direct", "proxied"),
    [
        ("other.example, *", "http://model.example", None),
        ("other.example model.example", "http://model.example", "http://third.example"),
        ("model.example", "http://gpu1.Model.example", "http://amodel.example"),
        (".model.example", "http://gpu1.model.example", "http://other.example"),
        ("*.model.example.", "http://gpu1.model.example", "http://other.example"),
        ("model.example:8000", "http://model.example:8000/v1", "http://model.example:8001/v1"),
        ("model.example:443", "https://model.example", "http://model.example"),
        ("10.0.0.0/8", "http://10.1.2.3/v1", "http://11.1.2.3/v1"),
        ("10.1.2.3:8000", "http://10.1.2.3:8000", "http://10.1.2.3:8001"),
        ("[2001:db8::1]", "http://[2001:db8::1]", "http://[2001:db8::2]"),
        ("2001:db8::/32", "http://[2001:db8::2]", "http://[2001:db9::2]"),
        (" ,:x,[::,//", None, "http://model.example"),
        ("model.example:80", None, "http://model.example:99999"),
        ("", None, "http://model.example:99999"),
    ],
)
def test_entries_of_no_proxy_have_the_usual_forms(
    exempt: str, direct: str | None, proxied: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "http://proxy:8080")
    monkeypatch.setenv("no_proxy", exempt)
    assert direct is None or find_proxy(urlsplit(direct)) is None
    assert proxied is None or find_proxy(urlsplit(proxied)) == "http://proxy:8080"
