"""Answers through chat models of LangChain, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from langchain_servers import Scripted, claude, claude_model, completion, model

from karenina_core.models.ports import ErrorCategory, LLMReply, Message, PortError, ToolCall, Usage
from karenina_langchain.conversion import from_langchain, to_langchain
from karenina_langchain.ports import LangchainLLM
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS

pytestmark = pytest.mark.anyio
Keep = Callable[[Any], Any]
ASK = [Message.system("Be brief."), Message.user("What is the capital of France?")]
USAGE = Usage(7, 3, 5, 2, 1)


@pytest.mark.parametrize(
    ("interface", "fields"), [("openai_endpoint", {}), ("langchain", {"model_provider": "openai"})]
)
async def test_the_request_holds_the_model_its_parameters_and_the_extras(
    server: Scripted, open_port: Keep, interface: str, fields: dict[str, Any]
) -> None:
    server.says(completion())
    extra = {"headers": {"X-Team": "blue-team"}, "parameters": {"seed": 1}}
    configured = model(
        server.url, interface, endpoint_api_key="sk-1234", temperature=0.5, max_tokens=9, extra=extra, **fields
    )
    reply = await open_port(LangchainLLM(configured)).invoke(ASK)
    assert reply == LLMReply("Paris.", USAGE, "stop", "served-model")
    body = server.bodies[0]
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    assert (body["model"], body["temperature"], limit, body["seed"]) == ("served", 0.5, 9, 1)
    assert server.paths == ["/v1/chat/completions"]
    assert (server.headers[0]["authorization"], server.headers[0]["x-team"]) == ("Bearer sk-1234", "blue-team")


async def test_without_a_key_no_authorization_is_sent(server: Scripted, open_port: Keep) -> None:
    server.says(completion())
    await open_port(LangchainLLM(model(server.url))).invoke(ASK)
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (completion(None, refusal="I can't."), LLMReply("I can't.", USAGE, "content_filter", "served-model")),
        (completion("Par", "length"), LLMReply("Par", USAGE, "length", "served-model")),
        (completion("", "content_filter"), LLMReply("", USAGE, "content_filter", "served-model")),
        (completion("x", "eos"), LLMReply("x", USAGE, "stop", "served-model")),
        (completion("x", "bored"), LLMReply("x", USAGE, "other", "served-model", server_reason="bored")),
        ({**completion("x"), "usage": None}, LLMReply("x", Usage(calls=1), "stop", "served-model")),
    ],
)
async def test_replies_are_read(body: dict[str, Any], expected: LLMReply, server: Scripted, open_port: Keep) -> None:
    server.says(body)
    assert await open_port(LangchainLLM(model(server.url))).invoke(ASK) == expected


async def test_claude_answers_with_its_thoughts_apart(server: Scripted, open_port: Keep) -> None:
    server.says(
        claude({"type": "thinking", "thinking": "Well ...", "signature": "s"}, {"type": "text", "text": "Paris."})
    )
    reply = await open_port(LangchainLLM(claude_model(server))).invoke(ASK)
    assert reply == LLMReply("Paris.", Usage(7, 3, 5, 0, 1), "stop", "claude-served", "Well ...")
    sent = server.headers[0]
    assert (server.paths, sent.get("x-api-key") or sent.get("authorization")) == (["/v1/messages"], "Bearer sk-ant-1")
    assert server.bodies[0]["system"] == "Be brief."


async def test_text_around_another_block_is_on_lines_of_its_own(server: Scripted, open_port: Keep) -> None:
    from langchain_core.messages import AIMessage

    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "capital"}}
    texts = [{"type": "text", "text": text} for text in ("I search.", "Par", "is.")]
    server.says(claude(texts[0], search, *texts[1:]))

    assert (await open_port(LangchainLLM(claude_model(server))).invoke(ASK)).text == "I search.\nParis."
    cited = AIMessage([texts[1], {"type": "reference", "reference_ids": [1]}, texts[2]])  # Mistral
    assert from_langchain(cited).message.content == "Paris."


@pytest.mark.parametrize("kind", ["openai_endpoint", "claude"])
async def test_a_closed_port_says_so_and_closes_once_more_quietly(server: Scripted, kind: str) -> None:
    server.says(completion() if kind == "openai_endpoint" else claude({"type": "text", "text": "Paris."}))
    port = LangchainLLM(model(server.url) if kind == "openai_endpoint" else claude_model(server))
    other = LangchainLLM(model(server.url) if kind == "openai_endpoint" else claude_model(server))
    assert (await port.invoke(ASK)).text == "Paris."
    await port.aclose()
    await port.aclose()
    with pytest.raises(PortError, match="this client is closed") as caught:
        await port.invoke(ASK)
    assert caught.value.category is ErrorCategory.PERMANENT
    assert (await other.invoke(ASK)).text == "Paris."
    await other.aclose()


@pytest.mark.parametrize("kind", ["openai_endpoint", "claude"])
def test_ports_of_several_event_loops_do_not_meet(server: Scripted, kind: str) -> None:
    server.says(completion() if kind == "openai_endpoint" else claude({"type": "text", "text": "Paris."}))

    async def once() -> str:
        port = LangchainLLM(model(server.url) if kind == "openai_endpoint" else claude_model(server))
        text = (await port.invoke(ASK)).text
        await port.aclose()
        return text

    assert [asyncio.run(once()) for _ in range(3)] == ["Paris."] * 3


CALL = ToolCall("call_1", "lookup", {"gene": "BRCA1"})
CUT = ToolCall("call_2", "lookup", {UNREADABLE_ARGUMENTS: '{"gene": '})


@pytest.mark.parametrize("call", [CALL, CUT])
def test_an_assistants_calls_survive_the_way_there_and_back(call: ToolCall) -> None:
    from langchain_core.messages import AIMessage

    said = Message.assistant("Let me see.", [call])
    (sent,) = to_langchain([said])
    assert isinstance(sent, AIMessage)
    assert from_langchain(sent).message == said


def test_a_stream_that_ollama_did_not_end_is_incomplete() -> None:
    from langchain_core.messages import AIMessage

    whole = [AIMessage("Paris.", response_metadata=end) for end in ({"done": True}, {"done_reason": "stop"})]
    assert [from_langchain(reply, ends_with_reason=True).message.content for reply in whole] == ["Paris."] * 2
    with pytest.raises(ValueError, match="ended before the reply was complete"):
        from_langchain(AIMessage("Par"), ends_with_reason=True)
    assert from_langchain(AIMessage("Par")).finish_reason == "other"


@pytest.mark.parametrize(
    ("metadata", "finish"),
    [
        ({"prompt_feedback": {"block_reason": "SAFETY"}}, "content_filter"),
        ({"prompt_feedback": {"block_reason": 0}, "finish_reason": "STOP"}, "stop"),
        ({"prompt_feedback": {"block_reason": None}}, "other"),
    ],
)
def test_a_prompt_that_google_blocked_is_filtered(metadata: dict[str, Any], finish: str) -> None:
    from langchain_core.messages import AIMessage

    assert from_langchain(AIMessage("", response_metadata=metadata)).finish_reason == finish


@pytest.mark.parametrize(("given", "after"), [(None, "false"), ("true", "true")])
async def test_nothing_is_traced_unless_the_user_says_so(
    given: str | None, after: str, server: Scripted, monkeypatch: pytest.MonkeyPatch, open_port: Keep
) -> None:
    if given is not None:
        monkeypatch.setenv("LANGSMITH_TRACING", given)
    else:
        monkeypatch.setenv("LANGSMITH_TRACING", "")
        monkeypatch.delenv("LANGSMITH_TRACING")
    open_port(LangchainLLM(model(server.url)))
    assert os.environ["LANGSMITH_TRACING"] == after


def test_naming_the_adapters_imports_no_sdk() -> None:
    heavy = "('langchain_core', 'langchain', 'langchain_openai', 'openai', 'anthropic', 'aiohttp', 'httpx', 'ssl')"
    code = (
        "import sys, karenina_langchain as k\n"
        "for spec in k.plugin.karenina_adapters(): spec.unavailable()\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
