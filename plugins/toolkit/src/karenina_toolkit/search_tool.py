"""Search tools: where a judge's claims can be looked up. Plugins bring them; a program may give a function instead."""

from __future__ import annotations

from typing import ClassVar, Protocol


class SearchTool(Protocol):
    """A way to look something up, chosen in the configuration by its `name`. One object serves all items at once."""

    name: ClassVar[str]

    def unavailable(self) -> str | None:
        """Why it cannot be used on this machine, and what to do about it; None where it can. Asks nobody."""

    async def search(self, query: str) -> str:
        """What was found, as text for a judge.

        May raise: the caller goes on without. A `PortError` says by its category whether it is worth another try.
        """
