"""The search tool `tavily`: web search through the Tavily service, with its own client."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, ClassVar, Final

RESULTS: Final = 5


class TavilySearch:
    """Asks api.tavily.com with the key in the environment variable TAVILY_API_KEY. Excerpts of answers leave the
    machine."""

    name: ClassVar[str] = "tavily"

    def unavailable(self) -> str | None:
        """The client is an extra of this distribution, and the service wants a key."""
        if find_spec("tavily") is None:
            return 'its client is not installed: pip install "karenina-deep-judgment[tavily]"'
        if not os.environ.get("TAVILY_API_KEY"):
            return "it has no key: set the environment variable TAVILY_API_KEY"
        return None

    async def search(self, query: str) -> str:
        """Titles, texts and addresses of the first results."""
        from tavily import AsyncTavilyClient  # type: ignore[import-not-found, unused-ignore]  # an extra

        found: dict[str, Any] = await AsyncTavilyClient(os.environ["TAVILY_API_KEY"]).search(
            query[:400], max_results=RESULTS
        )
        results = found.get("results") or []
        lines = [f"{one.get('title')}\n{one.get('content')}\n{one.get('url')}" for one in results]
        return "\n\n".join(lines) or "The search found nothing."
