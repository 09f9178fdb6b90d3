"""The ports: a request is a JSON list of lines, a reply is one line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from karenina_core import Message, ModelConfig, Usage
from karenina_core.models.ports import (
    NO_INFO,
    AgentOptions,
    AgentReply,
    CallInfo,
    ErrorCategory,
    LLMReply,
    ParserReply,
    PortError,
)
from karenina_toolkit.agents.tools import collect_tools, run_tool
from karenina_toolkit.http.http_errors import category_of_status
from karenina_toolkit.replies.reply_bounds import ReplyBounds


class Teletype:
    """All ports of one model; each call has a connection of its own."""

    def __init__(self, model: ModelConfig) -> None:
        self._model = model
        self._bounds = ReplyBounds.of(model)
        self._key = model.endpoint_api_key.get_secret_value() if model.endpoint_api_key else ""

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Type the messages, and read the line that comes back."""
        said, usage = await self._typed(messages)
        return LLMReply(said.content, usage)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Return the same with the schema as a last line."""
        asked = [*messages, Message.user(json.dumps(schema, ensure_ascii=False))]
        said, usage = await self._typed(asked)
        return ParserReply(said.content, "prompt", usage)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Return the loop with tools."""
        tools, trace, usage = collect_tools(options), list[Message](), Usage()
        try:
            async with asyncio.timeout(options.timeout):
                for turn in range(1, options.max_turns + 1):
                    said, spent = await self._typed([*messages, *trace], list(tools))
                    trace.append(said)
                    usage += spent
                    if not said.tool_calls or turn == options.max_turns:
                        break
                    trace += [await run_tool(call, tools) for call in said.tool_calls]
        except TimeoutError:
            partial = AgentReply(tuple(trace), usage)
            raise PortError("the agent has no time left", category=ErrorCategory.TIMEOUT, partial=partial) from None
        except PortError as error:
            error.partial = AgentReply(tuple(trace), usage)
            raise
        return AgentReply(tuple(trace), usage, limit_reached=bool(trace[-1].tool_calls))

    async def aclose(self) -> None:
        """Nothing is open."""

    async def _typed(self, messages: Sequence[Message], tools: Sequence[str] = ()) -> tuple[Message, Usage]:
        lines = [message.to_dict() for message in messages]
        model = self._model
        head = [model.model_name, model.temperature, model.max_tokens, tools]
        body = json.dumps([*head, lines], ensure_ascii=False).encode()
        try:
            async with asyncio.timeout(self._model.request_timeout):
                status, headers, raw = await self._exchange(body)
        except TimeoutError:
            raise PortError("the teletype is silent", category=ErrorCategory.TIMEOUT) from None
        except (OSError, EOFError) as error:
            raise PortError(f"no line to the teletype: {error}", category=ErrorCategory.CONNECTION) from None
        if status >= 300:
            wait = headers.get("retry-after")
            category = category_of_status(status) if status >= 400 else ErrorCategory.PERMANENT
            told = f"the teletype says {status}: {raw.decode().replace(self._key or '***', '***')}"
            raise PortError(told, category=category, status=status, retry_after=float(wait) if wait else None)
        try:
            data = json.loads(raw)
            return Message.from_dict(data["line"]), Usage(data["read"], data["typed"], calls=1)
        except (ValueError, KeyError, TypeError):
            raise PortError("the teletype types nonsense", category=ErrorCategory.SERVER, status=status) from None

    async def _exchange(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        url = urlsplit(self._model.endpoint_base_url or "")
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        try:
            head = f"POST {url.path} HTTP/1.1\r\nHost: teletype\r\nConnection: close\r\n"
            head += f"Key: {self._key}\r\n" if self._key else ""
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (entry.partition(":") for entry in rest)}
            length = headers.get("content-length")
            raw = bytearray()
            while (length is None or len(raw) < int(length)) and (piece := await reader.read(2**16)):
                raw += piece
                self._bounds.check_size("the teletype", len(raw))
            if length is not None and len(raw) < int(length):
                raise EOFError("the line broke")
            return int(line.split()[1]), headers, bytes(raw)
        finally:
            writer.close()
