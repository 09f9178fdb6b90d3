"""Plain text from a server of the Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_claude_tool.client import Client
from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, Message
from karenina_toolkit.reply_checks import text_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.model import ModelConfig


class ClaudeLLM:
    """The LLM port. Thinking, if the model's `extra.body` requests it, is `reasoning`."""

    def __init__(self, model: ModelConfig) -> None:
        self._client = Client(model)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Return the model's reply to `messages`. Raises `PortError`."""
        reply = await self._client.ask(messages)
        return text_reply(reply)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()
