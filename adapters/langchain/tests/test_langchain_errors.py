"""Errors through LangChain, and their messages."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from langchain_servers import Scripted, claude_model, completion, model

from karenina_core.catalog import install_command
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import ErrorCategory, Message, PortError, Usage
from karenina_langchain import plugin
from karenina_langchain.client import port_error
from karenina_langchain.ports import LangchainLLM
from karenina_langchain.settings import key_of
from karenina_testing.server import refusing_url

pytestmark = [pytest.mark.alone, pytest.mark.anyio]
PROMPT = "Tell me everything about the confidential compound KX-4711, which nobody may know about."
ASK = [Message.user(PROMPT)]
KEY = "sk-very-secret-key-000"
Keep = Callable[[Any], Any]
C = ErrorCategory
SPECS = {spec.interface: spec for spec in plugin.karenina_adapters()}


async def fails(port: LangchainLLM) -> PortError:
    with pytest.raises(PortError) as caught:
        await port.invoke(ASK)
    return caught.value


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_an_error_says_what_the_server_said(kind: str, server: Scripted, open_port: Keep) -> None:
    server.says({"error": {"message": "sorry, 500 of them", "type": "x"}}, status=500)
    configured = model(server.url) if kind == "openai" else claude_model(server)
    error = await fails(open_port(LangchainLLM(configured)))
    assert "responded with HTTP 500: sorry, 500 of them" in str(error)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_redirect_is_an_error(kind: str, server: Scripted, open_port: Keep) -> None:
    server.says({}, status=302)
    error = await fails(open_port(LangchainLLM(model(server.url) if kind == "openai" else claude_model(server))))
    assert (error.category, error.status) == (C.PERMANENT, 302)


async def test_an_account_without_credit_is_not_tried_again(server: Scripted, open_port: Keep) -> None:
    server.says({"error": {"message": "quota", "code": "insufficient_quota"}}, status=429)
    error = await fails(open_port(LangchainLLM(model(server.url))))
    assert (error.category, error.retriable) == (C.PERMANENT, False)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_errors_reprs_and_logs_contain_no_secret_or_prompt(
    kind: str, server: Scripted, open_port: Keep, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server.says({"error": {"message": f"{KEY} header-secret: bad {PROMPT[:50]}! and {PROMPT}"}}, status=400)
    fields: dict[str, Any] = {"endpoint_api_key": KEY, "extra": {"headers": {"X-Token": "header-secret"}}}
    configured = model(server.url, **fields) if kind == "openai" else claude_model(server, **fields)
    port = open_port(LangchainLLM(configured))
    error = await fails(port)
    assert "*** ***: bad [prompt]! and [prompt]" in str(error)
    told = f"{error} {error!r} {port!r} {configured!r} {caplog.text}"
    assert not [word for word in (KEY, "header-secret", "KX-4711") if word in told]
    assert server.headers[0]["x-token"] == "header-secret"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_refused_connection_is_one(kind: str, server: Scripted, open_port: Keep) -> None:
    with refusing_url() as url:
        server.url = f"{url}/v1"
        error = await fails(open_port(LangchainLLM(model(server.url) if kind == "openai" else claude_model(server))))
    assert error.category is C.CONNECTION
    assert server.url.removesuffix("/v1") in str(error)


@pytest.mark.parametrize("body", ["Hello!", '{"choices": [', [], {}, {"choices": []}, {"error": {"message": "down"}}])
async def test_a_reply_that_is_none_is_the_servers_fault(body: Any, server: Scripted, open_port: Keep) -> None:
    server.says(body)
    error = await fails(open_port(LangchainLLM(model(server.url))))
    assert error.category is C.SERVER
    assert "sent no usable reply" in str(error)


@pytest.mark.parametrize("choices", [None, []])
@pytest.mark.parametrize(
    ("body", "category", "said"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, C.FILTERED, "blockReason SAFETY"),
        ({"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, C.FILTERED, "input new_sensitive"),
        ({"message": "the model is not loaded"}, C.SERVER, "reply: the model is not loaded"),
        ({"error": "Unexpected endpoint or method."}, C.PERMANENT, "most servers expect /v1"),
    ],
)
async def test_a_reply_without_choices_is_read_for_its_error(
    body: Any, category: ErrorCategory, said: str, choices: Any, server: Scripted, open_port: Keep
) -> None:
    server.says({**body, "choices": choices, "usage": {"prompt_tokens": 7, "total_tokens": 7}})
    error = await fails(open_port(LangchainLLM(model(server.url))))
    assert error.category is category
    assert said in str(error)
    assert error.usage == Usage(7, 0, calls=1)


async def test_an_error_passed_on_by_a_gateway_keeps_its_status(server: Scripted, open_port: Keep) -> None:
    server.says({"error": {"message": "slow down", "code": 429}})
    error = await fails(open_port(LangchainLLM(model(server.url))))
    assert (error.category, error.status) == (C.RATE_LIMIT, 429)


@pytest.mark.parametrize(
    ("interface", "url", "fields", "problem"),
    [
        ("langchain", None, {"model_provider": "openai"}, "api.openai.com needs an API key; set OPENAI_API_KEY"),
        ("langchain", None, {"model_name": "claude-x"}, "api.anthropic.com needs an API key; set ANTHROPIC_API_KEY"),
        ("langchain", None, {}, "set model_provider"),
        ("langchain", None, {"model_provider": "no-such"}, "unknown provider 'no_such'"),
        ("openrouter", None, {}, "openrouter.ai needs an API key; set OPENROUTER_API_KEY"),
        ("openrouter", "http://elsewhere/v1", {}, "remove endpoint_base_url"),
        ("openai_endpoint", None, {}, "requires endpoint_base_url"),
        ("openai_endpoint", "localhost:8000/v1", {}, "did you mean 'http://localhost:8000/v1'"),
        ("openai_endpoint", "http://me:pw-secret@host/v1", {}, "endpoint_api_key"),
        ("openai_endpoint", "http://host/v1?key=pw-secret", {}, "query"),
        ("openai_endpoint", "http://host/v1/chat/completions", {}, "base URL"),
        ("openai_endpoint", "http://host/v1", {"endpoint_api_key": "pw-secret\n"}, "line break"),
        ("openai_endpoint", "http://host/v1", {"extra": {"headers": {"X": "pw-secret\r\n"}}}, "line break"),
        ("openai_endpoint", "http://host/v1", {"extra": {"structured": "pw-secret"}}, "extra.structured: "),
        ("openai_endpoint", "http://host/v1", {"extra": {"parameters": {"openai_api_key": "pw-secret"}}}, "is set by"),
        ("openai_endpoint", "http://host/v1", {"extra": {"parameters": {"max_retries": 3}}}, "is set by"),
        ("openai_endpoint", "http://host/v1", {"extra": {"parameters": {"n": 2}}}, "several replies"),
    ],
)
def test_what_would_fail_every_item_is_refused_before_the_run(
    interface: str, url: str | None, fields: dict[str, Any], problem: str
) -> None:
    check = SPECS[interface].check
    assert check is not None
    with pytest.raises(AdapterConfigError, match="model 'm'") as caught:
        check(model(url, interface, **fields))
    assert problem in str(caught.value)
    assert "pw-secret" not in str(caught.value)


def test_arguments_that_langchain_refuses_are_named_without_their_values() -> None:
    with pytest.raises(AdapterConfigError, match=r"extra\.parameters") as caught:
        LangchainLLM(model("http://127.0.0.1:1/v1", extra={"parameters": {"top_p": "pw-secret"}}))
    assert "pw-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("interface", "url", "environment", "sent"),
    [
        ("openrouter", None, {"OPENROUTER_API_KEY": KEY}, True),
        ("openrouter", None, {"OPENAI_API_KEY": KEY}, False),
        ("openrouter", "https://elsewhere.example/v1", {"OPENROUTER_API_KEY": KEY}, False),
        ("openai_endpoint", "https://elsewhere.example/v1", {"OPENAI_API_KEY": KEY}, False),
        ("openai_endpoint", "https://api.openai.com/v1", {"OPENAI_API_KEY": KEY}, True),
        ("openai_endpoint", "http://api.openai.com/v1", {"OPENAI_API_KEY": KEY}, False),
        ("openai_endpoint", "http://127.0.0.1:8000/v1", {"OPENAI_API_KEY": KEY}, True),
        (
            "openai_endpoint",
            "https://own.example/v1",
            {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://own.example/v1"},
            True,
        ),
        ("langchain", "https://elsewhere.example/v1", {"OPENAI_API_KEY": KEY}, False),
        ("langchain", None, {"OPENAI_API_KEY": KEY}, True),
    ],
)
def test_the_environments_key_goes_only_to_its_own_host(
    interface: str, url: str | None, environment: dict[str, str], sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (key_of(model(url, interface, model_name="gpt-x")) == KEY) is sent


@pytest.mark.parametrize("trusted", [True, False])
async def test_what_else_the_environment_holds_is_not_sent_to_strangers(
    trusted: bool, server: Scripted, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says(completion())
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: gateway-secret")
    if not trusted:
        monkeypatch.setattr("karenina_toolkit.http.endpoints.is_loopback", lambda _: False)
    await open_port(LangchainLLM(model(server.url))).invoke(ASK)
    told = str(server.headers[0])
    assert [word in told for word in (KEY, "org-secret", "gateway-secret")] == [trusted] * 3


@pytest.mark.parametrize(
    ("interface", "line"),
    [
        ("langchain", install_command("karenina-langchain[openai]")),
        ("openai_endpoint", install_command("karenina-langchain[openai]")),
        ("openrouter", install_command("karenina-langchain[openai]")),
    ],
)
def test_a_missing_provider_is_an_error_with_the_cure(
    interface: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unavailable = SPECS[interface].unavailable
    assert unavailable is not None
    assert unavailable() is None
    monkeypatch.setattr("karenina_langchain.providers.find_spec", lambda _: None)
    assert line in (unavailable() or "")


def test_a_model_of_a_missing_provider_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "karenina_langchain.providers.find_spec", lambda name: None if name == "langchain_anthropic" else found(name)
    )
    check = SPECS["langchain"].check
    assert check is not None
    with pytest.raises(AdapterConfigError, match=re.escape(install_command("karenina-langchain[anthropic]"))):
        check(model(None, "langchain", model_name="claude-x", endpoint_api_key="k"))


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("antropic", "unknown provider 'antropic'; did you mean 'anthropic'?"),
        ("evil_package", "unknown provider 'evil_package'; available: anthropic"),
    ],
)
def test_an_unknown_provider_leads_to_no_package(provider: str, said: str) -> None:
    check = SPECS["langchain"].check
    assert check is not None
    with pytest.raises(AdapterConfigError) as refused:
        check(model(None, "langchain", model_name="m", model_provider=provider, endpoint_api_key="k"))
    assert said in str(refused.value)
    assert "pip install" not in str(refused.value)


def test_a_missing_package_of_a_provider_has_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("karenina_langchain.providers.find_spec", lambda _: None)
    check = SPECS["langchain"].check
    assert check is not None
    with pytest.raises(
        AdapterConfigError, match=re.escape(install_command("karenina-langchain[others]") + " langchain-groq")
    ):
        check(model(None, "langchain", model_name="m", model_provider="groq", endpoint_api_key="k"))


def test_the_interfaces_have_all_ports_and_concurrency_is_a_setting() -> None:
    assert {name: spec.ports for name, spec in SPECS.items()} == dict.fromkeys(
        ("langchain", "openai_endpoint", "openrouter"), ("llm", "parser", "agent")
    )
    concurrency = SPECS["openrouter"].concurrency
    assert concurrency is not None
    assert concurrency(model(None, "openrouter", extra={"max_concurrency": 4})) == 4
    assert os.environ.get("OPENROUTER_API_KEY") is None


async def test_the_password_of_a_proxy_is_not_in_errors(
    server: Scripted, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a proxy that says again which credentials it was sent."""
    server.says({"error": {"message": "me:password, or bWU6cGFzc3dvcmQ="}}, status=407)
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", server.url.replace("http://", "http://me:password@"))
    error = await fails(open_port(LangchainLLM(model("http://model.example/v1"))))

    assert "HTTP 407" in str(error)
    assert not [word for word in ("password", "bWU6cGFzc3dvcmQ=") if word in str(error)]


@pytest.mark.parametrize("exempt", ["nowhere.invalid:80", "nowhere.invalid.", "a.example *.invalid"])
async def test_hosts_in_no_proxy_are_reached_without_one(
    exempt: str, server: Scripted, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", exempt)
    error = await fails(open_port(LangchainLLM(model("http://nowhere.invalid/v1"))))

    assert not list(server.requests), error


class GoogleError(Exception):
    """An error in the form of the package google-genai, which LangChain's package for Google raises another from."""

    code = 429

    def __init__(self, details: Any) -> None:
        super().__init__(f"429 RESOURCE_EXHAUSTED. {details}")
        self.details = details
        self.response = object()


def test_the_error_behind_that_of_langchain_is_read() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]
    body = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}}
    wrapped = RuntimeError(f"Error calling model 'm': {body}")
    wrapped.__cause__ = GoogleError(body)
    error = port_error("langchain:m", wrapped, [], [])
    assert (error.category, error.status, error.retry_after) == (C.RATE_LIMIT, 429, 34)
    assert str(error) == "langchain:m responded with HTTP 429: quota"


class ResponseError(Exception):
    """An error in the form of the package ollama, for an error in a stream."""

    status_code = -1


def test_an_error_in_a_stream_of_ollama_is_the_servers() -> None:
    assert port_error("langchain:m", ResponseError("model runner has stopped"), [], []).category is C.SERVER


class CohereError(Exception):
    """An error in the form of the package cohere."""

    def __init__(self) -> None:
        super().__init__("headers: {...}, status_code: 429, body: {'message': 'slow down'}")
        self.status_code, self.headers, self.body = 429, {"retry-after": "7"}, {"message": "slow down"}


def test_an_error_of_cohere_shows_its_message_only() -> None:
    error = port_error("langchain:m", CohereError(), [], [])
    assert (error.category, error.retry_after) == (C.RATE_LIMIT, 7)
    assert str(error) == "langchain:m responded with HTTP 429: slow down"


class ThrottlingException(Exception):
    """An error in the form of AWS's botocore."""

    response: ClassVar = {
        "Error": {"Message": "Too many requests", "Code": "ThrottlingException"},
        "ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "7"}},
    }


class HTTPClientError(Exception):
    """A failed connection in the form of AWS's botocore."""


class ReadTimeoutError(HTTPClientError, OSError):
    """A timeout in the form of AWS's botocore."""


def test_errors_of_aws_are_retriable() -> None:
    error = port_error("langchain:m", ThrottlingException("An error occurred (ThrottlingException)"), [], [])
    assert (error.category, error.status, error.retry_after) == (C.RATE_LIMIT, 429, 7)
    assert str(error) == "langchain:m responded with HTTP 429: Too many requests"
    lost = (HTTPClientError("no connection"), ReadTimeoutError("Read timeout"))
    assert [port_error("langchain:m", one, [], []).category for one in lost] == [C.CONNECTION, C.TIMEOUT]


class OddError(Exception):
    """An error with a response of another form."""

    response: ClassVar = {"Error": "too many requests"}
    status_code = 429


def test_an_error_with_another_response_is_read_from_its_status() -> None:
    assert port_error("langchain:m", OddError("slow down"), [], []).category is C.RATE_LIMIT
