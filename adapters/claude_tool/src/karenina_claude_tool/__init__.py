"""Karenina adapter for Claude, and other servers that speak Anthropic's Messages API, over the anthropic SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_claude_tool.settings import ClaudeExtra, base_url_of, check, concurrency, unavailable
from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, LLMPort, ParserPort

__all__ = ["ClaudeExtra", "plugin"]


def _llm(model: ModelConfig) -> LLMPort:
    from karenina_claude_tool.llm import ClaudeLLM

    return ClaudeLLM(model)


def _parser(model: ModelConfig) -> ParserPort:
    from karenina_claude_tool.parser import ClaudeParser

    return ClaudeParser(model)


def _agent(model: ModelConfig) -> AgentPort:
    from karenina_claude_tool.agent import ClaudeAgent

    return ClaudeAgent(model)


SPEC = AdapterSpec(
    interface="claude_tool",
    description="Claude, or any server of Anthropic's Messages API; an agent's tools are run here, turn by turn.",
    llm=_llm,
    parser=_parser,
    agent=_agent,
    extra=ClaudeExtra,
    uses=("endpoint_base_url", "endpoint_api_key", "temperature", "max_tokens"),
    from_files=True,
    check=check,
    unavailable=unavailable,
    concurrency=concurrency,
    served_by=base_url_of,
)


class plugin:  # noqa: N801 - the entry point's name
    """What this distribution offers to Karenina."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> list[AdapterSpec]:
        """The `claude_tool` interface."""
        return [SPEC]
