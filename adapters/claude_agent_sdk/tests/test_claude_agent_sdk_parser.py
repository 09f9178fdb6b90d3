"""Forms: which schemas reach the server."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest
from claude_cli_wire import Claude

from karenina_claude_agent_sdk.ports import ClaudeAgentParser
from karenina_core.models.ports import Message, ParserReply, StructuredMode

SERVER = Claude()
TUPLE = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2}
SCHEMAS = {
    "words that the CLI does not know": {"type": "object", "properties": {"band": TUPLE, "place": {"x-own": 1}}},
    "a pattern of Python": {"type": "object", "properties": {"band": {"type": "string", "pattern": "(?P<arm>[pq])"}}},
    "too long for an argument": {"type": "object", "properties": {"band": {"description": "x" * 200_000}}},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_reaches_the_server_as_it_is(schema: dict[str, Any]) -> None:
    async def fill(url: str) -> ParserReply:
        port = ClaudeAgentParser(SERVER.model(url))
        try:
            return await port.parse([Message.user("BRCA1 lies on 17q21.")], schema)
        finally:
            await port.aclose()

    with SERVER.server(SERVER.filling('{"band": "17q21"}')) as server:
        reply = asyncio.run(fill(server.url))
        sent = server.requests[0].body

    assert reply.text == '{"band": "17q21"}'
    assert reply.mode in get_args(StructuredMode)
    assert [tool["input_schema"] for tool in sent["tools"]] == [schema]
    assert sent["tool_choice"] == {"type": "tool", "name": "StructuredOutput"}
    assert "thinking" not in sent
