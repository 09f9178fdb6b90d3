"""The `openai` interface against the contract of every adapter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import adapter_formats
from openai_servers import chunk, streamed

from karenina_core.models.ports import ErrorCategory, FinishReason, ToolCall
from karenina_testing.contracts import (
    AdapterContract,
    AgentContract,
    LLMContract,
    ParserContract,
    Reply,
    Request,
)

# A call that is cancelled before its reply begins keeps its connection until its time is over (see `http.Server`).
SOON = {"request_timeout": 4.0, "stream_timeout": 4.0}


class OpenAI(adapter_formats.OpenAI):
    fields = SOON


class TestAdapter(OpenAI, AdapterContract):
    pass


class TestLLM(OpenAI, LLMContract):
    pass


class TestParser(OpenAI, ParserContract):
    pass


class TestParserWithoutNativeSchemas(OpenAI, ParserContract):
    """The same, in the mode `tool`."""

    fields = {**SOON, "extra": {"structured": "tool"}}


class TestParserByPrompt(OpenAI, ParserContract):
    """The same, in the mode `prompt`."""

    fields = {**SOON, "extra": {"structured": "prompt"}}


class TestAgent(OpenAI, AgentContract):
    pass


class Streamed(OpenAI):
    """The same, with streamed replies."""

    fields = {**SOON, "extra": {"stream": True}}

    def saying(self, text: str = "", *calls: ToolCall, finish_reason: FinishReason | None = None) -> Reply:
        return _as_stream(super().saying(text, *calls, finish_reason=finish_reason))

    def filling(self, text: str) -> Callable[[Request], Reply]:
        return lambda request: _as_stream(super(Streamed, self).filling(text)(request))


class Cut:
    """A stream that is cut off: without its end it is not a reply."""

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
