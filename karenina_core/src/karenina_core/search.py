"""Search tools: where a judge's claims can be looked up. Plugins bring them; a program may give a function instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from karenina_core.context import VerificationContext


class SearchTool(Protocol):
    """A way to look something up, chosen in the configuration by its `name`. One object serves all items at once."""

    name: ClassVar[str]

    def unavailable(self) -> str | None:
        """Why it cannot be used on this machine, and what to do about it; None where it can. Asks nobody."""

    async def search(self, query: str) -> str:
        """What was found, as text for a judge.

        May raise: the caller goes on without. A `PortError` says by its category whether it is worth another try.
        """


def search_tools(context: VerificationContext) -> list[SearchTool]:
    """Return the ways to look something up that plugins bring, sorted by name. Results go through `context.consult`."""
    return [_kept(context, tool) for tool in context.plugins.search_tools()]


def _kept(context: VerificationContext, tool: SearchTool) -> SearchTool:
    """Return the tool with its results kept and replayed as the replies of models are."""

    class Kept:
        name: ClassVar[str] = tool.name

        def unavailable(self) -> str | None:
            return tool.unavailable()

        async def search(self, query: str) -> str:
            return await context.consult(tool.name, query, lambda: tool.search(query))

    return Kept()
