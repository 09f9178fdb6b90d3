"""The search tool `tavily`: web search with the Tavily service and its client library."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, ClassVar, Final

RESULTS: Final = 5


class TavilySearch:
    """A search with api.tavily.com and the key in TAVILY_API_KEY. Excerpts of answers are sent to the service."""

    name: ClassVar[str] = "tavily"

    def unavailable(self) -> str | None:
        """Return why the tool is not available: the client, an extra of this distribution, or the key is missing."""
        if find_spec("tavily") is None:
            return 'its client is not installed: pip install "karenina-deep-judgment[tavily]"'
        if not os.environ.get("TAVILY_API_KEY"):
            return "its API key is missing: set the environment variable TAVILY_API_KEY"
        return None

    async def search(self, query: str) -> str:
        """Return titles, texts and addresses of the first results."""
        from tavily import AsyncTavilyClient  # type: ignore[import-not-found, unused-ignore]  # an extra

        found: dict[str, Any] = await AsyncTavilyClient(os.environ["TAVILY_API_KEY"]).search(
            query[:400], max_results=RESULTS
        )
        results = found.get("results") or []
        lines = [f"{one.get('title')}\n{one.get('content')}\n{one.get('url')}" for one in results]
        return "\n\n".join(lines) or "The search found nothing."
