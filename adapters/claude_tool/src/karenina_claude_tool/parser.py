"""JSON from a server of the Messages API, by the best way that it accepts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from karenina_claude_tool.client import Client
from karenina_claude_tool.schemas import can_be_native, native_schema, schema_name
from karenina_core.failures import HTTPFailure
from karenina_core.ports import NO_INFO, CallInfo, Message, ParserReply, StructuredWay
from karenina_core.traces.openai_chat import UNREADABLE_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_claude_tool.conversion import ClaudeReply
    from karenina_core.models import ModelConfig

_WAYS: tuple[StructuredWay, ...] = ("json_schema", "tool", "prompt")
_UNSUPPORTED_STATUSES = (400, 404, 422)
# Words of a refusal that is about the way of asking and not about the question.
_NAMES_OF: dict[StructuredWay, tuple[str, ...]] = {
    "json_schema": ("output_config", "output_format", "output format", "schema", "structured output", "grammar"),
    "tool": ("tool", "function"),
    "prompt": (),
}
_ALL_SCHEMAS = ""


class ClaudeParser:
    """The parser port: it asks by `output_config.format`, else with a tool, else in words.

    What the server refused is not tried again: a way that it does not know at all for no schema, and a way in which it
    cannot take a schema (recursive, too large) for that schema only.
    """

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        wanted = self._client.extra.structured
        self._ways: tuple[StructuredWay, ...] = _WAYS if wanted == "auto" else (wanted,)
        self._refused: set[tuple[StructuredWay, str]] = set()

    async def parse(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        *,
        info: CallInfo = NO_INFO,
    ) -> ParserReply:
        """The model's reply to `messages`, asked to be a JSON object that fits `schema`. Raises `PortError`."""
        written = json.dumps(schema, sort_keys=True)
        refused: set[tuple[StructuredWay, str]] = set()
        *others, last = self._ways
        for way in others:
            if not self._is_possible(way, schema, written):
                continue
            try:
                reply = await self._ask(way, messages, schema)
            except HTTPFailure as error:
                if not _is_about(error, way):
                    raise
                refused.add((way, written if _is_about_schema(error) else _ALL_SCHEMAS))
            else:
                break
        else:
            way, reply = last, await self._ask(last, messages, schema)
        # Only after a way that worked: a request that no way mends teaches nothing.
        self._refused |= refused
        text = _arguments(reply) if way == "tool" else reply.message.content
        return ParserReply(text, way, reply.usage, reply.finish_reason, reply.model)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _is_possible(self, way: StructuredWay, schema: Mapping[str, Any], written: str) -> bool:
        if (way, _ALL_SCHEMAS) in self._refused or (way, written) in self._refused:
            return False
        return way != "json_schema" or can_be_native(schema)

    async def _ask(self, way: StructuredWay, messages: Sequence[Message], schema: Mapping[str, Any]) -> ClaudeReply:
        if way == "prompt":
            return await self._client.ask(_with_schema(messages, schema))
        if way == "json_schema":
            form = {"type": "json_schema", "schema": native_schema(schema)}
            return await self._client.ask(messages, output_config={"format": form})
        name = schema_name(schema)
        return await self._client.ask(
            messages,
            tools=[{"name": name, "description": "Give the answer.", "input_schema": dict(schema)}],
            tool_choice={"type": "tool", "name": name},
        )


def _is_about(error: HTTPFailure, way: StructuredWay) -> bool:
    if error.status not in _UNSUPPORTED_STATUSES:
        return False
    said = error.server_text.lower()
    return any(name in said for name in _NAMES_OF[way])


def _is_about_schema(error: HTTPFailure) -> bool:
    """Whether the server refuses this schema; "json_schema" is the name of the way itself."""
    said = error.server_text.lower().replace("json_schema", "")
    return "schema" in said or "grammar" in said


def _with_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    order = (
        "Reply with one JSON object that fits this JSON Schema, and with nothing else:\n"
        f"{json.dumps(schema, ensure_ascii=False)}"
    )
    return [*messages, Message.system(order)]


def _arguments(reply: ClaudeReply) -> str:
    """The tool's input. Of several calls the core refuses to choose one: all are handed on."""
    written = [call.arguments for call in reply.message.tool_calls]
    return "\n".join(map(_as_text, written)) if written else reply.message.content


def _as_text(arguments: Mapping[str, Any]) -> str:
    unreadable = arguments.get(UNREADABLE_ARGUMENTS)
    if len(arguments) == 1 and isinstance(unreadable, str):
        return unreadable
    return json.dumps(dict(arguments), ensure_ascii=False)
