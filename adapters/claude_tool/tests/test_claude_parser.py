"""JSON from a server of the Messages API: the request, and what refusals teach."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from claude_servers import call, error, model, reply

from karenina_claude_tool.ports import ClaudeParser, can_be_native, native_schema
from karenina_core.models.ports import Message, ParserReply, PortError, Usage
from karenina_testing.server import Reply, Request, ScriptedServer

pytestmark = pytest.mark.anyio
Keep = Callable[[Any], Any]
ASK = [Message.system("Fill the form."), Message.user("It is BCL2.")]
SCHEMA = {
    "title": "Gene form",
    "type": "object",
    "properties": {"gene": {"type": "string", "description": "The symbol."}},
    "required": ["gene"],
    "additionalProperties": False,
}
OTHER = {**SCHEMA, "title": "Other form"}
OPEN = {"type": "object", "additionalProperties": {"type": "number"}}
FILLED = '{"gene": "BCL2"}'
NOT_KNOWN = Reply(error("invalid_request_error", "output_config: Extra inputs are not permitted"), 400)


def mode_of(body: Any) -> str:
    """Return the mode of a request."""
    if "output_config" in body:
        return "json_schema"
    return "tool" if "tools" in body else "prompt"


def refusing(*refusals: tuple[str, Reply]) -> Callable[[Request], Reply]:
    """Return a server that refuses some modes and schemas."""
    said = dict(refusals)
    return lambda request: said.get(mode_of(request.body), Reply(reply(FILLED)))


def modes(server: ScriptedServer) -> list[str]:
    return [mode_of(body) for body in server.bodies]


async def test_the_schema_is_the_format_of_the_output(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply(FILLED))
    found = await open_port(ClaudeParser(model(server.url))).parse(ASK, SCHEMA)
    assert found == ParserReply(FILLED, "json_schema", Usage(7, 3, calls=1), "stop", "served-model")
    assert server.bodies[0]["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert "tools" not in server.bodies[0]


async def test_the_format_is_added_to_the_users_output_config(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply(FILLED))
    extra = {"body": {"output_config": {"effort": "low"}}}
    await open_port(ClaudeParser(model(server.url, extra=extra))).parse(ASK, SCHEMA)
    assert server.bodies[0]["output_config"].keys() == {"effort", "format"}


async def test_a_tool_has_the_whole_schema_and_is_forced(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply("Here:", call("Gene_form", gene="BCL2"), stop="tool_use"))
    limited = {**SCHEMA, "properties": {"gene": {"type": "string", "maxLength": 9}}}
    found = await open_port(ClaudeParser(model(server.url, extra={"structured": "tool"}))).parse(ASK, limited)
    assert (json.loads(found.text), found.mode) == (json.loads(FILLED), "tool")
    assert [tool["input_schema"] for tool in server.bodies[0]["tools"]] == [limited]
    assert server.bodies[0]["tool_choice"] == {"type": "tool", "name": "Gene_form"}


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        (["I cannot."], "I cannot."),
        ([{**call("answer"), "input": "{not json"}], "{not json"),
        ([call("answer", 1, a=1), call("answer", 2, a=2)], '{"a": 1}\n{"a": 2}'),
    ],
)
async def test_zero_or_several_calls_are_returned_unchanged(
    blocks: list[Any], text: str, server: ScriptedServer, open_port: Keep
) -> None:
    server.says(reply(*blocks))
    found = await open_port(ClaudeParser(model(server.url, extra={"structured": "tool"}))).parse(ASK, SCHEMA)
    assert found.text == text


async def test_in_words_the_schema_is_part_of_the_system_prompt(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply(FILLED))
    await open_port(ClaudeParser(model(server.url, extra={"structured": "prompt"}))).parse(ASK, SCHEMA)
    system = server.bodies[0]["system"]
    assert system.startswith("Fill the form.")
    assert json.dumps(SCHEMA) in system
    assert server.bodies[0].keys() == {"model", "max_tokens", "messages", "system"}


@pytest.mark.parametrize(
    ("refusals", "first", "later"),
    [
        ([("json_schema", NOT_KNOWN)], ["json_schema", "tool"], ["tool"]),
        (
            [
                ("json_schema", Reply("unknown field: output_config", 422)),
                ("tool", Reply(error("x", "tool_choice is not supported"), 400)),
            ],
            ["json_schema", "tool", "prompt"],
            ["prompt"],
        ),
        (
            [
                ("json_schema", Reply(error("x", "json_schema: not supported here"), 400)),
                ("tool", Reply("functions are disabled", 404)),
            ],
            ["json_schema", "tool", "prompt"],
            ["prompt"],
        ),
    ],
)
async def test_an_unsupported_mode_is_not_tried_again(
    refusals: list[Any], first: list[str], later: list[str], server: ScriptedServer, open_port: Keep
) -> None:
    server.says(refusing(*refusals))
    port = open_port(ClaudeParser(model(server.url)))
    assert [(await port.parse(ASK, schema)).mode for schema in (SCHEMA, OTHER)] == [first[-1], later[-1]]
    assert modes(server) == [*first, *later]


async def test_a_refused_schema_does_not_affect_others(server: ScriptedServer, open_port: Keep) -> None:
    def answer(request: Request) -> Reply:
        if mode_of(request.body) == "json_schema" and "Other form" in request.text:
            return Reply(error("invalid_request_error", "output_config.format.schema: the schema is too complex"), 400)
        return Reply(reply(FILLED))

    server.says(answer)
    port = open_port(ClaudeParser(model(server.url)))
    for schema in (OTHER, SCHEMA, OTHER):
        await port.parse(ASK, schema)
    assert modes(server) == ["json_schema", "tool", "json_schema", "tool"]


async def test_a_schema_with_open_keys_uses_a_tool_at_once(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply(FILLED))
    port = open_port(ClaudeParser(model(server.url)))
    assert [(await port.parse(ASK, schema)).mode for schema in (OPEN, SCHEMA)] == ["tool", "json_schema"]


@pytest.mark.parametrize(
    ("structured", "refusal"),
    [
        ("auto", Reply(error("invalid_request_error", "prompt is too long"), 400)),
        ("auto", Reply("tools and output_config", 500)),
        ("json_schema", NOT_KNOWN),
        ("tool", Reply("no tools", 400)),
    ],
)
async def test_other_refusals_and_those_of_a_chosen_mode_are_errors(
    structured: str, refusal: Reply, server: ScriptedServer, open_port: Keep
) -> None:
    server.says(refusal)
    port = open_port(ClaudeParser(model(server.url, extra={"structured": structured})))
    with pytest.raises(PortError) as caught:
        await port.parse(ASK, SCHEMA)
    assert (caught.value.status, len(server.requests)) == (refusal.status, 1)


@pytest.mark.parametrize(
    ("schema", "native"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 5, "default": 3, "description": "A score"},
            {"type": "integer", "description": "A score (minimum: 1, maximum: 5)"},
        ),
        (
            {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 1, "maxItems": 2},
            {
                "type": "array",
                "items": {"type": "string", "description": "(maxLength: 9)"},
                "minItems": 1,
                "description": "(maxItems: 2)",
            },
        ),
        (
            {"oneOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        ),
        (
            {"$ref": "#/$defs/Gene", "description": "The second one"},
            {"anyOf": [{"$ref": "#/$defs/Gene"}], "description": "The second one"},
        ),
        ({"type": "object", "properties": {}}, {"type": "object", "properties": {}, "additionalProperties": False}),
        (
            {"$defs": {"A": {"const": 1, "examples": [1]}}, "$ref": "#/$defs/A"},
            {"$defs": {"A": {"const": 1}}, "$ref": "#/$defs/A"},
        ),
    ],
)
def test_unsupported_schema_limits_move_to_the_description(schema: Any, native: Any) -> None:
    before = json.dumps(schema)
    assert native_schema(schema) == native
    assert json.dumps(schema) == before


@pytest.mark.parametrize(
    "part",
    [
        {"type": "object"},
        OPEN,
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        {"type": "object", "properties": {}, "additionalProperties": True},
    ],
)
def test_unsupported_schemas_are_found_at_any_depth(part: Any) -> None:
    assert can_be_native(SCHEMA)
    for whole in (
        {"type": "object", "properties": {"a": part}},
        {"anyOf": [{"type": "null"}, part]},
        {"type": "array", "items": part},
        {"$defs": {"A": part}, "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
    ):
        assert not can_be_native(whole)


async def test_a_paused_form_goes_on(server: ScriptedServer, open_port: Keep) -> None:
    server.says(reply(FILLED[:9], stop="pause_turn"), reply(FILLED[9:]))
    found = await open_port(ClaudeParser(model(server.url))).parse(ASK, SCHEMA)
    assert (found.text, found.finish_reason, found.usage) == (FILLED, "stop", Usage(14, 6, calls=2))
    assert server.bodies[0]["output_config"] == server.bodies[1]["output_config"]
