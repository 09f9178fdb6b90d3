"""The wire formats of the installed adapters, for tests that run all of them against one scripted server."""

from __future__ import annotations

from karenina_testing.contracts import ChatCompletions, MessagesAPI


class OpenAI(ChatCompletions):
    entry_point = "karenina_openai:plugin"
    interface = "openai"


class LangchainOpenAI(ChatCompletions):
    entry_point = "karenina_langchain:plugin"
    interface = "langchain"
    fields = {"model_provider": "openai"}


class LangchainClaude(MessagesAPI):
    entry_point = "karenina_langchain:plugin"
    interface = "langchain"
    fields = {"model_provider": "anthropic"}


class ClaudeTool(MessagesAPI):
    entry_point = "karenina_claude_tool:plugin"
    interface = "claude_tool"
