"""JSON from an OpenAI-compatible server, in the best mode that it supports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from karenina_core.models.ports import NO_INFO, CallInfo, Message, ParserReply, StructuredMode
from karenina_openai.client import Client
from karenina_openai.conversion import to_wire
from karenina_openai.option_logprobs import LOGPROBS, options_of, read_option_logprobs
from karenina_openai.settings import base_url_of
from karenina_toolkit.structured.strict_schema import is_official, schema_name, strict_schema
from karenina_toolkit.structured.structured_modes import MODES, append_schema, with_best_mode
from karenina_toolkit.traces.formats.openai_completions import ChatReply, from_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_openai.client import Watch


class OpenAIParser:
    """The parser port. It uses the first mode that the server supports: native schema, tool call, or prompt."""

    def __init__(self, model: ModelConfig, *, watch: Watch | None = None, client: type[Client] = Client) -> None:
        self._client = client(model, watch=watch)
        self._wants_logprobs = self._client.extra.option_logprobs
        wanted = self._client.extra.structured
        self._modes: tuple[StructuredMode, ...] = MODES if wanted == "auto" else (wanted,)
        base_url = base_url_of(model)
        self._server = (base_url, model.model_name)
        self._official = is_official(urlsplit(base_url))

    async def parse(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        *,
        info: CallInfo = NO_INFO,
    ) -> ParserReply:
        """Return the model's reply to a request for a JSON object that fits `schema`. Raises `PortError`."""
        data, mode = await with_best_mode(
            self._server, self._modes, schema, lambda mode: self._ask(mode, messages, schema)
        )
        reply = self._reply(data, mode)
        options = options_of(schema) if self._wants_logprobs else ()
        if options and mode == "json_schema":
            reply.option_logprobs = read_option_logprobs(data, reply.text, options)
        return reply

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _ask(
        self, mode: StructuredMode, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> Awaitable[dict[str, Any]]:
        if mode == "prompt":
            return self._client.post(messages, to_wire(append_schema(messages, schema)))
        adapted, strict = strict_schema(schema, official=self._official)
        name = schema_name(schema)
        strictness = {"strict": True} if strict else {}
        if mode == "json_schema":
            form = {"type": "json_schema", "json_schema": {"name": name, **strictness, "schema": adapted}}
            logprobs = LOGPROBS if self._wants_logprobs and options_of(schema) else {}
            return self._client.post(messages, to_wire(messages), response_format=form, **logprobs)
        function = {"name": name, "description": "Give the answer.", **strictness, "parameters": adapted}
        return self._client.post(
            messages,
            to_wire(messages),
            tools=[{"type": "function", "function": function}],
            tool_choice={"type": "function", "function": {"name": name}},
        )

    def _reply(self, data: dict[str, Any], mode: StructuredMode) -> ParserReply:
        try:
            reply = from_wire(data)
            said = reply.message.content
            text = _arguments(data, reply) if mode == "tool" or not said.strip() else said
        except ValueError as error:
            raise self._client.unusable_reply(str(error)) from None
        found = ParserReply(text, mode, reply.usage, reply.finish_reason, reply.model)
        found.reasoning, found.server_reason = reply.message.reasoning, reply.server_reason
        return found


def _arguments(data: dict[str, Any], reply: ChatReply) -> str:
    """Return the arguments as the model wrote them. Of several calls all are returned: the core rejects them."""
    if not reply.message.tool_calls:
        return reply.message.content
    message = data["choices"][0]["message"]
    functions = [call.get("function") for call in message.get("tool_calls") or ()] or [message.get("function_call")]
    written = [function.get("arguments") for function in functions if isinstance(function, dict)]
    return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in written)
