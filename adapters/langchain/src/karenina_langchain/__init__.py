"""Karenina adapter for LangChain chat models, with the interfaces `langchain`, `openai_endpoint` and `openrouter`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec
from karenina_langchain.providers import unavailable
from karenina_langchain.settings import LangchainExtra, check, concurrency, media, served_by
from karenina_toolkit.lazy_names import LazyPorts

if TYPE_CHECKING:
    from karenina_toolkit.lazy_names import PortClasses

__all__ = ["LangchainExtra", "plugin"]

_INTERFACES = {
    "langchain": "Any provider with a chat model in LangChain; model_provider names it (openai, anthropic, ...).",
    "openai_endpoint": "Any server that speaks OpenAI's chat completions, through langchain-openai.",
    "openrouter": "The models of openrouter.ai, through langchain-openai.",
}


def _classes() -> PortClasses:
    """Import the port classes. Importing them here allows listing the adapter without LangChain."""
    from karenina_langchain.ports import LangchainAgent, LangchainLLM, LangchainParser

    return LangchainLLM, LangchainParser, LangchainAgent


_PORTS: Final = LazyPorts(_classes)

_USES: Final = frozenset({"endpoint_base_url", "endpoint_api_key", "temperature", "max_tokens"})


def _spec(interface: str, description: str) -> AdapterSpec:
    """Return the declaration of one of LangChain's interfaces, all of which have the same ports and settings, except
    that only `langchain` uses `model_provider`.
    """
    return AdapterSpec(
        interface=interface,
        description=description,
        llm=_PORTS.llm,
        parser=_PORTS.parser,
        agent=_PORTS.agent,
        extra=LangchainExtra,
        uses=_USES | {"model_provider"} if interface == "langchain" else _USES,
        allowed_in_files=True,
        check=check,
        unavailable=partial(unavailable, interface),
        media=media,
        concurrency=concurrency,
        served_by=served_by,
    )


SPECS = [_spec(interface, description) for interface, description in _INTERFACES.items()]


class plugin:  # noqa: N801 - the entry point's name
    """The plugin with the LangChain adapters."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> list[AdapterSpec]:
        """Return the adapters for the interfaces `langchain`, `openai_endpoint` and `openrouter`."""
        return list(SPECS)
