"""Karenina adapter for OpenAI-compatible servers, over HTTP and without an SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec
from karenina_openai.settings import OpenAIExtra, base_url_of, check, concurrency

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, LLMPort, ParserPort

__all__ = ["OpenAIExtra", "plugin"]


def _llm(model: ModelConfig) -> LLMPort:
    from karenina_openai.llm import OpenAILLM

    return OpenAILLM(model)


def _parser(model: ModelConfig) -> ParserPort:
    from karenina_openai.parser import OpenAIParser

    return OpenAIParser(model)


def _agent(model: ModelConfig) -> AgentPort:
    from karenina_openai.agent import OpenAIAgent

    return OpenAIAgent(model)


SPEC = AdapterSpec(
    interface="openai",
    description="Any server that speaks OpenAI's chat completions: OpenAI, vLLM, llama.cpp, Ollama, gateways.",
    llm=_llm,
    parser=_parser,
    agent=_agent,
    extra=OpenAIExtra,
    uses=("endpoint_base_url", "endpoint_api_key", "temperature", "max_tokens"),
    from_files=True,
    check=check,
    concurrency=concurrency,
    served_by=base_url_of,
)


class plugin:  # noqa: N801 - the entry point's name
    """What this distribution offers to Karenina."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> list[AdapterSpec]:
        """The `openai` interface."""
        return [SPEC]
