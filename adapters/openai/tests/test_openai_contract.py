"""The `openai` interface against the contract of every adapter."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from openai_servers import chunk, streamed

from karenina_core.ports import ErrorCategory, FinishReason, Message, ToolCall, Usage
from karenina_core.testing.contracts import (
    AdapterContract,
    AgentContract,
    LLMContract,
    ParserContract,
    Reply,
    Request,
    Wire,
)
from karenina_core.traces.openai_chat import read_message


class ChatCompletions(Wire):
    entry_point = "karenina_openai:plugin"
    interface = "openai"

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in said.tool_calls
        ]
        message = {"role": "assistant", "content": said.content, **({"tool_calls": calls} if calls else {})}
        return {
            "model": "served",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            },
        }

    def read(self, request: Request) -> Sequence[Message]:
        return [read_message(message) for message in request.body["messages"]]


class TestAdapter(ChatCompletions, AdapterContract):
    pass


class TestLLM(ChatCompletions, LLMContract):
    pass


class TestParser(ChatCompletions, ParserContract):
    pass


class TestParserWithoutNativeSchemas(ChatCompletions, ParserContract):
    """The same, asked for as the call of a tool."""

    fields = {"extra": {"structured": "tool"}}

    def filled(self, request: Request, text: str) -> Any:
        name = request.body["tools"][0]["function"]["name"]
        reply = self.reply(Message.assistant(), self.usage, "tool_calls")
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}
        reply["choices"][0]["message"]["tool_calls"] = [call]
        return reply


class TestParserByPrompt(ChatCompletions, ParserContract):
    """The same, asked for in words."""

    fields = {"extra": {"structured": "prompt"}}


class TestAgent(ChatCompletions, AgentContract):
    pass


class Streamed(ChatCompletions):
    """The same, with streamed replies."""

    fields = {"extra": {"stream": True}}

    def saying(self, text: str = "", *calls: ToolCall, finish_reason: FinishReason | None = None) -> Reply:
        return _as_stream(super().saying(text, *calls, finish_reason=finish_reason))

    def filling(self, text: str) -> Callable[[Request], Reply]:
        return lambda request: _as_stream(super(Streamed, self).filling(text)(request))


class Cut:
    """What a cut stream is: without its end it is not a reply of the server's, as one cannot tell what was to come."""

    def test_cut_json_is_the_servers_fault(self: Any) -> None:
        with self.server(lambda request: replace(self.good()(request), body=chunk(content="It is"))) as server:
            assert self.failed(server.url).category is ErrorCategory.CONNECTION


class TestStreamedLLM(Cut, Streamed, LLMContract):
    pass


class TestStreamedParser(Cut, Streamed, ParserContract):
    pass


class TestStreamedAgent(Cut, Streamed, AgentContract):
    pass


def _as_stream(reply: Reply) -> Reply:
    return replace(reply, body=streamed(reply.body), headers={"Content-Type": "text/event-stream"})
