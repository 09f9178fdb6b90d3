"""Search tools, which look up a judge's claims. Plugins provide them; a program may use a function instead."""

from __future__ import annotations

from typing import ClassVar, Protocol


class SearchTool(Protocol):
    """A tool that looks something up, selected in the configuration by its `name`. One object serves all items."""

    name: ClassVar[str]

    def unavailable(self) -> str | None:
        """Return why the tool cannot be used here and how to fix it; None if it can be used. Makes no request."""

    async def search(self, query: str) -> str:
        """Return the search results as text for a judge.

        If it raises, the caller continues without results. The category of a `PortError` says whether a retry may help.
        """
