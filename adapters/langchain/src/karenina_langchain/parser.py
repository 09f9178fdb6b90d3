"""JSON from a chat model of LangChain, by the best way that its server accepts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from karenina_core.failures import HTTPFailure
from karenina_core.ports import NO_INFO, CallInfo, Message, ParserReply, StructuredWay
from karenina_langchain.client import Client
from karenina_langchain.conversion import arguments_of, from_langchain, to_langchain
from karenina_openai.schemas import schema_name, strict_schema
from karenina_openai.settings import is_official

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable

    from karenina_core.models import ModelConfig

_WAYS: tuple[StructuredWay, ...] = ("json_schema", "tool", "prompt")
_METHODS: dict[StructuredWay, Literal["json_schema", "function_calling"]] = {
    "json_schema": "json_schema",
    "tool": "function_calling",
}
_UNSUPPORTED_STATUSES = (400, 404, 422)
# Words of a refusal that is about the way of asking and not about the question.
_NAMES_OF: dict[StructuredWay, tuple[str, ...]] = {
    "json_schema": (
        "response_format",
        "response format",
        "output_config",
        "output_format",
        "schema",
        "structured output",
        "grammar",
    ),
    "tool": ("tool", "function"),
    "prompt": (),
}


class LangchainParser:
    """The parser port. It finds out once what the server accepts: native schema, else tool call, else prompt."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        wanted = self._client.extra.structured
        self._ways: tuple[StructuredWay, ...] = _WAYS if wanted == "auto" else (wanted,)
        self._first = 0

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """The model's reply, asked to be a JSON object that fits `schema`. Raises `PortError`.

        The raw text is handed on, whatever LangChain made of it.
        """
        number = self._first
        while True:
            way = self._ways[number]
            try:
                said = await self._ask(way, messages, schema)
            except (HTTPFailure, NotImplementedError) as error:
                last = number + 1 == len(self._ways)
                if isinstance(error, NotImplementedError):  # the chat model itself lacks this way
                    if last:
                        raise self._client.lacking(way) from None
                elif last or not _is_about(error, way):
                    raise
                number += 1
            else:
                # Only a way that worked is remembered, so that a request that no way mends teaches nothing.
                self._first = max(self._first, number)
                reply = from_langchain(said)
                text = arguments_of(said) if way == "tool" else reply.message.content
                return ParserReply(text, way, reply.usage, reply.finish_reason, reply.model)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, way: StructuredWay, messages: Sequence[Message], schema: Mapping[str, Any]) -> AIMessage:
        if way == "prompt":
            asked = _with_schema(messages, schema)
            return await self._client.ask(self._client.chat, asked, to_langchain(asked))
        return await self._client.ask(self._structured(way, schema), messages, to_langchain(messages))

    def _structured(self, way: StructuredWay, schema: Mapping[str, Any]) -> Runnable[Any, Any]:
        name = schema_name(schema)
        provider = self._client.provider
        if provider is None or provider.name != "openai":
            form = {**schema, "title": name, "description": schema.get("description") or "Give the answer."}
            return self._client.chat.with_structured_output(form, method=_METHODS[way], include_raw=True)
        adapted, strict = strict_schema(schema, official=is_official(urlsplit(self._client.base_url or "")))
        strictness = {"strict": True} if strict else {}
        if way == "json_schema":
            form = {"name": name, **strictness, "schema": adapted}
        else:
            form = {"name": name, "description": "Give the answer.", **strictness, "parameters": adapted}
        return self._client.chat.with_structured_output(form, method=_METHODS[way], include_raw=True)


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
