"""The LLM port for OpenAI-compatible servers, and the parser port, which uses the best mode that they support."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, Message, ParserReply, StructuredMode, Turn
from karenina_openai.client import Client, to_wire
from karenina_openai.settings import base_url_of
from karenina_toolkit.structured.reply_checks import json_reply, text_reply
from karenina_toolkit.structured.schema_forms import is_official, schema_name, strict_schema
from karenina_toolkit.structured.structured_modes import MODES, append_schema, with_best_mode
from karenina_toolkit.traces.formats.openai_chat import from_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_openai.client import NewClient, Watch


class OpenAILLM:
    """The LLM port. A refusal is returned as the answer, and separate reasoning in `reasoning`."""

    def __init__(self, model: ModelConfig, *, watch: Watch | None = None, client: NewClient = Client) -> None:
        self._client = client(model, watch=watch)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Send messages and return the reply. Raises `PortError` if the call fails."""
        data = await self._client.post(messages, to_wire(messages))
        try:
            reply = from_wire(data)
        except ValueError as error:
            raise self._client.unusable_reply(str(error), data) from None
        return text_reply(reply)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


LOGPROBS: Final[Mapping[str, Any]] = {"logprobs": True, "top_logprobs": 20}
"""The request fields for the log-probabilities of the 20 most likely tokens, the maximum in OpenAI's API."""

_BEFORE_VALUE: Final = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*"')


def options_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a schema's options if its only field is an enum of strings, otherwise nothing."""
    parts = list(schema.get("properties", {}).values())
    options = parts[0].get("enum", ()) if len(parts) == 1 else ()
    return tuple(options) if all(isinstance(option, str) for option in options) else ()


def read_option_logprobs(data: Mapping[str, Any], text: str, options: Sequence[str]) -> dict[str, float] | None:
    """Return the log-probability of each option's first token at the start of the value in `text`. An option that is
    not among the most likely tokens gets the lowest log-probability of these. Returns None if the server sent no
    log-probabilities, or if its tokens do not add up to `text`.
    """
    start = _BEFORE_VALUE.match(text)
    try:
        tokens = data["choices"][0]["logprobs"]["content"]
        if start is None:
            return None
        position = 0
        for token in tokens:
            written = token["token"]
            if not text.startswith(written, position):
                return None
            position += len(written)
            if position > start.end():
                before = text[position - len(written) : start.end()]
                return _by_option(before, token["top_logprobs"], options)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
    return None


def _by_option(before: str, likeliest: Sequence[Mapping[str, Any]], options: Sequence[str]) -> dict[str, float] | None:
    """Return each option's log-probability: that of the likeliest token which starts with `before`, the text before the
    value in the same token, and then matches the option, or the lowest of all if there is none. Returns None if no
    log-probability is finite.
    """
    logprobs: dict[str, float] = {}
    lowest = math.inf
    for token in likeliest:
        logprob, written = float(token["logprob"]), str(token["token"])
        if not math.isfinite(logprob):
            continue
        lowest = min(lowest, logprob)
        rest = written.removeprefix(before)
        if not rest or not written.startswith(before):
            continue
        for option in options:
            value = json.dumps(option, ensure_ascii=False)[1:]
            if value.startswith(rest) or rest.startswith(value):
                logprobs[option] = max(logprob, logprobs.get(option, -math.inf))
    return {option: logprobs.get(option, lowest) for option in options} if math.isfinite(lowest) else None


class OpenAIParser:
    """The parser port. It uses the first mode that the server supports: native schema, tool call or prompt."""

    def __init__(self, model: ModelConfig, *, watch: Watch | None = None, client: NewClient = Client) -> None:
        self._client = client(model, watch=watch)
        self._wants_logprobs = self._client.extra.option_logprobs
        mode = self._client.extra.structured
        self._modes: tuple[StructuredMode, ...] = MODES if mode == "auto" else (mode,)
        base_url = base_url_of(model)
        self._server = (base_url, model.model_name)
        self._official = is_official(urlsplit(base_url))

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Request a JSON object that fits `schema` in the best mode the server supports, and return the reply, which is
        not validated. Raises `PortError` if the call fails.

        The reply includes the options' log-probabilities if the settings ask for them, the only field is an enum, and
        the server supports a native schema.
        """
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
        """Return a pending request for an object that fits `schema` in one mode: a schema, a forced tool call, or the
        prompt's text. Awaiting it raises `PortError` if the request fails or the server rejects the mode.
        """
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
        """Convert a completion to a parser reply. Raises `PortError` if it cannot be read."""
        try:
            reply = from_wire(data)
            needed = mode == "tool" or not reply.message.content.strip()
            arguments = _arguments(data, reply) if needed else None
        except ValueError as error:
            raise self._client.unusable_reply(str(error), data) from None
        return json_reply(reply, mode, arguments)


def _arguments(data: dict[str, Any], reply: Turn) -> str:
    """Return the arguments of a reply's tool call as the model wrote them in `data`, or the reply's text if it calls no
    tool. The arguments of several calls are joined, which is invalid JSON and will be rejected.
    """
    if not reply.message.tool_calls:
        return reply.message.content
    message = data["choices"][0]["message"]
    functions = [call.get("function") for call in message.get("tool_calls") or ()] or [message.get("function_call")]
    written = [function.get("arguments") for function in functions if isinstance(function, dict)]
    return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in written)
