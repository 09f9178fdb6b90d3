"""One chat model of LangChain, and its calls with Karenina's errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_langchain.chat_models import BODY, describe_server, make_chat_model
from karenina_langchain.conversion import ChatReply, from_completion, from_langchain
from karenina_langchain.providers import provider_of
from karenina_langchain.sdk_errors import is_unreadable, port_error, read_completion
from karenina_langchain.settings import DEFAULT_TIMEOUT, base_url_of, extra_of, key_of
from karenina_toolkit.http.http_errors import error_in_reply
from karenina_toolkit.http.urls import find_proxy_secrets, find_secret_parts
from karenina_toolkit.replies.reply_bounds import BrokenReply, find_port_error
from karenina_toolkit.replies.reply_sanitizer import check_tool_call_count
from karenina_toolkit.traces.formats.openai_completions import error_of_choice, usage_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        hidden = (*values, *find_secret_parts(base_url), *find_proxy_secrets())
        self._secrets = [value for value in hidden if len(value) > 3]
        self._closed = False

    async def ask(
        self, runnable: Runnable[Any, Any], messages: Sequence[Message], sent: list[BaseMessage]
    ) -> ChatReply:
        """Return the reply of `runnable`, the chat model with bound arguments, to `sent`.

        `sent` is `messages` in LangChain's format. For a structured runnable, the raw reply is returned. Raises
        `PortError`.
        """
        if self._closed:
            raise PortError(f"{self.where}: this port was closed", category=ErrorCategory.PERMANENT)
        deadline = asyncio.timeout(self.timeout)
        body = bytearray()
        token = BODY.set(body)
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
            completion = read_completion(body) if is_unreadable(error) else None
            if completion is None:
                raise port_error(self.where, error, self._secrets, messages) from None
            return self._read(completion, None, messages)
        finally:
            BODY.reset(token)
        raw = said["raw"] if isinstance(said, dict) else said
        if isinstance(raw, AIMessage):
            check_tool_call_count(self.where, [*raw.tool_calls, *raw.invalid_tool_calls])
        if not isinstance(raw, AIMessage):
            raise PortError(
                f"{self.where} sent no usable reply: it is not a message of the model", category=ErrorCategory.SERVER
            )
        completion = read_completion(body)
        return from_langchain(raw) if completion is None else self._read(completion, raw, messages)

    def _read(self, completion: Mapping[str, Any], said: AIMessage | None, messages: Sequence[Message]) -> ChatReply:
        """Return a chat completion, which is read as it was sent: LangChain and the SDK drop parts of it."""
        error = error_of_choice(completion)
        if error is not None:
            raise error_in_reply(self.where, error, usage_of(completion), self._secrets, messages)
        try:
            reply = from_completion(completion, said)
        except ValueError as problem:
            raise BrokenReply(f"{self.where} sent no usable reply: {problem}") from None
        check_tool_call_count(self.where, reply.message.tool_calls)
        return reply

    def explain_unsupported(self, way: str) -> str:
        """Return the message for a chat model that does not support a mode of structured output."""
        return f"{self.where}: LangChain's chat model does not support {way}: set extra.structured to auto or prompt"

    async def aclose(self) -> None:
        """Close the connections. Later calls raise `PortError`."""
        if not self._closed:
            self._closed = True
            await self._close()
