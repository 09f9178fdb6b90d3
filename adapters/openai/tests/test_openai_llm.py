"""Answers from an OpenAI-compatible server, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from openai_servers import Scripted, completion, model

from karenina_core import ModelConfig
from karenina_core.models.ports import ErrorCategory, LLMReply, Message, PortError, ToolCall, Usage
from karenina_openai.client import to_wire
from karenina_openai.parser import OpenAILLM
from karenina_toolkit.traces.formats.openai_chat import from_wire

if TYPE_CHECKING:
    from collections.abc import Callable
from karenina_testing.server import Reply

pytestmark = pytest.mark.anyio
ASK = [Message.system("Be brief."), Message.user("What is the capital of France?")]


async def test_a_question_is_answered_with_usage_and_model(
    fake_openai: Callable[..., str], open_port: Callable[[Any], Any]
) -> None:
    port = open_port(OpenAILLM(model(fake_openai())))
    reply = await port.invoke([Message.user("What is the code word of item #17?")])
    assert "QX134636Z" in reply.text
    assert (reply.finish_reason, reply.model, reply.usage.calls) == ("stop", "served", 1)
    assert reply.usage.input_tokens > 0


async def test_sixty_four_questions_are_under_way_at_once(server: Scripted, open_port: Callable[[Any], Any]) -> None:
    all_there = asyncio.Barrier(64)

    async def repeat(body: dict[str, Any]) -> Reply:
        await all_there.wait()
        return Reply(completion(body["messages"][0]["content"]))

    server.answer = repeat
    port = open_port(OpenAILLM(model(server.url, request_timeout=120)))
    questions = [f"What is the code word of item #{n}?" for n in range(64)]
    replies = await asyncio.gather(*(port.invoke([Message.user(question)]) for question in questions))
    assert [reply.text for reply in replies] == questions


async def test_the_request_holds_the_model_its_parameters_and_the_extras(
    server: Scripted, open_port: Callable[[Any], Any]
) -> None:
    server.says(body=completion())
    extra = {"body": {"seed": 1}, "headers": {"X-Team": "blue-team"}, "query": {"api-version": "2026"}}
    configured = model(server.url, endpoint_api_key="sk-1234", temperature=0.5, max_tokens=9, extra=extra)
    await open_port(OpenAILLM(configured)).invoke(ASK)
    assert server.bodies == [
        {
            "model": "served",
            "temperature": 0.5,
            "max_tokens": 9,
            "seed": 1,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "What is the capital of France?"},
            ],
        }
    ]
    request = server.requests[0]
    assert request.path == "/v1/chat/completions?api-version=2026"
    assert (request.headers["authorization"], request.headers["x-team"]) == ("Bearer sk-1234", "blue-team")


async def test_without_a_key_no_authorization_is_sent(server: Scripted, open_port: Callable[[Any], Any]) -> None:
    server.says(body=completion())
    await open_port(OpenAILLM(model(server.url))).invoke(ASK)
    assert "authorization" not in server.requests[0].headers


async def test_the_environment_names_server_and_key(
    server: Scripted, open_port: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says(body=completion())
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert (await open_port(OpenAILLM(model(None))).invoke(ASK)).text == "Paris."
    assert server.requests[0].headers["authorization"] == "Bearer sk-env"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (completion(), LLMReply("Paris.", Usage(7, 3, calls=1), "stop", "served-model")),
        (
            completion(None, refusal="I can't."),
            LLMReply("I can't.", Usage(7, 3, calls=1), "content_filter", "served-model"),
        ),
        (
            completion(reasoning_content="Well ..."),
            LLMReply("Paris.", Usage(7, 3, calls=1), "stop", "served-model", "Well ..."),
        ),
        (
            {"choices": [{"message": {"content": [{"type": "text", "text": "Par"}]}, "finish_reason": "length"}]},
            LLMReply("Par", Usage(calls=1), "length"),
        ),
        (
            {
                "choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}],
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 8,
                    "prompt_tokens_details": {"cached_tokens": 5},
                    "completion_tokens_details": {"reasoning_tokens": 4},
                },
            },
            LLMReply("", Usage(9, 8, 5, 4, 1), "content_filter"),
        ),
        (
            {"choices": [{"message": {"content": "x"}, "finish_reason": "eos"}], "usage": None},
            LLMReply("x", Usage(calls=1), "stop"),
        ),
        (
            {"choices": [{"message": {"content": "x"}, "finish_reason": "bored"}], "usage": None},
            LLMReply("x", Usage(calls=1), "other", server_reason="bored"),
        ),
    ],
)
async def test_replies_are_read(
    body: dict[str, Any], expected: LLMReply, server: Scripted, open_port: Callable[[Any], Any]
) -> None:
    server.says(body=body)
    assert await open_port(OpenAILLM(model(server.url))).invoke(ASK) == expected


async def test_the_other_name_of_max_tokens_is_learned(server: Scripted, open_port: Callable[[Any], Any]) -> None:

    def answer(body: dict[str, Any]) -> Reply:
        if "max_tokens" in body:
            return Reply({"error": {"message": "Use 'max_completion_tokens' instead."}}, status=400)
        return Reply(completion())

    server.answer = answer
    port = open_port(OpenAILLM(model(server.url, max_tokens=5)))
    await port.invoke(ASK)
    await port.invoke(ASK)
    limits = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.bodies]
    assert limits == [(5, None), (None, 5), (None, 5)]


async def test_a_prompt_with_half_a_character_is_sent(server: Scripted, open_port: Callable[[Any], Any]) -> None:
    server.says(body=completion())
    await open_port(OpenAILLM(model(server.url))).invoke([Message.user("broken \ud800 emoji")])
    assert server.bodies[0]["messages"][0]["content"] == "broken \ud800 emoji"


async def test_a_closed_port_says_so_and_closes_once_more_quietly(server: Scripted) -> None:
    server.says(body=completion())
    port = OpenAILLM(model(server.url))
    await port.invoke(ASK)
    await port.aclose()
    await port.aclose()
    with pytest.raises(PortError, match="this client is closed") as caught:
        await port.invoke(ASK)
    assert caught.value.category is ErrorCategory.PERMANENT


CALL = ToolCall("call_1", "lookup", {"gene": "BRCA1", "n": 12345678901234567890123})
CONVERSATION = [
    Message.system("s"),
    Message.user("u"),
    Message.assistant("", [CALL]),
    Message.tool("17q21", CALL),
    Message.assistant("It is 17q21."),
]


def test_a_conversation_with_tools_survives_the_way_there_and_back() -> None:
    from karenina_toolkit.traces.formats.openai_chat import read_message

    assert [read_message(wire, {"call_1": "lookup"}) for wire in to_wire(CONVERSATION)] == CONVERSATION


def test_arguments_that_are_not_json_are_sent_back_unchanged() -> None:
    wire = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}],
    }
    reply = from_wire({"choices": [{"message": wire, "finish_reason": "tool_calls"}]})
    assert reply.finish_reason == "tool_calls"
    assert to_wire([reply.message]) == [wire]


@pytest.mark.parametrize(
    ("base_url", "own_url", "sent"),
    [
        (None, None, True),
        ("https://api.openai.com/v1", None, True),
        ("http://127.0.0.1:8000/v1", None, True),
        ("https://gateway.example/v1", "https://gateway.example/v1", True),
        ("https://elsewhere.example/v1", None, False),
        ("https://elsewhere.example/v1", "https://gateway.example/v1", False),
        ("http://api.openai.com/v1", None, False),
    ],
)
def test_the_environment_key_goes_only_to_the_environments_server(
    monkeypatch: pytest.MonkeyPatch, base_url: str | None, own_url: str | None, sent: bool
) -> None:
    from karenina_openai.settings import find_api_key

    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    if own_url is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", own_url)
    model = ModelConfig(id="m", interface="openai", model_name="m", endpoint_base_url=base_url)
    assert (find_api_key(model) == "sk-env") is sent
