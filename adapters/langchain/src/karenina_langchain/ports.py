"""The LLM and parser ports on a LangChain chat model; JSON is requested in the best mode that its server supports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, Message, ParserReply, StructuredMode
from karenina_langchain.client import Client
from karenina_langchain.conversion import call_arguments, to_langchain
from karenina_toolkit.structured.reply_checks import text_reply
from karenina_toolkit.structured.schema_forms import is_official, schema_name, strict_schema
from karenina_toolkit.structured.structured_modes import MODES, ModeUnsupported, append_schema, with_best_mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import Runnable

    from karenina_core.models.model import ModelConfig
    from karenina_langchain.conversion import ChatReply


class LangchainLLM:
    """The LLM port. A refusal counts as the answer; reasoning that LangChain returns separately goes to `reasoning`."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Return the model's reply to `messages`. Raises `PortError`."""
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
    """The parser port. It uses the first mode that the server supports: native schema, tool call, or prompt."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)
        wanted = self._client.extra.structured
        self._modes: tuple[StructuredMode, ...] = MODES if wanted == "auto" else (wanted,)
        self._server = (model.interface, model.model_provider, self._client.base_url, model.model_name)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Return the model's reply, which should be a JSON object that fits `schema`. Raises `PortError`.

        The raw text is returned, not the result of LangChain's parsing.
        """
        reply, mode = await with_best_mode(
            self._server, self._modes, schema, lambda mode: self._ask(mode, messages, schema)
        )
        said = reply.message.content
        text = call_arguments(reply) if mode == "tool" or not said.strip() else said
        found = ParserReply(text, mode, reply.usage, reply.finish_reason, reply.model)
        found.reasoning, found.server_reason = reply.message.reasoning, reply.server_reason
        return found

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, mode: StructuredMode, messages: Sequence[Message], schema: Mapping[str, Any]) -> ChatReply:
        if mode == "prompt":
            asked = append_schema(messages, schema)
            return await self._client.ask(self._client.chat, asked, to_langchain(asked))
        try:
            runnable = self._structured(mode, schema)
        except NotImplementedError:
            raise ModeUnsupported(self._client.explain_unsupported(mode)) from None
        return await self._client.ask(runnable, messages, to_langchain(messages))

    def _structured(self, mode: StructuredMode, schema: Mapping[str, Any]) -> Runnable[Any, Any]:
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
