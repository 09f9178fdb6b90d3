"""The contract of all adapters, with the real CLI talking HTTP to a scripted server."""

from __future__ import annotations

from claude_cli_wire import Claude

from karenina_testing.contracts import AdapterContract, AgentContract, LLMContract, ParserContract


class TestAdapter(Claude, AdapterContract):
    pass


class TestLLM(Claude, LLMContract):
    pass


class TestParser(Claude, ParserContract):
    pass


class TestAgent(Claude, AgentContract):
    pass
