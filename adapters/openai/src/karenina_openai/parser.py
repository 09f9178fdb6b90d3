"""JSON from an OpenAI-compatible server, by the best way that it accepts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from karenina_core.failures import HTTPFailure
from karenina_core.ports import NO_INFO, CallInfo, Message, ParserReply, StructuredWay
from karenina_openai.client import Client
from karenina_openai.conversion import ChatReply, from_wire, to_wire
from karenina_openai.schemas import schema_name, strict_schema
from karenina_openai.settings import base_url_of, is_official

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models import ModelConfig

_WAYS: tuple[StructuredWay, ...] = ("json_schema", "tool", "prompt")
_UNSUPPORTED_STATUSES = (400, 404, 422)
# Words of a refusal that is about the way of asking and not about the question.
_NAMES_OF: dict[StructuredWay, tuple[str, ...]] = {
    "json_schema": ("response_format", "response format", "schema", "structured output", "grammar"),
    "tool": ("tool", "function"),
    "prompt": (),
}


class OpenAIParser:
    """The parser port. It finds out once what the server accepts: native schema, else tool call, else prompt."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        wanted = self._client.extra.structured
        self._ways: tuple[StructuredWay, ...] = _WAYS if wanted == "auto" else (wanted,)
        self._first = 0
        self._official = is_official(urlsplit(base_url_of(model)))

    async def parse(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        *,
        info: CallInfo = NO_INFO,
    ) -> ParserReply:
        """The model's reply, asked to be a JSON object that fits `schema`. Raises `PortError`."""
        number = self._first
        while True:
            way = self._ways[number]
            try:
                data = await self._ask(way, messages, schema)
            except HTTPFailure as error:
                if number + 1 == len(self._ways) or not _is_about(error, way):
                    raise
                number += 1
            else:
                # Only a way that worked is remembered, so that a request that no way mends teaches nothing.
                self._first = max(self._first, number)
                return self._reply(data, way)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, way: StructuredWay, messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
        if way == "prompt":
            return await self._client.post(messages, to_wire(_with_schema(messages, schema)))
        adapted, strict = strict_schema(schema, official=self._official)
        name = schema_name(schema)
        strictness = {"strict": True} if strict else {}
        if way == "json_schema":
            form = {"type": "json_schema", "json_schema": {"name": name, **strictness, "schema": adapted}}
            return await self._client.post(messages, to_wire(messages), response_format=form)
        function = {"name": name, "description": "Give the answer.", **strictness, "parameters": adapted}
        return await self._client.post(
            messages,
            to_wire(messages),
            tools=[{"type": "function", "function": function}],
            tool_choice={"type": "function", "function": {"name": name}},
        )

    def _reply(self, data: dict[str, Any], way: StructuredWay) -> ParserReply:
        try:
            reply = from_wire(data)
            text = _arguments(data, reply) if way == "tool" else reply.message.content
        except ValueError as error:
            raise self._client.unusable(str(error)) from None
        return ParserReply(text, way, reply.usage, reply.finish_reason, reply.model)


def _is_about(error: HTTPFailure, way: StructuredWay) -> bool:
    if error.status not in _UNSUPPORTED_STATUSES:
        return False
    said = error.server_text.lower()
    return any(name in said for name in _NAMES_OF[way])


def _with_schema(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    order = (
        "Reply with one JSON object that fits this JSON Schema, and with nothing else:\n"
        f"{json.dumps(schema, ensure_ascii=False)}"
    )
    if messages and messages[0].role == "system":
        return [Message.system(f"{messages[0].content}\n\n{order}"), *messages[1:]]
    return [Message.system(order), *messages]


def _arguments(data: dict[str, Any], reply: ChatReply) -> str:
    """The arguments as the model wrote them. Of several calls the core refuses to choose one: all are handed on."""
    if not reply.message.tool_calls:
        return reply.message.content
    calls = data["choices"][0]["message"].get("tool_calls") or ()
    written = [call["function"].get("arguments") for call in calls if isinstance(call.get("function"), dict)]
    return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in written)
