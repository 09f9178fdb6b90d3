"""Plain text from an OpenAI-compatible server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, Message
from karenina_openai.client import Client
from karenina_openai.conversion import to_wire
from karenina_toolkit.structured.reply_checks import text_reply
from karenina_toolkit.traces.formats.openai_completions import from_wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_openai.client import Watch


class OpenAILLM:
    """The LLM port. A refusal counts as the answer; reasoning that the server sends separately is `reasoning`."""

    def __init__(self, model: ModelConfig, *, watch: Watch | None = None, client: type[Client] = Client) -> None:
        self._client = client(model, watch=watch)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Return the model's reply to `messages`. Raises `PortError`."""
        data = await self._client.post(messages, to_wire(messages))
        try:
            reply = from_wire(data)
        except ValueError as error:
            raise self._client.unusable_reply(str(error)) from None
        return text_reply(reply)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()
