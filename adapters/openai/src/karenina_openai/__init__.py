"""Karenina adapter for OpenAI-compatible servers, called over HTTP without an SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec
from karenina_openai.settings import OpenAIExtra, base_url_of, check, concurrency, media
from karenina_toolkit.lazy_names import LazyPorts

if TYPE_CHECKING:
    from karenina_toolkit.lazy_names import PortClasses

__all__ = ["OpenAIExtra", "plugin"]


def _classes() -> PortClasses:
    """Return the port classes, importing them only now, so that the adapter can be listed without an HTTP client."""
    from karenina_openai.agent import OpenAIAgent
    from karenina_openai.parser import OpenAILLM, OpenAIParser

    return OpenAILLM, OpenAIParser, OpenAIAgent


_PORTS: Final = LazyPorts(_classes)

SPEC = AdapterSpec(
    interface="openai",
    description="Any server that speaks OpenAI's chat completions: OpenAI, vLLM, llama.cpp, Ollama, gateways.",
    llm=_PORTS.llm,
    parser=_PORTS.parser,
    agent=_PORTS.agent,
    extra=OpenAIExtra,
    uses=("endpoint_base_url", "endpoint_api_key", "temperature", "max_tokens"),
    allowed_in_files=True,
    check=check,
    media=media,
    concurrency=concurrency,
    served_by=base_url_of,
)


class plugin:  # noqa: N801 - the entry point's name
    """The plugin with the `openai` adapter."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> list[AdapterSpec]:
        """Return the adapter for the `openai` interface."""
        return [SPEC]
