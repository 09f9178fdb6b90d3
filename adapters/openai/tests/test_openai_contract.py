"""The `openai` interface against the contract of every adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from karenina_core.ports import FinishReason, Message, Usage
from karenina_core.testing.contracts import (
    AdapterContract,
    AgentContract,
    LLMContract,
    ParserContract,
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
