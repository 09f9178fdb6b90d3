"""One chat model of LangChain, and its calls with Karenina's errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_langchain.chat_models import describe_server, make_chat_model
from karenina_langchain.providers import provider_of
from karenina_langchain.sdk_errors import find_truncated_reply, port_error
from karenina_langchain.settings import DEFAULT_TIMEOUT, base_url_of, extra_of, key_of
from karenina_toolkit.reply_bounds import find_port_error
from karenina_toolkit.reply_sanitizer import check_tool_call_count
from karenina_toolkit.traces.openai_completions import from_wire
from karenina_toolkit.urls import find_secret_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Message


class Client:
    """A client of the model. Connections are opened by the first call, in its event loop."""

    def __init__(self, model: ModelConfig) -> None:
        base_url = base_url_of(model)
        self.extra = extra_of(model)
        self.provider = provider_of(model)
        self.base_url = base_url
        self.where = describe_server(model)
        self.timeout = model.request_timeout or DEFAULT_TIMEOUT
        self.chat, self._close = make_chat_model(model)
        values = [key_of(model) or "", *(value.get_secret_value() for value in self.extra.headers.values())]
        self._secrets = [value for value in (*values, *find_secret_parts(base_url)) if len(value) > 3]
        self._closed = False

    async def ask(
        self, runnable: Runnable[Any, Any], messages: Sequence[Message], sent: list[BaseMessage]
    ) -> AIMessage:
        """Return the reply of `runnable`, the chat model with bound arguments, to `sent`.

        `sent` is `messages` in LangChain's format. For a structured runnable, the raw reply is returned. Raises
        `PortError`.
        """
        if self._closed:
            raise PortError(f"{self.where}: this port was closed", category=ErrorCategory.PERMANENT)
        deadline = asyncio.timeout(self.timeout)
        try:
            async with deadline:
                said = await runnable.ainvoke(sent)
        except TimeoutError as error:
            if not deadline.expired():
                raise port_error(self.where, error, self._secrets, messages) from None
            raise PortError(
                f"{self.where} did not answer within {self.timeout:g} s; raise request_timeout",
                category=ErrorCategory.TIMEOUT,
            ) from None
        except Exception as error:
            if (refused := find_port_error(error)) is not None:
                raise refused from None
            cut = find_truncated_reply(error)
            if cut is None:
                raise port_error(self.where, error, self._secrets, messages) from None
            return _rebuild_message(cut)
        raw = said["raw"] if isinstance(said, dict) else said
        if isinstance(raw, AIMessage):
            check_tool_call_count(self.where, [*raw.tool_calls, *raw.invalid_tool_calls])
        if not isinstance(raw, AIMessage):
            raise PortError(
                f"{self.where} sent no usable reply: it is not a message of the model", category=ErrorCategory.SERVER
            )
        return raw

    def explain_unsupported(self, way: str) -> str:
        """Return the message for a chat model that does not support a mode of structured output."""
        return f"{self.where}: LangChain's chat model does not support {way}: set extra.structured to auto or prompt"

    async def aclose(self) -> None:
        """Close the connections. Later calls raise `PortError`."""
        if not self._closed:
            self._closed = True
            await self._close()


def _rebuild_message(completion: Any) -> AIMessage:
    """Return the message of a completion that the SDK parsed but did not return."""
    reply = from_wire(completion)
    usage = reply.usage
    return AIMessage(
        reply.message.content,
        usage_metadata={
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "input_token_details": {"cache_read": usage.cached_tokens},
            "output_token_details": {"reasoning": usage.reasoning_tokens},
        },
        response_metadata={"finish_reason": reply.finish_reason, "model_name": reply.model},
    )
