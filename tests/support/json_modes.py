"""A server that supports only some modes of JSON, for the tests of adapters that learn the best one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from karenina_core.models.ports import Message
from karenina_testing.server import Reply

ASK = [Message.system("Extract."), Message.user("Paris.")]
SCHEMA = {
    "title": "City of a reply",
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 80}},
    "required": ["city"],
    "additionalProperties": False,
}
CITY = '{"city": "Paris"}'
LEARNED = [
    (("json_schema", "tool", "prompt"), ["json_schema", "json_schema"]),
    (("tool", "prompt"), ["json_schema", "tool", "tool"]),
    (("prompt",), ["json_schema", "tool", "prompt", "prompt"]),
]
"""The modes that a server supports, and those in which it is asked by two calls."""


def mode_of(body: dict[str, Any]) -> str:
    """Return the mode in which a request asks for JSON."""
    native = "response_format" in body or "output_config" in body
    return "json_schema" if native else "tool" if "tools" in body else "prompt"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have calls wait long for the first to be refused: a busy machine refuses late."""
    monkeypatch.setattr("karenina_toolkit.structured.structured_modes.PATIENCE", 30.0)


def supporting(
    modes: tuple[str, ...], by_tool: dict[str, Any], in_text: dict[str, Any], status: int = 400
) -> Callable[[dict[str, Any]], Reply]:
    """Return the answers of a server that supports only these modes: one of two completions, or an error."""
    complaints = {"json_schema": "response_format is not supported", "tool": "tool use is not supported"}

    def answer(body: dict[str, Any]) -> Reply:
        mode = mode_of(body)
        if mode not in modes:
            return Reply({"error": {"message": complaints[mode]}}, status)
        return Reply(by_tool if mode == "tool" else in_text)

    return answer


def assert_schema_sent(bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Assert that a request in each mode carried the schema; return the one whose prompt has to contain it."""
    native, tool, prompt = bodies
    form = {"name": "City_of_a_reply", "strict": True, "schema": SCHEMA}
    assert native["response_format"] == {"type": "json_schema", "json_schema": form}
    assert tool["tools"][0]["function"]["parameters"] == SCHEMA
    assert tool["tool_choice"] == {"type": "function", "function": {"name": "City_of_a_reply"}}
    return prompt
