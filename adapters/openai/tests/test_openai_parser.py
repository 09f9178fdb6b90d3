"""JSON from an OpenAI-compatible server: the request, and how the best mode is learned."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from json_modes import ASK, CITY, LEARNED, SCHEMA, assert_schema_sent, mode_of, supporting
from json_modes import patient as patient
from openai_servers import Scripted, completion, model

from karenina_core.models.ports import Message, ParserReply, PortError, Usage
from karenina_openai.parser import OpenAIParser
from karenina_testing.server import Reply
from karenina_toolkit.structured import call_structured
from karenina_toolkit.structured.schema_forms import schema_name, strict_schema

pytestmark = [pytest.mark.alone, pytest.mark.anyio]
Keep = Callable[[Any], Any]


def server_with(*supported: str, status: int = 400) -> Callable[[dict[str, Any]], Reply]:
    """Return a server that supports only some modes."""
    call = {"id": "c", "type": "function", "function": {"name": "x", "arguments": CITY}}
    return supporting(supported, completion(None, tool_calls=[call]), completion(CITY), status)


@pytest.mark.parametrize("status", [400, 404, 422])
@pytest.mark.parametrize(("supported", "asked"), LEARNED)
async def test_the_best_mode_is_found_once(
    supported: tuple[str, ...], asked: list[str], status: int, server: Scripted, open_port: Keep
) -> None:
    server.answer = server_with(*supported, status=status)
    port = open_port(OpenAIParser(model(server.url)))
    replies = [await port.parse(ASK, SCHEMA) for _ in range(2)]
    assert [mode_of(body) for body in server.bodies] == asked
    expected = ParserReply('{"city": "Paris"}', supported[0], Usage(7, 3, calls=1), "stop", "served-model")  # type: ignore[arg-type]
    assert replies == [expected] * 2


@pytest.mark.usefixtures("patient")
async def test_concurrent_calls_share_what_is_learned(server: Scripted, open_port: Keep) -> None:
    server.answer = server_with("prompt")
    port = open_port(OpenAIParser(model(server.url)))
    replies = await asyncio.gather(*[port.parse(ASK, SCHEMA) for _ in range(64)])
    assert {(reply.text, reply.mode) for reply in replies} == {('{"city": "Paris"}', "prompt")}
    assert Counter(map(mode_of, server.bodies)) == {"json_schema": 1, "tool": 1, "prompt": 64}


@pytest.mark.usefixtures("patient")
async def test_two_judges_of_one_model_share_what_is_learned(server: Scripted, open_port: Keep) -> None:
    server.answer = server_with("prompt")
    ports = [open_port(OpenAIParser(model(server.url, temperature=t))) for t in (0.0, 1.0)]
    await asyncio.gather(*[port.parse(ASK, SCHEMA) for port in ports * 8])
    assert Counter(map(mode_of, server.bodies)) == {"json_schema": 1, "tool": 1, "prompt": 16}


@pytest.mark.parametrize("mode", ["json_schema", "tool", "prompt"])
async def test_a_mode_can_be_chosen(mode: str, server: Scripted, open_port: Keep) -> None:
    server.answer = server_with("json_schema", "tool", "prompt")
    reply = await open_port(OpenAIParser(model(server.url, extra={"structured": mode}))).parse(ASK, SCHEMA)
    assert (reply.mode, [mode_of(body) for body in server.bodies]) == (mode, [mode])


async def test_a_chosen_mode_that_the_server_lacks_is_an_error(server: Scripted, open_port: Keep) -> None:
    server.answer = server_with("prompt")
    with pytest.raises(PortError, match="tool use is not supported"):
        await open_port(OpenAIParser(model(server.url, extra={"structured": "tool"}))).parse(ASK, SCHEMA)


@pytest.mark.parametrize(
    ("status", "message"), [(400, "the prompt is too long"), (500, "response_format"), (401, "schema")]
)
async def test_other_errors_do_not_change_the_mode(
    status: int, message: str, server: Scripted, open_port: Keep
) -> None:
    server.says(status, {"error": {"message": message}})
    with pytest.raises(PortError):
        await open_port(OpenAIParser(model(server.url))).parse(ASK, SCHEMA)
    assert len(server.bodies) == 1


async def test_a_request_that_fails_in_all_modes_teaches_nothing(server: Scripted, open_port: Keep) -> None:
    port = open_port(OpenAIParser(model(server.url)))
    server.answer = lambda _: Reply({"error": {"message": "bad schema, bad tool"}}, status=400)
    with pytest.raises(PortError):
        await port.parse(ASK, SCHEMA)
    server.answer = server_with("json_schema", "tool", "prompt")
    assert (await port.parse(ASK, SCHEMA)).mode == "json_schema"


async def test_the_three_requests_carry_the_schema(server: Scripted, open_port: Keep) -> None:
    server.answer = server_with("prompt")
    await open_port(OpenAIParser(model(server.url))).parse(ASK, SCHEMA)
    prompt = assert_schema_sent(server.bodies)
    assert json.dumps(SCHEMA) in prompt["messages"][0]["content"]
    assert prompt["messages"][1] == {"role": "user", "content": "Paris."}


async def test_probabilities_of_options_are_requested_if_configured(server: Scripted, open_port: Keep) -> None:
    options = {**SCHEMA, "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}}
    likeliest = [{"token": "Paris", "logprob": -0.1}, {"token": "R", "logprob": -2.5}]
    tokens = [{"token": '{"city": "', "top_logprobs": []}, {"token": "Paris", "top_logprobs": likeliest}]
    said = completion('{"city": "Paris"}')
    said["choices"][0]["logprobs"] = {"content": tokens}
    server.says(body=said)
    port = open_port(OpenAIParser(model(server.url, extra={"option_logprobs": True})))

    found = [await port.parse(ASK, schema) for schema in (options, SCHEMA)]
    plain = await open_port(OpenAIParser(model(server.url))).parse(ASK, options)

    assert [reply.option_logprobs for reply in (*found, plain)] == [{"Paris": -0.1, "Rome": -2.5}, None, None]
    assert ["top_logprobs" in body for body in server.bodies] == [True, False, False]


async def test_two_tool_calls_or_none_are_returned_unchanged(server: Scripted, open_port: Keep) -> None:
    port = open_port(OpenAIParser(model(server.url, extra={"structured": "tool"})))
    call = {"id": "c", "type": "function", "function": {"name": "x", "arguments": '{"city": '}}
    server.says(body=completion(None, tool_calls=[call, call]))
    assert (await port.parse(ASK, SCHEMA)).text == '{"city": \n{"city": '
    server.says(body=completion("It is Paris."))
    assert (await port.parse(ASK, SCHEMA)).text == "It is Paris."


async def test_large_integers_in_arguments_as_an_object_stay_exact(server: Scripted, open_port: Keep) -> None:
    large = 2**64 + 1
    port = open_port(OpenAIParser(model(server.url, extra={"structured": "tool"})))
    call = {"id": "c", "type": "function", "function": {"name": "x", "arguments": {"city": large, "list": [-large]}}}
    server.says(body=completion(None, tool_calls=[call]))
    assert json.loads((await port.parse(ASK, SCHEMA)).text) == {"city": large, "list": [-large]}


async def test_a_judge_on_a_real_server_fills_the_schema(fake_openai: Callable[..., str], open_port: Keep) -> None:
    port = open_port(OpenAIParser(model(fake_openai())))
    found = await call_structured(port, [Message.user("The code word of item #3 is QX23770Z.")], SCHEMA, dict)
    assert (found.value, found.mode, found.tries) == ({"city": "QX23770Z"}, "json_schema", 1)


async def test_json_that_a_server_cut_short_is_never_a_value(fake_openai: Callable[..., str], open_port: Keep) -> None:
    from karenina_core.errors import StructuredError

    port = open_port(OpenAIParser(model(fake_openai("--fault", "malformed:1"))))
    with pytest.raises(StructuredError, match="to 2 requests"):
        await call_structured(port, [Message.user("item #3")], SCHEMA, dict)


STRING = {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": STRING}},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": True},
        {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]},
        {"type": "array", "items": {"type": "object", "properties": {"a": STRING}}},
    ],
)
def test_a_schema_that_cannot_be_strict_is_sent_unchanged(schema: dict[str, Any]) -> None:
    assert strict_schema(schema, official=True) == (schema, False)


def test_a_strict_schema_is_put_into_openais_form() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 5, "default": "x"},
            "b": {"$ref": "#/$defs/B", "description": "the b"},
            "c": {"oneOf": [STRING, {"type": "null"}]},
            "default": STRING,
        },
        "required": ["a", "b", "c", "default"],
        "$defs": {"B": {"enum": ["x"]}},
    }
    assert strict_schema(schema, official=True) == (
        {
            "type": "object",
            "properties": {
                "a": STRING,
                "b": {"anyOf": [{"$ref": "#/$defs/B"}], "description": "the b"},
                "c": {"anyOf": [STRING, {"type": "null"}]},
                "default": STRING,
            },
            "required": ["a", "b", "c", "default"],
            "$defs": {"B": {"enum": ["x"]}},
            "additionalProperties": False,
        },
        True,
    )


@pytest.mark.parametrize(("title", "name"), [(None, "answer"), ("Ünï", "n"), ("x" * 99, "x" * 64), ("A b", "A_b")])
def test_a_schema_has_a_name_that_servers_accept(title: str | None, name: str) -> None:
    assert schema_name({"title": title}) == name


def test_naming_the_adapter_imports_no_http_client() -> None:
    code = "import sys, karenina_openai; print([m for m in ('pyreqwest', 'orjson', 'ssl') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
