"""The LLM, parser and agent ports for servers with the Messages API.

JSON is requested in the best mode that the server supports. An agent's tool loop runs in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from karenina_claude_tool.client import Client
from karenina_claude_tool.conversion import add, to_wire
from karenina_claude_tool.settings import base_url_of
from karenina_core.models.ports import NO_INFO, Turn
from karenina_toolkit.agents.tool_loop import run_tool_loop
from karenina_toolkit.attachments.support import understood_types
from karenina_toolkit.structured.reply_checks import json_reply, text_reply
from karenina_toolkit.structured.schema_forms import schema_name
from karenina_toolkit.structured.structured_modes import MODES, append_schema, with_best_mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import (
        AgentOptions,
        AgentReply,
        CallInfo,
        LLMReply,
        Message,
        ParserReply,
        StructuredMode,
        Tool,
    )


_KEPT: Final = frozenset(
    ("type", "properties", "required", "items", "enum", "const", "anyOf", "allOf", "$ref", "$defs", "title")
) | {"description", "additionalProperties"}
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)
_DESCRIBED_LIMITS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("pattern", "format", "minItems", "maxItems", "uniqueItems"),
)


def native_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `schema` reduced to what the API's grammar supports: limits on lengths and numbers move to the
    descriptions, defaults are removed, and objects allow no other keys. The reply must be validated against the
    original schema.

    `oneOf` becomes `anyOf`, and so does a `$ref` next to other keywords.
    """
    reduced = {key: value for key, value in schema.items() if key in _KEPT}
    if "oneOf" in schema:
        reduced["anyOf"] = schema["oneOf"]
    if schema.get("format") in _FORMATS:
        reduced["format"] = schema["format"]
    if schema.get("minItems") in (0, 1):
        reduced["minItems"] = schema["minItems"]
    if "properties" in schema:
        reduced["additionalProperties"] = False
    for key in ("properties", "$defs"):
        if key in reduced:
            reduced[key] = {name: native_schema(inner) for name, inner in reduced[key].items()}
    for key in ("anyOf", "allOf"):
        if key in reduced:
            reduced[key] = [native_schema(inner) for inner in reduced[key]]
    if isinstance(reduced.get("items"), Mapping):
        reduced["items"] = native_schema(reduced["items"])
    limits = ", ".join(f"{key}: {schema[key]}" for key in _DESCRIBED_LIMITS if key in schema and key not in reduced)
    if limits:
        reduced["description"] = f"{schema.get('description', '')} ({limits})".strip()
    if reduced.keys() - {"$ref", "$defs"} and "$ref" in reduced:
        reduced["anyOf"] = [{"$ref": reduced.pop("$ref")}]
    return reduced


def can_be_native(schema: Any) -> bool:
    """Return whether `native_schema` preserves the structure of `schema`, which may not use arbitrary keys or
    `prefixItems`.
    """
    if isinstance(schema, list):
        return all(map(can_be_native, schema))
    if not isinstance(schema, Mapping):
        return True
    if "prefixItems" in schema or (schema.get("type") == "object" and "properties" not in schema):
        return False
    if schema.get("additionalProperties", False) is not False:
        return False
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [schema.get(key) for key in ("anyOf", "oneOf", "allOf", "items")]
    return all(map(can_be_native, inner))


class ClaudeLLM:
    """The LLM port. If `extra.body` enables thinking, the thoughts are returned in `reasoning`."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Send messages and return the reply. Raises `PortError` if the call fails."""
        reply = await self._client.ask(messages)
        return text_reply(reply)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class ClaudeParser:
    """The parser port. It uses the first mode that the server supports: `output_config.format`, tool call or prompt.

    `output_config.format` is skipped for schemas whose meaning it would change, unless `extra.structured` selects it.
    """

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        mode = self._client.extra.structured
        self._modes: tuple[StructuredMode, ...] = MODES if mode == "auto" else (mode,)
        self._server = (model.interface, base_url_of(model), model.model_name)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Request a JSON object that fits `schema` in the best mode the server supports, and return the reply, which is
        not validated. Raises `PortError` if the call fails.
        """
        modes = self._modes
        if len(modes) > 1 and not can_be_native(schema):
            modes = tuple(mode for mode in modes if mode != "json_schema")
        reply, mode = await with_best_mode(self._server, modes, schema, lambda mode: self._ask(mode, messages, schema))
        return json_reply(reply, mode)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, mode: StructuredMode, messages: Sequence[Message], schema: Mapping[str, Any]) -> Turn:
        """Request an object that fits `schema` in one mode, and return the reply. Raises `PortError` if the request
        fails or the server rejects the mode.
        """
        if mode == "prompt":
            return await self._client.ask(append_schema(messages, schema))
        if mode == "json_schema":
            form = {"type": "json_schema", "schema": native_schema(schema)}
            return await self._client.ask(messages, output_config={"format": form})
        name = schema_name(schema)
        return await self._client.ask(
            messages,
            tools=[{"name": name, "description": "Give the answer.", "input_schema": dict(schema)}],
            tool_choice={"type": "tool", "name": name},
        )


class ClaudeAgent:
    """The agent port. Each turn is a separate request, and is retried without repeating earlier ones."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        from karenina_claude_tool import SPEC

        self._client = Client(model)
        self._sees = understood_types(SPEC, model)
        self._first = {"tool_choice": {"type": "any"}} if self._client.extra.first_turn == "tool" else {}

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the tool loop on `messages`, and return its reply (see `run_tool_loop`). Raises `PortError` if the loop
        fails.

        The error's `partial` contains the trace so far.
        """
        return await run_tool_loop(_Conversation(self._client, messages, self._first), options, sees=self._sees)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _Conversation:
    """A conversation in the format of the Messages API.

    Replies are sent back unchanged, because the API only accepts thinking blocks with their signatures.
    """

    def __init__(self, client: Client, messages: Sequence[Message], first: Mapping[str, Any]) -> None:
        self._client = client
        self._messages = list(messages)
        self._system, self._wire = to_wire(messages)
        self._first = first

    @property
    def where(self) -> str:
        """The model and its server, for error messages."""
        return self._client.where

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Request the next turn, offering `tools`. In the `first` turn, the model must call a tool if
        `extra.first_turn` says so. Raises `PortError` if the request fails.
        """
        offered: dict[str, Any] = {"tools": [_offer(tool) for tool in tools.values()]} if tools else {}
        if tools and first:
            offered.update(self._first)
        return await self._client.post(self._messages, self._system, self._wire, grows=True, **offered)

    def add_turn(self, turn: Turn) -> None:
        """Add a turn to the conversation: its original blocks or, for a turn from a journal, which has none, its
        message.
        """
        self._messages.append(turn.message)
        if turn.wire is not None:
            add(self._wire, "assistant", turn.wire)
        else:
            self._add([turn.message])

    def add_results(self, results: Sequence[Message]) -> None:
        """Add all results in one user message, as the API requires."""
        self._messages += results
        self._add(results)

    def _add(self, messages: Sequence[Message]) -> None:
        """Add messages to the encoded conversation."""
        for entry in to_wire(messages)[1]:
            add(self._wire, entry["role"], entry["content"])


def _offer(tool: Tool) -> dict[str, Any]:
    """Return a tool in the format that the API accepts."""
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
