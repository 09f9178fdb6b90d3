"""Answers from a server of the Messages API: the anthropic SDK over real HTTP on loopback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from claude_servers import error, model, reply, thought

from karenina_claude_tool import plugin
from karenina_claude_tool.conversion import from_wire, to_wire
from karenina_claude_tool.ports import ClaudeLLM
from karenina_core.models.ports import LLMReply, Message, PortError, ToolCall, Usage
from karenina_testing.server import Reply, ScriptedServer

pytestmark = [pytest.mark.alone, pytest.mark.anyio]
Keep = Callable[[Any], Any]
ASK = [Message.system("Be brief."), Message.user("What is the capital of France?")]
SAID = [{"role": "user", "content": [{"type": "text", "text": "What is the capital of France?"}]}]


async def test_a_question_is_answered_with_usage_and_model(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("Paris."))
    found = await open_port(ClaudeLLM(model(server.url))).invoke(ASK)
    assert found == LLMReply("Paris.", Usage(7, 3, calls=1), "stop", "served-model")
    assert [(request.method, request.path) for request in server.requests] == [("POST", "/v1/messages")]


async def test_the_request_holds_the_model_its_parameters_and_the_extras(
    server: ScriptedServer, open_port: Keep
) -> None:
    server.says(reply("Paris."))
    limits, more = {"max_tokens": 9, "temperature": 0.5}, {"thinking": {"type": "adaptive"}}
    extra = {"body": more, "headers": {"X-Team": "blue"}}
    await open_port(ClaudeLLM(model(server.url, endpoint_api_key="sk-1234", extra=extra, **limits))).invoke(ASK)
    assert server.bodies == [{"model": "served", **limits, **more, "system": "Be brief.", "messages": SAID}]
    assert server.requests[0].headers["authorization"] == "Bearer sk-1234"
    assert server.requests[0].headers["x-team"] == "blue"


async def test_a_limit_of_tokens_is_always_sent(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("Paris."))
    await open_port(ClaudeLLM(model(server.url))).invoke(ASK)
    assert server.bodies[0]["max_tokens"] == 8192
    assert "temperature" not in server.bodies[0]


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
async def test_the_base_url_may_end_with_the_version(base: str, server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("Paris."))
    await open_port(ClaudeLLM(model(server.url + base))).invoke(ASK)
    assert server.requests[0].path == "/v1/messages"


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("something_new", "other"),
        (None, "other"),
    ],
)
def test_the_finish_reason_is_in_karenina_terms(stop: Any, finish: str) -> None:
    assert from_wire(reply("x", stop=stop)).finish_reason == finish


async def test_thoughts_are_not_part_of_the_answer(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply(thought("France, so Paris."), {"type": "redacted_thinking", "data": "xx"}, "Par", "is."))
    found = await open_port(ClaudeLLM(model(server.url))).invoke(ASK)
    assert found.text == "Paris."
    assert found.reasoning.startswith("France, so Paris.")


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        (None, Usage(calls=1)),
        ({"input_tokens": 7, "output_tokens": 3}, Usage(7, 3, calls=1)),
        (
            {"input_tokens": 7, "output_tokens": 30, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
            | {"output_tokens_details": {"thinking_tokens": 25}},
            Usage(127, 30, 100, 25, calls=1, cache_write_tokens=20),
        ),
        ({"input_tokens": None, "output_tokens": "3"}, Usage(0, 3, calls=1)),
        (
            {"input_tokens": 23, "output_tokens": 10}
            | {
                "iterations": [
                    {"type": "compaction", "input_tokens": 180, "output_tokens": 35, "cache_read_input_tokens": 20},
                    {"type": "message", "input_tokens": 23, "output_tokens": 10},
                ]
            },
            Usage(223, 45, 20, calls=2),
        ),
        (
            {"input_tokens": 23, "output_tokens": 10}
            | {"iterations": [{"type": "advisor_message", "model": "m", "input_tokens": 90, "output_tokens": 40}]},
            Usage(113, 50, calls=2, unpriced_calls=1),
        ),
        ({"input_tokens": 7, "output_tokens": 3, "iterations": None}, Usage(7, 3, calls=1)),
    ],
)
def test_tokens_are_counted_as_ours(counted: Any, usage: Usage) -> None:
    assert from_wire(reply("x", usage=counted)).usage == usage


async def test_a_paused_reply_goes_on_without_tools(server: ScriptedServer, open_port: Keep) -> None:
    searched = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "capital"}}
    first, second = [thought("France."), searched, "It is "], [thought("So Paris."), "Paris."]
    server.says(reply(*first, stop="pause_turn"), reply(*second))
    found = await open_port(ClaudeLLM(model(server.url))).invoke(ASK)
    assert (found.text, found.finish_reason, found.usage) == ("It is Paris.", "stop", Usage(14, 6, calls=2))
    assert found.reasoning is not None
    assert [word for word in ("France.", "web_search", "So Paris.") if word not in found.reasoning] == []
    assert server.bodies[1]["messages"] == [*SAID, {"role": "assistant", "content": reply(*first)["content"]}]


async def test_a_reply_that_is_always_paused_is_cut_off(server: ScriptedServer, open_port: Keep) -> None:
    server.says(*[reply(f"{number} ", stop="pause_turn") for number in range(9)])
    found = await open_port(ClaudeLLM(model(server.url))).invoke(ASK)
    assert (found.text, found.finish_reason, found.usage) == ("0 1 2 3 4 ", "length", Usage(35, 15, calls=5))
    assert len(server.requests) == 5


async def test_a_pause_before_a_failure_is_paid_for(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("It is ", stop="pause_turn"), Reply(error("overloaded_error", "Overloaded"), 529))
    with pytest.raises(PortError, match="Overloaded") as caught:
        await open_port(ClaudeLLM(model(server.url))).invoke(ASK)
    assert caught.value.usage == Usage(7, 3, calls=1)


def test_a_conversation_is_written_as_the_api_wants_it() -> None:
    first, second = ToolCall("a", "look", {"at": 1}), ToolCall("b", "look")
    conversation = [
        Message.system("One."),
        Message.user("Look."),
        Message.assistant("I do.", [first, second], reasoning="Hm."),
        Message.tool("seen", first),
        Message.tool("failed", second, is_error=True),
        Message.user("And now?"),
        Message.assistant(""),
        Message.system("Two."),
    ]
    assert to_wire(conversation) == (
        "One.\n\nTwo.",
        [
            {"role": "user", "content": [{"type": "text", "text": "Look."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I do."},
                    {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}},
                    {"type": "tool_use", "id": "b", "name": "look", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "seen"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "failed", "is_error": True},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ],
    )


def test_a_message_comes_back_as_it_was_sent() -> None:
    sent = Message.assistant("I do.", [ToolCall("a", "look", {"at": [1, None]}), ToolCall("b", "look")])
    _, wire = to_wire([sent])
    found = from_wire(reply(*wire[0]["content"]))
    assert found.message == sent


def test_server_side_tools_are_shown_as_thoughts() -> None:
    searched = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "BRCA1"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "x", "title": "17q21"}]}
    found = from_wire(reply("I look.", searched, result, "It is 17q21."))
    assert (found.message.content, found.message.tool_calls) == ("I look.\nIt is 17q21.", ())
    assert found.message.reasoning is not None
    assert [word for word in ("[server_tool_use]", "BRCA1", "17q21") if word not in found.message.reasoning] == []
    assert found.wire == reply("I look.", searched, result, "It is 17q21.")["content"]


@pytest.mark.parametrize(
    ("caching", "mark"), [("5m", {"type": "ephemeral", "ttl": "5m"}), ("1h", {"type": "ephemeral", "ttl": "1h"})]
)
async def test_prompt_caching_marks_the_constant_beginning(
    caching: str, mark: dict[str, str], server: ScriptedServer, open_port: Keep
) -> None:
    server.says(reply("Paris."))
    await open_port(ClaudeLLM(model(server.url, extra={"prompt_caching": caching}))).invoke(ASK)
    assert server.bodies[0]["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert server.bodies[0]["messages"] == SAID


@pytest.mark.parametrize(
    ("environment", "url", "sent"),
    [
        ({"ANTHROPIC_API_KEY": "env-key"}, None, "Bearer env-key"),
        ({"ANTHROPIC_AUTH_TOKEN": "env-token"}, None, "Bearer env-token"),
        ({}, None, None),
        ({"ANTHROPIC_API_KEY": "env-key", "ANTHROPIC_BASE_URL": "http://elsewhere.test"}, "loopback", "Bearer env-key"),
    ],
)
async def test_the_environments_key_goes_where_the_environment_points(
    environment: dict[str, str],
    url: str | None,
    sent: str | None,
    server: ScriptedServer,
    open_port: Keep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.says(reply("Paris."))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    await open_port(ClaudeLLM(model(server.url if url else None))).invoke(ASK)
    headers = server.requests[0].headers
    assert (headers.get("authorization"), headers.get("x-api-key")) == (sent, None)


async def test_environment_secrets_do_not_go_to_configured_servers(
    server: ScriptedServer, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says(reply("Paris."))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "env-key")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "env-token")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Env-Secret: env-header\nX-Other: env-other")
    monkeypatch.setenv("HTTP_PROXY", server.url)  # the stranger's server is reached, whatever its name is
    monkeypatch.setenv("http_proxy", server.url)
    extra = {"headers": {"x-other": "mine"}}
    await open_port(ClaudeLLM(model("http://stranger.test", extra=extra))).invoke(ASK)
    assert server.requests[0].path == "http://stranger.test/v1/messages"
    assert "env-" not in server.requests[0].whole
    assert server.requests[0].headers["x-other"] == "mine"


async def test_this_machine_is_reached_without_the_environments_proxy(
    server: ScriptedServer, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says(reply("Paris."))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    await open_port(ClaudeLLM(model(server.url))).invoke(ASK)
    assert server.requests[0].path == "/v1/messages"


async def test_halves_of_characters_are_replaced(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("Paris."))
    await open_port(ClaudeLLM(model(server.url))).invoke(
        [Message.system("\ud800"), Message.user("broken \ud800 emoji")]
    )
    assert server.bodies[0]["system"] == "\ufffd"
    assert server.bodies[0]["messages"][0]["content"] == [{"type": "text", "text": "broken \ufffd emoji"}]


async def test_headers_of_the_environment_are_sent_where_it_points(
    server: ScriptedServer, open_port: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says(reply("Paris."))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Gateway: env-header")
    await open_port(ClaudeLLM(model(None))).invoke(ASK)
    assert server.requests[0].headers["x-gateway"] == "env-header"


async def test_a_header_of_ones_own_can_be_the_key(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("Paris."))
    extra = {"headers": {"authorization": "Basic own"}}
    await open_port(ClaudeLLM(model(server.url, endpoint_api_key="sk-1", extra=extra))).invoke(ASK)
    assert server.requests[0].headers["authorization"] == "Basic own"


async def test_a_closed_port_says_so(server: ScriptedServer) -> None:
    server.says(reply("Paris."))
    port = ClaudeLLM(model(server.url))
    await port.invoke(ASK)
    await port.aclose()
    with pytest.raises(PortError, match="is closed"):
        await port.invoke(ASK)


def test_the_interface_has_all_ports_and_is_a_tool_loop() -> None:
    [spec] = plugin.karenina_adapters()
    assert (spec.interface, spec.tier, spec.ports) == ("claude_tool", "tool_loop", ("llm", "parser", "agent"))
    assert spec.unavailable is not None
    assert spec.unavailable() is None
