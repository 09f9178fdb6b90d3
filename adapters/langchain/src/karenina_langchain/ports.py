"""The LLM, parser and agent ports for LangChain chat models.

JSON is requested in the best mode that the server supports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from langchain_core.messages import AIMessage, messages_from_dict

from karenina_core.models.ports import NO_INFO, CallInfo, ErrorCategory, Message, PortError, Turn
from karenina_langchain.client import Client
from karenina_langchain.conversion import to_langchain
from karenina_toolkit.agents.tool_loop import run_tool_loop
from karenina_toolkit.attachments.support import understood_types
from karenina_toolkit.structured.reply_checks import json_reply, text_reply
from karenina_toolkit.structured.schema_forms import is_official, schema_name, strict_schema
from karenina_toolkit.structured.structured_modes import MODES, ModeUnsupported, append_schema, with_best_mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import Runnable

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentOptions, AgentReply, LLMReply, ParserReply, StructuredMode, Tool


class LangchainLLM:
    """The LLM port. A refusal is returned as the answer, and separate reasoning in `reasoning`."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Send messages and return the reply. Raises `PortError` if the call fails."""
        reply = await self._client.ask(self._client.chat, messages, to_langchain(messages))
        return text_reply(reply)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


_METHODS: dict[StructuredMode, Literal["json_schema", "function_calling"]] = {
    "json_schema": "json_schema",
    "tool": "function_calling",
}


class LangchainParser:
    """The parser port. It uses the first mode that the server supports: native schema, tool call or prompt."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        mode = self._client.extra.structured
        self._modes: tuple[StructuredMode, ...] = MODES if mode == "auto" else (mode,)
        self._server = (model.interface, model.model_provider, self._client.base_url, model.model_name)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Request a JSON object that fits `schema` in the best mode the server supports, and return the reply, which is
        not validated. Raises `PortError` if the call fails.
        """
        reply, mode = await with_best_mode(
            self._server, self._modes, schema, lambda mode: self._ask(mode, messages, schema)
        )
        return json_reply(reply, mode)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, mode: StructuredMode, messages: Sequence[Message], schema: Mapping[str, Any]) -> Turn:
        """Request an object that fits `schema` in one mode, and return the reply. Raises `PortError` if the call fails,
        and `ModeUnsupported` if the chat model does not support the mode.
        """
        if mode == "prompt":
            asked = append_schema(messages, schema)
            return await self._client.ask(self._client.chat, asked, to_langchain(asked))
        try:
            runnable = self._structured(mode, schema)
        except (NotImplementedError, ValueError, TypeError, LookupError):  # some packages cannot convert every schema
            raise ModeUnsupported(self._client.explain_unsupported(mode)) from None
        return await self._client.ask(runnable, messages, to_langchain(messages))

    def _structured(self, mode: StructuredMode, schema: Mapping[str, Any]) -> Runnable[Any, Any]:
        """Return the chat model set up to reply in one mode with an object that fits `schema`, for OpenAI's API in
        strict form. Its output includes the raw message. Raises `NotImplementedError` if the chat model does not
        support the mode.
        """
        name = schema_name(schema)
        provider = self._client.provider
        if provider is None or provider.name != "openai":
            form = {**schema, "title": name, "description": schema.get("description") or "Give the answer."}
            return self._client.chat.with_structured_output(form, method=_METHODS[mode], include_raw=True)
        adapted, strict = strict_schema(schema, official=is_official(urlsplit(self._client.base_url or "")))
        strictness = {"strict": True} if strict else {}
        if mode == "json_schema":
            form = {"name": name, **strictness, "schema": adapted}
        else:
            form = {"name": name, "description": "Give the answer.", **strictness, "parameters": adapted}
        return self._client.chat.with_structured_output(form, method=_METHODS[mode], include_raw=True)


class LangchainAgent:
    """The agent port. Each turn is a separate request, and is retried without repeating earlier ones."""

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        from karenina_langchain import SPECS

        self._client = Client(model)
        self._sees = understood_types(next(spec for spec in SPECS if spec.interface == model.interface), model)
        self._first = {"tool_choice": "any"} if self._client.extra.first_turn == "tool" else {}

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the tool loop on `messages`, and return its reply (see `run_tool_loop`). Raises `PortError` if the loop
        fails.

        The error's `partial` contains the trace so far.
        """
        return await run_tool_loop(_Chat(self._client, messages, self._first), options, sees=self._sees)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _Chat:
    """A conversation, stored both as Karenina's messages and as LangChain's."""

    def __init__(self, client: Client, messages: Sequence[Message], first: Mapping[str, Any]) -> None:
        self._client = client
        self._messages = list(messages)
        self._sent = to_langchain(messages)
        self._first = first
        self._runnables: dict[bool, Runnable[Any, Any]] = {}

    @property
    def where(self) -> str:
        """The model and its server, for error messages."""
        return self._client.where

    async def request_turn(self, tools: Mapping[str, Tool], *, first: bool) -> Turn:
        """Request the next turn, offering `tools`, and return it. In the `first` turn, the model must call a tool if
        `extra.first_turn` says so.

        `tools` must be the same in all turns. Raises `PortError` if the call fails or the chat model does not support
        tools.
        """
        chosen = first and bool(self._first)
        if chosen not in self._runnables:
            self._runnables[chosen] = self._bind_tools(tools, **(self._first if chosen else {}))
        return await self._client.ask(self._runnables[chosen], self._messages, list(self._sent))

    def add_turn(self, turn: Turn) -> None:
        """Add a turn to the conversation: its original reply, because some providers need their signed reasoning back.

        A turn without an original reply is converted.
        """
        self._messages.append(turn.message)
        message = messages_from_dict([turn.wire])[0] if turn.wire is not None else None
        self._sent.append(message if isinstance(message, AIMessage) else to_langchain([turn.message])[0])

    def add_results(self, results: Sequence[Message]) -> None:
        """Add the tool messages."""
        self._messages += results
        self._sent += to_langchain(results)

    def _bind_tools(self, tools: Mapping[str, Tool], **choice: Any) -> Runnable[Any, Any]:
        """Return the chat model with `tools` and the arguments in `choice`, or unchanged without tools. Raises a
        permanent `PortError` if it does not support tools.
        """
        if not tools:
            return self._client.chat
        try:
            return self._client.chat.bind_tools([_tool_schema(tool) for tool in tools.values()], **choice)
        except NotImplementedError:
            raise PortError(
                f"{self._client.where}: LangChain's chat model for this provider does not support tools; choose "
                "another model for an agent",
                category=ErrorCategory.PERMANENT,
            ) from None


def _tool_schema(tool: Tool) -> dict[str, Any]:
    """Return a tool in OpenAI's format, which LangChain accepts for all providers."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}
