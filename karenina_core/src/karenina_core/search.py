"""Search tools: where a judge's claims can be looked up. Plugins bring them; a program may give a function instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Protocol

Ask = Callable[[], str | Awaitable[str]]
"""One question to a service, asked once: by itself, which may take its time, or as an awaitable."""

Consult = Callable[[str, str, Ask], Awaitable[str]]
"""`VerificationContext.consult`."""


class SearchTool(Protocol):
    """A way to look something up, chosen in the configuration by its `name`. One object serves all items at once."""

    name: ClassVar[str]

    def unavailable(self) -> str | None:
        """Why it cannot be used on this machine, and what to do about it; None where it can. Asks nobody."""

    async def search(self, query: str) -> str:
        """What was found, as text for a judge.

        May raise: the caller goes on without. A `PortError` says by its category whether it is worth another try.
        """


def kept_by(consult: Consult, tool: SearchTool) -> SearchTool:
    """The tool, as a stage gets it: what it finds is kept and replayed as the replies of models are."""

    class Kept:
        name: ClassVar[str] = tool.name

        def unavailable(self) -> str | None:
            return tool.unavailable()

        async def search(self, query: str) -> str:
            return await consult(tool.name, query, lambda: tool.search(query))

    return Kept()
