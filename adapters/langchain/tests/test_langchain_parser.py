"""JSON through chat models of LangChain: how it is asked for, and how the best way is learned."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from json_modes import ASK, CITY, LEARNED, SCHEMA, assert_schema_sent, mode_of, supporting
from json_modes import patient as patient
from langchain_servers import Scripted, calls, claude, claude_model, completion, model

from karenina_core.models.ports import ParserReply, PortError, Usage
from karenina_langchain.ports import LangchainParser
from karenina_testing.server import Reply

pytestmark = pytest.mark.anyio
Keep = Callable[[Any], Any]
USAGE = Usage(7, 3, 5, 2, 1)


def server_with(*supported: str) -> Callable[[dict[str, Any]], Reply]:
    """A server that understands only some ways of asking for JSON."""
    return supporting(supported, calls(("City_of_a_reply", CITY)), completion(CITY))


@pytest.mark.parametrize(("supported", "asked"), LEARNED)
async def test_the_best_way_is_found_once(
    supported: tuple[str, ...], asked: list[str], server: Scripted, open_port: Keep
) -> None:
    server.answer = server_with(*supported)
    port = open_port(LangchainParser(model(server.url)))
    replies = [await port.parse(ASK, SCHEMA) for _ in range(2)]
    assert [mode_of(body) for body in server.bodies] == asked
    finish = "tool_calls" if supported[0] == "tool" else "stop"
    expected = ParserReply(CITY, supported[0], USAGE, finish, "served-model")  # type: ignore[arg-type]
    assert replies == [expected] * 2


@pytest.mark.usefixtures("patient")
async def test_judges_that_begin_at_once_are_refused_once(server: Scripted, open_port: Keep) -> None:
    server.answer = server_with("prompt")
    ports = [open_port(LangchainParser(model(server.url))) for _ in range(2)]
    await asyncio.gather(*[port.parse(ASK, SCHEMA) for port in ports * 8])
    assert Counter(map(mode_of, server.bodies)) == {"json_schema": 1, "tool": 1, "prompt": 16}


async def test_the_requests_carry_the_schema(server: Scripted, open_port: Keep) -> None:
    server.answer = server_with("prompt")
    await open_port(LangchainParser(model(server.url))).parse(ASK, SCHEMA)
    assert '"maxLength": 80' in assert_schema_sent(server.bodies)["messages"][0]["content"]


async def test_other_errors_are_no_reason_to_ask_in_another_way(server: Scripted, open_port: Keep) -> None:
    server.says({"error": {"message": "the prompt is too long"}}, status=400)
    with pytest.raises(PortError):
        await open_port(LangchainParser(model(server.url))).parse(ASK, SCHEMA)
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("body", "way", "text", "finish"),
    [
        (completion('{"city": '), "json_schema", '{"city": ', "stop"),
        (completion("It is Paris."), "json_schema", "It is Paris.", "stop"),
        (completion('{"city": "Pa', "length"), "json_schema", '{"city": "Pa', "length"),
        (completion("", "content_filter"), "json_schema", "", "content_filter"),
        (completion(None, refusal="I can't."), "json_schema", "I can't.", "content_filter"),
        (completion("It is Paris."), "tool", "It is Paris.", "stop"),
        (calls(("City_of_a_reply", '{"city": ')), "tool", '{"city": ', "tool_calls"),
        (calls(("City_of_a_reply", CITY), ("City_of_a_reply", CITY)), "tool", f"{CITY}\n{CITY}", "tool_calls"),
    ],
)
async def test_what_fits_no_schema_is_handed_on_as_it_came(
    body: dict[str, Any], way: str, text: str, finish: str, server: Scripted, open_port: Keep
) -> None:
    server.says(body)
    reply = await open_port(LangchainParser(model(server.url, extra={"structured": way}))).parse(ASK, SCHEMA)
    assert reply == ParserReply(text, way, USAGE, finish, "served-model")  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["json_schema", "tool"])
async def test_claude_is_asked_in_its_own_ways(way: str, server: Scripted, open_port: Keep) -> None:
    tool = {"type": "tool_use", "id": "t", "name": "City_of_a_reply", "input": {"city": "Paris"}}
    server.says(claude(tool if way == "tool" else {"type": "text", "text": CITY}))
    reply = await open_port(LangchainParser(claude_model(server, extra={"structured": way}))).parse(ASK, SCHEMA)
    assert (reply.text, reply.mode, mode_of(server.bodies[0])) == (CITY, way, way)
