"""The three interfaces of LangChain's chat models, over two providers, against the contract of every adapter."""

from __future__ import annotations

from adapter_formats import LangchainClaude as Claude
from adapter_formats import LangchainOpenAI as OpenAI

from karenina_testing.contracts import (
    AdapterContract,
    AgentContract,
    ChatCompletions,
    LLMContract,
    ParserContract,
)


class Endpoint(ChatCompletions):
    entry_point = "karenina_langchain:plugin"
    interface = "openai_endpoint"


class TestEndpointAdapter(Endpoint, AdapterContract):
    pass


class TestEndpointLLM(Endpoint, LLMContract):
    pass


class TestEndpointParser(Endpoint, ParserContract):
    pass


class TestEndpointAgent(Endpoint, AgentContract):
    pass


class TestOpenAIAdapter(OpenAI, AdapterContract):
    pass


class TestOpenAILLM(OpenAI, LLMContract):
    pass


class TestOpenAIParserByTool(OpenAI, ParserContract):
    fields = {**OpenAI.fields, "extra": {"structured": "tool"}}


class TestOpenAIAgent(OpenAI, AgentContract):
    pass


class TestClaudeAdapter(Claude, AdapterContract):
    pass


class TestClaudeLLM(Claude, LLMContract):
    pass


class TestClaudeParser(Claude, ParserContract):
    pass


class TestClaudeParserByTool(Claude, ParserContract):
    fields = {**Claude.fields, "extra": {"structured": "tool"}}


class TestClaudeParserByPrompt(Claude, ParserContract):
    fields = {**Claude.fields, "extra": {"structured": "prompt"}}


class TestClaudeAgent(Claude, AgentContract):
    pass
