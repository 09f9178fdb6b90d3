"""Errors of an OpenAI-compatible server, and their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openai_servers import Scripted, completion, event, in_pieces, model
from port_errors import KEY, PROMPT, assert_refused, fails

from karenina_core.models.ports import ErrorCategory, Message, Usage
from karenina_openai import plugin
from karenina_openai.parser import OpenAILLM
from karenina_testing.server import refusing_url
from karenina_toolkit.structured.reply_checks import wrote_nothing

pytestmark = pytest.mark.anyio
Keep = Callable[[Any], Any]
C = ErrorCategory


async def test_an_error_names_model_and_server_with_its_message(server: Scripted, open_port: Keep) -> None:
    server.says(500, {"error": {"message": "sorry, 500 of them", "type": "x"}})
    error = await fails(open_port(OpenAILLM(model(server.url))))
    assert str(error) == f"openai:served at {server.url} responded with HTTP 500: sorry, 500 of them"


async def test_a_redirect_is_an_error_and_is_not_followed(server: Scripted, open_port: Keep) -> None:
    server.says(302, {}, {"Location": f"{server.url}/other"})
    error = await fails(open_port(OpenAILLM(model(server.url))))
    assert (error.category, error.status) == (C.PERMANENT, 302)


async def test_no_secret_and_no_prompt_is_in_an_error(server: Scripted, open_port: Keep) -> None:
    extra = {"headers": {"X-Token": "header-secret"}, "query": {"code": "query-secret"}}
    server.says(400, {"error": {"message": f"{KEY} header-secret query-secret: bad {PROMPT[:50]}! and {PROMPT}"}})
    error = await fails(open_port(OpenAILLM(model(server.url, endpoint_api_key=KEY, extra=extra))))
    assert "*** *** ***: bad [prompt]! and [prompt]" in str(error)
    told = f"{error} {error!r}"
    assert not [word for word in (KEY, "header-secret", "query-secret", "KX-4711") if word in told]


async def test_a_refused_connection_names_host_and_port(open_port: Keep) -> None:
    with refusing_url() as url:
        error = await fails(open_port(OpenAILLM(model(f"{url}/v1"))))
    assert error.category is C.CONNECTION
    assert f"could not connect to {url.removeprefix('http://')}" in str(error)


async def test_a_silent_server_is_a_time_out(fake_openai: Callable[..., str], open_port: Keep) -> None:
    port = open_port(OpenAILLM(model(fake_openai("--latency-ms", "20000"), request_timeout=0.2)))
    error = await fails(port)
    assert error.category is C.TIMEOUT
    assert "did not answer within 0.2 s" in str(error)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("Hello!", "not JSON"),
        ([], "not a JSON object"),
        ({}, "no choices"),
        ({"choices": []}, "no choices"),
        ({"base_resp": {"status_code": 1000, "status_msg": "login fail"}, "choices": None}, "login fail"),
        ({"success": False, "errors": [{"code": 5007, "message": "No such model"}]}, "reply: No such model"),
        ({"detail": "the model is not loaded"}, "reply: the model is not loaded"),
        ({"choices": [{"delta": {}}]}, "no message"),
        ({"choices": [{"message": {"content": 5}}]}, "the content must be text or a list of parts, not int"),
        ({"choices": [{"message": {"tool_calls": [{"id": "x"}]}}]}, "no function"),
        ({"error": {"message": "upstream is down"}}, "upstream is down"),
    ],
)
async def test_a_reply_that_is_none_says_why(body: Any, why: str, server: Scripted, open_port: Keep) -> None:
    server.says(200, body)
    error = await fails(open_port(OpenAILLM(model(server.url))))
    assert error.category is C.SERVER
    assert "sent no usable reply: " in str(error)
    assert why in str(error)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("code", "message", "category"),
    [
        (1026, "input new_sensitive", C.FILTERED),
        (1027, "输出内容涉敏", C.FILTERED),
        (1008, "insufficient balance", C.PERMANENT),
        (1002, "rate limit", C.RATE_LIMIT),
        (1004, "login fail", C.PERMANENT),
        (1024, "internal error", C.SERVER),
    ],
)
async def test_the_codes_of_minimax_decide_the_category(
    code: int, message: str, category: ErrorCategory, stream: bool, server: Scripted, open_port: Keep
) -> None:
    body = {"choices": None, "usage": {"total_tokens": 0}, "base_resp": {"status_code": code, "status_msg": message}}
    server.answer = lambda _: in_pieces([(0, event(body))]) if stream else body
    error = await fails(open_port(OpenAILLM(model(server.url, extra={"stream": stream}))))
    assert error.category is category


async def test_an_error_passed_on_by_a_gateway_keeps_its_status(server: Scripted, open_port: Keep) -> None:
    server.says(200, {"error": {"message": "slow down", "code": 429}})
    error = await fails(open_port(OpenAILLM(model(server.url))))
    assert (error.category, error.status) == (C.RATE_LIMIT, 429)


async def test_an_error_without_the_key_error_keeps_its_status(server: Scripted, open_port: Keep) -> None:
    server.says(200, {"object": "error", "message": "slow down", "code": 429})
    error = await fails(open_port(OpenAILLM(model(server.url))))
    assert (error.category, error.status) == (C.RATE_LIMIT, 429)
    assert "forwarded HTTP 429: slow down" in str(error)


@pytest.mark.parametrize(
    "error", [None, "", "none", {}, {"code": "0", "message": ""}, {"code": 0, "message": "Success"}, {"code": 200}]
)
async def test_an_error_that_says_that_nothing_is_wrong_is_none(error: Any, server: Scripted, open_port: Keep) -> None:
    server.says(200, {**completion(), "error": error})
    assert (await open_port(OpenAILLM(model(server.url))).invoke([Message.user("?")])).text == "Paris."


@pytest.mark.parametrize("error", ["boom", {"code": 0, "message": "boom"}, {"code": 1}, {"code": 429, "message": "OK"}])
async def test_text_beside_an_error_is_no_answer(error: Any, server: Scripted, open_port: Keep) -> None:
    server.says(200, {**completion(), "error": error})
    assert (await fails(open_port(OpenAILLM(model(server.url))))).usage == Usage(7, 3, calls=1)


@pytest.mark.parametrize("error", [{"message": "boom"}, None])
async def test_a_reply_without_choices_and_tokens_is_not_paid_for(
    error: Any, server: Scripted, open_port: Keep
) -> None:
    server.says(200, {"error": error, "choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}})
    assert (await fails(open_port(OpenAILLM(model(server.url))))).usage == Usage()


async def test_a_reply_without_choices_has_no_output_tokens(server: Scripted, open_port: Keep) -> None:
    server.says(200, {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 0}})
    error = await fails(open_port(OpenAILLM(model(server.url))))
    assert (error.usage, wrote_nothing(error)) == (Usage(12, 0, calls=1), True)


async def test_tokens_of_a_reply_without_choices_are_counted(server: Scripted, open_port: Keep) -> None:
    server.says(200, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    error = await fails(open_port(OpenAILLM(model(server.url))))
    assert error.usage == Usage(7, 3, calls=1)


SPEC = plugin.karenina_adapters()[0]


@pytest.mark.parametrize(
    ("url", "fields", "problem"),
    [
        (None, {}, "api.openai.com needs an API key; set OPENAI_API_KEY"),
        ("http://host/v1?key=pw-secret", {}, "extra.query"),
        ("http://host/v1/chat/completions", {}, "base URL"),
        ("http://host/v1", {"endpoint_api_key": "pw-secret\n"}, "line break"),
        ("http://host/v1", {"extra": {"header": {"X": "pw-secret"}}}, "extra.header: "),
        ("http://host/v1", {"extra": {"body": {"stream": True}}}, "body.stream is set by Karenina"),
        ("http://host/v1", {"extra": {"body": {"n": 2}}}, "body.n requests several replies"),
        ("http://host/v1", {"extra": {"max_concurrency": 0}}, "extra.max_concurrency: "),
    ],
)
def test_what_would_fail_every_item_is_refused_before_the_run(
    url: str | None, fields: dict[str, Any], problem: str
) -> None:
    assert_refused(SPEC, model(url, **fields), problem)


def test_a_server_of_ones_own_needs_no_key() -> None:
    assert SPEC.check is not None
    SPEC.check(model("http://127.0.0.1:8000/v1"))


def test_secrets_are_not_in_the_repr_of_the_settings() -> None:
    assert SPEC.extra is not None
    extra = SPEC.extra.model_validate({"headers": {"X": "pw-secret"}, "query": {"k": "pw-secret"}})
    assert "pw-secret" not in repr(extra) + str(extra) + extra.model_dump_json()


def test_concurrency_is_a_setting() -> None:
    assert SPEC.concurrency is not None
    assert [SPEC.concurrency(model(None, extra=extra)) for extra in ({}, {"max_concurrency": 4})] == [None, 4]
