"""Karenina adapter for the Claude CLI as an agent with its own tools, built on the Claude Agent SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_claude_agent_sdk.settings import (
    ClaudeAgentExtra,
    base_url_of,
    check,
    concurrency,
    media,
    program,
    unavailable,
)
from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_toolkit.lazy_names import LazyPorts

if TYPE_CHECKING:
    from karenina_toolkit.lazy_names import PortClasses

__all__ = ["ClaudeAgentExtra", "plugin"]


def _classes() -> PortClasses:
    """Return the port classes, importing them only now, so that the adapter can be listed without its SDK."""
    from karenina_claude_agent_sdk.agent import ClaudeAgent
    from karenina_claude_agent_sdk.ports import ClaudeAgentLLM, ClaudeAgentParser

    return ClaudeAgentLLM, ClaudeAgentParser, ClaudeAgent


_PORTS: Final = LazyPorts(_classes)

SPEC = AdapterSpec(
    interface="claude_agent_sdk",
    description="The agent of the Claude CLI, which works in a workspace with tools of its own (an API key is needed).",
    tier=AgentTier.DEEP_AGENT,
    llm=_PORTS.llm,
    parser=_PORTS.parser,
    agent=_PORTS.agent,
    extra=ClaudeAgentExtra,
    uses=("endpoint_base_url", "endpoint_api_key", "temperature", "max_tokens"),
    allowed_in_files=False,
    check=check,
    unavailable=unavailable,
    media=media,
    concurrency=concurrency,
    served_by=base_url_of,
    program=program,
)


class plugin:  # noqa: N801 - the entry point's name
    """The plugin with the `claude_agent_sdk` adapter."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> list[AdapterSpec]:
        """Return the adapter for the `claude_agent_sdk` interface."""
        return [SPEC]
