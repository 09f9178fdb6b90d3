"""Endpoints of a model's configuration: where its server is, and what may be sent there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core import ModelConfig
from karenina_core.models.adapters import AdapterConfigError
from karenina_toolkit.adapter_settings import extra_of
from karenina_toolkit.http.endpoints import (
    ServerExtra,
    ToolLoopExtra,
    check_api_key,
    check_base_url,
    cure_for_key,
    find_api_key,
    may_receive_secrets,
)

OWN = ("https://api.provider.example/v1", "https://gateway.example:8443/llm")
VARIABLES = ("FIRST_KEY", "SOME_API_KEY")


def model(**fields: Any) -> ModelConfig:
    return ModelConfig(id="m", interface="any", model_name="m", **fields)


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://api.provider.example", True),
        ("https://API.provider.example:443/v2", True),
        ("https://gateway.example:8443", True),
        ("http://127.0.0.1:9/v1", True),
        ("http://[::1]:9", True),
        ("http://models.localhost", True),
        (None, True),
        ("http://api.provider.example", False),
        ("https://api.provider.example:444", False),
        ("https://gateway.example", False),
        ("https://api.provider.example.evil.example", False),
        ("https://api.provider.example@evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://[::1", False),
        ("https://host:port", False),
        ("nowhere", False),
        ("", False),
    ],
)
def test_environment_secrets_go_only_to_the_users_own_servers(
    url: str | None, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_KEY", "sk-mine")
    variables = ("FIRST_KEY", "SECOND_KEY")

    assert may_receive_secrets(url, OWN) is trusted
    assert find_api_key(model(), url, OWN, variables) == ("sk-mine" if trusted else None)
    assert find_api_key(model(endpoint_api_key="sk-own"), url, OWN, variables) == "sk-own"
    assert find_api_key(model(endpoint_api_key=""), url, OWN, variables) is None, "said to have none"


@given(url=st.text(), own=st.text())
def test_any_text_can_be_checked_for_trust(url: str, own: str) -> None:
    for begun in ("", "http://", "http://["):
        assert may_receive_secrets(begun + url, [own, begun + own]) in (True, False)


def test_the_first_variable_that_is_set_has_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_KEY", "one")
    monkeypatch.setenv("SECOND_KEY", "two")
    assert find_api_key(model(), OWN[0], OWN, ("FIRST_KEY", "SECOND_KEY")) == "one"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("localhost:8000", "the URL must begin with http:// or https://; did you mean 'http://localhost:8000'?"),
        ("api.example.com/v1", "did you mean 'https://api.example.com/v1'?"),
        ("localhost:8000/pw-secret", "did you mean 'http://localhost:8000/***'?"),
        ("ftp://localhost:8000", "must begin with http:// or https:// and contain a host"),
        ("http://", "contain a host"),
        ("http://host:port", "the URL is not valid, or its port is not a number; use a URL such as EXAMPLE"),
        ("http://host:pw-secret", "the URL is not valid"),
        ("http://me:pw-secret@host", "remove the user name and password, and set the key in endpoint_api_key"),
        ("http://host?key=pw-secret", "the URL contains a query or fragment; CURE"),
        ("http://host#pw-secret", "the URL contains a query or fragment; CURE"),
        (
            "http://host/v1/chat/completions",
            "the URL is that of a single API method; use the base URL, such as EXAMPLE",
        ),
        ("http://host/v1/responses", "the URL is that of a single API method"),
        ("http://host/v1/messages", "the URL is that of a single API method"),
    ],
)
def test_an_invalid_base_url_is_refused_without_showing_secrets(url: str, problem: str) -> None:
    with pytest.raises(AdapterConfigError, match=r"^model 'm', endpoint_base_url: ") as caught:
        check_base_url(model(), url, like="EXAMPLE", query="CURE")
    assert problem in str(caught.value)
    assert "pw-secret" not in str(caught.value)


def test_a_right_base_url_comes_in_its_parts() -> None:
    assert check_base_url(model(), "https://host:1/v1").hostname == "host"


@pytest.mark.parametrize(
    ("key", "needed", "problem"),
    [
        ("pw-secret\n", None, "the API key in the environment contains a line break"),
        ("pw-sécret", None, "another forbidden character"),
        (None, "the provider needs one", "model 'm': the provider needs one"),
        ("pw-secret", "the provider needs one", None),
        (None, None, None),
    ],
)
def test_an_invalid_or_missing_key_is_refused(key: str | None, needed: str | None, problem: str | None) -> None:
    if problem is None:
        check_api_key(model(), key, VARIABLES, needed=needed)
        return
    with pytest.raises(AdapterConfigError, match=problem) as caught:
        check_api_key(model(), key, VARIABLES, needed=needed)
    assert "pw-s" not in str(caught.value)


class Extra(ToolLoopExtra):
    """The settings of some adapter."""

    seed: int = 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"headers": {"X": "pw-secret\r\n"}}, "extra.headers: Value error, the header 'X' contains a line break"),
        ({"headers": {"X\n": "pw-secret"}}, "contains a line break"),
        ({"max_concurrency": 0}, "extra.max_concurrency: "),
        ({"structured": "pw-secret"}, "extra.structured: "),
        ({"first_turn": "pw-secret", "seed": "pw-secret"}, "extra.seed: "),
        ({"sed": "pw-secret"}, "extra.sed: unknown name; did you mean 'seed'?"),
    ],
)
def test_wrong_settings_are_named_without_their_values(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(AdapterConfigError, match=r"^model 'm', extra\.") as caught:
        extra_of(model(extra=given), Extra)
    assert problem in str(caught.value)
    assert "pw-secret" not in str(caught.value)


def test_headers_are_secrets_and_are_found_whatever_their_case() -> None:
    extra = ServerExtra(headers={"X-Api-Key": "pw-secret"})
    assert "pw-secret" not in repr(extra) + extra.model_dump_json()
    assert extra.has_header("authorization", "x-api-key")
    assert not extra.has_header("authorization")


def test_refused_key_is_named_by_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANOTHER_VARIABLE", "sk-of-the-environment")
    monkeypatch.setenv("SOME_API_KEY", "sk-of-the-environment")

    assert cure_for_key(model(), None, VARIABLES, "OTHERWISE") == "OTHERWISE"
    assert cure_for_key(model(endpoint_api_key="sk-own"), "sk-own", VARIABLES, "") == "correct endpoint_api_key"
    assert "correct the key in SOME_API_KEY" in cure_for_key(model(), "sk-of-the-environment", VARIABLES, "")
