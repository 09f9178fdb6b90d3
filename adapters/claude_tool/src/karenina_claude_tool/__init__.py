"""Karenina adapter for Claude and other servers with Anthropic's Messages API, built on the anthropic SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_claude_tool.settings import ClaudeExtra, base_url_of, check, concurrency, media, unavailable
from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec
from karenina_toolkit.lazy_names import LazyPorts

if TYPE_CHECKING:
    from karenina_toolkit.lazy_names import PortClasses

__all__ = ["ClaudeExtra", "plugin"]


def _classes() -> PortClasses:
    """Import the port classes. Importing them here allows listing the adapter without its SDK."""
    from karenina_claude_tool.ports import ClaudeAgent, ClaudeLLM, ClaudeParser

    return ClaudeLLM, ClaudeParser, ClaudeAgent


_PORTS: Final = LazyPorts(_classes)

SPEC = AdapterSpec(
    interface="claude_tool",
    description="Claude, or any server with Anthropic's Messages API; Karenina runs an agent's tools turn by turn.",
    llm=_PORTS.llm,
    parser=_PORTS.parser,
    agent=_PORTS.agent,
    extra=ClaudeExtra,
    uses=("endpoint_base_url", "endpoint_api_key", "temperature", "max_tokens"),
    allowed_in_files=True,
    check=check,
    unavailable=unavailable,
    media=media,
    concurrency=concurrency,
    served_by=base_url_of,
)


class plugin:  # noqa: N801 - the entry point's name
    """The plugin with the `claude_tool` adapter."""

    @staticmethod
    @hookimpl
    def karenina_adapters() -> list[AdapterSpec]:
        """Return the adapter for the `claude_tool` interface."""
        return [SPEC]
