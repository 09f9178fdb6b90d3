"""The `claude_tool` interface against the contract of every adapter."""

from __future__ import annotations

from adapter_formats import ClaudeTool as Claude

from karenina_testing.contracts import AdapterContract, AgentContract, LLMContract, ParserContract


class TestAdapter(Claude, AdapterContract):
    pass


class TestLLM(Claude, LLMContract):
    pass


class TestParser(Claude, ParserContract):
    pass


class TestParserWithoutNativeSchemas(Claude, ParserContract):
    """The same, in the mode `tool`."""

    fields = {"extra": {"structured": "tool"}}


class TestParserByPrompt(Claude, ParserContract):
    """The same, in the mode `prompt`."""

    fields = {"extra": {"structured": "prompt"}}


class TestAgent(Claude, AgentContract):
    pass
