"""The LLM port: text from a chat model of LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, Message
from karenina_langchain.client import Client
from karenina_langchain.conversion import to_langchain
from karenina_toolkit.reply_checks import text_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.model import ModelConfig


class LangchainLLM:
    """The LLM port. A refusal counts as the answer; reasoning that LangChain returns separately is `reasoning`."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Return the model's reply to `messages`. Raises `PortError`."""
        reply = await self._client.ask(self._client.chat, messages, to_langchain(messages))
        return text_reply(reply)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()
