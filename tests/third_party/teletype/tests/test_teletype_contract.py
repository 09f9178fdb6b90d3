"""The contract tests of the adapter `teletype`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from karenina_core import Message, Usage
from karenina_core.models.ports import FinishReason
from karenina_testing.contracts import AdapterContract, AgentContract, LLMContract, ParserContract, Request, WireFormat


class Typed(WireFormat):
    entry_point = "teletype:plugin"
    interface = "teletype.line"
    usage = Usage(input_tokens=11, output_tokens=7, calls=1)
    finish_reasons = ("stop",)

    def reply(self, said: Message, usage: Usage, finish_reason: FinishReason) -> Any:
        return {"line": said.to_dict(), "read": usage.input_tokens, "typed": usage.output_tokens}

    def read(self, request: Request) -> Sequence[Message]:
        return [Message.from_dict(line) for line in request.body[-1]]


class TestAdapter(Typed, AdapterContract):
    pass


class TestLLM(Typed, LLMContract):
    pass


class TestParser(Typed, ParserContract):
    pass


class TestAgent(Typed, AgentContract):
    pass
