"""Replies of OpenAI's Responses API, which a setting of LangChain's chat model selects, over HTTP on loopback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from langchain_servers import Scripted, model

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import ErrorCategory, LLMReply, Message, ParserReply, PortError, Usage
from karenina_langchain.ports import LangchainLLM, LangchainParser
from karenina_toolkit.structured.reply_checks import receive

pytestmark = pytest.mark.anyio
Keep = Callable[[Any], Any]
ASK = [Message.user("What is the capital of France?")]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
USAGE = Usage(7, 3, 5, 2, 1)


def response(*output: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    """A response with items of output."""
    numbered = [{"id": f"item_{number}", "status": "completed", **item} for number, item in enumerate(output)]
    fixed = {"id": "r", "object": "response", "created_at": 1, "model": "served-model", "tools": []}
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "error": None, "incomplete_details": None}
    usage = {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 10,
    }
    return {**fixed, **settings, "status": status, "usage": usage, "output": numbered, **fields}


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    """A message with a part for each text."""
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "role": "assistant", "content": parts, **fields}


def refusal(text: str, *before: str) -> dict[str, Any]:
    """A message that refuses, after texts."""
    parts = message(*before)["content"]
    return {"type": "message", "role": "assistant", "content": [*parts, {"type": "refusal", "refusal": text}]}


def responses_model(server: Scripted, **extra: Any) -> ModelConfig:
    """A model that is asked over the Responses API."""
    extra = {"parameters": {"use_responses_api": True}, **extra}
    return model(server.url, "langchain", model_provider="openai", endpoint_api_key="sk-1", extra=extra)


def said(text: str, finish: Any = "stop", reasoning: str | None = None) -> LLMReply:
    return LLMReply(text, USAGE, finish, "served-model", reasoning)


THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Well ..."}]}
LIMIT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
FILTER = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(response(THOUGHT, message("Par", "is.")), said("Paris.", reasoning="Well ..."), id="parts"),
        pytest.param(response(message("First."), message("Paris.")), said("First.\nParis."), id="messages"),
        pytest.param(
            response(message("I look it up.", phase="commentary"), message("Paris.", phase="final_answer")),
            said("Paris.", reasoning="I look it up."),
            id="commentary before the answer",
        ),
        pytest.param(response(message("Paris.", phase="commentary")), said("Paris."), id="only commentary"),
        pytest.param(response(refusal("I can't.")), said("I can't.", "content_filter"), id="refusal"),
        pytest.param(response(refusal("I can't.", "It is")), said("It is\nI can't.", "content_filter"), id="both"),
        pytest.param(response(message("Par"), **LIMIT), said("Par", "length"), id="limit"),
        pytest.param(response(message("Par"), **FILTER), said("Par", "content_filter"), id="filter"),
    ],
)
async def test_a_response_is_read(body: dict[str, Any], expected: LLMReply, server: Scripted, open_port: Keep) -> None:
    server.says(body)

    assert await open_port(LangchainLLM(responses_model(server))).invoke(ASK) == expected
    assert server.paths == ["/v1/responses"]


@pytest.mark.parametrize("mode", ["json_schema", "tool", "prompt"])
async def test_a_judge_may_refuse(mode: Any, server: Scripted, open_port: Keep) -> None:
    server.says(response(refusal("I can't.")))

    reply = await open_port(LangchainParser(responses_model(server, structured=mode))).parse(ASK, SCHEMA)

    assert reply == ParserReply("I can't.", mode, USAGE, "content_filter", "served-model")


SEARCH = {"type": "web_search_call", "action": {"type": "search", "query": "capital"}}
OPEN = {"type": "web_search_call", "action": {"type": "open_page", "url": "https://example.com"}}
FILES = {"type": "file_search_call", "queries": ["capital"]}


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        pytest.param(response(SEARCH, OPEN, SEARCH, message("Paris.")), {"web_searches": 2}, id="searches"),
        pytest.param(response(FILES, message("Paris.")), {"unpriced_calls": 1}, id="search in files"),
        pytest.param(response(message("Paris."), service_tier="flex"), {"flex_calls": 1}, id="flex"),
        pytest.param(response(message("Paris."), service_tier="default"), {}, id="default tier"),
    ],
)
async def test_what_a_response_costs_beside_its_tokens_is_counted(
    body: dict[str, Any], usage: dict[str, int], server: Scripted, open_port: Keep
) -> None:
    server.says(body)

    reply = await open_port(LangchainLLM(responses_model(server))).invoke(ASK)

    assert (reply.text, reply.usage) == ("Paris.", replace(USAGE, **usage))


@pytest.mark.parametrize(
    ("stated", "billionths"),
    [
        ({"cost": 0.0012, "is_byok": False}, 1_200_000),
        ({"cost_in_usd_ticks": 37_756_000}, 3_775_600),
        ({"cost": {"total_cost": 0.006, "currency": "USD"}}, 6_000_000),
        ({"cost": 0.5}, 0),
    ],
)
async def test_the_cost_that_a_response_states_is_read(
    stated: dict[str, Any], billionths: int, server: Scripted, open_port: Keep
) -> None:
    body = response(message("Paris."))
    server.says({**body, "usage": {**body["usage"], **stated}})

    reply = await open_port(LangchainLLM(responses_model(server))).invoke(ASK)

    assert reply.usage == replace(USAGE, stated_cost=billionths)


@pytest.mark.parametrize(
    "parameters", [{"background": True}, {"extra_body": {"background": True}}, {"model_kwargs": {"background": True}}]
)
def test_a_reply_in_the_background_is_refused_before_the_run(parameters: dict[str, Any], server: Scripted) -> None:
    with pytest.raises(AdapterConfigError, match=r"background is not supported.*raise request_timeout"):
        LangchainLLM(responses_model(server, parameters={"use_responses_api": True, **parameters}))


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_an_unfinished_response_is_an_error_with_a_cure(status: str, server: Scripted, open_port: Keep) -> None:
    server.says(response(status=status, usage=None))

    with pytest.raises(PortError, match=rf"answers in the background \(status '{status}'\)") as raised:
        await open_port(LangchainLLM(responses_model(server))).invoke(ASK)

    assert raised.value.category is ErrorCategory.PERMANENT


async def test_a_failed_response_is_retried_and_its_tokens_are_counted(server: Scripted, open_port: Keep) -> None:
    error = {"code": "server_error", "message": "The model had an error."}
    server.says(response(message("Par"), status="failed", error=error))

    with pytest.raises(PortError, match="The model had an error") as raised:
        await open_port(LangchainLLM(responses_model(server))).invoke(ASK)

    assert (raised.value.category, raised.value.usage) == (ErrorCategory.SERVER, USAGE)


async def test_a_cancelled_response_is_no_answer(server: Scripted, open_port: Keep) -> None:
    server.says(response(message("Par"), status="cancelled"))
    port = open_port(LangchainLLM(responses_model(server)))

    with pytest.raises(PortError) as raised:
        await receive("the server", "llm", lambda: port.invoke(ASK))

    assert (raised.value.category, raised.value.usage) == (ErrorCategory.SERVER, USAGE)
